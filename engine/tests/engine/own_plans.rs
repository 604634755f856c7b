//! Plans of one's own on real ranks: programs of several collectives, all counts, in place and apart, over every transport.

use std::sync::Arc;

use hcomm_engine::Communicator;
use hcomm_engine::bindings::{Apart, InPlace, InputOnly, Nothing, OutputOnly};
use hcomm_ops::ReduceOp;
use hcomm_planner::buffers::BlockCounts;
use hcomm_planner::custom::{CustomError, PlanBuilder, input, output, scratch};
use hcomm_planner::{Collective, Plan, Topology};

use crate::common::{OVER, data, on_all, sum, within, world_with};

const COUNTS: [usize; 6] = [0, 1, 7, 64, 1001, 100_003];

/// Two chains in opposite directions, half of the vector each, and back.
fn two_way_chain(n: usize) -> PlanBuilder {
    let mut plan = PlanBuilder::new("two_way_chain", Collective::AllReduce, n).parts(2);
    for half in 0..2 {
        let rank = |step: usize| if half == 0 { step } else { n - 1 - step };
        plan.copy(input(rank(0), half), scratch(rank(1), half));
        for step in 1..n - 1 {
            plan.reduce(input(rank(step), half), scratch(rank(step), half));
            plan.copy(scratch(rank(step), half), scratch(rank(step + 1), half));
        }
        let last = rank(n - 1);
        plan.fold([scratch(last, half), input(last, half)], output(last, half));
    }
    plan.stage();
    for half in 0..2 {
        let rank = |step: usize| if half == 1 { step } else { n - 1 - step };
        (1..n)
            .for_each(|step| plan.copy(output(rank(step - 1), half), output(rank(step), half)).on(half + 1));
    }
    plan
}

/// All to all blocks by way of the next rank.
fn by_way_of_the_next(n: usize) -> PlanBuilder {
    let mut plan = PlanBuilder::new("by_way_of_the_next", Collective::AllToAll, n).parts(3);
    let blocks = |block: usize| block * 3..block * 3 + 3;
    for (from, to) in (0..n).flat_map(|from| (0..n).map(move |to| (from, to))) {
        plan.copy(
            input(from, blocks(to)),
            scratch((from + 1) % n, blocks(from * n + to)).named("on the way"),
        );
    }
    for (from, to) in (0..n).flat_map(|from| (0..n).map(move |to| (from, to))) {
        plan.copy(
            scratch((from + 1) % n, blocks(from * n + to)).named("on the way"),
            output(to, blocks(from)),
        );
    }
    plan
}

/// Every rank folds its own block at once, from all inputs.
fn gathered_folds(n: usize) -> PlanBuilder {
    let mut plan = PlanBuilder::new("gathered_folds", Collective::ReduceScatter, n);
    for rank in 0..n {
        let inputs: Vec<_> = (0..n).map(|from| input(from, rank)).collect();
        plan.fold(&inputs, output(rank, 0)).on(rank % 5);
    }
    plan
}

/// Over one relay, whose one chunk of scratch serves all.
fn relayed(collective: Collective, n: usize, root: usize) -> PlanBuilder {
    let mut plan = PlanBuilder::new("relayed", collective, n).root(root);
    let relay = (root + 1) % n;
    for rank in 0..n {
        match collective {
            Collective::Gather => {
                plan.copy(input(rank, 0), scratch(relay, 0));
                plan.copy(scratch(relay, 0), output(root, rank));
            }
            Collective::Scatter => {
                plan.copy(input(root, rank), scratch(relay, 0));
                plan.copy(scratch(relay, 0), output(rank, 0));
            }
            Collective::Broadcast => {
                plan.copy(input(root, 0), scratch(relay, 0));
                plan.copy(scratch(relay, 0), output(rank, 0));
            }
            Collective::AllGather => {
                plan.copy(input(rank, 0), scratch(relay, 0));
                (0..n).for_each(|to| plan.copy(scratch(relay, 0), output(to, rank)).on(0));
            }
            _ if rank == 0 => plan.copy(input(0, 0), scratch(relay, 0)).on(0),
            _ => plan.reduce(input(rank, 0), scratch(relay, 0)).on(rank % 2),
        }
    }
    match collective {
        Collective::Reduce => plan.copy(scratch(relay, 0), output(root, 0)).on(3),
        Collective::Barrier => (0..n).for_each(|to| plan.copy(scratch(relay, 0), output(to, 0)).on(3)),
        _ => {}
    }
    plan
}

fn programs(n: usize) -> Vec<PlanBuilder> {
    let relayed = [
        Collective::Gather,
        Collective::Scatter,
        Collective::Broadcast,
        Collective::AllGather,
        Collective::Reduce,
        Collective::Barrier,
    ]
    .map(|collective| relayed(collective, n, if collective.is_rooted() { n - 1 } else { 0 }));
    [two_way_chain(n), by_way_of_the_next(n), gathered_folds(n)].into_iter().chain(relayed).collect()
}

/// What rank `rank` gives.
fn given(plan: &Plan, count: usize) -> Option<Vec<i64>> {
    let blocks = BlockCounts::of(plan.collective, plan.world, plan.rank, plan.root).input;
    blocks.map(|blocks| data(plan.rank, blocks as usize * count))
}

/// What it should end with.
fn wanted(plan: &Plan, count: usize) -> Option<Vec<i64>> {
    let Plan { collective, world, rank, root, .. } = *plan;
    let own = rank * count..(rank + 1) * count;
    let block = |from: usize, blocks: usize| data(from, blocks * count);
    Some(match collective {
        Collective::AllReduce => sum(world, count),
        Collective::ReduceScatter => sum(world, world * count)[own].to_vec(),
        Collective::AllGather => (0..world).flat_map(|from| block(from, 1)).collect(),
        Collective::AllToAll => {
            (0..world).flat_map(|from| block(from, world)[own.clone()].to_vec()).collect()
        }
        Collective::Broadcast => block(root, 1),
        Collective::Scatter => block(root, world)[own].to_vec(),
        Collective::Reduce if rank == root => sum(world, count),
        Collective::Gather if rank == root => (0..world).flat_map(|from| block(from, 1)).collect(),
        Collective::Reduce | Collective::Gather => return None,
        Collective::Barrier => Vec::new(),
    })
}

/// Submits a slice with buffers apart or in place, outputs poisoned, and compares what it leaves.
pub fn check_run(comm: &Communicator, plan: &Arc<Plan>, count: usize, in_place: bool) {
    let what = format!(
        "{} by {}, rank {} of {}, count {count}",
        plan.collective, plan.algorithm, plan.rank, plan.world
    );
    let count = if plan.collective == Collective::Barrier { 0 } else { count };
    let wanted = wanted(plan, count);
    let op = ReduceOp::Sum;
    match (given(plan, count), wanted) {
        (Some(_), Some(_)) if plan.collective == Collective::Barrier => {
            comm.submit(plan, op, Nothing).unwrap().wait().unwrap();
        }
        (Some(given), Some(wanted)) if in_place => {
            let (buffer, own) = joined(plan, given, &wanted, count);
            let left = comm.submit(plan, op, InPlace(buffer)).unwrap().wait().unwrap();
            assert!(left[own] == wanted, "{what}, in place");
        }
        (Some(given), Some(wanted)) => {
            let poison = vec![-77; wanted.len()];
            let (kept, left) = comm.submit(plan, op, Apart(given.clone(), poison)).unwrap().wait().unwrap();
            assert!(left == wanted && kept == given, "{what}");
        }
        (Some(given), None) => {
            let kept = comm.submit(plan, op, InputOnly(given.clone())).unwrap().wait().unwrap();
            assert!(kept == given, "{what}");
        }
        (None, Some(wanted)) => {
            let poison = vec![-77; wanted.len()];
            let left = comm.submit(plan, op, OutputOnly(poison)).unwrap().wait().unwrap();
            assert!(left == wanted, "{what}");
        }
        (None, None) => unreachable!("every rank has a buffer"),
    }
}

/// The one buffer of a call in place, and where the output lies in it.
fn joined(plan: &Plan, given: Vec<i64>, wanted: &[i64], count: usize) -> (Vec<i64>, std::ops::Range<usize>) {
    let own = plan.rank * count..(plan.rank + 1) * count;
    match plan.collective {
        Collective::AllGather | Collective::Gather => {
            let mut buffer = vec![-77; wanted.len()];
            buffer[own].copy_from_slice(&given);
            (buffer, 0..wanted.len())
        }
        Collective::ReduceScatter | Collective::Scatter => (given, own),
        _ => (given, 0..wanted.len()),
    }
}

/// Runs every program with every count, in place and apart; returns how many runs that were on a rank.
fn run_all(comms: Vec<Communicator>) -> usize {
    let n = comms.len();
    let plans: Vec<Vec<Arc<Plan>>> = programs(n)
        .iter()
        .map(|program| {
            let slices = program.build(&Topology::single_host(n)).unwrap_or_else(|error| panic!("{error}"));
            slices.into_iter().map(Arc::new).collect()
        })
        .collect();
    let ran = on_all(comms, |comm| {
        for slices in &plans {
            for (count, in_place) in COUNTS.iter().flat_map(|count| [(*count, false), (*count, true)]) {
                check_run(&comm, &slices[comm.rank()], count, in_place);
            }
        }
        comm.close().expect("closes well");
        plans.len() * COUNTS.len() * 2
    });
    ran[0]
}

#[test]
fn programs_of_many_collectives_run_in_worlds_of_many_sizes() {
    let ran = within(120, || (2..7).map(|n| run_all(world_with(n, &[]))).sum::<usize>());
    println!("{ran} runs");
    assert_eq!(ran, 5 * 9 * 6 * 2);
}

#[test]
fn they_run_over_every_transport_and_with_small_tiles() {
    within(120, || {
        OVER.iter().for_each(|over| assert!(run_all(over.world(4)) > 0));
        assert!(run_all(world_with(3, &[("HCOMM_TILE_BYTES", "256")])) > 0);
    });
}

#[test]
fn average_divides_once() {
    let slices = two_way_chain(4).build(&Topology::single_host(4)).expect("a good plan");
    on_all(world_with(4, &[]), |comm| {
        let plan = Arc::new(slices[comm.rank()].clone());
        let values = vec![(comm.rank() * 4) as f32; 1001];
        let average = comm.submit(&plan, ReduceOp::Average, InPlace(values)).unwrap().wait().unwrap();
        assert_eq!(average, vec![6.0; 1001]);
        comm.close().expect("closes well");
    });
}

#[test]
fn a_wrong_plan_is_refused_before_it_can_run() {
    let mut plan = PlanBuilder::new("forgets_a_rank", Collective::Reduce, 3);
    plan.copy(input(1, 0), scratch(0, 0));
    plan.fold([scratch(0, 0), input(0, 0)], output(0, 0));
    let error = plan.build(&Topology::single_host(3)).expect_err("rank 2 is missing");
    assert!(matches!(error, CustomError::Wrong { .. }));
    let text = error.to_string();
    let chain = [
        "'forgets_a_rank' is not reduce",
        "output chunk 0 of rank 0",
        "expected all ranks of chunk 0",
        "rank 0 node 0",
    ];
    chain.iter().for_each(|words| assert!(text.contains(words), "{text:?} lacks {words:?}"));
}
