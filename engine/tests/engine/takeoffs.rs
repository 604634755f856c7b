//! What is done before an operation begins, and messages that come after other operations.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use hcomm_engine::{Error, Failure};
use hcomm_ops::buffer::{Claim, Narrowed, Shared, Takeoff, Widened};
use hcomm_ops::{DType, RawSpan, ReduceOp, StableBuffer};

use crate::common::{OVER, data, on_all, sum, within, world};

/// A buffer that counts what takes off.
struct Counted(Shared<i64>, Arc<AtomicUsize>);

// SAFETY: as the buffer that it has.
unsafe impl StableBuffer for Counted {
    fn dtype(&self) -> DType {
        DType::I64
    }

    fn span(&mut self) -> RawSpan {
        self.0.span()
    }

    fn takeoff(&mut self) -> Option<Takeoff> {
        let count = self.1.clone();
        Some(Box::new(move || {
            count.fetch_add(1, Ordering::SeqCst);
        }))
    }

    fn claim(&self) -> Option<Claim> {
        self.0.claim()
    }
}

#[test]
fn every_call_takes_off_once_however_often_it_is_repeated() {
    within(30, || {
        on_all(world(2), |comm| {
            let count = Arc::new(AtomicUsize::new(0));
            for round in 1..20 {
                let shared = Shared::new(data(comm.rank(), 100));
                let buffer = Counted(shared.clone(), count.clone());
                drop(comm.all_reduce_async(buffer, ReduceOp::Sum).wait().expect("all ranks came"));
                assert_eq!(count.load(Ordering::SeqCst), round);
                assert_eq!(shared.with(|elements| elements.to_vec()), Some(sum(2, 100)));
            }
        })
    });
}

#[test]
fn what_comes_after_an_operation_reads_what_that_has_left() {
    for over in OVER {
        within(30, move || {
            on_all(over.world(2), |comm| {
                let shared = Shared::new(vec![1.5_f32; 1000]);
                let first = comm.all_reduce_async(shared.clone(), ReduceOp::Sum);
                let narrow = Narrowed::new(shared.clone(), DType::BF16).expect("f32");
                let second = comm.after(&[&first]).all_reduce_async(narrow, ReduceOp::Sum);
                drop(second.wait().expect("all ranks came"));
                drop(first.wait().expect("all ranks came"));
                assert_eq!(shared.with(|elements| elements.to_vec()), Some(vec![6.0; 1000]));
            })
        });
    }
}

#[test]
fn the_average_of_widened_integers_does_not_wrap() {
    within(30, || {
        on_all(world(3), |comm| {
            let given: Vec<i8> = vec![100, -128, [1, 2, 2][comm.rank()]];
            let wide = Widened::new(given).expect("integers of 8 bits");
            let found = comm.all_reduce_async(wide, ReduceOp::Average).wait().expect("all ranks came");
            assert_eq!(found.into_inner(), [100, -128, 1]);
        })
    });
}

#[test]
fn messages_come_after_operations_and_keep_their_order() {
    for over in OVER {
        within(30, move || {
            on_all(over.world(2), |comm| {
                let (peer, long) = (1 - comm.rank(), 100_000);
                if comm.rank() == 0 {
                    let (relayed, other) = (Shared::new(vec![0_i64; long]), data(7, 50));
                    let received = comm.recv_async(relayed.clone(), peer, 1);
                    let sent = comm.after(&[&received]).send_async(relayed.clone(), peer, 2);
                    // Of the same tag: it stays behind, though it comes after nothing.
                    let behind = comm.send_async(other, peer, 2);
                    comm.send(&[1_i64], peer, 3).expect("of another tag it does not");
                    drop(received.wait().expect("it is sent"));
                    drop(sent.wait().expect("it is received"));
                    drop(behind.wait().expect("it is received"));
                } else {
                    let mut go = [0_i64];
                    comm.recv(&mut go, peer, 3).expect("it is sent");
                    comm.send(&data(1, long), peer, 1).expect("it is received");
                    let (mut first, mut second) = (vec![0_i64; long], vec![0_i64; 50]);
                    comm.recv(&mut first, peer, 2).expect("it is sent");
                    comm.recv(&mut second, peer, 2).expect("it is sent");
                    assert!(first == data(1, long) && second == data(7, 50));
                }
            })
        });
    }
}

#[test]
fn receives_into_one_buffer_are_taken_in_order() {
    within(30, || {
        on_all(world(2), |comm| {
            let count = 20_000;
            if comm.rank() == 0 {
                (0..5).for_each(|at| comm.send(&data(at, count), 1, at as u32 % 2).expect("received"));
                return;
            }
            let shared = Shared::new(vec![0_i64; count]);
            let mut seen = Vec::new();
            let mut last: Option<hcomm_engine::Work<_>> = None;
            for at in 0..5 {
                let handle = last.as_ref().map_or(comm.clone(), |last| comm.after(&[last]));
                let work = handle.recv_async(shared.clone(), 0, at % 2);
                if let Some(before) = last.replace(work) {
                    seen.push(before);
                }
            }
            drop(last.expect("five were posted").wait().expect("all are sent"));
            assert!(seen.iter().all(|work| work.is_done() && work.error().is_none()));
            assert!(shared.with(|elements| elements == data(4, count)) == Some(true));
        })
    });
}

#[test]
fn a_message_that_waits_for_too_long_or_for_what_fails_says_so() {
    within(30, || {
        on_all(world(2), |comm| {
            if comm.rank() == 0 {
                let never = comm.deadline(Duration::from_millis(300)).recv_async(vec![0_i64; 3], 1, 1);
                let short = comm.deadline(Duration::from_millis(50)).after(&[&never]);
                let late =
                    short.send_async(vec![1_i64], 1, 2).wait().expect_err("it waits for too long").error;
                let Error::Failed(Failure::Deadline { waiting, .. }) = &late else { panic!("{late}") };
                assert!(waiting.contains("comes after"), "{late}");
                let after = comm.after(&[&never]).recv_async(vec![0_i64], 1, 3);
                let failed = after.wait().expect_err("what it comes after fails").error;
                assert!(matches!(failed, Error::Failed(Failure::Predecessor { .. })), "{failed}");
            }
            comm.barrier().expect("messages break nothing");
        })
    });
}
