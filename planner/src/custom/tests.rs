//! Programs that are plans, programs that are not, and what is left of them after the passes.

use super::*;
use crate::algorithm::{Algorithm, Call, Variant};
use crate::compile::compile_with;
use crate::plan::{LaneKind, NodeKind, Plan};
use crate::topology::Topology;
use crate::verify::VerifyError;
use hcomm_ops::{DType, ReduceOp};

/// The ring all_reduce, with one chunk of scratch per rank, used anew in every step.
fn ring(n: usize) -> PlanBuilder {
    let mut plan = PlanBuilder::new("my_ring", Collective::AllReduce, n).parts(n);
    for block in 0..n {
        let at = |step: usize| (block + 1 + step) % n;
        plan.copy(input(at(0), block), scratch(at(1), 0));
        for step in 1..n - 1 {
            plan.reduce(input(at(step), block), scratch(at(step), 0));
            plan.copy(scratch(at(step), 0), scratch(at(step + 1), 0));
        }
        plan.fold([scratch(block, 0), input(block, block)], output(block, block));
    }
    plan.stage();
    for block in 0..n {
        for step in 0..n - 1 {
            plan.copy(output((block + step) % n, block), output((block + step + 1) % n, block));
        }
    }
    plan
}

fn built(plan: &PlanBuilder) -> Vec<Plan> {
    plan.build(&Topology::single_host(plan.world)).unwrap_or_else(|error| panic!("{error}"))
}

fn refused(plan: &PlanBuilder) -> String {
    plan.build(&Topology::single_host(plan.world)).expect_err("it makes no sense").to_string()
}

fn kinds(plan: &Plan) -> Vec<NodeKind> {
    let mut kinds: Vec<_> = plan.nodes.iter().map(|node| plan.kind_of(node)).collect();
    kinds.sort_unstable();
    kinds
}

#[test]
fn a_ring_is_fused_like_the_one_of_the_list() {
    let topology = Topology::single_host(5);
    let request = crate::Request::new(Collective::AllReduce, DType::F32, ReduceOp::Sum, 100);
    let call = Call::new(&request, 5, &topology);
    assert_eq!(call.variant, Variant::Even);
    let listed = compile_with(Algorithm::named("ring").expect("it is listed"), &call, 3);
    let own = &built(&ring(5))[3];
    assert_eq!(kinds(own), kinds(&listed));
    assert_eq!((own.scratch.len(), own.channels_per_pair, own.parts), (0, 2, 5));
    assert!(!own.buffered);
}

#[test]
fn a_ring_of_64_is_compiled_and_proved() {
    let plans = built(&ring(64));
    assert!(plans.iter().all(|plan| plan.nodes.len() == 2 * 64 && plan.scratch.is_empty()));
}

#[test]
fn a_world_of_one_copies() {
    let mut plan = PlanBuilder::new("alone", Collective::AllReduce, 1);
    plan.copy(input(0, 0), output(0, 0));
    assert_eq!(kinds(&built(&plan)[0]), [NodeKind::Copy]);
    plan.copy(output(0, 0), scratch(0, 0));
    assert!(refused(&plan).contains("in a world of 1 the plan is a copy of the input to the output"));
}

/// Two ranks that send before they receive, and overwrite in place what they sent.
#[test]
fn what_needs_copying_says_so() {
    let mut plan = PlanBuilder::new("swap", Collective::AllReduce, 2);
    plan.copy(input(0, 0), scratch(1, 0));
    plan.copy(input(1, 0), scratch(0, 0));
    plan.fold([input(0, 0), scratch(0, 0)], output(0, 0));
    plan.fold([input(1, 0), scratch(1, 0)], output(1, 0));
    assert!(built(&plan).iter().all(|slice| slice.buffered));
}

#[test]
fn a_place_of_scratch_keeps_one_chunk_however_often_it_is_written() {
    let mut plan = PlanBuilder::new("one by one", Collective::Gather, 2).parts(6);
    for chunk in 0..6 {
        // Two readers, so that the chunk cannot be fused away; the channels differ, so that neither waits for the other.
        plan.copy(input(1, chunk), scratch(0, 0).named("arrived")).on(0);
        plan.copy(scratch(0, 0).named("arrived"), scratch(1, 0)).on(1);
        plan.copy(scratch(0, 0).named("arrived"), output(0, 6 + chunk));
        plan.copy(scratch(1, 0), scratch(0, 1)).on(2);
        plan.copy(scratch(0, 1), scratch(1, 1)).on(3);
        plan.copy(input(0, chunk), output(0, chunk));
    }
    let plans = built(&plan);
    assert!(
        plans.iter().all(|slice| slice.scratch.len() <= 6),
        "chunks of different parts may differ in length"
    );
    let mut even = PlanBuilder::new("one by one", Collective::Broadcast, 3);
    even.copy(input(0, 0), output(0, 0));
    for _ in 0..6 {
        even.copy(input(0, 0), scratch(1, 0)).on(0);
        even.copy(scratch(1, 0), scratch(2, 0)).on(1);
        even.copy(scratch(1, 0), output(1, 0));
        even.copy(scratch(2, 0), output(2, 0));
    }
    assert!(built(&even).iter().all(|slice| slice.scratch.len() <= 1));
}

/// Fused, the third fold of rank 0 would wait for room that rank 1 makes only after it has got what rank 0 sends later.
#[test]
fn a_program_that_fusing_would_lock_is_not_fused() {
    let mut plan = PlanBuilder::new("crossing", Collective::Reduce, 2).root(1).parts(5);
    // One send on both channels ties their lanes.
    plan.copy(input(0, 4), scratch(1, 4)).on(0);
    plan.copy(input(0, 4), scratch(1, 5)).on(1);
    plan.fold([scratch(1, 4), input(1, 4)], output(1, 4));
    for chunk in 0..4 {
        plan.copy(input(1, chunk), scratch(0, chunk)).on(chunk);
        plan.reduce(input(0, chunk), scratch(0, chunk));
    }
    plan.copy(input(0, 0), output(1, 0)).on(1);
    for chunk in 0..4 {
        plan.copy(scratch(0, chunk), output(1, chunk)).on(0);
    }
    let plans = built(&plan);
    assert!(!kinds(&plans[0]).contains(&NodeKind::RecvReduceSend), "{:?}", kinds(&plans[0]));
}

#[test]
fn ids_are_of_the_whole_program() {
    let id = |change: fn(&mut PlanBuilder)| {
        let mut plan = PlanBuilder::new("pair", Collective::Broadcast, 3);
        plan.copy(input(0, 0), output(0, 0));
        plan.copy(input(0, 0), output(1, 0));
        change(&mut plan);
        let plans = built(&plan);
        assert!(plans.iter().all(|slice| slice.id == plans[0].id));
        plans[0].id
    };
    let ids = [
        id(|plan| plan.copy(input(0, 0), output(2, 0)).on(0)),
        id(|plan| plan.copy(input(0, 0), output(2, 0)).on(1)),
        id(|plan| plan.copy(output(0, 0), output(2, 0)).on(0)),
        id(|plan| plan.copy(output(1, 0), output(2, 0)).on(0)),
        id(|plan| {
            plan.stage();
            plan.copy(input(0, 0), output(2, 0)).on(0);
        }),
    ];
    let mut distinct = ids.to_vec();
    distinct.sort_unstable();
    distinct.dedup();
    assert_eq!(distinct.len(), ids.len());
}

#[test]
fn a_plan_of_ones_own_is_placed_on_what_the_topology_has() {
    let gpus = Topology::parse(include_str!("../../tests/data/two-hosts-four-gpus-two-nics.json"));
    let gpus = gpus.expect("a good file");
    let plans = ring(gpus.world()).build(&gpus).expect("a ring");
    let lanes: Vec<LaneKind> = plans.iter().flat_map(|slice| &slice.lanes).map(|lane| lane.kind).collect();
    let on_devices = |kind: &LaneKind| matches!(kind, LaneKind::Stream { .. } | LaneKind::QueuePair { .. });
    assert!(lanes.iter().all(on_devices), "{lanes:?}");
    assert!(lanes.iter().any(|kind| matches!(kind, LaneKind::QueuePair { .. })), "{lanes:?}");
}

#[test]
fn a_wrong_program_is_refused_with_the_nodes_that_show_it() {
    let wrong = |change: fn(&mut PlanBuilder)| {
        let mut plan = PlanBuilder::new("wrong", Collective::AllReduce, 2);
        change(&mut plan);
        match plan.build(&Topology::single_host(2)) {
            Err(CustomError::Wrong { fault, .. }) => *fault,
            other => panic!("{other:?}"),
        }
    };
    let twice = wrong(|plan| {
        plan.copy(input(0, 0), scratch(1, 0));
        plan.reduce(input(0, 0), scratch(1, 0));
        plan.fold([scratch(1, 0), input(1, 0)], output(1, 0));
        plan.copy(output(1, 0), output(0, 0));
    });
    assert!(matches!(&twice, VerifyError::DoubleCount { contributor: 0, .. }), "{twice}");
    let missing = wrong(|plan| {
        plan.copy(input(0, 0), output(1, 0));
        plan.copy(output(1, 0), output(0, 0));
    });
    assert!(matches!(&missing, VerifyError::WrongResult { chain, .. } if !chain.0.is_empty()), "{missing}");
}

#[test]
fn what_makes_no_sense_is_refused_in_a_sentence() {
    type Write = fn(&mut PlanBuilder);
    let cases: [(Write, &str); 20] = [
        (
            |p| p.copy(input(0, 0), output(3, 0)).on(0),
            "step 1, copy in[0] of rank 0 to out[0] of rank 3: rank 3 in a world of 3",
        ),
        (|p| p.copy(input(0, 2), output(1, 0)).on(0), "in[2] of rank 0, which has 2 chunks there"),
        (|p| p.copy(input(0, 0..2), output(1, 1..3)).on(0), "out[1..3] of rank 1, which has 2 chunks there"),
        (|p| p.copy(input(0, 1..1), output(1, 1)).on(0), "has no chunks"),
        (|p| p.copy(scratch(0, usize::MAX), output(1, 1)).on(0), "of rank 0, which has 2097152 chunks there"),
        (|p| p.copy(scratch(0, 0..usize::MAX), output(1, 1)).on(0), "chunks there"),
        (|p| p.copy(input(0, 0), output(1, 0)).on(32), "channel 32; a pair of ranks has 32, from 0"),
        (
            |p| {
                (0..64).for_each(|_| {
                    p.stage();
                    p.copy(input(0, 0), output(1, 0)).on(0)
                })
            },
            "stage 64; expected at most 64",
        ),
        (|p| p.copy(input(0, 0), input(1, 0)).on(0), "it writes in[0] of rank 1; an input is only read"),
        (
            |p| p.copy(input(0, 0..2), output(1, 0)).on(0),
            "in[0..2] of rank 0 and out[0] of rank 1 differ in their number of chunks",
        ),
        (
            |p| p.copy(input(0, 0), output(1, 1)).on(0),
            "in[0] of rank 0 holds part 0 of a block and out[1] of rank 1 part 1",
        ),
        (|p| p.copy(output(1, 0), output(0, 0)).on(0), "nothing has been written to out[0] of rank 1 before"),
        (
            |p| p.copy(scratch(1, 3..5).named("sums"), output(0, 0..2)).on(0),
            "nothing has been written to sums[3] of rank 1",
        ),
        (
            |p| p.reduce(input(1, 0), scratch(0, 0)).on(0),
            "reduce in[0] of rank 1 into scratch[0] of rank 0: nothing has been",
        ),
        (|p| p.fold([] as [Place; 0], output(0, 0)).on(0), "it has no source"),
        (|p| p.reduce([] as [Place; 0], output(0, 0)).on(0), "it has no source"),
        (
            |p| {
                p.copy(input(0, 0..2), scratch(0, 0..2));
                p.copy(scratch(0, 0..2), scratch(0, 1..3)).on(0)
            },
            "overlap",
        ),
        (
            |p| {
                p.copy(input(0, 0), scratch(0, 0));
                p.copy(scratch(0, 0), scratch(0, 0)).on(0)
            },
            "overlap",
        ),
        (
            |p| {
                p.copy(input(0, 1), output(1, 1));
                p.copy(input(1, 1), output(0, 1)).on(0)
            },
            "in[1] of rank 1 is read after out[1] of rank 1 was written, which is the same memory",
        ),
        (|p| p.fold([input(0, 0), scratch(0, 9)], output(0, 0)).on(0), "scratch[9]"),
    ];
    for (write, expected) in cases {
        let mut plan = PlanBuilder::new("odd", Collective::AllReduce, 3).parts(2);
        plan.copy(input(2, 0), scratch(2, 0));
        write(&mut plan);
        let text = refused(&plan);
        assert!(text.contains(expected), "{text:?} lacks {expected:?}");
    }
    let mut gather = PlanBuilder::new("odd", Collective::Gather, 3).root(1);
    gather.copy(input(0, 0), output(2, 0));
    assert!(refused(&gather).contains("out[0] of rank 2, which has no such buffer in gather with root 1"));
    let mut gather = PlanBuilder::new("odd", Collective::AllGather, 3);
    gather.fold([input(0, 0), input(1, 0)], output(2, 0));
    assert!(refused(&gather).contains("it folds, and all_gather reduces nothing"));
}

#[test]
fn a_header_that_makes_no_sense_is_refused() {
    let all = Collective::AllReduce;
    let cases = [
        (PlanBuilder::new("", all, 2), "a plan named \"\"; expected 1 to 120 characters"),
        (PlanBuilder::new("a\0b", all, 2), "a plan named \"a\\0b\"; expected 1 to 120 characters"),
        (PlanBuilder::new("x", all, 0), "a world of 0 ranks"),
        (
            PlanBuilder::new("x", all, 2).root(1),
            "root 1 of all_reduce in a world of 2; expected 0, as it has no root",
        ),
        (PlanBuilder::new("x", Collective::Reduce, 2).root(2), "expected a rank below the world size"),
        (PlanBuilder::new("x", all, 2).parts(0), "0 parts per block"),
        (PlanBuilder::new("x", all, 2).parts(usize::MAX), "parts per block"),
        (PlanBuilder::new("x", all, usize::MAX), "parts per block"),
    ];
    for (plan, expected) in cases {
        let text = plan.build(&Topology::single_host(2)).expect_err(expected).to_string();
        assert!(text.contains(expected), "{text:?} lacks {expected:?}");
    }
    let text = ring(3).build(&Topology::single_host(2)).expect_err("a topology of 2").to_string();
    assert_eq!(text, "a topology of 2 ranks for a plan of 3; expected 3");
}
