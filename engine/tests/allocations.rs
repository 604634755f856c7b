//! Repeated calls allocate nothing, blocking or awaited; alone in its process, because it counts what the allocator is asked for.

#[allow(dead_code, reason = "other tests need more of it")]
#[path = "engine/common.rs"]
mod common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use common::{Over, connected, on_all, within, world_with};
use futures::executor::block_on;
use hcomm_engine::Communicator;
use hcomm_engine::settings::Settings;
use hcomm_ops::ReduceOp;

struct Counting;

thread_local! {
    static COUNT: Cell<u64> = const { Cell::new(0) };
}

fn note() {
    // A thread that is ending has nothing left to count with.
    let _ = COUNT.try_with(|count| count.set(count.get() + 1));
}

// SAFETY: every call is passed on to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note();
        // SAFETY: passed on from the caller.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, start: *mut u8, layout: Layout) {
        // SAFETY: passed on from the caller.
        unsafe { System.dealloc(start, layout) }
    }

    unsafe fn realloc(&self, start: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        note();
        // SAFETY: passed on from the caller.
        unsafe { System.realloc(start, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const WARM: usize = 40;
const CALLS: usize = 100;

/// Allocations of the calling thread during repeated calls.
fn allocations(call: &mut impl FnMut()) -> u64 {
    let before = COUNT.get();
    (0..CALLS).for_each(|_| call());
    COUNT.get() - before
}

fn check(name: &str, over: Over, bytes: usize, mut call: impl FnMut()) {
    (0..WARM).for_each(|_| call());
    assert_eq!(allocations(&mut call), 0, "{CALLS} calls of {name} over {over:?}, {bytes} bytes");
}

fn blocking_calls(comm: &Communicator, over: Over, bytes: usize) {
    let count = bytes / 4;
    let (mut whole, mut other) = (vec![1_f32; count], vec![1_f32; count]);
    let half = vec![1_f32; count / 2];
    let mut block = half.clone();
    let done = "no failure";
    check("all_reduce", over, bytes, || comm.all_reduce(&mut whole, ReduceOp::Max).expect(done));
    check("all_reduce_into", over, bytes, || {
        comm.all_reduce_into(&other, &mut whole, ReduceOp::Sum).expect(done);
    });
    check("all_gather", over, bytes, || comm.all_gather(&half, &mut whole).expect(done));
    check("reduce_scatter", over, bytes, || {
        comm.reduce_scatter(&whole, &mut block, ReduceOp::Min).expect(done);
    });
    check("broadcast", over, bytes, || comm.broadcast(&mut whole, 1).expect(done));
    check("all_to_all", over, bytes, || comm.all_to_all(&whole, &mut other).expect(done));
    check("barrier", over, bytes, || comm.barrier().expect(done));
}

/// Ranks that never sleep: falling asleep and waking up may cost something.
fn restless(over: Over) -> Vec<Communicator> {
    let spin = ("HCOMM_SPIN", "60s");
    match over {
        Over::Inproc => world_with(2, &[spin]),
        _ => {
            let settings = Settings::from_pairs([("HCOMM_TRANSPORT", "shm"), spin]).expect("legal settings");
            connected(&vec![settings; 2]).into_iter().map(|made| made.expect("the ranks meet")).collect()
        }
    }
}

#[test]
fn repeated_calls_allocate_nothing() {
    within(120, || {
        for over in [Over::Shm, Over::Inproc] {
            for bytes in [8, 1 << 10, 64 << 10] {
                on_all(restless(over), |comm| blocking_calls(&comm, over, bytes));
            }
        }
    });
}

/// One thread polls both ranks, so that nobody is left alone until the background driver takes over. Where the thread is kept from
/// its processor for long, that happens all the same, so one run of several has to do without.
#[test]
fn repeated_futures_allocate_nothing() {
    within(120, || {
        for over in [Over::Shm, Over::Inproc] {
            let comms = restless(over);
            for bytes in [8, 1 << 10, 64 << 10] {
                let mut buffers = [0, 1].map(|rank| vec![rank as f32; bytes / 4]);
                let start = |rank: usize, buffers: &mut [Vec<f32>; 2]| {
                    comms[rank].all_reduce_async(std::mem::take(&mut buffers[rank]), ReduceOp::Max)
                };
                let mut call = || {
                    let works = (start(0, &mut buffers), start(1, &mut buffers));
                    let (first, second) = block_on(async { futures::join!(works.0, works.1) });
                    buffers = [first.expect("no failure"), second.expect("no failure")];
                };
                (0..WARM).for_each(|_| call());
                let runs: Vec<u64> = (0..10).map(|_| allocations(&mut call)).collect();
                assert!(runs.contains(&0), "runs of {CALLS} over {over:?}, {bytes} bytes: {runs:?}");
                assert_eq!(buffers[0], buffers[1]);
            }
        }
    });
}
