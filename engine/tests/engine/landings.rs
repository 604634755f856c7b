//! Buffers with something left to do when the operation has ended well: a staging area that is copied back.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use hcomm_engine::bindings::{Apart, InPlace};
use hcomm_engine::{Communicator, Error, Failure};
use hcomm_ops::buffer::{Claim, Landing, Shared};
use hcomm_ops::{DType, RawSpan, ReduceOp, StableBuffer};

use crate::common::{OVER, data, on_all, sum, within, world};

/// Elements that a call sees in a staging area, and that get there only by landing. It counts landings, and itself while it lives.
struct Staged<B> {
    user: B,
    staging: Vec<i64>,
    landed: Arc<AtomicUsize>,
}

/// Where the landings of a test are counted.
fn counter() -> Arc<AtomicUsize> {
    Arc::default()
}

impl<B: StableBuffer> Staged<B> {
    fn new(mut user: B, landed: &Arc<AtomicUsize>) -> Self {
        let mut staging = vec![0; user.span().len() / 8];
        staging.span().copy_from(user.span());
        Staged { user, staging, landed: landed.clone() }
    }
}

// SAFETY: the vector's heap allocation stays where it is when the value moves; the landing uses that and the bytes of `user`,
// which is stable too.
unsafe impl<B: StableBuffer> StableBuffer for Staged<B> {
    fn dtype(&self) -> DType {
        DType::I64
    }

    fn span(&mut self) -> RawSpan {
        self.staging.span()
    }

    fn landing(&mut self) -> Option<Landing> {
        let (from, to, landed) = (self.staging.span(), self.user.span(), self.landed.clone());
        Some(Box::new(move || {
            to.copy_from(from);
            landed.fetch_add(1, Ordering::SeqCst);
        }))
    }

    fn claim(&self) -> Option<Claim> {
        self.user.claim()
    }
}

#[test]
fn every_call_lands_however_often_it_is_repeated() {
    for over in OVER {
        within(30, move || {
            on_all(over.world(3), |comm| {
                let (rank, landed) = (comm.rank(), counter());
                for round in 0..20 {
                    let count = 1 + 5_000 * (round % 2);
                    let plain = comm.all_reduce_async(data(rank, count), ReduceOp::Sum).wait();
                    assert!(plain.expect("all ranks came") == sum(3, count));
                    let staged = Staged::new(data(rank, count), &landed);
                    let back = comm.all_reduce_async(staged, ReduceOp::Sum).wait().expect("all ranks came");
                    assert!(back.user == sum(3, count), "round {round}");
                    assert_eq!(landed.load(Ordering::SeqCst), round + 1);
                }
            })
        });
    }
}

#[test]
fn outputs_land_and_inputs_do_not() {
    within(20, || {
        on_all(world(3), |comm| {
            let (rank, inputs, outputs) = (comm.rank(), counter(), counter());
            let input = Staged::new(data(rank, 40), &inputs);
            let output = Staged::new(vec![-1; 40], &outputs);
            let (input, output) =
                comm.all_reduce_into_async(input, output, ReduceOp::Sum).wait().expect("all");
            assert_eq!(input.user, data(rank, 40));
            assert_eq!(output.user, sum(3, 40));
            // What is only read at the other ranks stays as it is there.
            let reduced = comm.reduce_async(Staged::new(data(rank, 40), &outputs), ReduceOp::Sum, 1);
            let expected = if rank == 1 { sum(3, 40) } else { data(rank, 40) };
            assert_eq!(reduced.wait().expect("all").user, expected);
            let copied = comm.broadcast_async(Staged::new(data(rank, 7), &outputs), 2).wait().expect("all");
            assert_eq!(copied.user, data(2, 7));
            let at_root = usize::from(rank == 1);
            assert_eq!((inputs.load(Ordering::SeqCst), outputs.load(Ordering::SeqCst)), (0, 2 + at_root));
        })
    });
}

#[test]
fn joined_buffers_and_submitted_plans_land_all() {
    within(20, || {
        on_all(world(2), |comm| {
            let (rank, landed) = (comm.rank(), counter());
            let staged = |count| Staged::new(data(rank, count), &landed);
            let many = comm.all_reduce_many_async(vec![staged(3), staged(1000), staged(0)], ReduceOp::Sum);
            for (buffer, count) in many.wait().expect("both").into_iter().zip([3, 1000, 0]) {
                assert_eq!(buffer.user, sum(2, count));
            }
            assert_eq!(landed.load(Ordering::SeqCst), 3);
            let request = hcomm_planner::Request::new(
                hcomm_planner::Collective::AllReduce,
                DType::I64,
                ReduceOp::Sum,
                500,
            );
            let plan = comm.plan(&request).expect("a plan");
            let work = comm.submit(&plan, ReduceOp::Sum, InPlace(staged(500))).expect("it fits");
            assert_eq!(work.wait().expect("both").user, sum(2, 500));
            let apart = Apart(data(rank, 500), staged(500));
            let work = comm.submit(&plan, ReduceOp::Sum, apart).expect("it fits");
            assert_eq!(work.wait().expect("both").1.user, sum(2, 500));
            assert_eq!(landed.load(Ordering::SeqCst), 5);
        })
    });
}

#[test]
fn received_messages_land() {
    within(20, || {
        on_all(world(2), |comm| {
            for count in [0, 5, 400_000] {
                if comm.rank() == 0 {
                    comm.send(&data(0, count), 1, 4).expect("received");
                    continue;
                }
                let landed = counter();
                let staged = Staged::new(vec![-1; count + 1], &landed);
                let back = comm.recv_async(staged, 0, 4).wait().expect("sent");
                assert!(back.user[..count] == data(0, count) && back.user[count] == -1);
                assert_eq!(landed.load(Ordering::SeqCst), 1);
            }
            let landed = counter();
            let staged = Staged::new(vec![3_i64], &landed);
            match comm.rank() {
                0 => drop(comm.send_async(staged, 1, 5).wait().expect("sent")),
                _ => drop(comm.recv_async(vec![0_i64], 0, 5).wait().expect("sent")),
            }
            assert_eq!(landed.load(Ordering::SeqCst), 0, "what is sent is not written");
        })
    });
}

#[test]
fn it_has_landed_before_anybody_is_told_even_where_the_work_was_dropped() {
    within(20, || {
        on_all(world(2), |comm| {
            let (rank, landed) = (comm.rank(), counter());
            if rank == 1 {
                sleep(Duration::from_millis(50));
            }
            let user = Shared::new(data(rank, 60_000));
            let work = comm.all_reduce_async(Staged::new(user.clone(), &landed), ReduceOp::Sum);
            let (told, heard) = std::sync::mpsc::channel();
            let seen = landed.clone();
            work.notify(move || told.send(seen.load(Ordering::SeqCst)).expect("awaited"));
            drop(work);
            assert_eq!(heard.recv_timeout(Duration::from_secs(10)), Ok(1));
            assert_eq!(user.with(|user| user.to_vec()), Some(sum(2, 60_000)));
            comm.barrier().expect("both");
        })
    });
}

#[test]
fn shared_memory_is_claimed_until_it_has_landed() {
    within(20, || {
        on_all(world(2), |comm| {
            let (rank, landed) = (comm.rank(), counter());
            let user = Shared::new(data(rank, 3000));
            // Whoever comes after the first finds the memory free, and what has landed in it.
            let first = comm.all_reduce_async(Staged::new(user.clone(), &landed), ReduceOp::Sum);
            let second = comm.after(&[&first]).all_reduce_async(user.clone(), ReduceOp::Max);
            let seen = Arc::new(std::sync::Mutex::new(None));
            let (note, reader) = (seen.clone(), user.clone());
            let third = comm.after(&[&second]).local(move || {
                *note.lock().expect("not poisoned") = reader.with(|user| user.to_vec());
            });
            third.wait().expect("both came");
            assert_eq!(seen.lock().expect("not poisoned").take(), Some(sum(2, 3000)));
            first.wait().expect("both came");
            second.wait().expect("both came");
        })
    });
}

#[test]
fn what_fails_or_is_refused_does_not_land() {
    within(20, || {
        on_all(world(2), |comm| {
            let landed = counter();
            if comm.rank() == 1 {
                return;
            }
            let refused = comm.broadcast_async(Staged::new(data(0, 10), &landed), 9).wait();
            let refused = refused.map(drop).expect_err("there is no rank 9");
            assert!(matches!(refused.error, Error::Refused(_)));
            drop(refused);
            let work = comm.all_reduce_async(Staged::new(data(0, 1000), &landed), ReduceOp::Sum);
            let failed = work.wait().map(drop).expect_err("rank 1 left");
            assert!(matches!(failed.error, Error::Failed(_)));
            assert!(failed.buffer.user == data(0, 1000), "the user's memory is as it was");
            let after = comm.all_reduce_async(Staged::new(data(0, 1000), &landed), ReduceOp::Sum);
            drop(after.wait().map(drop).expect_err("the communicator has failed"));
            let received = comm.recv_async(Staged::new(data(0, 10), &landed), 1, 0).wait();
            drop(received.map(drop).expect_err("the communicator has failed"));
            assert_eq!(landed.load(Ordering::SeqCst), 0);
            assert_eq!(Arc::strong_count(&landed), 2, "what was to land is gone; one buffer is left");
            drop(failed);
        })
    });
}

/// A buffer whose landing panics.
struct Crashing(Vec<i64>);

// SAFETY: the vector's heap allocation stays where it is when the value moves; the landing touches nothing.
unsafe impl StableBuffer for Crashing {
    fn dtype(&self) -> DType {
        DType::I64
    }

    fn span(&mut self) -> RawSpan {
        self.0.span()
    }

    fn landing(&mut self) -> Option<Landing> {
        Some(Box::new(|| panic!("a test's own")))
    }
}

#[test]
fn a_landing_that_panics_fails_its_own_operation_only() {
    within(20, || {
        on_all(world(2), |comm| {
            let rank = comm.rank();
            let outcome = comm.all_reduce_async(Crashing(data(rank, 100)), ReduceOp::Sum).wait();
            let error = outcome.map(drop).expect_err("it panicked").error;
            assert!(
                matches!(&error, Error::Failed(Failure::Aborted { rank: at, .. }) if *at == rank),
                "{error}"
            );
            assert!(error.to_string().contains("landing"), "{error}");
            let mut next = data(rank, 100);
            comm.all_reduce(&mut next, ReduceOp::Sum).expect("the communicator goes on");
            assert_eq!(next, sum(2, 100));
            comm.close().expect("closes well");
        })
    });
}

#[test]
fn a_world_of_one_lands_too() {
    let (comm, landed) = (Communicator::alone(), counter());
    let until = Instant::now() + Duration::from_secs(10);
    for round in 1..4 {
        let work = comm.all_reduce_async(Staged::new(vec![5_i64, 6], &landed), ReduceOp::Sum);
        assert_eq!(work.wait().expect("alone").user, [5, 6]);
        assert_eq!(landed.load(Ordering::SeqCst), round);
        assert!(Instant::now() < until);
    }
}
