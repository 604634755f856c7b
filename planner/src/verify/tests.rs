//! Every algorithm at many worlds, and what passes may not change.

use std::collections::BTreeMap;

use hcomm_ops::{DType, ReduceOp};

use super::*;
use crate::algorithm::{ALGORITHMS, Algorithm, Call, Pair, Variant};
use crate::choose::{Candidate, PerLink, Work};
use crate::compile::compile_with;
use crate::graph::{Graph, MAX_SPAN};
use crate::plan::{Direction, Sink, Source, Span};
use crate::request::Collective;
use crate::topology::Topology;

pub(super) fn call(collective: Collective, root: usize, topology: &Topology) -> Call<'_> {
    Call {
        collective,
        dtype: DType::I64,
        op: ReduceOp::Sum,
        root,
        variant: Variant::Even,
        world: topology.world(),
        topology,
        deterministic: false,
        channels: 1,
        pair: None,
    }
}

pub(super) fn plans(name: &str, call: &Call<'_>) -> Vec<Plan> {
    let candidate = Candidate::all().find(|candidate| candidate.algorithm.name == name);
    plans_of(&candidate.expect("a registered algorithm"), call)
}

/// The plans of all ranks by a candidate that supports the call.
fn plans_of(candidate: &Candidate, call: &Call<'_>) -> Vec<Plan> {
    candidate.supports(call).expect("a supported call");
    let call = candidate.apply(call);
    (0..call.world).map(|rank| compile_with(candidate.algorithm, &call, rank)).collect()
}

/// Verifies everything that the topology supports; returns how many plans that was.
fn verify_all(topology: &Topology) -> usize {
    let mut count = 0;
    for candidate in Candidate::all() {
        let algorithm = candidate.algorithm;
        for collective in algorithm.collectives {
            let world = topology.world();
            let roots = if collective.is_rooted() { vec![0, world / 2, world - 1] } else { vec![0] };
            for root in roots {
                let call = candidate.apply(&call(*collective, root, topology));
                if algorithm.supports(&call).is_err() {
                    continue;
                }
                check(&candidate, &call);
                count += 1;
            }
        }
    }
    count
}

/// Proves a candidate's plans of a call that it supports, and that its layout says what they are.
pub(super) fn check(candidate: &Candidate, call: &Call<'_>) {
    let plans = plans_of(candidate, call);
    let what = format!("{} by {candidate} in a world of {}, root {}", call.collective, call.world, call.root);
    let verified = verify(&plans, 2).unwrap_or_else(|error| panic!("{what}: {error}"));
    // With GPUs less is fused, so that some plans could do without.
    let exact = call.topology.gpus().is_empty() || verified.needs_copying;
    assert_eq!(verified.needs_copying, plans[0].buffered && exact, "{what} says whether it copies");
    assert!(verified.order >= plans[0].proved.order, "{what}: {:?}", verified.order);
    let widest = plans.iter().flat_map(|p| &p.channels).map(|c| c.index + 1).max().unwrap_or(1);
    assert_eq!(widest, plans[0].channels_per_pair, "{what} says its channels");
    let longest = plans.iter().flat_map(|p| &p.nodes).map(|n| n.extent.count).max();
    assert_eq!(longest, Some(plans[0].span_chunks), "{what} says its longest span");
}

#[test]
fn every_algorithm_at_every_world_up_to_33() {
    let count: usize = (1..=33).map(|world| verify_all(&Topology::single_host(world))).sum();
    println!("{count} plans proved");
    assert!(count > 33 * ALGORITHMS.len(), "{count}");
}

#[test]
fn a_request_may_name_any_number_of_channels_between_those_chosen_among() {
    let multi_ring = Algorithm::named("multi_ring").expect("it is listed");
    for topology in [2, 3, 7, 8].map(Topology::single_host).into_iter().chain([Topology::hosts(2, 4)]) {
        for channels in 2..=8 {
            let candidate = Candidate { channels, ..Candidate::of(multi_ring).next().expect("one") };
            check(&candidate, &candidate.apply(&call(Collective::AllReduce, 0, &topology)));
        }
    }
    let topology = Topology::single_host(4);
    let refused = |name, channels| {
        let call = call(Collective::AllReduce, 0, &topology).with_channels(channels);
        Algorithm::named(name).expect("it is listed").supports(&call).expect_err("too many or few")
    };
    assert_eq!(refused("multi_ring", 9), "runs over 2 to 8 channels, not 9");
    assert_eq!(refused("multi_ring", 1), "runs over 2 to 8 channels, not 1");
    assert_eq!(refused("ring", 3), "runs over 1 channel, not 3");
}

#[test]
fn every_algorithm_at_larger_worlds() {
    let count: usize = [24, 32, 64].map(|world| verify_all(&Topology::single_host(world))).iter().sum();
    println!("{count} plans proved");
}

#[test]
fn every_algorithm_on_several_hosts() {
    for (hosts, per_host) in [(2, 2), (2, 4), (3, 3), (4, 2), (5, 1)] {
        verify_all(&Topology::hosts(hosts, per_host));
    }
    verify_all(&Topology::from_host_of(&[0, 1, 0, 1, 2, 2]));
    verify_all(&Topology::from_host_of(&[0, 0, 1]));
    let gpus = include_str!("../../tests/data/two-hosts-four-gpus-two-nics.json");
    verify_all(&Topology::parse(gpus).expect("a good file"));
}

/// (source, destination, index) and, per end, the sizes of its messages in order.
type Traffic = BTreeMap<(usize, usize, u8), [Vec<Vec<Span>>; 2]>;

/// What an algorithm writes, before any pass: the whole graph's messages, as both ends see them.
fn written(algorithm: &Algorithm, call: &Call<'_>) -> Traffic {
    let mut traffic = Traffic::new();
    for rank in 0..call.world {
        let graph = algorithm.build(call, rank);
        for op in graph.ops.node_weights() {
            let sizes = sizes(&graph, op.extent);
            op.ends_out()
                .for_each(|e| traffic.entry((rank, e.peer, e.index)).or_default()[0].push(sizes.clone()));
            op.ends_in()
                .for_each(|e| traffic.entry((e.peer, rank, e.index)).or_default()[1].push(sizes.clone()));
        }
    }
    traffic
}

fn sizes(graph: &Graph, extent: Span) -> Vec<Span> {
    extent.chunks().filter_map(|chunk| graph.like(Span::new(extent.buffer, chunk, 1))).collect()
}

/// What separately frozen slices send and receive.
fn frozen(plans: &[Plan]) -> Traffic {
    let mut traffic = Traffic::new();
    for plan in plans {
        for node in &plan.nodes {
            let like = |chunk: u32| match node.extent.buffer {
                crate::BufferKind::Scratch => plan.scratch[chunk as usize],
                buffer => Span::new(buffer, chunk, 1),
            };
            let sizes: Vec<Span> = node.extent.chunks().map(like).collect();
            let incoming = plan.sources_of(node).iter().filter_map(|source| match source {
                Source::Message { channel, .. } => Some(*channel),
                Source::Span { .. } => None,
            });
            let outgoing = plan.sinks_of(node).iter().filter_map(|sink| match sink {
                Sink::Message { channel } => Some(*channel),
                Sink::Span(_) => None,
            });
            for channel in incoming.chain(outgoing) {
                let end = plan.channels[channel as usize];
                let (key, way) = match end.direction {
                    Direction::Out => ((plan.rank, end.peer, end.index), 0),
                    Direction::In => ((end.peer, plan.rank, end.index), 1),
                };
                traffic.entry(key).or_default()[way].push(sizes.clone());
            }
        }
    }
    traffic
}

/// Chunks by part: input and output chunks of one part are equally long where blocks are.
fn by_part(mut traffic: Traffic, parts: u32) -> Traffic {
    for chunk in traffic.values_mut().flatten().flatten().flatten() {
        *chunk = Span::input(chunk.first % parts);
    }
    traffic
}

#[test]
fn joined_slices_are_exactly_the_whole_graph() {
    for topology in
        [Topology::single_host(2), Topology::single_host(7), Topology::single_host(8), Topology::hosts(2, 3)]
    {
        for candidate in Candidate::all() {
            for collective in candidate.algorithm.collectives {
                let call = candidate.apply(&call(*collective, 0, &topology));
                if candidate.supports(&call).is_err() {
                    continue;
                }
                let plans = plans_of(&candidate, &call);
                let whole = by_part(written(candidate.algorithm, &call), plans[0].parts);
                let joined = by_part(frozen(&plans), plans[0].parts);
                assert_eq!(joined, whole, "{collective} by {candidate} in {}", call.world);
                assert!(joined.values().all(|[sent, received]| sent == received));
            }
        }
    }
}

/// Every algorithm that is made of two others, made of any two that serve the call.
fn compositions() -> impl Iterator<Item = Candidate> {
    let composed = ALGORITHMS.iter().filter(|algorithm| !algorithm.pairs.is_empty());
    composed.flat_map(|algorithm| {
        let pairs = ALGORITHMS.iter().flat_map(|first| {
            ALGORITHMS.iter().map(|second| Pair { first: first.name, second: second.name })
        });
        let (channels, tile_bytes) = (algorithm.channels[0], Candidate::WHOLE_SLOT);
        pairs.map(move |pair| Candidate { algorithm, channels, pair: Some(pair), tile_bytes })
    })
}

#[test]
fn any_two_algorithms_compose() {
    let mut made = std::collections::BTreeSet::new();
    for topology in [
        Topology::single_host(6),
        Topology::hosts(2, 3),
        Topology::hosts(4, 2),
        Topology::from_host_of(&[0, 0, 1, 1, 1, 2]),
        Topology::from_host_of(&[0, 1, 0, 1]),
    ] {
        for candidate in compositions() {
            for collective in candidate.algorithm.collectives {
                let call = candidate.apply(&call(*collective, 0, &topology));
                if candidate.supports(&call).is_ok() {
                    verify(&plans_of(&candidate, &call), 2)
                        .unwrap_or_else(|error| panic!("{collective} by {candidate}: {error}"));
                    made.insert((candidate.to_string(), *collective));
                }
            }
        }
    }
    println!("{} compositions proved", made.len());
    assert!(made.len() > 150, "{}", made.len());
}

/// Where a message of an algorithm has more chunks than one may have, it goes in pieces.
#[test]
fn long_messages_pass_in_pieces() {
    let mut proved = 0;
    for (topology, only) in [
        (Topology::single_host(131), None),
        (Topology::hosts(66, 2), Some("hierarchical")),
        (Topology::single_host(256), Some("swing")),
    ] {
        for candidate in Candidate::all().filter(|c| only.is_none_or(|only| c.algorithm.name == only)) {
            for collective in candidate.algorithm.collectives {
                let call = candidate.apply(&call(*collective, 0, &topology));
                let is_long = candidate.supports(&call).is_ok()
                    && candidate.algorithm.layout(&call).span_chunks == MAX_SPAN;
                // Larger ones are the same, but take seconds.
                if is_long && compile_with(candidate.algorithm, &call, 0).nodes.len() < 400 {
                    verify(&plans_of(&candidate, &call), 2)
                        .unwrap_or_else(|error| panic!("{collective} by {candidate}: {error}"));
                    proved += 1;
                }
            }
        }
    }
    println!("{proved} plans proved");
    assert!(proved > 10, "{proved}");
}

#[test]
fn a_slice_of_a_large_world_is_in_proportion_to_its_own_nodes() {
    let topology = Topology::single_host(4096);
    let call = call(Collective::AllReduce, 0, &topology);
    let ring = Algorithm::named("ring").expect("a registered algorithm");
    let plan = compile_with(ring, &call, 17);
    assert_eq!(plan.nodes.len(), 2 * 4096);
    assert_eq!(plan.scratch.len(), 0, "every partial is passed on in a message");
    assert!(plan.deps.len() < 8, "lane order says the rest: {}", plan.deps.len());
}

/// One rank's plan costs what its own messages do, whatever the world: ranks compile their plans by themselves.
#[test]
fn a_slice_of_a_large_world_has_no_more_nodes_than_messages_and_copies() {
    let mut compiled = 0;
    for topology in [Topology::single_host(4096), Topology::hosts(64, 64)] {
        for candidate in Candidate::all() {
            for collective in candidate.algorithm.collectives {
                let call = candidate.apply(&call(*collective, 0, &topology));
                if candidate.supports(&call).is_err() {
                    continue;
                }
                let work = candidate.work(&call);
                let most = most_nodes(&work, 4096.0 * f64::from(candidate.algorithm.layout(&call).parts));
                if most <= 20_000.0 {
                    let nodes = compile_with(candidate.algorithm, &call, 17).nodes.len();
                    assert!(nodes as f64 <= most, "{collective} by {candidate}: {nodes} nodes, not {most}");
                    compiled += 1;
                }
            }
        }
    }
    println!("{compiled} slices compiled");
    assert!(compiled > 80, "{compiled}");
}

/// A node for every message that the busiest rank sends or receives, and for every chunk, of so many, that it copies.
fn most_nodes(work: &Work, chunks: f64) -> f64 {
    let PerLink { local, remote } = work.messages;
    2.0 * (local + remote) + (work.copied * chunks).max(1.0)
}

#[test]
#[ignore = "a measurement, for release builds: prints what one rank's plan takes in a world of 4,096"]
fn what_a_slice_of_a_large_world_takes() {
    let topology = Topology::single_host(4096);
    for candidate in Candidate::all() {
        let call = candidate.apply(&call(Collective::AllReduce, 0, &topology));
        if candidate.supports(&call).is_ok() {
            let timed = (0..20).map(|_| {
                let start = std::time::Instant::now();
                let nodes = compile_with(candidate.algorithm, &call, 17).nodes.len();
                (start.elapsed(), nodes)
            });
            let (least, nodes) = timed.min().expect("timed at least once");
            println!("{candidate}: {nodes} nodes in {least:?}");
        }
    }
}
