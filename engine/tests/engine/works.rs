//! Operations as futures: dropped at every await point, polled by every kind of executor, rarely or not at all; scopes that
//! panic; threads that share a communicator; progress while the caller computes.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use futures::executor::block_on;
use futures::future::join_all;
use hcomm_engine::{Communicator, Failure};
use hcomm_ops::{DType, RawSpan, ReduceOp, StableBuffer};

use crate::common::{OVER, data, on_all, sum, within, world, world_with};

/// A buffer that counts itself out when it is freed.
struct Counted {
    elements: Vec<i64>,
    alive: Arc<AtomicUsize>,
}

impl Counted {
    fn new(elements: Vec<i64>, alive: &Arc<AtomicUsize>) -> Self {
        alive.fetch_add(1, Ordering::SeqCst);
        Counted { elements, alive: alive.clone() }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.elements.fill(i64::MIN);
        self.alive.fetch_sub(1, Ordering::SeqCst);
    }
}

// SAFETY: the vector's heap allocation stays where it is when the value moves.
unsafe impl StableBuffer for Counted {
    fn dtype(&self) -> DType {
        DType::I64
    }

    fn span(&mut self) -> RawSpan {
        self.elements.span()
    }
}

/// Polls a future so many times, or until it is ready.
fn poll_times<F: Future + Unpin>(future: &mut F, times: usize) -> Option<F::Output> {
    let mut context = Context::from_waker(Waker::noop());
    for _ in 0..times {
        if let Poll::Ready(value) = Pin::new(&mut *future).poll(&mut context) {
            return Some(value);
        }
    }
    None
}

#[test]
fn a_future_dropped_at_any_await_goes_on_and_frees_its_buffers() {
    // Past some 2000 polls an operation is the background driver's.
    let polls = (0..25).chain([100, 1999, 2000, 2001, 3000]);
    for (round, polls) in polls.enumerate() {
        let count = [3, 5_000, 100_003][round % 3];
        within(20, move || {
            let alive = Arc::new(AtomicUsize::new(0));
            let finished = on_all(world(3), |comm| {
                let rank = comm.rank();
                // Ranks come at different times and give up after different numbers of polls.
                sleep(Duration::from_millis([0, 2, 0][rank]));
                let mut work = comm.all_reduce_async(Counted::new(data(rank, count), &alive), ReduceOp::Sum);
                let kept = rank == 2;
                let outcome = match kept {
                    true => Some(block_on(work)),
                    false => poll_times(&mut work, polls * (rank + 1)),
                };
                if let Some(outcome) = outcome {
                    let buffer = outcome.expect("all ranks came");
                    assert!(buffer.elements == sum(3, count), "{polls} polls, {count} elements");
                }
                let mut next = data(rank, 100);
                comm.all_reduce(&mut next, ReduceOp::Sum).expect("the next call does not mind");
                assert_eq!(next, sum(3, 100));
                comm.close().expect("closes well");
                kept
            });
            assert_eq!(finished.len(), 3);
            assert_eq!(alive.load(Ordering::SeqCst), 0, "buffers are freed, {polls} polls");
        });
    }
}

#[test]
fn dropped_without_a_poll_while_the_peer_is_late() {
    within(20, || {
        let alive = Arc::new(AtomicUsize::new(0));
        on_all(world(2), |comm| {
            let rank = comm.rank();
            if rank == 1 {
                sleep(Duration::from_millis(300));
                let result =
                    comm.all_reduce_async(data(1, 100_000), ReduceOp::Sum).wait().expect("rank 0 came");
                assert!(result == sum(2, 100_000));
            } else {
                drop(comm.all_reduce_async(Counted::new(data(0, 100_000), &alive), ReduceOp::Sum));
                assert_eq!(alive.load(Ordering::SeqCst), 1, "the operation owns its buffer");
                let deadline = Instant::now() + Duration::from_secs(10);
                while alive.load(Ordering::SeqCst) > 0 {
                    assert!(Instant::now() < deadline, "the driver ends it");
                    sleep(Duration::from_millis(5));
                }
            }
        });
    });
}

/// Several operations, awaited in another order than that of submission.
async fn program(comm: Communicator) {
    let (rank, world) = (comm.rank(), comm.world());
    let works: Vec<_> = (1..20)
        .map(|i| comm.priority((i % 3) as i32).all_reduce_async(data(rank, i * 700), ReduceOp::Sum))
        .collect();
    let gathered = comm.all_gather_async(data(rank, 5), vec![0; 5 * world]);
    let (_, all) = gathered.await.expect("all ranks came");
    assert_eq!(all, (0..world).flat_map(|r| data(r, 5)).collect::<Vec<_>>());
    for (i, result) in join_all(works).await.into_iter().enumerate() {
        assert!(result.expect("all ranks came") == sum(world, (i + 1) * 700));
    }
    comm.barrier_async().await.expect("all ranks came");
}

#[test]
fn any_executor_drives_them() {
    for over in OVER {
        within(30, move || {
            on_all(over.world(3), |comm| match comm.rank() {
                0 => block_on(program(comm)),
                1 => tokio::runtime::Builder::new_current_thread()
                    .build()
                    .expect("a runtime")
                    .block_on(program(comm)),
                _ => {
                    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build();
                    let runtime = runtime.expect("a runtime");
                    runtime.block_on(async { tokio::spawn(program(comm)).await.expect("no panic") });
                }
            })
        });
    }
}

#[test]
fn many_tasks_of_one_runtime_each_with_its_own_rank() {
    within(30, || {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().expect("a runtime");
        runtime.block_on(async {
            let ranks: Vec<_> = world(4).into_iter().map(|comm| tokio::spawn(program(comm))).collect();
            for rank in ranks {
                rank.await.expect("no panic");
            }
        });
    });
}

#[test]
fn ranks_that_are_tasks_of_one_thread() {
    within(30, || block_on(join_all(world(3).into_iter().map(program))));
}

/// Counts the wakes.
#[derive(Default)]
struct Woken(AtomicUsize);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn an_old_operation_wakes_its_waker_once_when_it_ends() {
    for over in OVER {
        within(20, move || {
            on_all(over.world(2), |comm| {
                if comm.rank() == 1 {
                    sleep(Duration::from_millis(700));
                    comm.all_reduce(&mut data(1, 10), ReduceOp::Sum).expect("both");
                    return;
                }
                let mut work = comm.all_reduce_async(data(0, 10), ReduceOp::Sum);
                assert!(poll_times(&mut work, 2500).is_none(), "rank 1 has not come");
                let woken = Arc::new(Woken::default());
                let waker = Waker::from(woken.clone());
                assert!(Pin::new(&mut work).poll(&mut Context::from_waker(&waker)).is_pending());
                let before = woken.0.load(Ordering::SeqCst);
                let deadline = Instant::now() + Duration::from_secs(10);
                while woken.0.load(Ordering::SeqCst) == before {
                    assert!(Instant::now() < deadline, "woken when rank 1 comes");
                    sleep(Duration::from_millis(2));
                }
                assert_eq!(woken.0.load(Ordering::SeqCst), before + 1);
                let Poll::Ready(result) = Pin::new(&mut work).poll(&mut Context::from_waker(&waker)) else {
                    panic!("woken because it is ready")
                };
                assert_eq!(result.expect("both"), sum(2, 10));
            })
        });
    }
}

#[test]
fn a_scope_waits_for_its_operations_when_its_closure_panics() {
    within(20, || {
        on_all(world(2), |comm| {
            let mut buffer = data(comm.rank(), 200_000);
            if comm.rank() == 1 {
                sleep(Duration::from_millis(300));
                comm.all_reduce(&mut buffer, ReduceOp::Sum).expect("both");
                return;
            }
            let scope = std::panic::AssertUnwindSafe(|| {
                comm.scope(|s| {
                    s.all_reduce(&mut buffer, ReduceOp::Sum);
                    panic!("on purpose");
                })
            });
            let started = Instant::now();
            assert!(std::panic::catch_unwind(scope).is_err());
            assert!(started.elapsed() >= Duration::from_millis(200), "left before the operation had ended");
            assert!(buffer == sum(2, 200_000), "the operation ended in the scope");
        })
    });
}

#[test]
fn a_scope_runs_operations_side_by_side_and_reports_the_first_error() {
    within(20, || {
        on_all(world(3), |comm| {
            let (rank, count) = (comm.rank(), 40_000);
            let (mut a, mut b, mut all) = (data(rank, count), data(rank, 7), vec![0; 3 * 7]);
            let input = data(rank, 7);
            let two = comm.scope(|s| {
                let first = s.all_reduce(&mut a, ReduceOp::Sum);
                s.through(&comm.priority(5), |urgent| {
                    urgent.all_reduce(&mut b, ReduceOp::Max);
                });
                s.all_gather(&input, &mut all);
                first.wait().expect("within the scope");
                2
            });
            assert_eq!(two.expect("all ranks came"), 2);
            assert!(a == sum(3, count));
            assert_eq!(b, data(2, 7).iter().zip(data(1, 7)).map(|(x, y)| *x.max(&y)).collect::<Vec<_>>());
            assert_eq!(all, (0..3).flat_map(|r| data(r, 7)).collect::<Vec<_>>());
            let mut short = [0_i64; 2];
            let refused = comm.scope(|s| {
                s.all_gather(&input, &mut short);
            });
            assert!(refused.is_err());
        })
    });
}

#[test]
fn operations_of_two_communicators_in_one_scope() {
    within(20, || {
        on_all(world(2), |comm| {
            let other = comm.duplicate().expect("a duplicate");
            let (mut a, mut b) = (data(comm.rank(), 50_000), data(comm.rank(), 50_000));
            let outcome = comm.scope(|s| {
                s.through(&other, |s| {
                    s.all_reduce(&mut a, ReduceOp::Sum);
                });
                s.all_reduce(&mut b, ReduceOp::Sum);
            });
            outcome.expect("both");
            assert!(a == sum(2, 50_000) && b == a);
        })
    });
}

#[test]
fn threads_share_a_communicator() {
    for over in OVER {
        within(60, move || {
            on_all(over.world(3), |comm| {
                let rank = comm.rank();
                // The submissions are in order; who waits for which, when and how, is free.
                let works: Vec<_> =
                    (0..48).map(|i| comm.all_reduce_async(data(rank, 1 + i * 97), ReduceOp::Sum)).collect();
                let mut by_thread: Vec<Vec<_>> = (0..4).map(|_| Vec::new()).collect();
                for (i, work) in works.into_iter().enumerate() {
                    by_thread[(i * 7 + rank) % 4].push((i, work));
                }
                thread::scope(|s| {
                    for (t, mut mine) in by_thread.into_iter().enumerate() {
                        s.spawn(move || {
                            if (t + rank) % 2 == 0 {
                                mine.reverse();
                            }
                            for (i, work) in mine {
                                let result = if i % 3 == 0 { block_on(work) } else { work.wait() };
                                assert!(
                                    result.expect("all ranks came") == sum(3, 1 + i * 97),
                                    "operation {i}"
                                );
                            }
                        });
                    }
                });
                comm.close().expect("closes well");
            })
        });
    }
}

#[test]
fn threads_with_a_duplicate_each() {
    within(60, || {
        on_all(world(2), |comm| {
            let copies: Vec<_> = (0..3).map(|_| comm.duplicate().expect("a duplicate")).collect();
            thread::scope(|s| {
                for (t, copy) in copies.into_iter().enumerate() {
                    s.spawn(move || {
                        for i in 0..60 {
                            let mut buffer = data(copy.rank(), 1 + i * 11 + t);
                            copy.all_reduce(&mut buffer, ReduceOp::Sum).expect("both");
                            assert!(buffer == sum(2, 1 + i * 11 + t));
                        }
                    });
                }
            });
        })
    });
}

#[test]
fn threads_send_messages_while_others_wait_for_collectives() {
    for over in OVER {
        within(60, move || {
            on_all(over.world(2), |comm| {
                let (rank, peer) = (comm.rank(), 1 - comm.rank());
                thread::scope(|s| {
                    for tag in 0..3 {
                        let comm = &comm;
                        s.spawn(move || {
                            for i in 0..40_usize {
                                let (sent, mut got) = (data(rank, i * 50 + 1), vec![0; i * 50 + 1]);
                                let send = comm.send_async(sent, peer, tag);
                                assert_eq!(comm.recv(&mut got, peer, tag).expect("both"), i * 50 + 1);
                                send.wait().expect("both");
                                assert_eq!(got, data(peer, i * 50 + 1));
                            }
                        });
                    }
                    for i in 1..60 {
                        let mut buffer = data(rank, i * 13);
                        comm.all_reduce(&mut buffer, ReduceOp::Sum).expect("both");
                        assert_eq!(buffer, sum(2, i * 13));
                    }
                });
                comm.close().expect("closes well");
            })
        });
    }
}

#[test]
fn communication_proceeds_while_the_caller_computes() {
    for over in OVER {
        within(60, move || {
            on_all(over.world(2), |comm| {
                let works: Vec<_> =
                    (0..3).map(|_| comm.all_reduce_async(vec![1_i64; 1 << 20], ReduceOp::Sum)).collect();
                let (deadline, mut x) = (Instant::now() + Duration::from_secs(30), 1.0_f64);
                // Neither polls nor waits: only the background driver can move anything.
                while !works.iter().all(|work| work.is_done()) {
                    (0..10_000).for_each(|_| x = (x * 1.000_001).sin() + 1.0);
                    assert!(Instant::now() < deadline, "the driver moves nothing ({x})");
                }
                for work in works {
                    assert!(work.wait().expect("both").iter().all(|x| *x == 2));
                }
            })
        });
    }
}

#[test]
fn numbers_wrap() {
    within(30, || {
        for first in [(1 << 32) - 13, u64::from(u32::MAX) * 3] {
            let comms = Communicator::in_process_from(3, &Default::default(), first).expect("a small world");
            on_all(comms, |comm| {
                let rank = comm.rank();
                for i in 0..20 {
                    let mut buffer = data(rank, i * 300);
                    comm.all_reduce(&mut buffer, ReduceOp::Sum).expect("all ranks came");
                    assert!(buffer == sum(3, i * 300));
                }
                let works: Vec<_> =
                    (0..20).map(|i| comm.all_reduce_async(data(rank, i * 300), ReduceOp::Sum)).collect();
                for (i, work) in works.into_iter().enumerate() {
                    assert!(work.wait().expect("all ranks came") == sum(3, i * 300));
                }
                comm.close().expect("closes well");
            });
        }
    });
}

#[test]
fn many_operations_in_flight_with_the_least_staging() {
    within(60, || {
        let settings = [("HCOMM_BUFFER_SIZE", "64KiB"), ("HCOMM_DEPTH", "2"), ("HCOMM_TILE_BYTES", "128")];
        on_all(world_with(4, &settings), |comm| {
            let rank = comm.rank();
            let start = |i: usize| {
                let priority = ((i * 7 + rank * 3) % 5) as i32;
                comm.priority(priority).all_reduce_async(data(rank, i * 40), ReduceOp::Sum)
            };
            let works: Vec<_> = (0..40).map(start).collect();
            for (i, work) in works.into_iter().enumerate().rev() {
                assert!(work.wait().expect("all ranks came") == sum(4, i * 40), "operation {i}");
            }
        })
    });
}

#[test]
fn a_work_dropped_after_its_communicator_failed_frees_its_buffer() {
    within(20, || {
        let alive = Arc::new(AtomicUsize::new(0));
        on_all(world(2), |comm| {
            if comm.rank() == 1 {
                return;
            }
            let work = comm.all_reduce_async(Counted::new(data(0, 100_000), &alive), ReduceOp::Sum);
            let failed = work.wait().err().expect("rank 1 left");
            assert!(matches!(failed.error, hcomm_engine::Error::Failed(Failure::PeerLeft { rank: 1, .. })));
            drop(failed);
            drop(comm.all_reduce_async(Counted::new(data(0, 100_000), &alive), ReduceOp::Sum));
        });
        assert_eq!(alive.load(Ordering::SeqCst), 0);
    });
}

#[test]
fn operations_in_flight_together_do_not_overlap_on_a_thread_of_the_trace() {
    within(30, || {
        on_all(world_with(2, &[("HCOMM_TRACE_EVENTS", "10000")]), |comm| {
            let works: Vec<_> =
                (1..9).map(|i| comm.all_reduce_async(data(comm.rank(), i * 5000), ReduceOp::Sum)).collect();
            works.into_iter().for_each(|work| drop(work.wait().expect("both came")));
            let trace = comm.take_profile().trace_events(comm.rank());
            let nanos = |time: &serde_json::Value| (time.as_f64().expect("a time") * 1000.0).round() as u64;
            let mut slices: Vec<_> = trace
                .iter()
                .filter(|event| event["ph"] == "X")
                .map(|event| (event["tid"].as_u64(), nanos(&event["ts"]), nanos(&event["dur"])))
                .collect();
            slices.sort_unstable();
            for pair in slices.windows(2) {
                let ((tid, from, lasts), (next_tid, next, _)) = (pair[0], pair[1]);
                assert!(tid != next_tid || from + lasts <= next, "{pair:?}");
            }
            let operations = trace.iter().filter(|event| event["cat"] == "operation");
            let rows: std::collections::BTreeSet<_> = operations.map(|event| event["tid"].as_u64()).collect();
            assert!(rows.len() > 1, "eight were in flight together");
        });
    });
}
