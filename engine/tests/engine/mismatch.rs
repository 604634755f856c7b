//! Ranks whose calls differ both get an error that names both ranks and both calls, within a bounded time: for every field in which they
//! can differ, whether both receive, one only sends or one only receives, at 8 B and at 1 MB.

use std::sync::Arc;
use std::time::{Duration, Instant};

use hcomm_engine::bindings::{Apart, InputOnly};
use hcomm_engine::{Communicator, Error};
use hcomm_ops::{DType, ReduceOp};
use hcomm_planner::export::json;
use hcomm_planner::{
    Choice, Collective, Costs, Plan, Request, Sink, Source, Span, Topology, compile_all, import,
};

use crate::common::{OVER, Over, on_all, within, world};

type Call = fn(&Communicator, usize) -> Result<(), Error>;

/// What differs, who receives, and the calls of rank 0 and rank 1 with what must be read of each.
struct Case {
    field: &'static str,
    traffic: &'static str,
    calls: [Call; 2],
    words: [&'static str; 2],
}

const BOTH_RECEIVE: &str = "both receive";
const ONE_SENDS: &str = "one only sends";
const ONE_RECEIVES: &str = "one only receives";

#[rustfmt::skip]
const CASES: &[Case] = &[
    Case { field: "collective", traffic: BOTH_RECEIVE, calls: [all_reduce, all_gather], words: ["all_reduce(i64, sum, N)", "all_gather(i64, N)"] },
    Case { field: "collective", traffic: ONE_SENDS, calls: [broadcast_0, all_reduce], words: ["broadcast(i64, N, root 0)", "all_reduce(i64, sum, N)"] },
    Case { field: "collective", traffic: ONE_RECEIVES, calls: [broadcast_1, all_reduce], words: ["broadcast(i64, N, root 1)", "all_reduce(i64, sum, N)"] },
    Case { field: "dtype", traffic: BOTH_RECEIVE, calls: [all_reduce, all_reduce_u64], words: ["all_reduce(i64, sum, N)", "all_reduce(u64, sum, N)"] },
    Case { field: "dtype", traffic: ONE_SENDS, calls: [broadcast_0, broadcast_0_f64], words: ["broadcast(i64, N, root 0)", "broadcast(f64, N, root 0)"] },
    Case { field: "dtype", traffic: ONE_RECEIVES, calls: [broadcast_1, broadcast_1_f64], words: ["broadcast(i64, N, root 1)", "broadcast(f64, N, root 1)"] },
    Case { field: "op", traffic: BOTH_RECEIVE, calls: [all_reduce, all_reduce_max], words: ["all_reduce(i64, sum, N)", "all_reduce(i64, max, N)"] },
    Case { field: "op", traffic: ONE_SENDS, calls: [reduce_1, reduce_1_max], words: ["reduce(i64, sum, N, root 1)", "reduce(i64, max, N, root 1)"] },
    Case { field: "op", traffic: ONE_RECEIVES, calls: [reduce_0, reduce_0_max], words: ["reduce(i64, sum, N, root 0)", "reduce(i64, max, N, root 0)"] },
    Case { field: "count", traffic: BOTH_RECEIVE, calls: [all_reduce, all_reduce_longer], words: ["all_reduce(i64, sum, N)", "all_reduce(i64, sum, M)"] },
    Case { field: "count", traffic: ONE_SENDS, calls: [broadcast_0, broadcast_0_longer], words: ["broadcast(i64, N, root 0)", "broadcast(i64, M, root 0)"] },
    Case { field: "count", traffic: ONE_RECEIVES, calls: [broadcast_1, broadcast_1_longer], words: ["broadcast(i64, N, root 1)", "broadcast(i64, M, root 1)"] },
    Case { field: "root", traffic: BOTH_RECEIVE, calls: [broadcast_1, broadcast_0], words: ["broadcast(i64, N, root 1)", "broadcast(i64, N, root 0)"] },
    Case { field: "root", traffic: ONE_SENDS, calls: [broadcast_0, broadcast_1], words: ["broadcast(i64, N, root 0)", "broadcast(i64, N, root 1)"] },
    Case { field: "root", traffic: ONE_RECEIVES, calls: [reduce_0, reduce_1], words: ["reduce(i64, sum, N, root 0)", "reduce(i64, sum, N, root 1)"] },
    Case { field: "order", traffic: BOTH_RECEIVE, calls: [reduce_then_gather, gather_then_reduce], words: ["all_reduce(i64, sum, N)", "all_gather(i64, N)"] },
    Case { field: "order", traffic: ONE_SENDS, calls: [short_then_long_0, long_then_short_0], words: ["broadcast(i64, N, root 0)", "broadcast(i64, M, root 0)"] },
    Case { field: "order", traffic: ONE_RECEIVES, calls: [short_then_long_1, long_then_short_1], words: ["broadcast(i64, N, root 1)", "broadcast(i64, M, root 1)"] },
    Case { field: "plan", traffic: BOTH_RECEIVE, calls: [ring_plan, recursive_plan], words: ["by ring", "by recursive_doubling"] },
    Case { field: "plan", traffic: ONE_SENDS, calls: [gather_1_direct, gather_1_binomial], words: ["by direct", "by binomial"] },
    Case { field: "plan", traffic: ONE_RECEIVES, calls: [gather_0_direct, gather_0_binomial], words: ["by direct", "by binomial"] },
];

#[test]
fn every_field_and_traffic_at_8_bytes() {
    OVER.into_iter().for_each(|over| run_all(over, 1));
}

#[test]
fn every_field_and_traffic_at_a_megabyte() {
    OVER.into_iter().for_each(|over| run_all(over, 1 << 17));
}

fn run_all(over: Over, count: usize) {
    // Most of a case is waiting for peers to be asked, so all run at once.
    let cases: Vec<_> =
        CASES.iter().map(|case| std::thread::spawn(move || run_case(case, over, count))).collect();
    let faults: Vec<String> =
        cases.into_iter().filter_map(|case| case.join().expect("no panic").err()).collect();
    assert!(faults.is_empty(), "{} of {} cases:\n{}", faults.len(), CASES.len(), faults.join("\n"));
}

/// Every rank makes its call, then a barrier, then closes; its first error must name all.
fn run_case(case: &'static Case, over: Over, count: usize) -> Result<(), String> {
    let told = within(20, move || {
        on_all(over.world(2), |comm| {
            let started = Instant::now();
            let outcomes = [
                ("the call", case.calls[comm.rank()](&comm, count)),
                ("the next call", comm.barrier()),
                ("close", comm.close()),
            ];
            let error =
                outcomes.into_iter().find_map(|(when, outcome)| Some((when, outcome.err()?.to_string())));
            (error, started.elapsed())
        })
    });
    for (rank, (error, elapsed)) in told.into_iter().enumerate() {
        let what = format!("{over:?}: {} ({}, {count} elements), rank {rank}", case.field, case.traffic);
        let Some((when, text)) = error else { return Err(format!("{what}: no error")) };
        let (n, m) = (count.to_string(), (count + 1).to_string());
        let calls = case.words.map(|word| word.replace('N', &n).replace('M', &m));
        let expected = ["rank 0", "rank 1", &calls[0], &calls[1]];
        if let Some(word) = expected.iter().find(|word| !text.contains(**word)) {
            return Err(format!("{what}: at {when}, '{text}' lacks '{word}'"));
        }
        if elapsed > Duration::from_secs(5) {
            return Err(format!("{what}: took {elapsed:?}"));
        }
    }
    Ok(())
}

fn all_reduce(comm: &Communicator, n: usize) -> Result<(), Error> {
    comm.all_reduce(&mut vec![1_i64; n], ReduceOp::Sum)
}

fn all_reduce_u64(comm: &Communicator, n: usize) -> Result<(), Error> {
    comm.all_reduce(&mut vec![1_u64; n], ReduceOp::Sum)
}

fn all_reduce_max(comm: &Communicator, n: usize) -> Result<(), Error> {
    comm.all_reduce(&mut vec![1_i64; n], ReduceOp::Max)
}

fn all_reduce_longer(comm: &Communicator, n: usize) -> Result<(), Error> {
    all_reduce(comm, n + 1)
}

fn all_gather(comm: &Communicator, n: usize) -> Result<(), Error> {
    comm.all_gather(&vec![1_i64; n], &mut vec![0; 2 * n])
}

fn broadcast_0(comm: &Communicator, n: usize) -> Result<(), Error> {
    comm.broadcast(&mut vec![1_i64; n], 0)
}

fn broadcast_1(comm: &Communicator, n: usize) -> Result<(), Error> {
    comm.broadcast(&mut vec![1_i64; n], 1)
}

fn broadcast_0_f64(comm: &Communicator, n: usize) -> Result<(), Error> {
    comm.broadcast(&mut vec![1_f64; n], 0)
}

fn broadcast_1_f64(comm: &Communicator, n: usize) -> Result<(), Error> {
    comm.broadcast(&mut vec![1_f64; n], 1)
}

fn broadcast_0_longer(comm: &Communicator, n: usize) -> Result<(), Error> {
    broadcast_0(comm, n + 1)
}

fn broadcast_1_longer(comm: &Communicator, n: usize) -> Result<(), Error> {
    broadcast_1(comm, n + 1)
}

fn reduce_0(comm: &Communicator, n: usize) -> Result<(), Error> {
    comm.reduce(&mut vec![1_i64; n], ReduceOp::Sum, 0)
}

fn reduce_1(comm: &Communicator, n: usize) -> Result<(), Error> {
    comm.reduce(&mut vec![1_i64; n], ReduceOp::Sum, 1)
}

fn reduce_0_max(comm: &Communicator, n: usize) -> Result<(), Error> {
    comm.reduce(&mut vec![1_i64; n], ReduceOp::Max, 0)
}

fn reduce_1_max(comm: &Communicator, n: usize) -> Result<(), Error> {
    comm.reduce(&mut vec![1_i64; n], ReduceOp::Max, 1)
}

fn reduce_then_gather(comm: &Communicator, n: usize) -> Result<(), Error> {
    all_reduce(comm, n)?;
    all_gather(comm, n)
}

fn gather_then_reduce(comm: &Communicator, n: usize) -> Result<(), Error> {
    all_gather(comm, n)?;
    all_reduce(comm, n)
}

fn short_then_long_0(comm: &Communicator, n: usize) -> Result<(), Error> {
    broadcast_0(comm, n)?;
    broadcast_0(comm, n + 1)
}

fn long_then_short_0(comm: &Communicator, n: usize) -> Result<(), Error> {
    broadcast_0(comm, n + 1)?;
    broadcast_0(comm, n)
}

fn short_then_long_1(comm: &Communicator, n: usize) -> Result<(), Error> {
    broadcast_1(comm, n)?;
    broadcast_1(comm, n + 1)
}

fn long_then_short_1(comm: &Communicator, n: usize) -> Result<(), Error> {
    broadcast_1(comm, n + 1)?;
    broadcast_1(comm, n)
}

fn ring_plan(comm: &Communicator, n: usize) -> Result<(), Error> {
    submit_all_reduce(comm, n, "ring")
}

fn recursive_plan(comm: &Communicator, n: usize) -> Result<(), Error> {
    submit_all_reduce(comm, n, "recursive_doubling")
}

/// Rank 0 has the ring that hcomm makes, the others one whose every chunk is another, under the same id; or all have that, as imported.
#[test]
fn a_plan_cannot_pass_for_another_of_its_id() {
    let topology = Topology::single_host(3);
    let request = Request::new(Collective::AllReduce, DType::I64, ReduceOp::Sum, 300).with_algorithm("ring");
    let made = compile_all(&request, &topology, &Choice::new(&topology, Costs::shm())).expect("a ring");
    let rotated: Vec<Plan> = made.iter().cloned().map(rotated).collect();
    let imported = import::read(&json::write(&rotated)).expect("a ring as well").1;
    let outcomes = |given: [&Plan; 3]| {
        let given = given.map(|plan| Arc::new(plan.clone()));
        within(20, move || {
            on_all(world(3), |comm| {
                let buffers = Apart(vec![1_i64 << comm.rank(); 300], vec![0_i64; 300]);
                let work = comm.submit(&given[comm.rank()], ReduceOp::Sum, buffers);
                let result = work.map_err(|e| e.error).and_then(|work| work.wait().map_err(|e| e.error));
                result.map(|buffers| buffers.1).map_err(|error| error.to_string())
            })
        })
    };
    let same = outcomes([&imported[0], &imported[1], &imported[2]]);
    assert!(same.iter().all(|outcome| *outcome == Ok(vec![7; 300])), "{same:?}");
    let mixed = outcomes([&made[0], &imported[1], &imported[2]]);
    assert!(mixed.iter().all(|outcome| outcome.as_ref().is_err_and(|e| e.contains("differ"))), "{mixed:?}");
    let changed = outcomes([&made[0], &rotated[1], &rotated[2]]);
    let words = "changed since it was made";
    assert!(changed.iter().all(|outcome| outcome.as_ref().is_err_and(|e| e.contains(words))), "{changed:?}");
}

/// The same slice, with every chunk the next one.
fn rotated(mut plan: Plan) -> Plan {
    let rotate = |span: &mut Span| span.first = (span.first + 1) % 3;
    plan.sources.iter_mut().for_each(|source| {
        if let Source::Span { span, .. } = source {
            rotate(span);
        }
    });
    plan.sinks.iter_mut().for_each(|sink| {
        if let Sink::Span(span) = sink {
            rotate(span);
        }
    });
    plan.nodes.iter_mut().for_each(|node| rotate(&mut node.extent));
    plan
}

fn submit_all_reduce(comm: &Communicator, n: usize, algorithm: &str) -> Result<(), Error> {
    let request = Request::new(Collective::AllReduce, DType::I64, ReduceOp::Sum, n as u64);
    let plan = comm.plan(&request.with_algorithm(algorithm))?;
    let buffers = Apart(vec![1_i64; n], vec![0_i64; n]);
    let work = comm.submit(&plan, ReduceOp::Sum, buffers).map_err(|e| e.error)?;
    work.wait().map(drop).map_err(|e| e.error)
}

fn gather_0_direct(comm: &Communicator, n: usize) -> Result<(), Error> {
    submit_gather(comm, n, "direct", 0)
}

fn gather_0_binomial(comm: &Communicator, n: usize) -> Result<(), Error> {
    submit_gather(comm, n, "binomial", 0)
}

fn gather_1_direct(comm: &Communicator, n: usize) -> Result<(), Error> {
    submit_gather(comm, n, "direct", 1)
}

fn gather_1_binomial(comm: &Communicator, n: usize) -> Result<(), Error> {
    submit_gather(comm, n, "binomial", 1)
}

fn submit_gather(comm: &Communicator, n: usize, algorithm: &str, root: usize) -> Result<(), Error> {
    let request = Request::new(Collective::Gather, DType::I64, ReduceOp::Sum, n as u64).with_root(root);
    let plan = comm.plan(&request.with_algorithm(algorithm))?;
    let input = vec![1_i64; n];
    if comm.rank() == root {
        let work =
            comm.submit(&plan, ReduceOp::Sum, Apart(input, vec![0_i64; 2 * n])).map_err(|e| e.error)?;
        work.wait().map(drop).map_err(|e| e.error)
    } else {
        let work = comm.submit(&plan, ReduceOp::Sum, InputOnly(input)).map_err(|e| e.error)?;
        work.wait().map(drop).map_err(|e| e.error)
    }
}

/// Counts that only their ranks know: the calls are the same to all, only a message is longer than expected.
#[test]
fn lengths_of_a_v_call_that_do_not_meet() {
    for count in [1, 1 << 17] {
        let errors = within(20, move || {
            on_all(world(3), |comm| {
                let rank = comm.rank();
                // Rank 2 gives one element more than the root expects of it.
                let input = vec![1_i64; count + usize::from(rank == 2)];
                let counts = [count as u64; 3];
                let mut output = vec![0; 3 * count];
                let output = (rank == 0).then_some((&mut output[..], &counts[..]));
                let outcome = comm
                    .gather_v(&input, output, 0)
                    .and_then(|()| comm.barrier())
                    .and_then(|()| comm.barrier());
                (
                    outcome.expect_err("the lengths differ").to_string(),
                    comm.close().err().map(|e| e.to_string()),
                )
            })
        });
        for (rank, (error, close)) in errors.iter().enumerate() {
            let is_named = error.contains("rank 0")
                && error.contains("rank 2")
                && error.contains("gather(i64, own counts, root 0)");
            assert!(is_named, "{rank}: {error}");
            assert!(close.is_some(), "{rank} closes without a word");
        }
    }
}

/// Three ranks, two of which make the same call.
#[test]
fn a_third_rank_hears_of_a_mismatch_that_it_has_no_part_in() {
    let errors = within(20, || {
        on_all(world(3), |comm| {
            let count = if comm.rank() == 1 { 5 } else { 4 };
            let first = comm.broadcast(&mut vec![0_i32; count], 0);
            let next = first.and_then(|()| comm.all_reduce(&mut [0_i32; 8], ReduceOp::Sum));
            next.expect_err("rank 1's call was another").to_string()
        })
    });
    for (rank, error) in errors.iter().enumerate() {
        for word in ["rank 0", "rank 1", "broadcast(i32, 4, root 0)", "broadcast(i32, 5, root 0)"] {
            assert!(error.contains(word), "rank {rank}: '{error}' lacks '{word}'");
        }
    }
}
