//! Memory that is lent to a peer which does not go on: it comes back with the deadline, or the abort, whatever the peer waits for.

use std::sync::Mutex;
use std::sync::mpsc::channel;
use std::thread::sleep;
use std::time::{Duration, Instant};

use hcomm_engine::{Communicator, Error, Failure};
use hcomm_ops::ReduceOp;

use crate::common::{Over, on_all, within};

/// Elements of a block: long enough to be lent, even if the caches hold it.
const COUNT: usize = 1 << 21;

/// Rank 1 reads what rank 0 lends when rank 2 comes, which it does when rank 0 has ended.
fn lend_to_one_that_waits(over: Over, end: impl Fn(&Communicator) -> Communicator + Sync + Send + 'static) {
    within(60, move || {
        let (ended, has_ended) = channel();
        let has_ended = Mutex::new(has_ended);
        on_all(over.world(3), |comm| {
            let rank = comm.rank();
            if rank == 2 {
                let limit = Duration::from_secs(30);
                return has_ended
                    .lock()
                    .expect("not poisoned")
                    .recv_timeout(limit)
                    .expect("rank 0 ends by itself");
            }
            let mut input = comm.allocate::<i64>(3 * COUNT).expect("there is room");
            let mut output = comm.allocate::<i64>(COUNT).expect("there is room");
            input.fill(1);
            // Rank 0 has lent its memory before rank 1 looks.
            sleep(Duration::from_millis(200 * rank as u64));
            let handle = comm.algorithm("direct").expect("it is there");
            let handle = if rank == 0 { end(&handle) } else { handle };
            let outcome = handle.reduce_scatter(&input, &mut output, ReduceOp::Sum);
            assert!(outcome.is_err(), "rank 2 takes no part");
            // The memory is this rank's again.
            input.fill(2);
            if rank == 0 {
                let is_own = matches!(
                    &outcome,
                    Err(Error::Failed(Failure::Deadline { .. } | Failure::Aborted { rank: 0, .. }))
                );
                assert!(is_own, "{outcome:?}");
                ended.send(()).expect("rank 2 waits");
            }
        });
    });
}

#[test]
fn a_deadline_does_not_wait_for_a_peer_that_waits() {
    for over in [Over::Inproc, Over::Shm] {
        lend_to_one_that_waits(over, |comm| comm.deadline(Duration::from_secs(1)));
    }
}

#[test]
fn an_abort_does_not_wait_for_a_peer_that_waits() {
    for over in [Over::Inproc, Over::Shm] {
        lend_to_one_that_waits(over, |comm| {
            let aborting = comm.clone();
            std::thread::spawn(move || {
                sleep(Duration::from_secs(1));
                let from = Instant::now();
                aborting.abort("a test");
                assert!(from.elapsed() < Duration::from_secs(10));
            });
            comm.clone()
        });
    }
}
