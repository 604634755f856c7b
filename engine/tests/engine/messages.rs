//! Tagged messages, groups, splits and chains.

use std::future::IntoFuture;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::sleep;
use std::time::Duration;

use hcomm_engine::{Error, Failure};
use hcomm_ops::ReduceOp;
use hcomm_ops::buffer::{Borrowed, Shared};

use crate::common::{OVER, data, on_all, sum, within, world, world_with};

/// Long enough to be announced rather than sent at once.
const LONG: usize = 400_000;

#[test]
fn tags_are_matched_in_order_whatever_comes_first() {
    for over in OVER {
        within(20, move || {
            on_all(over.world(2), |comm| {
                if comm.rank() == 0 {
                    let lengths = [3, LONG, 0, 5, LONG + 1, 7];
                    let sends: Vec<_> = lengths
                        .iter()
                        .enumerate()
                        .map(|(i, n)| comm.send_async(vec![i as i64; *n], 1, (i % 2) as u32))
                        .collect();
                    sends.into_iter().for_each(|send| drop(send.wait().expect("received")));
                    return;
                }
                sleep(Duration::from_millis(50));
                // Messages 1, 3, 5 have tag 1; they are received before 0, 2, 4.
                for (tag, expected) in [(1, [LONG, 5, 7]), (0, [3, 0, LONG + 1])] {
                    for (i, n) in expected.into_iter().enumerate() {
                        let mut buffer = vec![-1_i64; LONG + 1];
                        assert_eq!(comm.recv(&mut buffer, 0, tag).expect("sent"), n);
                        assert!(buffer[..n].iter().all(|x| *x == (2 * i) as i64 + i64::from(tag)));
                        assert!(buffer[n..].iter().all(|x| *x == -1), "nothing is written past the message");
                    }
                }
            })
        });
    }
}

#[test]
fn receives_posted_first_are_matched_in_order_too() {
    within(20, || {
        on_all(world(2), |comm| {
            if comm.rank() == 1 {
                let receives: Vec<_> =
                    (0..6).map(|i| comm.recv_async(vec![-1_i64; LONG], 0, i % 3)).collect();
                for (i, receive) in receives.into_iter().enumerate() {
                    let buffer = receive.wait().expect("sent");
                    assert_eq!(buffer[0], i as i64);
                }
                return;
            }
            sleep(Duration::from_millis(50));
            // The second message of each tag is sent after the first ones of all.
            for i in [2, 0, 1, 4, 3, 5] {
                let n = if i % 2 == 0 { LONG } else { 10 };
                comm.send(&vec![i as i64; n], 1, (i % 3) as u32).expect("received");
            }
        })
    });
}

#[test]
fn long_messages_cross_in_both_directions_at_once() {
    for over in OVER {
        within(30, move || {
            on_all(over.world(3), |comm| {
                let (rank, count) = (comm.rank(), 1_000_000);
                let peers: Vec<usize> = (0..3).filter(|peer| *peer != rank).collect();
                let sent = data(rank, count);
                let mut got: Vec<Vec<i64>> = peers.iter().map(|_| vec![0; count]).collect();
                let outcome = comm.scope(|s| {
                    for (buffer, peer) in got.iter_mut().zip(&peers) {
                        s.send(&sent, *peer, 1);
                        s.recv(buffer, *peer, 1);
                    }
                });
                outcome.expect("all ranks came");
                for (buffer, peer) in got.iter().zip(&peers) {
                    assert!(*buffer == data(*peer, count), "from {peer}");
                }
            })
        });
    }
}

#[test]
fn a_receive_that_is_too_small_fails_both_sides_of_a_long_message() {
    for over in OVER {
        within(20, move || {
            on_all(over.world(2), |comm| {
                let outcome = match comm.rank() {
                    0 => comm.send(&vec![1_i64; LONG], 1, 6),
                    _ => comm.recv(&mut vec![0_i64; LONG - 1], 0, 6).map(drop),
                };
                let Err(Error::Failed(Failure::MessageSize { tag: 6, bytes, room, .. })) = outcome else {
                    panic!("{outcome:?}")
                };
                assert_eq!((bytes, room), (8 * LONG as u64, 8 * LONG as u64 - 8));
                // The communicator is none the worse for it.
                comm.barrier().expect("both");
                match comm.rank() {
                    0 => comm.send(&[5_i64; 4], 1, 6).expect("a short message is on its way at once"),
                    _ => {
                        let mut buffer = [0_i64; 3];
                        let error = comm.recv(&mut buffer, 0, 6).expect_err("3 is less than 4").to_string();
                        assert!(error.contains("32 bytes") && error.contains("24 bytes"), "{error}");
                        assert_eq!(buffer, [0; 3], "untouched");
                    }
                }
                comm.barrier().expect("both");
                comm.close().expect("closes well");
            })
        });
    }
}

#[test]
fn more_unexpected_messages_than_are_kept_wait_for_their_receives() {
    within(60, || {
        on_all(world_with(2, &[("HCOMM_BUFFER_SIZE", "4MiB")]), |comm| {
            let (each, messages) = (2_000, 600);
            if comm.rank() == 0 {
                (0..messages).for_each(|i| comm.send(&data(i, each), 1, 1).expect("received in the end"));
                comm.send(&[1_i64], 1, 2).expect("sent");
            } else {
                drop(comm.recv_async(vec![0_i64; 1], 0, 3));
                sleep(Duration::from_millis(300));
                for i in 0..messages {
                    let mut buffer = vec![0; each];
                    comm.recv(&mut buffer, 0, 1).expect("sent");
                    assert!(buffer == data(i, each));
                }
                comm.recv(&mut [0_i64], 0, 2).expect("sent");
            }
            comm.barrier().expect("both");
            if comm.rank() == 0 {
                comm.send(&[1_i64], 1, 3).expect("sent");
            }
        })
    });
}

#[test]
fn messages_take_no_part_in_the_order_of_the_collectives() {
    for over in OVER {
        within(30, move || {
            on_all(over.world(3), |comm| {
                let rank = comm.rank();
                for i in 0..30_usize {
                    if rank == 0 {
                        comm.send(&data(0, i), 1 + i % 2, 0).expect("received");
                    }
                    let mut buffer = data(rank, i * 9);
                    comm.all_reduce(&mut buffer, ReduceOp::Sum).expect("all ranks came");
                    assert_eq!(buffer, sum(3, i * 9));
                    if rank == 1 + i % 2 {
                        let mut got = vec![0; i];
                        assert_eq!(comm.recv(&mut got, 0, 0).expect("sent"), i);
                        assert_eq!(got, data(0, i));
                    }
                }
                comm.close().expect("closes well");
            })
        });
    }
}

#[test]
fn a_group_can_be_awaited_borrowed_and_refused() {
    within(30, || {
        on_all(world(3), |comm| {
            let rank = comm.rank();
            let work = comm.group_async(|g| {
                g.all_reduce(data(rank, 9), ReduceOp::Sum);
                g.broadcast(data(rank, 5), 1);
                g.all_reduce(data(rank, 700), ReduceOp::Sum);
            });
            let results = futures::executor::block_on(work.into_future()).expect("all ranks came");
            assert!(results == [sum(3, 9), data(1, 5), sum(3, 700)]);
            let (mut first, mut second, mut third) = (data(rank, 40), data(rank, 8), data(rank, 3));
            comm.scope(|s| {
                let works = s.group(|g| {
                    g.all_reduce(Borrowed::from_mut(&mut first), ReduceOp::Sum);
                    g.broadcast(Borrowed::from_mut(&mut second), 2);
                    g.all_reduce(Borrowed::from_mut(&mut third), ReduceOp::Sum);
                });
                assert_eq!(works.len(), 2, "like calls are one operation");
            })
            .expect("all ranks came");
            assert!(first == sum(3, 40) && second == data(2, 8) && third == sum(3, 3));
            let refused = comm.group(|g| {
                g.all_reduce(data(rank, 2), ReduceOp::Sum);
                g.broadcast(data(rank, 4), 7);
            });
            let refused = refused.expect_err("there is no rank 7");
            assert!(refused.to_string().contains("rank 7"), "{refused}");
            assert!(refused.buffer == [sum(3, 2), data(rank, 4)], "the buffers come back in order");
            comm.close().expect("closes well");
        })
    });
}

#[test]
fn groups_fuse_like_calls_and_run_unlike_ones_side_by_side() {
    within(30, || {
        on_all(world(3), |comm| {
            let rank = comm.rank();
            assert!(comm.group::<Vec<i64>>(|_| {}).expect("no calls").is_empty());
            let lengths = [5, 0, 1000, 20_000, 1];
            let before = comm.barrier_async();
            let first = before.number().expect("not refused");
            before.wait().expect("all ranks came");
            let results = comm.group(|g| {
                for n in lengths {
                    g.all_reduce(data(rank, n), ReduceOp::Sum);
                }
                g.broadcast(data(rank, 77), 2);
                g.all_reduce(data(rank, 3), ReduceOp::Max);
                g.all_reduce(data(rank, 4), ReduceOp::Sum);
                g.reduce(data(rank, 6), ReduceOp::Sum, 1);
            });
            let results = results.expect("all ranks came");
            assert_eq!(results.len(), 9);
            for (result, n) in results.iter().zip(lengths) {
                assert!(*result == sum(3, n), "{n}");
            }
            assert_eq!(results[5], data(2, 77));
            assert!(
                results[6]
                    .iter()
                    .enumerate()
                    .all(|(i, x)| *x == (0..3).map(|r| data(r, 3)[i]).max().unwrap())
            );
            assert_eq!(results[7], sum(3, 4));
            assert!(rank != 1 || results[8] == sum(3, 6));
            let after = comm.barrier_async();
            assert_eq!(after.number(), Some(first + 5), "four kinds of call are four operations");
            after.wait().expect("all ranks came");
        })
    });
}

#[test]
fn fused_buffers_are_cut_where_tiles_and_segments_are_not_aligned() {
    within(30, || {
        on_all(world_with(2, &[("HCOMM_TILE_BYTES", "256")]), |comm| {
            let lengths = [1, 31, 0, 33, 500, 2, 0, 64];
            let buffers = lengths.map(|n| data(comm.rank(), n)).to_vec();
            let results = comm.all_reduce_many_async(buffers, ReduceOp::Sum).wait().expect("both");
            for (result, n) in results.iter().zip(lengths) {
                assert_eq!(*result, sum(2, n));
            }
        })
    });
}

#[test]
fn a_split_makes_communicators_of_its_own() {
    for over in OVER {
        within(30, move || {
            on_all(over.world(5), |comm| {
                let rank = comm.rank();
                // Odd and even ranks, the odd ones in reverse; rank 4 is in neither.
                let group = (rank < 4).then_some(rank as u32 % 2);
                let key = if rank % 2 == 1 { -(rank as i64) } else { 0 };
                let part = comm.split(group, key).expect("all ranks came");
                let Some(part) = part else {
                    assert_eq!(rank, 4);
                    return comm.barrier().expect("all ranks came");
                };
                assert_eq!(part.world(), 2);
                assert_eq!(part.rank(), if rank % 2 == 1 { usize::from(rank == 1) } else { rank / 2 });
                let mut buffer = data(rank, 1000);
                part.all_reduce(&mut buffer, ReduceOp::Sum).expect("both");
                let both = [rank % 2, rank % 2 + 2].map(|r| data(r, 1000));
                assert!(buffer.iter().enumerate().all(|(i, x)| *x == both[0][i] + both[1][i]));
                let copy = part.duplicate().expect("a duplicate");
                drop(part);
                copy.barrier().expect("both");
                comm.barrier().expect("all ranks came");
            })
        });
    }
}

#[test]
fn a_chain_runs_without_waking_the_caller() {
    for over in OVER {
        within(30, move || {
            on_all(over.world(4), |comm| {
                let (rank, block) = (comm.rank(), 1000);
                let (gradient, shard) = (Shared::new(data(rank, 4 * block)), Shared::new(vec![0_i64; block]));
                let weights = Shared::new(vec![0_i64; 4 * block]);
                let reduced = comm.reduce_scatter_async(gradient.clone(), shard.clone(), ReduceOp::Sum);
                let order = Arc::new(AtomicUsize::new(0));
                let (ours, seen) = (shard.clone(), order.clone());
                let updated = comm.after(&[&reduced]).local(move || {
                    let done = ours.with(|x| x.iter_mut().for_each(|x| *x = *x * 10 + 1));
                    seen.store(1 + usize::from(done.is_some()), Ordering::SeqCst);
                });
                let gathered = comm.after(&[&updated]).all_gather_async(shard.clone(), weights.clone());
                gathered.wait().expect("all ranks came");
                assert_eq!(order.load(Ordering::SeqCst), 2, "the closure had the buffer to itself");
                let expected: Vec<i64> = sum(4, 4 * block).iter().map(|x| x * 10 + 1).collect();
                assert!(weights.with(|x| *x == expected).expect("nobody uses it"));
                assert!(reduced.is_done() && updated.is_done());
                updated.wait().expect("it ran");
            })
        });
    }
}

#[test]
fn a_chain_across_communicators() {
    for over in OVER {
        within(30, move || {
            on_all(over.world(3), |comm| {
                let other = comm.duplicate().expect("a duplicate");
                let shared = Shared::new(data(comm.rank(), 5000));
                let mut last = comm.all_reduce_async(shared.clone(), ReduceOp::Sum);
                for i in 0..20 {
                    let next = if i % 2 == 0 { &other } else { &comm };
                    last = next.after(&[&last]).all_reduce_async(shared.clone(), ReduceOp::Max);
                }
                last.wait().expect("all ranks came");
                assert!(shared.with(|x| *x == sum(3, 5000)).expect("nobody uses it"));
            })
        });
    }
}
