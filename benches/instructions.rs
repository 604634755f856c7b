//! What an instruction counter runs: repeated small calls of two ranks that one thread steps over inproc, so that nothing
//! spins and every count repeats exactly. `benches/count` runs it and compares the counts with their bounds.
//!
//! `instructions call`: a blocking all_reduce of 8 bytes whose peer has come, from call to return.
//! `instructions future`: the same as a future, from call to the poll that is ready.
//! `instructions broadcast`: a blocking broadcast of 8 bytes on a rank that is not the root, whose message has come.
//! `instructions plan`: the look-up of a call's plan.

use std::future::Future;
use std::hint::black_box;
use std::pin::pin;
use std::process::ExitCode;
use std::task::{Context, Poll, Waker};

use hcomm::{Collective, Communicator, DType, Op, Request};

/// Calls before those that are counted, and those: `benches/count` divides by it.
const WARM: u32 = 100;
const CALLS: u32 = 1000;

fn main() -> ExitCode {
    let mut comms = Communicator::in_process(2).expect("two ranks fit");
    let (b, a) = (comms.pop().expect("rank 1"), comms.pop().expect("rank 0"));
    match std::env::args().nth(1).as_deref() {
        Some("call") => calls(&a, &b),
        Some("future") => futures(&a, &b),
        Some("broadcast") => broadcasts(&a, &b),
        Some("plan") => plans(&a),
        _ => {
            eprintln!("usage: instructions call|future|broadcast|plan");
            return ExitCode::from(2);
        }
    }
    ExitCode::SUCCESS
}

fn calls(a: &Communicator, b: &Communicator) {
    let (mut mine, mut theirs) = (vec![1.0_f32; 2], vec![2.0_f32; 2]);
    for call in 0..WARM + CALLS {
        let mut work = pin!(b.all_reduce_async(std::mem::take(&mut theirs), Op::Sum));
        let mut context = Context::from_waker(Waker::noop());
        let mut done = work.as_mut().poll(&mut context);
        match call {
            0..WARM => warm(a, &mut mine),
            _ => counted(a, &mut mine),
        }
        while done.is_pending() {
            done = work.as_mut().poll(&mut context);
        }
        let Poll::Ready(result) = done else { unreachable!("pending above") };
        theirs = result.expect("no failure");
        assert_eq!(mine, theirs);
        mine.fill(1.0);
        theirs.fill(2.0);
    }
}

fn futures(a: &Communicator, b: &Communicator) {
    let (mut mine, mut theirs) = (vec![1.0_f32; 2], vec![2.0_f32; 2]);
    let mut context = Context::from_waker(Waker::noop());
    for call in 0..WARM + CALLS {
        let mut work = pin!(b.all_reduce_async(std::mem::take(&mut theirs), Op::Sum));
        let mut done = work.as_mut().poll(&mut context);
        mine = match call {
            0..WARM => a.all_reduce_async(mine, Op::Sum).wait().expect("no failure"),
            _ => counted_future(a, mine, &mut context),
        };
        while done.is_pending() {
            done = work.as_mut().poll(&mut context);
        }
        let Poll::Ready(result) = done else { unreachable!("pending above") };
        theirs = result.expect("no failure");
        assert_eq!(mine, theirs);
        mine.fill(1.0);
        theirs.fill(2.0);
    }
}

/// The root is `b`; what a rank that is not the root is given as input, it does not need.
fn broadcasts(a: &Communicator, b: &Communicator) {
    let (mut mine, mut theirs) = (vec![1.0_f32; 2], vec![2.0_f32; 2]);
    for call in 0..WARM + CALLS {
        let work = b.broadcast_async(std::mem::take(&mut theirs), 1);
        match call {
            0..WARM => a.broadcast(&mut mine, 1).expect("no failure"),
            _ => counted_broadcast(a, &mut mine),
        }
        theirs = work.wait().expect("no failure");
        assert_eq!(mine, theirs);
        mine.fill(1.0);
    }
}

fn plans(a: &Communicator) {
    let request = Request::new(Collective::AllReduce, DType::F32, Op::Sum, 2);
    for call in 0..WARM + CALLS {
        match call {
            0..WARM => drop(a.plan(&request)),
            _ => counted_plan(a, &request),
        }
    }
}

#[inline(never)]
fn warm(comm: &Communicator, buffer: &mut [f32]) {
    comm.all_reduce(black_box(buffer), Op::Sum).expect("no failure");
}

#[inline(never)]
fn counted(comm: &Communicator, buffer: &mut [f32]) {
    comm.all_reduce(black_box(buffer), Op::Sum).expect("no failure");
    black_box(());
}

#[inline(never)]
fn counted_future(comm: &Communicator, buffer: Vec<f32>, context: &mut Context<'_>) -> Vec<f32> {
    let mut work = pin!(comm.all_reduce_async(black_box(buffer), Op::Sum));
    match work.as_mut().poll(context) {
        Poll::Ready(result) => black_box(result.expect("no failure")),
        Poll::Pending => panic!("the peer has come"),
    }
}

#[inline(never)]
fn counted_broadcast(comm: &Communicator, buffer: &mut [f32]) {
    comm.broadcast(black_box(buffer), 1).expect("no failure");
    black_box(());
}

#[inline(never)]
fn counted_plan(comm: &Communicator, request: &Request) {
    black_box(comm.plan(black_box(request)).expect("a plan"));
}
