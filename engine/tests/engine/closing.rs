//! What closing finds out, and what it tells: last calls that only some ranks made, and programs that end by an error.

use std::thread::sleep;
use std::time::{Duration, Instant};

use hcomm_engine::{Communicator, Error, Failure};
use hcomm_ops::ReduceOp;

use crate::common::{OVER, on_all, within};

/// A call in which rank 1 only sends, so that it ends there whatever rank 0 does.
fn reduce_to_0(comm: &Communicator) -> Result<(), Error> {
    comm.reduce(&mut [1_i64; 3], ReduceOp::Sum, 0)
}

#[test]
fn a_last_call_that_only_one_rank_made_is_told_at_close() {
    for over in OVER {
        for delays in [[0, 0], [0, 150], [150, 0]] {
            let texts = within(20, move || {
                on_all(over.world(2), |comm| {
                    comm.barrier().expect("both");
                    if comm.rank() == 1 {
                        reduce_to_0(&comm).expect("it only sends");
                    }
                    sleep(Duration::from_millis(delays[comm.rank()]));
                    comm.close().err().map(|error| error.to_string())
                })
            });
            assert!(texts.iter().any(Option::is_some), "{over:?} {delays:?}: nobody noticed");
            for text in texts.into_iter().flatten() {
                for word in ["rank 0", "rank 1", "reduce(i64, sum, 3, root 0)", "after 1 calls"] {
                    assert!(text.contains(word), "{over:?} {delays:?}: '{text}' lacks '{word}'");
                }
            }
        }
    }
}

#[test]
fn refused_calls_at_the_end_are_nobodys_affair() {
    for over in OVER {
        within(20, move || {
            on_all(over.world(2), |comm| {
                comm.barrier().expect("both");
                if comm.rank() == 1 {
                    comm.all_gather(&[1_i64; 4], &mut [0; 5]).expect_err("5 is not 8");
                }
                comm.close().expect("all calls that were made are the same");
            })
        });
    }
}

#[test]
fn ranks_that_made_the_same_calls_close_well_in_any_order() {
    for over in OVER {
        for round in 0..5 {
            within(20, move || {
                on_all(over.world(3), |comm| {
                    reduce_to_0(&comm).expect("all");
                    sleep(Duration::from_millis(((comm.rank() + round) % 3 * 10) as u64));
                    comm.close().expect("closes well");
                })
            });
        }
    }
}

#[test]
fn who_needs_a_rank_that_ended_by_an_error_reads_the_error() {
    for over in OVER {
        let texts = within(20, move || {
            on_all(over.world(3), |comm| {
                comm.barrier().expect("all");
                if comm.rank() == 1 {
                    comm.close_because("ValueError: no such file").expect("nothing went wrong before");
                    return None;
                }
                let error = comm.all_reduce(&mut [1_i64; 5], ReduceOp::Sum).expect_err("rank 1 has left");
                Some(error.to_string())
            })
        });
        for text in texts.into_iter().flatten() {
            assert!(text.contains("rank 1") && text.contains("ValueError: no such file"), "{over:?}: {text}");
        }
    }
}

#[test]
fn what_is_in_flight_as_a_program_ends_by_an_error_holds_it_up_for_a_moment_only() {
    for over in OVER {
        let texts = within(30, move || {
            on_all(over.world(2), |comm| {
                if comm.rank() == 0 {
                    let error = comm.recv(&mut [0_i64], 1, 7).expect_err("rank 1 never sends").to_string();
                    sleep(Duration::from_millis(2500));
                    return error;
                }
                let work = comm.all_reduce_async(vec![1_i64; 100_000], ReduceOp::Sum);
                let started = Instant::now();
                let _ = comm.close_because("a bug");
                assert!(started.elapsed() < Duration::from_secs(8), "{:?}", started.elapsed());
                let error = work.wait().expect_err("rank 0 made no such call").error;
                assert!(matches!(error, Error::Failed(Failure::Aborted { rank: 1, .. })), "{error}");
                error.to_string()
            })
        });
        assert!(
            texts.iter().all(|text| text.contains("ends by an error (a bug)")
                || text.contains("ending by an error (a bug)")),
            "{texts:?}"
        );
    }
}
