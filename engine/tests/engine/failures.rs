//! What goes wrong is said in time: refusals, deadlines, stalls, ranks that leave, aborts, and communicators that close with work in
//! flight.

use std::sync::Mutex;
use std::thread::sleep;
use std::time::{Duration, Instant};

use futures::executor::block_on;
use hcomm_engine::bindings::Apart;
use hcomm_engine::{Communicator, Error, Failure, Refused};
use hcomm_ops::ReduceOp;
use hcomm_ops::buffer::Shared;

use crate::common::{OVER, on_all, within, world, world_with};

fn failed(outcome: Result<(), Error>) -> Failure {
    match outcome {
        Err(Error::Failed(failure)) => failure,
        other => panic!("expected a failure, not {other:?}"),
    }
}

fn all_reduce(comm: &Communicator, count: usize) -> Result<(), Error> {
    comm.all_reduce(&mut vec![1_i64; count], ReduceOp::Sum)
}

/// A gather into an output of the wrong size.
fn bad_gather(comm: &Communicator) -> Result<(), Error> {
    comm.all_gather(&[1_i64; 4], &mut [0; 5])
}

#[test]
fn a_refused_call_fails_the_peers_with_its_reason() {
    for over in OVER {
        for (refused_after, others_after) in [(0, 100), (100, 0), (0, 0)] {
            let outcomes = within(10, move || {
                on_all(over.world(3), |comm| {
                    sleep(Duration::from_millis(if comm.rank() == 1 { refused_after } else { others_after }));
                    let first = if comm.rank() == 1 {
                        bad_gather(&comm)
                    } else {
                        comm.all_gather(&[1_i64; 4], &mut [0; 12])
                    };
                    (first, all_reduce(&comm, 4), comm.close())
                })
            });
            for (rank, (first, next, _)) in outcomes.into_iter().enumerate() {
                let text = first.as_ref().expect_err("rank 1's call was refused").to_string();
                match (rank, first) {
                    (1, Err(Error::Refused(Refused::BufferSize { elements: 5, expected: 12, .. }))) => {}
                    (0 | 2, Err(Error::Failed(Failure::PeerRefused { rank: 1, .. }))) => {
                        assert!(
                            text.contains("refused a call (all_gather: the output buffer has 5 el"),
                            "{text}"
                        );
                        assert!(text.contains("; all_gather(i64, 4)"), "{text}");
                    }
                    (0 | 2, Err(Error::Failed(Failure::Aborted { cause, .. }))) => {
                        assert!(
                            cause.contains("rank 1 refused") && cause.contains("has 5 elements"),
                            "{text}"
                        );
                    }
                    other => panic!("{other:?}"),
                }
                failed(next);
            }
        }
    }
}

#[test]
fn a_call_that_all_get_wrong_hides_no_refusal_before_it() {
    for (refused_after, others_after) in [(0, 100), (100, 0), (0, 0)] {
        let outcomes = within(10, move || {
            on_all(world(2), |comm| {
                sleep(Duration::from_millis(if comm.rank() == 1 { refused_after } else { others_after }));
                let first = if comm.rank() == 1 {
                    bad_gather(&comm)
                } else {
                    comm.all_gather(&[1_i64; 4], &mut [0; 8])
                };
                first.expect_err("rank 1's call was refused");
                for _ in 0..3 {
                    bad_gather(&comm).expect_err("all ranks get it wrong");
                }
                (all_reduce(&comm, 4), all_reduce(&comm, 4))
            })
        });
        for outcome in outcomes.into_iter().flat_map(|(next, after)| [next, after]) {
            failed(outcome);
        }
    }
}

#[test]
fn a_refused_future_fails_the_peers_too_and_gives_its_buffers_back() {
    let outcomes = within(10, || {
        on_all(world(2), |comm| {
            let output = vec![0_i64; if comm.rank() == 0 { 7 } else { 8 }];
            let failed = block_on(comm.all_gather_async(vec![1_i64; 4], output)).expect_err("7 is not 8");
            let (input, output) = failed.buffer;
            (failed.error.to_string(), input.len(), output.len())
        })
    });
    assert_eq!(
        outcomes[0],
        ("the output buffer has 7 elements of i64, but this call needs 8".to_owned(), 4, 7)
    );
    assert!(outcomes[1].0.starts_with("rank 0 refused "), "{}", outcomes[1].0);
}

#[test]
fn a_call_that_all_ranks_get_wrong_alike_harms_nothing() {
    within(10, || {
        on_all(world(3), |comm| {
            for _ in 0..20 {
                assert!(matches!(bad_gather(&comm), Err(Error::Refused(_))));
                all_reduce(&comm, 3).expect("the ranks are still in step");
            }
            comm.close().expect("closes well");
        })
    });
}

#[test]
fn what_comes_after_a_refused_call_fails() {
    within(10, || {
        on_all(world(2), |comm| {
            let refused = comm.all_reduce_into_async(vec![1_i64; 3], vec![0_i64; 4], ReduceOp::Sum);
            let next = comm.after(&[&refused]).all_reduce_async(vec![1_i64; 3], ReduceOp::Sum);
            let error = next.wait().expect_err("its predecessor never ran").error.to_string();
            assert!(error.contains("comes after has failed") || error.contains("aborted"), "{error}");
            refused.wait().expect_err("4 is not 3");
        })
    });
}

#[test]
fn a_deadline_says_what_was_waited_for() {
    for (own, setting) in [(Some(300), "10min"), (None, "300ms")] {
        let failures = within(10, move || {
            on_all(world_with(2, &[("HCOMM_DEADLINE", setting)]), |comm| {
                if comm.rank() == 1 {
                    sleep(Duration::from_millis(1500));
                    let late = all_reduce(&comm, 4).and_then(|()| all_reduce(&comm, 4));
                    return (failed(late), Duration::ZERO);
                }
                let started = Instant::now();
                let handle = own.map_or(comm.clone(), |ms| comm.deadline(Duration::from_millis(ms)));
                (failed(all_reduce(&handle, 4)), started.elapsed())
            })
        });
        let (Failure::Deadline { call, waiting, .. }, took) = &failures[0] else {
            panic!("{:?}", failures[0])
        };
        assert_eq!(call, "all_reduce(i64, sum, 4)");
        assert!(waiting.contains("waiting for rank 1"), "{waiting}");
        assert!(*took < Duration::from_secs(3), "{took:?}");
        let (Failure::Aborted { rank: 0, cause }, _) = &failures[1] else { panic!("{:?}", failures[1]) };
        assert!(cause.contains("did not finish within"), "{cause}");
    }
}

#[test]
fn a_late_deadline_tells_what_the_peer_is_doing() {
    for over in OVER {
        let text = within(10, move || {
            on_all(over.world(2), |comm| {
                all_reduce(&comm, 5).expect("both");
                if comm.rank() == 1 {
                    sleep(Duration::from_millis(1800));
                    return String::new();
                }
                failed(all_reduce(&comm.deadline(Duration::from_millis(1200)), 7)).to_string()
            })
        });
        assert!(
            text[0].contains("rank 1 (it has made 1 calls, the last was all_reduce(i64, sum, 5)"),
            "{}",
            text[0]
        );
    }
}

#[test]
fn operations_that_are_not_admitted_and_messages_have_deadlines_too() {
    within(20, || {
        on_all(world_with(2, &[("HCOMM_DEADLINE", "400ms")]), |comm| {
            if comm.rank() == 1 {
                sleep(Duration::from_millis(2500));
                return;
            }
            let lost = comm.recv_async(vec![0_i64; 3], 1, 9);
            let many: Vec<_> =
                (0..20).map(|_| comm.all_reduce_async(vec![1_i64; 2], ReduceOp::Sum)).collect();
            for work in many {
                let error = work.wait().expect_err("rank 1 never comes").error.to_string();
                assert!(error.contains("did not finish within"), "{error}");
            }
            let error = lost.wait().expect_err("rank 1 never sends").error.to_string();
            assert!(error.contains("did not finish within"), "{error}");
        })
    });
}

/// Keeps what is traced as warnings.
struct Warnings;

static WARNINGS: Mutex<Vec<String>> = Mutex::new(Vec::new());

impl tracing::Subscriber for Warnings {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        *metadata.level() == tracing::Level::WARN
    }

    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }

    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}

    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}

    fn event(&self, event: &tracing::Event<'_>) {
        struct Text(String);
        impl tracing::field::Visit for Text {
            fn record_debug(&mut self, field: &tracing::field::Field, value: &dyn std::fmt::Debug) {
                self.0 += &format!("{}={value:?} ", field.name());
            }
        }
        let mut text = Text(String::new());
        event.record(&mut text);
        WARNINGS.lock().unwrap().push(text.0);
    }

    fn enter(&self, _: &tracing::span::Id) {}

    fn exit(&self, _: &tracing::span::Id) {}
}

#[test]
fn a_stall_is_warned_of_once_with_the_ranks_that_have_not_arrived() {
    tracing::subscriber::set_global_default(Warnings).expect("the only one of this program");
    within(10, || {
        on_all(world_with(3, &[("HCOMM_STALL_WARNING", "900ms")]), |comm| {
            all_reduce(&comm, 11).expect("all");
            if comm.rank() == 2 {
                sleep(Duration::from_millis(1800));
            }
            all_reduce(&comm, 54_321).expect("all, late");
        })
    });
    let warnings = WARNINGS.lock().unwrap();
    let of_rank = |rank: usize| {
        let ours =
            |w: &&String| w.contains(&format!("rank={rank} ")) && w.contains("all_reduce(i64, sum, 54321)");
        warnings.iter().filter(ours).cloned().collect::<Vec<_>>()
    };
    for rank in [0, 1] {
        let told = of_rank(rank);
        assert_eq!(told.len(), 1, "{warnings:?}");
        assert!(
            told[0].contains("rank 2 (it has made 1 calls, the last was all_reduce(i64, sum, 11)"),
            "{told:?}"
        );
    }
    assert!(of_rank(2).is_empty());
}

#[test]
fn a_rank_that_leaves_is_named_and_its_last_messages_count() {
    for over in OVER {
        for close in [true, false] {
            within(10, move || {
                on_all(over.world(2), |comm| {
                    let mut buffer = vec![comm.rank() as i64; 300_000];
                    if comm.rank() == 1 {
                        comm.broadcast(&mut buffer, 1).expect("rank 0 receives it sooner or later");
                        comm.broadcast(&mut [7_i64], 1)
                            .expect("a message that fits a slot needs no receiver");
                        if close {
                            comm.close().expect("closes well");
                        }
                        return;
                    }
                    sleep(Duration::from_millis(100));
                    comm.broadcast(&mut buffer, 1).expect("it was sent");
                    assert!(buffer.iter().all(|x| *x == 1));
                    sleep(Duration::from_millis(200));
                    let mut last = [0_i64];
                    comm.broadcast(&mut last, 1).expect("it was sent before rank 1 left");
                    assert_eq!(last, [7]);
                    let started = Instant::now();
                    let failure = failed(all_reduce(&comm, 4));
                    assert!(matches!(failure, Failure::PeerLeft { rank: 1, last: 2, .. }), "{failure:?}");
                    let text = failure.to_string();
                    assert!(
                        text.contains("rank 1 closed its communicator after 2 calls; all_reduce"),
                        "{text}"
                    );
                    let failure = failed(comm.send(&vec![0_i64; 1 << 20], 1, 0));
                    assert!(matches!(failure.root(), Failure::PeerLeft { rank: 1, .. }), "{failure:?}");
                    let text = failure.to_string();
                    assert!(text.starts_with("this communicator failed earlier: rank 1 closed"), "{text}");
                    assert!(started.elapsed() < Duration::from_secs(5));
                })
            });
        }
    }
}

#[test]
fn a_rank_that_leaves_while_others_wait_fails_them_at_once() {
    for over in OVER {
        let failures = within(10, move || {
            on_all(over.world(3), |comm| {
                if comm.rank() == 1 {
                    sleep(Duration::from_millis(200));
                    return None;
                }
                let started = Instant::now();
                let failure = failed(all_reduce(&comm, 100_000));
                assert!(started.elapsed() < Duration::from_secs(5));
                Some(failure.to_string())
            })
        });
        for failure in failures.into_iter().flatten() {
            assert!(failure.contains("rank 1 closed"), "{failure}");
        }
    }
}

#[test]
fn abort_ends_everything_on_all_ranks() {
    for over in OVER {
        let failures = within(10, move || {
            on_all(over.world(3), |comm| {
                if comm.rank() == 0 {
                    let stuck = comm.all_reduce_async(vec![0_i64; 100_000], ReduceOp::Sum);
                    let receive = comm.recv_async(vec![0_i64; 5], 1, 1);
                    sleep(Duration::from_millis(200));
                    comm.abort("the loss is not a number");
                    let text = stuck.wait().expect_err("aborted").error.to_string();
                    receive.wait().expect_err("aborted");
                    let next = all_reduce(&comm, 1);
                    assert!(next.is_err() && comm.close().is_err());
                    return text;
                }
                let text = if comm.rank() == 1 {
                    failed(all_reduce(&comm, 100_000)).to_string()
                } else {
                    failed(comm.recv(&mut [0_i64; 3], 0, 4).map(drop)).to_string()
                };
                assert!(comm.close().is_err() || comm.rank() == 2);
                text
            })
        });
        for text in failures {
            assert_eq!(text, "rank 0 aborted the communicator: the loss is not a number");
        }
    }
}

#[test]
fn nothing_starts_on_a_closed_communicator_and_nothing_hangs() {
    for over in OVER {
        within(10, move || {
            on_all(over.world(2), |comm| {
                comm.close().expect("closes well");
                comm.close().expect("twice, too");
                assert_eq!(failed(all_reduce(&comm, 4)), Failure::Closed);
                let error =
                    block_on(comm.all_reduce_async(vec![0_i64; 4], ReduceOp::Sum)).expect_err("closed").error;
                assert!(matches!(error, Error::Failed(Failure::Closed)), "{error}");
                assert_eq!(failed(comm.send(&[1_i64], 1 - comm.rank(), 0)), Failure::Closed);
                block_on(comm.local(|| ())).expect("a closure needs no peer");
            })
        });
    }
}

#[test]
fn work_that_outlives_its_communicator_ends() {
    within(10, || {
        on_all(world_with(2, &[("HCOMM_CLOSE_DEADLINE", "200ms")]), |comm| {
            if comm.rank() == 1 {
                sleep(Duration::from_millis(1000));
                return;
            }
            let polled = comm.all_reduce_async(vec![0_i64; 4], ReduceOp::Sum);
            let waited = comm.all_reduce_async(vec![0_i64; 100_000], ReduceOp::Sum);
            let receive = comm.recv_async(vec![0_i64; 4], 1, 0);
            drop(comm);
            for error in [
                block_on(polled).expect_err("nobody came").error,
                waited.wait().expect_err("nobody came").error,
                receive.wait().expect_err("nobody sent").error,
            ] {
                assert!(matches!(error, Error::Failed(Failure::Closed)), "{error}");
            }
        })
    });
}

#[test]
fn closing_while_another_thread_waits_ends_its_wait() {
    within(20, || {
        on_all(world_with(2, &[("HCOMM_CLOSE_DEADLINE", "300ms")]), |comm| {
            if comm.rank() == 1 {
                sleep(Duration::from_millis(3000));
                return;
            }
            std::thread::scope(|s| {
                let waiting = s.spawn(|| all_reduce(&comm, 4));
                sleep(Duration::from_millis(100));
                let started = Instant::now();
                let _ = comm.close();
                assert_eq!(failed(waiting.join().expect("no panic")), Failure::Closed);
                assert!(started.elapsed() < Duration::from_secs(2), "{:?}", started.elapsed());
            });
        })
    });
}

#[test]
fn a_panic_in_a_local_closure_fails_what_comes_after_it() {
    within(10, || {
        on_all(world(2), |comm| {
            let closure = comm.local(|| panic!("on purpose"));
            let next = comm.after(&[&closure]).all_reduce_async(vec![1_i64; 4], ReduceOp::Sum);
            assert!(closure.wait().is_err());
            let error = next.wait().expect_err("its predecessor failed").error.to_string();
            assert!(error.contains("a local closure panicked"), "{error}");
        })
    });
}

#[test]
fn a_shared_buffer_that_is_in_use_is_refused() {
    within(10, || {
        on_all(world(2), |comm| {
            let shared = Shared::new(vec![1_i64; 4]);
            let first = comm.recv_async(vec![0_i64; 1], 1 - comm.rank(), 3);
            let held = comm.after(&[&first]).all_reduce_async(shared.clone(), ReduceOp::Sum);
            let free = comm.all_reduce_async(shared.clone(), ReduceOp::Max);
            free.wait().expect("the other has not begun");
            comm.barrier().expect("both");
            comm.send(&[1_i64], 1 - comm.rank(), 3).expect("sent");
            held.wait().expect("begins now");
            first.wait().expect("received");
            assert_eq!(shared.with(|x| x.to_vec()), Some(vec![2; 4]));
            comm.barrier().expect("both");
            let busy = shared.with(|_| comm.all_reduce_async(shared.clone(), ReduceOp::Sum).wait());
            let error = busy.expect("nobody else holds it").expect_err("it is in use here").error;
            assert!(matches!(error, Error::Failed(Failure::BufferBusy { .. })), "{error}");
            comm.barrier().expect("all ranks refused it alike");
            comm.close().expect("closes well");
        })
    });
}

#[test]
fn a_buffer_that_is_in_use_on_one_rank_fails_the_others_and_later_calls_say_so() {
    for busy in [0, 1] {
        within(20, move || {
            on_all(world(2), |comm| {
                let shared = Shared::new(vec![1_i64; 4]);
                let call = || comm.all_reduce_async(shared.clone(), ReduceOp::Sum).wait();
                let is_busy = comm.rank() == busy;
                let outcome =
                    if is_busy { shared.with(|_| call()).expect("nobody else holds it") } else { call() };
                let text = outcome.expect_err("one rank refuses it").error.to_string();
                assert!(text.contains("uses the same buffer"), "{text}");
                assert_eq!(text.starts_with(&format!("rank {busy} refused a call (")), !is_busy, "{text}");
                // The rank that refused learns from the other that this cannot go on.
                let text = failed(all_reduce(&comm, 3)).to_string();
                let later = failed(all_reduce(&comm, 3)).to_string();
                assert!(text.contains("uses the same buffer"), "{text}");
                assert!(later.starts_with("this communicator failed earlier: "), "{later}");
            })
        });
    }
}

#[test]
fn bad_arguments_name_the_value_and_what_was_expected() {
    let refused = |outcome: Result<(), Error>, words: &[&str]| {
        let Err(Error::Refused(refused)) = outcome else { panic!("not refused: {outcome:?}") };
        let text = refused.to_string();
        words.iter().for_each(|word| assert!(text.contains(word), "'{text}' lacks '{word}'"));
    };
    on_all(world(2), |comm| {
        refused(comm.broadcast(&mut [0_i64; 4], 2), &["rank 2", "2 ranks"]);
        refused(comm.all_reduce_into(&[0_i64; 4], &mut [0; 3], ReduceOp::Sum), &["input", "4", "3"]);
        refused(comm.reduce_scatter(&[0_i64; 7], &mut [0; 3], ReduceOp::Sum), &["input", "7", "6"]);
        refused(comm.all_gather_in_place(&mut [0_i64; 7]), &["output", "7", "6"]);
        refused(comm.all_to_all(&[0_i64; 7], &mut [0; 7]), &["input", "7", "6"]);
        refused(comm.all_gather_v(&[0_i64; 1], &mut [0; 3], &[1, 1, 1]), &["3 counts", "2"]);
        refused(comm.all_reduce(&mut [num_complex(); 2], ReduceOp::Min), &["min", "complex"]);
        refused(comm.send(&[0_i64], 5, 0), &["rank 5"]);
        let mixed = comm.all_reduce_into_async(vec![0_i64; 2], vec![0_i32; 2], ReduceOp::Sum).wait();
        refused(mixed.map(drop).map_err(|e| e.error), &["i64", "i32"]);
        all_reduce(&comm, 3).expect("the ranks are still in step");
    });
}

fn num_complex() -> num_complex::Complex<f32> {
    num_complex::Complex { re: 0.0, im: 0.0 }
}

#[test]
fn plans_that_do_not_fit_are_refused() {
    use hcomm_ops::DType;
    use hcomm_planner::{Collective, Request};
    on_all(world(2), |comm| {
        let request = Request::new(Collective::AllReduce, DType::I64, ReduceOp::Sum, 4);
        let plan = comm.plan(&request.with_algorithm("ring")).expect("a ring of two");
        let submit = |change: &dyn Fn(&mut hcomm_planner::Plan)| {
            let mut plan = (*plan).clone();
            change(&mut plan);
            let outcome = comm.submit(&plan.into(), ReduceOp::Sum, Apart(vec![1_i64; 5], vec![0_i64; 5]));
            outcome.map(drop).expect_err("not a plan for this").error.to_string()
        };
        let text = submit(&|plan| plan.rank = 1 - plan.rank);
        assert!(text.contains(&format!("rank {}'s", 1 - comm.rank())), "{text}");
        let text = submit(&|plan| plan.sources.truncate(1));
        assert!(text.contains("cannot be run"), "{text}");
        let text = submit(&|plan| plan.span_chunks = 0);
        assert!(text.contains("cannot be run"), "{text}");
        // Of two parts of five elements one is longer: a node that claims both to be alike does not fit.
        let text = submit(&|plan| {
            let longer = plan.nodes[0].extent;
            for sink in &mut plan.sinks {
                if let hcomm_planner::Sink::Span(span) = sink {
                    span.first = 1 - longer.first;
                }
            }
        });
        assert!(text.contains("its spans differ in length"), "{text}");
    });
}
