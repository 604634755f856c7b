//! Code of the user's that panics where somebody else drives: wakers, what drops buffers, closures. It is contained, and nothing
//! that others have in flight is touched.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier, Mutex};
use std::task::{Context, Wake, Waker};
use std::thread::{self, ThreadId, sleep};
use std::time::{Duration, Instant};

use hcomm_engine::bindings::InPlace;
use hcomm_engine::{Error, Failure, Work};
use hcomm_ops::{DType, RawSpan, ReduceOp, StableBuffer};

use crate::common::{OVER, data, on_all, sum, within, world, world_with};

/// How late the last rank comes.
const LATE: Duration = Duration::from_millis(300);

/// Longer than anything here may take.
const LONG: Duration = Duration::from_secs(10);

/// A waker that panics on all threads but the one that made it.
struct Bomb(ThreadId);

impl Wake for Bomb {
    fn wake(self: Arc<Self>) {
        assert_eq!(self.0, thread::current().id(), "a test's own panic");
    }
}

fn bomb() -> Waker {
    Waker::from(Arc::new(Bomb(thread::current().id())))
}

/// A waker that says that it was woken.
#[derive(Default)]
struct Flag(AtomicBool);

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// Polls until the operation is the background driver's.
fn leave<B>(work: &mut Work<InPlace<B>>, waker: &Waker)
where
    B: StableBuffer + Unpin + 'static,
{
    for _ in 0..2100 {
        assert!(Pin::new(&mut *work).poll(&mut Context::from_waker(waker)).is_pending(), "a rank is missing");
    }
}

fn eventually(what: &str, is_so: impl Fn() -> bool) {
    let end = Instant::now() + LONG;
    while !is_so() {
        assert!(Instant::now() < end, "{what}");
        sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_waker_that_panics_stops_neither_the_driver_nor_other_wakers() {
    for over in OVER {
        within(30, move || {
            let left = Barrier::new(2);
            on_all(over.world(2), |comm| {
                let rank = comm.rank();
                if rank == 1 {
                    left.wait();
                    for _ in 0..2 {
                        comm.all_reduce(&mut data(rank, 10), ReduceOp::Sum).expect("rank 0 has come");
                    }
                    return comm.barrier().expect("rank 0 drives on");
                }
                let mut works = [(); 2].map(|()| comm.all_reduce_async(data(rank, 10), ReduceOp::Sum));
                let flag = Arc::new(Flag::default());
                leave(&mut works[0], &bomb());
                leave(&mut works[1], &Waker::from(flag.clone()));
                // It has woken itself so far: what comes now is the driver's.
                flag.0.store(false, Ordering::SeqCst);
                left.wait();
                eventually("the other one is woken", || flag.0.load(Ordering::SeqCst));
                for work in works {
                    assert!(work.wait().expect("both came") == sum(2, 10));
                }
                comm.barrier().expect("rank 1 drives on");
            });
        });
    }
}

#[test]
fn a_waker_that_panics_does_not_unwind_a_call_of_another_thread() {
    for over in OVER {
        within(30, move || {
            let left = Barrier::new(2);
            on_all(over.world(2), |comm| {
                let (rank, count) = (comm.rank(), 500_000);
                if rank == 1 {
                    left.wait();
                    sleep(LATE);
                }
                let mut first = comm.all_reduce_async(data(rank, 10), ReduceOp::Sum);
                if rank == 0 {
                    leave(&mut first, &bomb());
                    left.wait();
                }
                // It drives while `first` ends.
                let blocked = thread::scope(|s| {
                    let call = || {
                        let mut buffer = data(rank, count);
                        comm.all_reduce(&mut buffer, ReduceOp::Sum).map(|()| buffer)
                    };
                    s.spawn(call).join().expect("the waker's panic is not this call's")
                });
                assert!(blocked.expect("both came") == sum(2, count));
                assert!(first.wait().expect("both came") == sum(2, 10));
            });
        });
    }
}

/// Elements that panic when they are dropped, if they are armed.
struct Sharp(Vec<i64>, Arc<AtomicBool>);

impl Drop for Sharp {
    fn drop(&mut self) {
        assert!(!self.1.swap(false, Ordering::SeqCst), "a test's own panic");
    }
}

// SAFETY: as for the vector within.
unsafe impl StableBuffer for Sharp {
    fn dtype(&self) -> DType {
        DType::I64
    }

    fn span(&mut self) -> RawSpan {
        self.0.span()
    }
}

#[test]
fn a_buffer_whose_drop_panics_harms_nobody() {
    for over in OVER {
        within(30, move || {
            on_all(over.world(2), |comm| {
                let (rank, armed) = (comm.rank(), Arc::new(AtomicBool::new(true)));
                if rank == 1 {
                    sleep(LATE);
                }
                drop(comm.all_reduce_async(Sharp(data(rank, 50_000), armed.clone()), ReduceOp::Sum));
                eventually("it is dropped where it ended", || !armed.load(Ordering::SeqCst));
                let mut buffer = data(rank, 100_000);
                comm.all_reduce(&mut buffer, ReduceOp::Sum).expect("both go on");
                assert!(buffer == sum(2, 100_000));
                comm.close().expect("closes well");
            });
        });
    }
}

#[test]
fn a_waker_is_dropped_without_a_lock() {
    type Place = Mutex<Option<Work<InPlace<Vec<i64>>>>>;
    /// Dropped, it looks at the operation that it waited for.
    struct Curious(Arc<Place>);
    impl Wake for Curious {
        fn wake(self: Arc<Self>) {}
    }
    impl Drop for Curious {
        fn drop(&mut self) {
            let error = self.0.lock().expect("not poisoned").as_ref().map(|work| work.error().is_some());
            assert_ne!(error, Some(true));
        }
    }
    within(20, || {
        let mut comms = world(2);
        let (one, zero) = (comms.pop().expect("two"), comms.pop().expect("two"));
        let place: Arc<Place> = Arc::default();
        let mut work = zero.all_reduce_async(data(0, 10), ReduceOp::Sum);
        leave(&mut work, &Waker::from(Arc::new(Curious(Arc::clone(&place)))));
        leave(&mut work, Waker::noop());
        *place.lock().expect("not poisoned") = Some(work);
        one.all_reduce(&mut data(1, 10), ReduceOp::Sum).expect("both");
        let work = place.lock().expect("not poisoned").take().expect("put there");
        assert!(work.wait().expect("both") == sum(2, 10));
    });
}

#[test]
fn a_panic_in_a_scope_waits_for_its_operations_and_ends_nothing_else() {
    for over in OVER {
        within(30, move || {
            on_all(over.world(2), |comm| {
                let (rank, count) = (comm.rank(), 30_000);
                let mut buffers = [data(rank, count), data(rank, count)];
                if rank == 0 {
                    let [first, second] = &mut buffers;
                    let scope = || {
                        comm.scope(|s| {
                            s.all_reduce(first, ReduceOp::Sum);
                            s.all_reduce(second, ReduceOp::Sum);
                            panic!("a test's own panic")
                        })
                    };
                    let unwound = catch_unwind(AssertUnwindSafe(scope)).map(|_: Result<(), _>| ());
                    assert!(unwound.is_err(), "the panic is the closure's");
                } else {
                    sleep(LATE);
                    buffers.iter_mut().for_each(|b| comm.all_reduce(b, ReduceOp::Sum).expect("both"));
                }
                assert!(buffers.iter().all(|buffer| *buffer == sum(2, count)), "the scope has waited");
                comm.barrier().expect("nothing has failed");
                comm.close().expect("closes well");
            });
        });
    }
}

#[test]
fn a_closure_that_never_runs_may_panic_where_it_is_dropped() {
    within(20, || {
        let comms = world_with(2, &[("HCOMM_DEADLINE", "20s")]);
        let zero = &comms[0];
        let failing = zero.deadline(Duration::from_millis(200)).all_reduce_async(data(0, 10), ReduceOp::Sum);
        let (sharp, armed) = (data(0, 1), Arc::new(AtomicBool::new(true)));
        let sharp = Sharp(sharp, armed.clone());
        let local = zero.after(&[&failing]).local(move || drop(sharp));
        let error = local.wait().expect_err("what it comes after fails").error;
        assert!(matches!(error, Error::Failed(Failure::Predecessor { .. })), "{error}");
        eventually("it is dropped", || !armed.load(Ordering::SeqCst));
        assert!(failing.wait().is_err());
    });
}

#[test]
fn deadlines_of_calls_far_behind_the_first_fire() {
    within(30, || {
        let comms = world_with(2, &[("HCOMM_DEADLINE", "100s")]);
        let zero = &comms[0];
        let ahead: Vec<_> = (0..20).map(|_| zero.barrier_async()).collect();
        let short = zero.deadline(Duration::from_millis(300)).barrier_async();
        let behind: Vec<_> = (0..200).map(|_| zero.barrier_async()).collect();
        assert!(short.wait_at_most(LONG), "its deadline has long passed");
        let error = short.error().expect("rank 1 never came");
        assert!(matches!(error, Error::Failed(Failure::Deadline { .. })), "{error}");
        for work in behind {
            assert!(work.wait_at_most(LONG) && work.error().is_some(), "what comes after a failure fails");
        }
        assert!(ahead.iter().all(|work| !work.is_done()), "what came before goes on");
        zero.abort("a test");
        for work in ahead {
            assert!(work.wait().is_err());
        }
    });
}
