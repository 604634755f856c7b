//! Tests of the tables.

use super::tuning::{Condition, Measured};
use super::*;
use hcomm_ops::{DType, ReduceOp};

use crate::request::Request;

fn topologies() -> [Topology; 5] {
    [
        Topology::single_host(2),
        Topology::single_host(8),
        Topology::single_host(4).with_crowd(4, 2),
        Topology::hosts(4, 8),
        Topology::hosts(6, 1),
    ]
}

fn call<'a>(collective: Collective, topology: &'a Topology) -> Call<'a> {
    Class::plain(collective).example(topology)
}

/// Every candidate with every tile that can serve a call.
fn contenders<'a>(choice: &'a Choice, call: &Call<'_>) -> Vec<Contender<'a>> {
    let able = Candidate::all().filter(|candidate| candidate.supports(call).is_ok());
    let tiles = |candidate: Candidate| choice.model().tiles().iter().map(move |t| candidate.with_tile(*t));
    able.flat_map(tiles).map(|candidate| choice.model().contender(candidate, call)).collect()
}

fn pin(collective: Collective, (from_bytes, to_bytes): (u64, u64), algorithm: &str) -> Pin {
    Pin { collective, from_bytes, to_bytes, algorithm: algorithm.into(), source: "a test".into() }
}

fn with_pins(pins: Vec<Pin>) -> Basis {
    Basis { pins, ..Basis::default() }
}

const ALL: (u64, u64) = (0, u64::MAX);

#[test]
fn the_table_is_the_least_predicted_time_but_for_the_margin_at_every_size_of_the_grid() {
    for topology in topologies() {
        let choice = Choice::with(&topology, &Basis::default()).expect("no pins");
        for class in Collective::ALL.into_iter().flat_map(Class::all) {
            let call = class.example(&topology);
            let all = contenders(&choice, &call);
            for bytes in sizes() {
                let least = all.iter().map(|c| c.predict(bytes).time_ns()).reduce(f64::min);
                let picked = choice.pick(&call, Some(bytes));
                let picked = picked.map(|c| choice.model().contender(c, &call).predict(bytes).time_ns());
                let is_least = least
                    .zip(picked)
                    .is_none_or(|(least, picked)| (least..=least * (1.0 + MARGIN)).contains(&picked));
                assert!(is_least, "{call} of {bytes} bytes: {picked:?}, not {least:?}");
                assert_eq!(least.is_some(), picked.is_some(), "{call}");
            }
        }
    }
}

#[test]
fn two_that_take_nearly_the_same_do_not_take_turns() {
    let inproc = Basis { local: LinkKind::Inproc, ..Basis::default() };
    let small_slots = Basis { slot_bytes: 4096, ..Basis::default() };
    for (world, basis) in [(4, inproc), (8, Basis::default()), (64, small_slots)] {
        let topology = Topology::single_host(world);
        let choice = Choice::with(&topology, &basis).expect("no pins");
        let table = choice.thresholds(&call(Collective::AllReduce, &topology)).expect("a table");
        let names: Vec<_> = table.steps().iter().map(|step| step.candidate.to_string()).collect();
        for (i, name) in names.iter().enumerate() {
            assert!(!names[..i].contains(name), "{name} returns in a world of {world}: {names:?}");
        }
        assert!(names.len() > 2, "{names:?}");
    }
}

#[test]
fn what_serves_a_class_serves_every_root_and_type_of_it() {
    let uneven = [Topology::from_host_of(&[0, 0, 1]), Topology::from_host_of(&[0, 1, 0, 1, 2, 2])];
    let plain = (1..=9).map(Topology::single_host);
    let even = [Topology::hosts(2, 3), Topology::hosts(3, 2), Topology::hosts(4, 1)];
    for topology in plain.chain(even).chain(uneven) {
        for class in Collective::ALL.into_iter().flat_map(Class::all) {
            let example = class.example(&topology);
            let roots = if example.collective.is_rooted() { topology.world() } else { 1 };
            for (root, dtype) in (0..roots).flat_map(|root| DType::ALL.map(|dtype| (root, dtype))) {
                let call = Call { root, dtype, ..example };
                for candidate in Candidate::all().filter(|_| Class::of(&call) == class) {
                    let [wanted, found] = [&example, &call].map(|c| candidate.supports(c).is_ok());
                    assert_eq!(wanted, found, "{candidate} for {call}, root {root}");
                }
            }
        }
    }
}

#[test]
fn between_the_sizes_of_the_grid_the_smaller_one_counts() {
    let topology = Topology::single_host(4);
    let choice = Choice::new(&topology, Costs::shm());
    let call = call(Collective::AllReduce, &topology);
    let sizes: Vec<u64> = sizes().collect();
    for pair in sizes.windows(2) {
        let at = |bytes| choice.pick(&call, Some(bytes));
        assert_eq!(at(pair[1] - 1), at(pair[0]), "{pair:?}");
    }
    assert_eq!(choice.pick(&call, Some(u64::MAX)), choice.pick(&call, sizes.last().copied()));
    assert_eq!(choice.pick(&call, None), choice.pick(&call, Some(0)));
}

#[test]
fn more_bytes_never_take_less_time_with_the_same_number_of_tiles() {
    for topology in topologies() {
        let choice = Choice::with(&topology, &Basis::default()).expect("no pins");
        for collective in Collective::ALL {
            for contender in contenders(&choice, &call(collective, &topology)) {
                let sizes: Vec<u64> = sizes().collect();
                for pair in sizes.windows(2).filter(|p| contender.tiles(p[0]) == contender.tiles(p[1])) {
                    let [less, more] = [pair[0], pair[1]].map(|bytes| contender.predict(bytes).time_ns());
                    assert!(less <= more, "{collective} by {} of {pair:?}", contender.candidate);
                    assert!(less.is_finite() && less >= 0.0);
                }
            }
        }
    }
}

#[test]
fn higher_costs_never_make_a_call_faster() {
    let topology = Topology::hosts(2, 4);
    let cheap = Choice::new(&topology, Costs::shm());
    let (near, far) = (Prices::SHM.to_array(), Prices::TCP.to_array());
    for raised in 0..Prices::COUNT {
        let raise = |mut prices: [f64; Prices::COUNT]| {
            prices[raised] *= 3.0;
            Prices::from_array(prices)
        };
        let dear = Choice::new(&topology, Costs::of(&raise(near), &raise(far)));
        for collective in Collective::ALL {
            let call = call(collective, &topology);
            for (a, b) in contenders(&cheap, &call).iter().zip(&contenders(&dear, &call)) {
                let [a, b] = [a, b].map(|contender| contender.predict(1 << 20).time_ns());
                assert!(a <= b, "{collective}: price {raised}");
            }
        }
    }
}

#[test]
fn pins_count_in_their_range_and_the_first_before_the_others() {
    let topology = Topology::single_host(4);
    let pins = vec![
        pin(Collective::AllReduce, (100, 2000), "two_shot"),
        pin(Collective::AllReduce, (1000, 5000), "ring"),
        pin(Collective::Broadcast, ALL, "chain"),
    ];
    let choice = Choice::with(&topology, &with_pins(pins)).expect("good pins");
    let free = Choice::with(&topology, &Basis::default()).expect("no pins");
    let name = |choice: &Choice, collective, bytes| {
        choice.pick(&call(collective, &topology), Some(bytes)).map(|c| c.algorithm.name)
    };
    for (bytes, expected) in [(100, "two_shot"), (1999, "two_shot"), (2000, "ring"), (4999, "ring")] {
        assert_eq!(name(&choice, Collective::AllReduce, bytes), Some(expected), "{bytes}");
    }
    for bytes in [0, 99, 5000, 1 << 30] {
        let all_reduce = Collective::AllReduce;
        assert_eq!(name(&choice, all_reduce, bytes), name(&free, all_reduce, bytes), "{bytes}");
    }
    for bytes in sizes() {
        assert_eq!(name(&choice, Collective::Broadcast, bytes), Some("chain"));
        assert_eq!(name(&choice, Collective::Reduce, bytes), name(&free, Collective::Reduce, bytes));
    }
}

#[test]
fn a_pin_of_a_tile_is_that_tile() {
    let topology = Topology::single_host(4);
    let choice = Choice::with(&topology, &with_pins(vec![pin(Collective::AllReduce, ALL, "ring/8KiB")]))
        .expect("a good pin");
    let picked = choice.pick(&call(Collective::AllReduce, &topology), Some(1 << 20)).expect("a ring");
    assert_eq!((picked.algorithm.name, picked.tile_bytes), ("ring", 8192));
}

#[test]
fn a_plan_by_itself_has_the_tiles_of_a_call_that_gets_it() {
    let planner = crate::Planner::with(Topology::single_host(8), &Basis::default()).expect("no pins");
    let mut seen = std::collections::BTreeSet::new();
    for collective in Collective::ALL.into_iter().filter(|c| *c != Collective::Barrier) {
        for candidate in Candidate::all() {
            for count in [0, 1000, 30_000, 1_000_000, 7_000_000] {
                let free = Request::new(collective, DType::F32, ReduceOp::Sum, count);
                let named = free.clone().with_algorithm(&candidate.to_string());
                for request in [free, named] {
                    let Ok(chosen) = planner.candidate(&request) else { continue };
                    let plan = planner.compile(&request, 0).expect("it has a candidate");
                    assert_eq!(planner.tile_bytes(&request, &plan), chosen.tile_bytes, "{request:?}");
                    seen.insert(chosen.tile_bytes);
                }
            }
        }
    }
    assert!(seen.len() > 1, "the tiles are all the same");
}

#[test]
fn pins_that_cannot_be_followed_are_errors_that_say_what_could() {
    let refused = |topology: &Topology, basis: &Basis, expected: &[&str]| {
        let error = Choice::with(topology, basis).expect_err(expected[0]).to_string();
        expected.iter().for_each(|words| assert!(error.contains(words), "{error:?} lacks {words:?}"));
    };
    let (one, six) = (Topology::single_host(4), Topology::single_host(6));
    let unknown = with_pins(vec![pin(Collective::AllReduce, ALL, "rung")]);
    refused(&one, &unknown, &["all_reduce=rung of a test: ", "unknown algorithm 'rung'; expected one of"]);
    let other = with_pins(vec![pin(Collective::Broadcast, (8, 64), "ring")]);
    refused(
        &one,
        &other,
        &["broadcast@8..64=ring of a test: ", "does all_reduce, ", "supported by: direct, "],
    );
    let doubling = with_pins(vec![pin(Collective::AllGather, ALL, "recursive_doubling")]);
    refused(&six, &doubling, &["power of two, not 6", "supported by: direct, "]);
    let ring = Basis { deterministic: true, ..with_pins(vec![pin(Collective::AllReduce, ALL, "ring")]) };
    refused(&one, &ring, &["does not fold in rank order", "supported by: one_shot"]);
    let alone = Topology::single_host(1);
    assert!(Choice::with(&alone, &doubling).is_ok(), "a world of one moves nothing");
    refused(&alone, &unknown, &["unknown algorithm 'rung'"]);
}

#[test]
fn calls_that_a_pin_cannot_serve_are_served_otherwise() {
    let topology = Topology::single_host(4);
    let choice = Choice::with(&topology, &with_pins(vec![pin(Collective::AllReduce, ALL, "ring")]))
        .expect("a good pin");
    let request = Request::new(Collective::AllReduce, DType::F8E4M3, ReduceOp::Sum, 100);
    let picked = choice.pick(&Call::new(&request, 4, &topology), Some(100)).expect("a candidate");
    assert_ne!(picked.algorithm.name, "ring");
}

#[test]
fn what_a_split_inherits_is_set_aside_where_it_cannot_be_followed() {
    let topology = Topology::single_host(6);
    let bad = pin(Collective::AllGather, ALL, "recursive_doubling");
    let good = pin(Collective::AllGather, ALL, "ring");
    let basis = Basis { inherited: vec![bad.clone(), good.clone()], ..Basis::default() };
    let choice = Choice::with(&topology, &basis).expect("inherited pins are no errors");
    assert_eq!(choice.pins(), [good]);
    assert_eq!(choice.set_aside().len(), 1);
    assert_eq!(choice.set_aside()[0].pin, bad);
    let basis = Basis { pins: vec![bad], is_split: true, ..Basis::default() };
    assert_eq!(Choice::with(&topology, &basis).expect("nor are the settings'").set_aside().len(), 1);
}

#[test]
#[cfg(feature = "tuning")]
fn a_tuning_s_pins_are_for_their_worlds_and_communicators() {
    let text = "format = 1
        [[pin]]
        collective = 'all_reduce'
        algorithm = 'ring'
        world = 4
        [[pin]]
        collective = 'all_reduce'
        algorithm = 'two_shot'
        communicator = 'data'
        [[pin]]
        collective = 'all_reduce'
        algorithm = 'one_shot'
        to = 64";
    let tuning = Tuning::parse(text).expect("a good file");
    let pinned = |world: usize, communicator: &str| -> Vec<String> {
        let basis = Basis { communicator: communicator.into(), tuning: tuning.clone(), ..Basis::default() };
        let choice = Choice::with(&Topology::single_host(world), &basis).expect("good pins");
        choice.pins().iter().map(|pin| pin.algorithm.to_string()).collect()
    };
    assert_eq!(pinned(4, "world"), ["ring", "one_shot"]);
    assert_eq!(pinned(2, "world"), ["one_shot"]);
    assert_eq!(pinned(2, "data"), ["two_shot", "one_shot"]);
}

#[test]
fn measured_times_count_in_worlds_like_theirs() {
    let condition = Condition { kind: LinkKind::Shm, is_crowded: false };
    let candidate = Candidate::all().find(|c| c.algorithm.name == "ring").expect("a ring");
    let curve = Curve::new(vec![(8, 1e-3)]).expect("one point");
    let measured =
        vec![Measured { condition, world: 4, curves: vec![(Collective::AllReduce, candidate, curve)] }];
    let basis = Basis { tuning: Tuning { measured, ..Tuning::default() }, ..Basis::default() };
    let step = |topology: &Topology| {
        let choice = Choice::with(topology, &basis).expect("no pins");
        let call = call(Collective::AllReduce, topology);
        let step = *choice.thresholds(&call).expect("a table").at(8).expect("a step");
        (step.candidate.algorithm.name, step.why)
    };
    assert_eq!(step(&Topology::single_host(4)), ("ring", Why::Measured));
    assert_eq!(step(&Topology::single_host(8)), ("ring", Why::Measured));
    assert_eq!(step(&Topology::single_host(9)).1, Why::Predicted);
    assert_eq!(step(&Topology::single_host(4).with_crowd(4, 2)).1, Why::Predicted);
    assert_eq!(step(&Topology::hosts(4, 1)).1, Why::Predicted);
}

#[test]
fn fixed_tiles_are_left_alone() {
    let topology = Topology::single_host(8);
    let basis = Basis { are_tiles_free: false, ..Basis::default() };
    let choice = Choice::with(&topology, &basis).expect("no pins");
    for class in Collective::ALL.into_iter().flat_map(Class::all) {
        let steps = choice.thresholds(&class.example(&topology)).expect("a table").steps();
        assert!(steps.iter().all(|step| step.candidate.tile_bytes == Candidate::WHOLE_SLOT));
    }
}

/// Worked out by hand; every machine comes to exactly this.
/// Where each rank has a processor the fewest steps win, where they share some the tree whose root leaves first.
#[test]
fn a_barrier_on_shared_processors_goes_by_the_tree() {
    for (topology, expected) in
        [(Topology::single_host(4), "direct"), (Topology::single_host(4).with_crowd(4, 2), "tree")]
    {
        let planner = crate::Planner::with(topology, &Basis::default()).expect("no pins");
        let request = Request::new(Collective::Barrier, DType::F32, ReduceOp::Sum, 0);
        let chosen = planner.candidate(&request).expect("a barrier has plans");
        assert_eq!(chosen.algorithm.name, expected);
    }
}

#[test]
fn a_ring_over_eight_hosts_is_predicted() {
    let topology = Topology::hosts(8, 1);
    let choice = Choice::with(&topology, &Basis::default()).expect("no pins");
    let ring = Candidate::all().find(|c| c.algorithm.name == "ring").expect("a ring");
    let contender = choice.model().contender(ring, &call(Collective::AllReduce, &topology));
    // Each of the 8 chunks is cut into two tiles.
    let waiting = 14.0 * 20_000.0 + 2.0 * 14.0 * 3_000.0 + 14.0 * 5_000.0;
    let moving = 14.0 / 8.0 * 2e6 * 0.5 + 7.0 / 8.0 * 2e6 * 0.02;
    assert_eq!(contender.predict(2_000_000).time_ns(), waiting + moving);
}
