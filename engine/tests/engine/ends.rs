//! How an operation's end is learnt without giving its `Work` up: waits of limited time, calls that run at the end, errors by reference.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::thread::sleep;
use std::time::{Duration, Instant};

use hcomm_engine::settings::Settings;
use hcomm_engine::{Communicator, Error, Failure};
use hcomm_ops::ReduceOp;

use crate::common::{OVER, connected, data, on_all, sum, within, world};

/// How late the last rank comes.
const LATE: Duration = Duration::from_millis(600);

/// Longer than any test may take.
const LONG: Duration = Duration::from_secs(1000);

#[test]
fn a_wait_ends_with_its_limit_or_with_the_operation() {
    for over in OVER {
        within(30, move || {
            on_all(over.world(3), |comm| {
                let rank = comm.rank();
                if rank == 2 {
                    sleep(LATE);
                }
                let work = comm.all_reduce_async(data(rank, 50_000), ReduceOp::Sum);
                if rank != 2 {
                    let from = Instant::now();
                    assert!(!work.wait_at_most(Duration::ZERO), "rank 2 has not come");
                    assert!(!work.wait_at_most(Duration::from_millis(100)), "rank 2 has not come");
                    let waited = from.elapsed();
                    assert!(waited >= Duration::from_millis(100), "{waited:?}");
                    assert!(waited < LATE, "{waited:?}");
                }
                assert!(work.wait_at_most(LONG), "all ranks came");
                assert!(work.wait_at_most(Duration::ZERO), "it is still done");
                assert!(work.wait().expect("all ranks came") == sum(3, 50_000));
                comm.close().expect("closes well");
            })
        });
    }
}

#[test]
fn what_a_wait_gave_up_goes_on_in_the_background() {
    within(20, || {
        on_all(world(2), |comm| {
            let rank = comm.rank();
            if rank == 1 {
                sleep(LATE);
            }
            let work = comm.all_reduce_async(data(rank, 500_000), ReduceOp::Sum);
            work.wait_at_most(Duration::from_millis(1));
            let deadline = Instant::now() + Duration::from_secs(10);
            while !work.is_done() {
                assert!(Instant::now() < deadline, "the driver ends it");
                sleep(Duration::from_millis(1));
            }
            assert!(work.wait().expect("all ranks came") == sum(2, 500_000));
        })
    });
}

#[test]
fn waits_of_several_threads_end_each_with_its_own_limit() {
    within(20, || {
        on_all(world(2), |comm| {
            let rank = comm.rank();
            if rank == 1 {
                sleep(LATE);
                comm.barrier().expect("both");
                return;
            }
            let work = &comm.barrier_async();
            std::thread::scope(|s| {
                for millis in [20, 100, 5, 60] {
                    s.spawn(move || {
                        let (from, limit) = (Instant::now(), Duration::from_millis(millis));
                        assert!(!work.wait_at_most(limit), "rank 1 has not come");
                        assert!(from.elapsed() >= limit);
                        assert!(from.elapsed() < LATE);
                    });
                }
                s.spawn(move || assert!(work.wait_at_most(LONG), "rank 1 comes"));
            });
        })
    });
}

#[test]
fn a_wait_on_a_machine_that_is_full_keeps_its_limit() {
    within(30, || {
        let settings = Settings::from_pairs([("HCOMM_SPIN", "1s")]).expect("legal settings");
        let mut comms: Vec<Communicator> = connected(&vec![settings; 2]).into_iter().flatten().collect();
        let other = comms.pop().expect("two");
        let comm = comms.pop().expect("two");
        let work = comm.all_reduce_async(data(0, 10), ReduceOp::Sum);
        let from = Instant::now();
        assert!(!work.wait_at_most(Duration::from_millis(50)), "it spins until its limit");
        assert!(from.elapsed() < LATE, "{:?}", from.elapsed());
        assert!(other.all_reduce_async(data(1, 10), ReduceOp::Sum).wait_at_most(LONG));
        assert!(work.wait().expect("both came") == sum(2, 10));
        // Ranks close side by side.
        on_all(vec![comm, other], |comm| comm.close().expect("closes well"));
    });
}

#[test]
fn a_refused_call_has_ended() {
    let comm = Communicator::alone();
    let work = comm.broadcast_async(vec![1_i64], 7);
    assert!(work.wait_at_most(LONG));
    let error = work.error().expect("there is no rank 7");
    assert!(error.to_string().contains("rank 7"), "{error}");
    let (told, heard) = channel();
    work.notify(move || told.send(std::thread::current().id()).expect("awaited"));
    assert_eq!(heard.try_recv(), Ok(std::thread::current().id()));
    work.set_priority(3);
    let failed = work.wait().expect_err("there is no rank 7");
    assert_eq!(failed.buffer, [1]);
}

#[test]
fn calls_run_once_each_in_order_when_the_operation_has_ended() {
    for over in OVER {
        within(30, move || {
            on_all(over.world(2), |comm| {
                let rank = comm.rank();
                if rank == 1 {
                    sleep(Duration::from_millis(100));
                }
                let work = Arc::new(comm.all_reduce_async(data(rank, 30_000), ReduceOp::Sum));
                let (told, heard) = channel();
                for call in 0..3 {
                    let (told, seen) = (told.clone(), Arc::downgrade(&work));
                    let is_done = move || seen.upgrade().is_some_and(|work| work.is_done());
                    work.notify(move || told.send((call, is_done())).expect("awaited"));
                }
                // Nobody waits for the operation: the background driver ends it.
                let calls: Vec<_> = (0..3).map(|_| heard.recv().expect("all are run")).collect();
                assert_eq!(calls, [(0, true), (1, true), (2, true)]);
                drop(told);
                assert!(heard.recv().is_err(), "none runs twice");
                assert!(work.error().is_none(), "it went well");
                comm.barrier().expect("both");
            })
        });
    }
}

#[test]
fn a_call_outlives_its_work_and_hears_of_a_failure_too() {
    within(20, || {
        on_all(world(2), |comm| {
            if comm.rank() == 1 {
                sleep(Duration::from_millis(50));
                comm.abort("a test");
                return;
            }
            let kept = comm.barrier_async();
            assert!(kept.error().is_none(), "it runs");
            let dropped = comm.barrier_async();
            let (told, heard) = channel();
            dropped.notify(move || told.send(()).expect("awaited"));
            drop(dropped);
            heard.recv_timeout(Duration::from_secs(10)).expect("the call runs");
            assert!(kept.wait_at_most(LONG));
            let error = kept.error().expect("rank 1 gave up");
            assert!(matches!(error, Error::Failed(Failure::Aborted { rank: 1, .. })), "{error}");
        });
    });
}

#[test]
fn a_call_that_panics_harms_nobody() {
    within(20, || {
        on_all(world(2), |comm| {
            let rank = comm.rank();
            if rank == 1 {
                sleep(Duration::from_millis(50));
            }
            let work = comm.all_reduce_async(data(rank, 10), ReduceOp::Sum);
            let ran = Arc::new(AtomicUsize::new(0));
            let counted = ran.clone();
            if rank == 0 {
                work.notify(|| panic!("a test's own"));
            }
            work.notify(move || {
                counted.fetch_add(1, Ordering::SeqCst);
            });
            assert!(work.wait().expect("the operation went well") == sum(2, 10));
            while ran.load(Ordering::SeqCst) == 0 {
                sleep(Duration::from_millis(1));
            }
            comm.barrier().expect("the communicator goes on");
            comm.close().expect("closes well");
        });
    });
}

#[test]
fn priorities_are_set_by_reference() {
    within(20, || {
        on_all(world(2), |comm| {
            let rank = comm.rank();
            let works: Vec<_> =
                (0..5).map(|_| comm.all_reduce_async(data(rank, 20_000), ReduceOp::Sum)).collect();
            works.iter().zip(0..).for_each(|(work, priority)| work.set_priority(priority));
            works.into_iter().for_each(|work| assert!(work.wait().expect("both") == sum(2, 20_000)));
        });
    });
}
