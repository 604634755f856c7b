//! What an instruction counter runs: repeated small calls of two ranks that one thread steps over inproc, so that nothing
//! spins and every count repeats exactly.
//!
//! `valgrind --tool=callgrind --toggle-collect='*::counted_call*' target/release/instructions`: the instructions of one
//! blocking all_reduce whose peer has come, from call to return, are the total by [`CALLS`].

use std::future::Future;
use std::hint::black_box;
use std::pin::pin;
use std::task::{Context, Poll};

use hcomm::{Communicator, Op};

/// Calls before those that are counted, and those.
const WARM: u32 = 100;
const CALLS: u32 = 1000;

fn main() {
    let elements = std::env::args().nth(1).map_or(2, |n| n.parse().expect("a number of f32 elements"));
    let mut comms = Communicator::in_process(2).expect("two ranks fit");
    let (b, a) = (comms.pop().expect("rank 1"), comms.pop().expect("rank 0"));
    let (mut mine, mut theirs) = (vec![1.0_f32; elements], vec![2.0_f32; elements]);
    for call in 0..WARM + CALLS {
        let work = b.all_reduce_async(std::mem::take(&mut theirs), Op::Sum);
        let mut work = pin!(work);
        let mut context = Context::from_waker(std::task::Waker::noop());
        let mut done = work.as_mut().poll(&mut context);
        match call {
            0..WARM => warm_call(&a, &mut mine),
            _ => counted_call(&a, &mut mine),
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

#[inline(never)]
fn warm_call(comm: &Communicator, buffer: &mut [f32]) {
    comm.all_reduce(black_box(buffer), Op::Sum).expect("no failure");
}

#[inline(never)]
fn counted_call(comm: &Communicator, buffer: &mut [f32]) {
    comm.all_reduce(black_box(buffer), Op::Sum).expect("no failure");
    black_box(());
}
