//! Small plans computed by hand, and what holds for every algorithm and world.

use super::*;
use crate::algorithm::ALGORITHMS;
use crate::choose::LinkCost;
use crate::plan::LaneKind;
use crate::request::Counts;
use crate::{Choice, Collective, Request, compile_all};
use hcomm_ops::{DType, ReduceOp};

/// Costs that are easy to add up.
const ROUND: Costs = Costs {
    local: LinkCost { latency_ns: 100.0, message_ns: 10.0, wait_ns: 0.0, byte_ns: 1.0 },
    remote: LinkCost { latency_ns: 1000.0, message_ns: 20.0, wait_ns: 0.0, byte_ns: 2.0 },
    reduce_byte_ns: 0.5,
    copy_byte_ns: 0.25,
};

/// A call of `bytes` bytes per block, in tiles of 100 bytes.
fn sizing(collective: Collective, algorithm: &str, bytes: u64) -> Sizing {
    let request = Request::new(collective, DType::U8, ReduceOp::Sum, bytes).with_algorithm(algorithm);
    Sizing { request, tile_bytes: 100 }
}

fn compiled(sizing: &Sizing, topology: &Topology) -> Vec<Plan> {
    compile_all(&sizing.request, topology, &Choice::new(topology, ROUND)).expect("a supported call")
}

fn predicted(sizing: &Sizing, topology: &Topology, model: &Model) -> Timeline {
    predict(&compiled(sizing, topology), sizing, topology, model).expect("a sound plan")
}

fn times(timeline: &Timeline, rank: usize, node: u32) -> Vec<(f64, f64)> {
    timeline.runs_of(rank, node).map(|run| (run.from_ns, run.to_ns)).collect()
}

fn whys(timeline: &Timeline) -> Vec<Why> {
    timeline.critical_path().iter().map(|step| step.why).collect()
}

#[test]
fn one_message() {
    let broadcast = sizing(Collective::Broadcast, "binomial", 100);
    let timeline = predicted(&broadcast, &Topology::single_host(2), &Model::new(ROUND));
    // A message, half of its bytes, and the copy that the root keeps; then a message and the other half.
    assert_eq!(times(&timeline, 0, 0), [(0.0, 10.0 + 50.0 + 25.0)]);
    assert_eq!(times(&timeline, 1, 0), [(185.0, 185.0 + 10.0 + 50.0)]);
    assert_eq!(timeline.total_ns(), 245.0);
    assert_eq!(whys(&timeline), [Why::Start, Why::Message]);
}

#[test]
fn tiles_follow_one_another() {
    let broadcast = sizing(Collective::Broadcast, "binomial", 250);
    let timeline = predicted(&broadcast, &Topology::single_host(2), &Model::new(ROUND));
    assert_eq!(times(&timeline, 0, 0), [(0.0, 85.0), (85.0, 170.0), (170.0, 217.5)]);
    assert_eq!(times(&timeline, 1, 0), [(185.0, 245.0), (270.0, 330.0), (330.0, 365.0)]);
    assert_eq!(whys(&timeline), [Why::Start, Why::Lane, Why::Message, Why::Lane]);
    assert_eq!(timeline.critical_path_of_one_tile().len(), 2);
}

#[test]
fn a_full_channel_holds_its_sender_up() {
    let broadcast = sizing(Collective::Broadcast, "binomial", 300);
    let shallow = Model { depth: 1, ..Model::new(ROUND) };
    let timeline = predicted(&broadcast, &Topology::single_host(2), &shallow);
    // Received at 245, which the sender sees at 345; each tile takes 345 more.
    assert_eq!(times(&timeline, 0, 0), [(0.0, 85.0), (345.0, 430.0), (690.0, 775.0)]);
    assert_eq!(timeline.total_ns(), 2.0 * 345.0 + 245.0);
    assert_eq!(whys(&timeline), [Why::Start, Why::Message, Why::Room, Why::Message, Why::Room, Why::Message]);
}

#[test]
fn lanes_of_a_rank_share_its_processor() {
    let gather = sizing(Collective::Gather, "direct", 100);
    let topology = Topology::single_host(3);
    let timeline = predicted(&gather, &topology, &Model::new(ROUND));
    let finishes = |timeline: &Timeline| {
        let mut ends: Vec<f64> = timeline.runs().filter(|run| run.rank == 0).map(|run| run.to_ns).collect();
        ends.sort_by(f64::total_cmp);
        ends
    };
    // The root copies its own block (25); both messages are there at 160 and take 60 each.
    assert_eq!(finishes(&timeline), [25.0, 220.0, 280.0]);
    assert_eq!(whys(&timeline), [Why::Start, Why::Message, Why::Processor]);
    let two = Model { workers: 2, ..Model::new(ROUND) };
    assert_eq!(finishes(&predicted(&gather, &topology, &two)), [25.0, 220.0, 220.0]);
}

#[test]
fn messages_between_hosts_share_the_ways() {
    // Ranks 2 and 3 send to rank 0 over one way out and one way in; rank 1 is near.
    let gather = sizing(Collective::Gather, "direct", 100);
    let timeline = predicted(&gather, &Topology::hosts(2, 2), &Model::new(ROUND));
    let far: Vec<f64> = [2, 3].map(|rank| times(&timeline, rank, 0)[0].1).to_vec();
    assert_eq!(far, [20.0, 20.0], "the processor only hands the message over");
    let mut begins: Vec<f64> = timeline.runs().filter(|run| run.rank == 0).map(|run| run.from_ns).collect();
    begins.sort_by(f64::total_cmp);
    assert_eq!(begins, [0.0, 160.0, 20.0 + 1000.0 + 200.0, 20.0 + 1000.0 + 400.0]);
}

#[test]
fn folding_costs_per_source() {
    let reduce = sizing(Collective::AllReduce, "one_shot", 100);
    let timeline = predicted(&reduce, &Topology::single_host(3), &Model::new(ROUND));
    let longest = timeline.runs().map(|run| run.to_ns - run.from_ns).fold(0.0, f64::max);
    // Two messages, their halves, and two times 100 bytes folded.
    assert_eq!(longest, 20.0 + 100.0 + 100.0);
}

#[test]
fn short_chunks_skip_tiles() {
    let counts = Counts::Listed([250, 0, 100].into());
    let mut gather = sizing(Collective::AllGather, "ring", 0);
    gather.request.counts = counts;
    let timeline = predicted(&gather, &Topology::single_host(3), &Model::new(ROUND));
    assert_eq!((timeline.trips(), timeline.tiles()), (3, 3));
    let runs: Vec<usize> = (0..3).map(|rank| timeline.runs_of(rank, 0).count()).collect();
    assert_eq!(runs, [3, 1, 1], "each rank's first node sends its own block");
    check(&compiled(&gather, &Topology::single_host(3)), &timeline, &Topology::single_host(3));
}

/// Follows at most so many runs.
fn followed(sizing: &Sizing, plans: &[Plan], topology: &Topology, most_runs: usize) -> Timeline {
    let joined = verify::join(plans).expect("sound slices");
    let prices = Prices::new(&ROUND, topology).expect("sound costs");
    let jobs = prices.jobs(&joined, sizing).expect("known counts");
    let model = Model::new(ROUND);
    follow(&Followed { joined: &joined, jobs: &jobs, prices, model: &model }, most_runs).expect("no deadlock")
}

/// What is left out is added at the rate of what was followed.
#[test]
fn long_calls_are_followed_for_some_tiles_and_the_rest_is_added() {
    let topologies = [Topology::single_host(8), Topology::hosts(2, 4), Topology::hosts(8, 1)];
    for topology in topologies {
        for (name, sizing, plans) in every_plan(&topology, 100 * 8 * 40) {
            let whole = followed(&sizing, &plans, &topology, MOST_RUNS);
            let nodes: usize = plans.iter().map(|plan| plan.nodes.len()).sum();
            let some = followed(&sizing, &plans, &topology, nodes * 10);
            assert_eq!(whole.tiles() as u64, whole.trips(), "{name}");
            let off = some.total_ns() / whole.total_ns();
            assert!((0.8..1.2).contains(&off), "{name}: {} instead of {}", some.total_ns(), whole.total_ns());
        }
    }
}

/// However few tiles are followed, no algorithm is faster than the links: what the collective makes somebody receive, and what it
/// brings into a host, takes its time.
#[test]
fn no_call_is_faster_than_its_links() {
    let worlds = [Topology::single_host(16), Topology::hosts(4, 4), Topology::hosts(16, 1)];
    for topology in worlds {
        let bytes = 16 << 20;
        for (name, sizing, plans) in every_plan(&topology, bytes) {
            let nodes: usize = plans.iter().map(|plan| plan.nodes.len()).sum();
            let total_ns = followed(&sizing, &plans, &topology, nodes * 4).total_ns();
            let (to_a_rank, to_a_host) = least_bytes(&sizing.request, &topology);
            let least_ns = match topology.host_names().len() {
                1 => to_a_rank as f64 * ROUND.local.byte_ns / 2.0,
                _ => to_a_host as f64 * ROUND.remote.byte_ns,
            };
            assert!(total_ns >= least_ns, "{name}: {total_ns} ns, and the links take {least_ns}");
        }
    }
}

/// Bytes that a collective brings at least to or from some rank, and into or out of some host.
fn least_bytes(request: &Request, topology: &Topology) -> (u64, u64) {
    let (world, host) = (topology.world() as u64, topology.members(0).len() as u64);
    let Counts::Even(block) = request.counts else { panic!("even counts") };
    match request.collective {
        Collective::Barrier => (0, 0),
        // The block is the whole vector.
        Collective::AllReduce | Collective::Reduce | Collective::Broadcast => (block, block),
        Collective::AllGather | Collective::Gather | Collective::Scatter => {
            (block * (world - 1), block * (world - host))
        }
        Collective::ReduceScatter => (block, block * host),
        Collective::AllToAll => (block * (world - 1), block * host * (world - host)),
    }
}

#[test]
fn endless_calls_are_bounded() {
    let topology = Topology::single_host(3);
    let huge = sizing(Collective::AllReduce, "ring", 1 << 60);
    let timeline = predicted(&huge, &topology, &Model::new(ROUND));
    assert!(timeline.runs().count() <= MOST_RUNS);
    assert!(timeline.total_ns() > 1e18, "{}", timeline.total_ns());
    assert_eq!(tiles_followed(MOST_RUNS, 1, MOST_RUNS).expect("just fits"), 1);
    let refused = tiles_followed(MOST_RUNS / 2, 5, MOST_RUNS).expect_err("too many").to_string();
    assert_eq!(refused, "a timeline of 131072 nodes; expected at most 65536");
}

#[test]
fn refusals_name_the_value() {
    let topology = Topology::single_host(4);
    let reduce = sizing(Collective::AllReduce, "ring", 400);
    let plans = compiled(&reduce, &topology);
    let refused = |plans: &[Plan], sizing: &Sizing, topology: &Topology, model: Model, expected: &str| {
        let error = predict(plans, sizing, topology, &model).expect_err(expected).to_string();
        assert!(error.contains(expected), "{error:?} lacks {expected:?}");
    };
    let model = Model::new(ROUND);
    refused(&plans, &reduce, &topology, Model { depth: 1, ..model }, "of 32 runs every lane waits");
    refused(&plans[..3], &reduce, &topology, model, "3 slices of a world of 4");
    refused(&plans, &reduce, &Topology::single_host(3), model, "a topology of 3 ranks for a plan of 4");
    let costs = Costs { copy_byte_ns: f64::NAN, ..ROUND };
    refused(&plans, &reduce, &topology, Model { costs, ..model }, "a cost of NaN ns");
    let local = Counts::Local { input: [1].into(), output: [1].into() };
    let unknown = Sizing { request: Request { counts: local, ..reduce.request }, tile_bytes: 100 };
    refused(&plans, &unknown, &topology, model, "the bytes of node 0 of rank 0");
}

/// Every algorithm's plans in a topology, with a name for them.
fn every_plan(topology: &Topology, bytes: u64) -> Vec<(String, Sizing, Vec<Plan>)> {
    let calls = ALGORITHMS.iter().flat_map(|a| a.collectives.iter().map(|c| (*c, a.name)));
    let plans = calls.filter_map(|(collective, name)| {
        let sizing = sizing(collective, name, if collective == Collective::Barrier { 0 } else { bytes });
        let plans = compile_all(&sizing.request, topology, &Choice::new(topology, ROUND)).ok()?;
        Some((format!("{collective} of {bytes} bytes by {name} in {}", topology.world()), sizing, plans))
    });
    plans.collect()
}

#[test]
fn every_algorithm_keeps_the_rules() {
    for world in [2, 3, 5, 8] {
        for topology in
            [Topology::single_host(world), Topology::hosts(world, 1), Topology::hosts(2, world / 2)]
        {
            for bytes in [0, 777] {
                for (name, sizing, plans) in every_plan(&topology, bytes) {
                    let timeline = predict(&plans, &sizing, &topology, &Model::new(ROUND));
                    let timeline = timeline.unwrap_or_else(|error| panic!("{name}: {error}"));
                    check(&plans, &timeline, &topology);
                    let again = predict(&plans, &sizing, &topology, &Model::new(ROUND)).expect("as before");
                    assert_eq!(timeline.total_ns().to_bits(), again.total_ns().to_bits(), "{name}");
                    assert_eq!(timeline.critical_path(), again.critical_path(), "{name}");
                }
            }
        }
    }
}

#[test]
fn streams_and_queue_pairs_work_by_themselves() {
    let topology = include_str!("../../tests/data/two-hosts-four-gpus-two-nics.json");
    let topology = Topology::parse(topology).expect("a topology");
    let reduce = sizing(Collective::AllReduce, "hierarchical", 40_000);
    let plans = compiled(&reduce, &topology);
    let timeline = predict(&plans, &reduce, &topology, &Model::new(ROUND)).expect("a sound plan");
    check(&plans, &timeline, &topology);
    let mut runs: Vec<Run> = timeline.runs().filter(|run| run.rank == 0).collect();
    runs.sort_by(|a, b| a.from_ns.total_cmp(&b.from_ns));
    let lane = |run: &Run| plans[0].nodes[run.node as usize].lane;
    let overlap = |pair: &[Run]| pair[1].from_ns < pair[0].to_ns && lane(&pair[0]) != lane(&pair[1]);
    assert!(runs.windows(2).any(overlap), "a stream and a queue pair are busy at once");
}

#[test]
fn more_bytes_never_take_less_time() {
    for world in [2, 3, 5, 8] {
        let topology = Topology::single_host(world);
        let totals = |bytes| {
            let plans = every_plan(&topology, bytes).into_iter();
            plans.map(|(name, sizing, plans)| {
                let timeline = predict(&plans, &sizing, &topology, &Model::new(Costs::shm()));
                (name, timeline.expect("a sound plan").total_ns())
            })
        };
        let mut before = vec![0.0; every_plan(&topology, 0).len()];
        for bytes in [0, 1, 100, 200, 1000, 2000, 7000, 14_000] {
            for (before, (name, now)) in before.iter_mut().zip(totals(bytes)) {
                assert!(*before <= now, "{name} takes {now} ns, and {before} ns with fewer bytes");
                *before = now;
            }
        }
    }
}

/// Whether a timeline keeps the plan's rules and its own.
fn check(plans: &[Plan], timeline: &Timeline, topology: &Topology) {
    let joined = verify::join(plans).expect("sound slices");
    let chains = longest_chains(&joined, timeline, topology);
    let longest = chains.into_iter().fold(0.0, f64::max);
    assert!(longest <= timeline.total_ns() + 1e-6, "{longest} > {}", timeline.total_ns());
    check_path(timeline, topology);
    for (rank, plan) in plans.iter().enumerate() {
        let mut busy: Vec<Run> = host_runs(plan, timeline, rank);
        busy.sort_by(|a, b| a.from_ns.total_cmp(&b.from_ns).then(a.to_ns.total_cmp(&b.to_ns)));
        for pair in busy.windows(2) {
            assert!(pair[0].to_ns <= pair[1].from_ns, "rank {rank} does two things at once: {pair:?}");
        }
    }
}

fn host_runs(plan: &Plan, timeline: &Timeline, rank: usize) -> Vec<Run> {
    let is_host = |node: u32| {
        let kind = plan.lanes[plan.nodes[node as usize].lane as usize].kind;
        matches!(kind, LaneKind::Worker { .. } | LaneKind::Shm { .. } | LaneKind::Socket { .. })
    };
    timeline.runs().filter(|run| run.rank == rank && is_host(run.node)).collect()
}

/// The critical path begins at 0, ends at the total, and has no gap but the flight of news.
fn check_path(timeline: &Timeline, topology: &Topology) {
    let path = timeline.critical_path();
    let (Some(first), Some(last)) = (path.first(), path.last()) else { panic!("no path") };
    assert_eq!((first.run.from_ns, first.why), (0.0, Why::Start));
    assert_eq!(last.run.to_ns, timeline.total_ns());
    for pair in path.windows(2) {
        let gap = pair[1].run.from_ns - pair[0].run.to_ns;
        let is_far = matches!(pair[1].why, Why::Message | Why::Room);
        match is_far.then(|| topology.link(pair[0].run.rank, pair[1].run.rank)) {
            None => assert_eq!(gap, 0.0, "{pair:?}"),
            Some(crate::topology::LinkClass::Local) => assert!((gap - 100.0).abs() < 1e-6, "{pair:?}"),
            Some(crate::topology::LinkClass::Remote) => assert!(gap >= 1000.0 - 1e-6, "{pair:?}"),
        }
        assert!(is_far || pair[0].run.rank == pair[1].run.rank, "{pair:?}");
    }
}

/// Per run, in order of time, the longest chain of lane, deps and messages that ends with it; every run begins after what it
/// needs has ended.
fn longest_chains(joined: &Joined<'_>, timeline: &Timeline, topology: &Topology) -> Vec<f64> {
    let mut runs: Vec<Run> = timeline.runs().collect();
    runs.sort_by(|a, b| a.from_ns.total_cmp(&b.from_ns).then(a.to_ns.total_cmp(&b.to_ns)));
    let mut chains = std::collections::HashMap::new();
    for run in &runs {
        let at = joined.base[run.rank] + run.node as usize;
        let before = needed(joined, at, run.tile).into_iter().filter_map(|(at, tile)| {
            let rank = joined.rank(at);
            let other = timeline.runs_of(rank, (at - joined.base[rank]) as u32).find(|r| r.tile == tile)?;
            let is_near = rank == run.rank;
            let flight = match topology.link(rank, run.rank) {
                _ if is_near => 0.0,
                crate::topology::LinkClass::Local => 100.0,
                crate::topology::LinkClass::Remote => 1000.0,
            };
            assert!(other.to_ns + flight <= run.from_ns + 1e-6, "{run:?} begins before {other:?} allows");
            Some(chains.get(&(at, tile)).copied().unwrap_or(0.0) + flight)
        });
        let longest = before.fold(0.0, f64::max) + run.to_ns - run.from_ns;
        chains.insert((at, run.tile), longest);
    }
    chains.into_values().collect()
}

/// What a node needs for a tile: its lane's node before, its deps, and the senders of its messages.
fn needed(joined: &Joined<'_>, at: usize, tile: u32) -> Vec<(usize, u32)> {
    let links = &joined.links[at];
    let lane = &joined.lanes[links.lane];
    let mut needed: Vec<(usize, u32)> = links.deps.iter().map(|dep| (*dep, tile)).collect();
    needed.extend(links.received.iter().map(|message| (joined.messages[*message].sender, tile)));
    match (at == lane.start, tile.checked_sub(1)) {
        (false, _) => needed.push((at - 1, tile)),
        (true, Some(before)) => needed.push((lane.end - 1, before)),
        (true, None) => {}
    }
    needed
}

#[test]
fn a_trace_is_read_back() {
    let plans = compiled(&sizing(Collective::AllReduce, "ring", 400), &Topology::single_host(2));
    let id = format!("{:016x}", plans[0].id);
    let event = |operation: u64, rank: usize, node: u32, ts: f64| {
        format!(
            r#"{{"ph":"X","cat":"node","name":"n","ts":{ts},"dur":0.25,"pid":{rank},"tid":100,
               "args":{{"operation":{operation},"bytes":8,"tile":1,"node":{node},"plan":"{id}"}}}}"#
        )
    };
    let other = r#"{"ph":"M","name":"thread_name","pid":"x","args":{"name":"lane"}}"#;
    let file = |name: &str, events: &[String]| (name.to_owned(), format!("[{}]", events.join(",")));
    let wrapped = format!(r#"{{"traceEvents":[{other},{},{}]}}"#, event(7, 0, 1, 10.5), event(8, 0, 1, 30.0));
    let files = [("a".to_owned(), wrapped), file("b", &[event(7, 1, 0, 10.0), event(6, 1, 0, 1.0)])];
    let measured = Measured::read(&files, &plans).expect("traces of this plan");
    assert_eq!(measured.operation(), 7, "the newest that both ranks have");
    let shown: Vec<_> =
        measured.runs().iter().map(|r| (r.rank, r.node, r.tile, r.from_ns, r.to_ns)).collect();
    assert_eq!(shown, [(0, 1, 1, 500.0, 750.0), (1, 0, 1, 0.0, 250.0)]);
    assert_eq!((measured.total_ns(), measured.tiles()), (750.0, 2));
    let refused = |text: String, expected: &str| {
        let error = Measured::read(&[("t.json".to_owned(), text)], &plans).expect_err(expected).to_string();
        assert!(error.contains(expected), "{error:?} lacks {expected:?}");
    };
    refused("nonsense".to_owned(), "t.json is no trace: ");
    let whole = format!("[{}]", event(1, 0, 0, 1.0));
    for cut in 0..whole.len() {
        refused(whole[..cut].to_owned(), "t.json is no trace: ");
    }
    refused(r#"{"version":1}"#.to_owned(), "traceEvents");
    refused(format!("[{other}]"), "t.json has no events of plan nodes");
    refused(format!("[{}]", event(1, 0, 0, 1.0).replace(&id, "00ff")), "trace of plan 00ff; expected plan ");
    refused(format!("[{}]", event(1, 2, 0, 1.0)), "an event of rank 2; expected a number below 2");
    refused(format!("[{}]", event(1, 1, 99, 1.0)), "rank 1, node 99");
    refused(format!("[{}]", event(1, 1, 0, -1.0)), "an event of time -1");
}
