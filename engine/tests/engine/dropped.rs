//! Handles that are dropped, and communicators that are closed, where nothing can be waited for: in code that runs as an operation ends,
//! and in async tasks. What peers need is sent all the same.

use std::future::Future;
use std::sync::mpsc::channel;
use std::thread::sleep;
use std::time::{Duration, Instant};

use hcomm_engine::{Communicator, Error, Failure};
use hcomm_ops::ReduceOp;
use tokio::runtime::Builder;

use crate::common::{OVER, data, on_all, sum, within};

/// Much longer than a drop may take, and much shorter than the close deadline.
const SOON: Duration = Duration::from_secs(3);

/// How late the peer comes.
const LATE: Duration = Duration::from_millis(400);

const COUNT: usize = 100_000;

/// A runtime of one thread, this one.
fn block_on<R>(future: impl Future<Output = R>) -> R {
    Builder::new_current_thread().enable_time().build().expect("a small runtime").block_on(future)
}

/// Rank 0 has a second call in flight as the first one ends, where it does `end` with its last handle; rank 1 comes late to the second.
fn ends_where_an_operation_ends(is_awaited: bool, end: impl Fn(Communicator) + Copy + Send + Sync + 'static) {
    for over in OVER {
        within(30, move || {
            on_all(over.world(2), |comm| {
                let rank = comm.rank();
                if rank == 1 {
                    for _ in 0..2 {
                        sleep(LATE);
                        let mut buffer = data(rank, COUNT);
                        comm.all_reduce(&mut buffer, ReduceOp::Sum).expect("rank 0 has made this call");
                        assert!(buffer == sum(2, COUNT));
                    }
                    return comm.close().expect("rank 0 closed well");
                }
                let works = [(); 2].map(|()| comm.all_reduce_async(data(rank, COUNT), ReduceOp::Sum));
                let [first, second] = works;
                let (took, taken) = channel();
                first.notify(move || {
                    let began = Instant::now();
                    end(comm);
                    let _ = took.send(began.elapsed());
                });
                drop(second);
                if is_awaited {
                    assert!(first.wait().expect("rank 1 comes") == sum(2, COUNT));
                }
                let took = taken.recv_timeout(Duration::from_secs(20)).expect("the operation ends");
                assert!(took < SOON, "{over:?}: {took:?}");
            });
        });
    }
}

#[test]
fn the_last_handle_may_go_where_an_operation_ends() {
    for is_awaited in [true, false] {
        ends_where_an_operation_ends(is_awaited, drop);
    }
}

#[test]
fn a_close_where_an_operation_ends_waits_for_nothing() {
    for is_awaited in [true, false] {
        ends_where_an_operation_ends(is_awaited, |comm| comm.close().expect("it only begins"));
    }
}

#[test]
fn a_drop_in_an_async_task_leaves_the_thread_to_the_peer() {
    for over in OVER {
        within(30, move || {
            let comms = over.world(2);
            let mut tasks = comms.into_iter().map(|comm| async move {
                let rank = comm.rank();
                let work = comm.all_reduce_async(data(rank, COUNT), ReduceOp::Sum);
                if rank == 0 {
                    return drop(work);
                }
                assert!(work.await.expect("rank 0 has made this call") == sum(2, COUNT));
            });
            let (zero, one) = (tasks.next().expect("two"), tasks.next().expect("two"));
            let began = Instant::now();
            block_on(async { tokio::join!(zero, one) });
            assert!(began.elapsed() < SOON, "{over:?}: {:?}", began.elapsed());
        });
    }
}

#[test]
fn a_drop_of_what_no_peer_joins_holds_up_nobody() {
    for over in OVER {
        within(30, move || {
            let mut comms = over.world(2);
            let (one, zero) = (comms.pop().expect("two"), comms.pop().expect("two"));
            let began = Instant::now();
            drop(zero.all_reduce_async(data(0, COUNT), ReduceOp::Sum));
            drop(zero);
            assert!(began.elapsed() < SOON, "{over:?}: {:?}", began.elapsed());
            drop(one);
            assert!(began.elapsed() < SOON, "{over:?}: {:?}", began.elapsed());
        });
    }
}

#[test]
fn an_async_close_sees_everything_sent() {
    for over in OVER {
        within(30, move || {
            let mut tasks = over.world(2).into_iter().map(|comm| async move {
                let rank = comm.rank();
                if rank == 1 {
                    tokio::time::sleep(LATE).await;
                }
                let work = comm.all_reduce_async(data(rank, COUNT), ReduceOp::Sum);
                if rank == 1 {
                    assert!(work.await.expect("rank 0 has made this call") == sum(2, COUNT));
                    return comm.close_async().await;
                }
                let began = Instant::now();
                let closed = comm.close_async().await;
                assert!(began.elapsed() >= LATE / 2, "it waits for the call in flight");
                assert!(work.is_done(), "closed with a call in flight");
                assert!(work.await.expect("rank 1 came") == sum(2, COUNT));
                closed
            });
            let (zero, one) = (tasks.next().expect("two"), tasks.next().expect("two"));
            let (zero, one) = block_on(async { tokio::join!(zero, one) });
            zero.expect("closes well");
            one.expect("closes well");
        });
    }
}

#[test]
fn an_async_close_tells_the_first_failure_and_only_once() {
    within(30, || {
        on_all(OVER[0].world(2), |comm| {
            let mut buffer = data(comm.rank(), 10 + comm.rank());
            comm.all_reduce(&mut buffer, ReduceOp::Sum).expect_err("the lengths differ");
            let error = block_on(comm.close_async()).expect_err("it failed");
            assert!(matches!(error, Error::Failed(Failure::CallMismatch { .. })), "{error}");
            comm.close().expect("it has been told");
        });
    });
}

#[test]
fn an_async_close_goes_on_without_its_future() {
    for over in OVER {
        within(30, move || {
            on_all(over.world(2), |comm| {
                let rank = comm.rank();
                if rank == 1 {
                    sleep(LATE);
                }
                let work = comm.all_reduce_async(data(rank, COUNT), ReduceOp::Sum);
                if rank == 0 {
                    drop(comm.close_async());
                }
                assert!(work.wait().expect("both came") == sum(2, COUNT));
                comm.close().expect("closes well");
            });
        });
    }
}
