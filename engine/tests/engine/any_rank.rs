//! Receives that take a message of whichever rank, alone and among receives that name one.

use std::thread::sleep;
use std::time::Duration;

use hcomm_engine::{Communicator, Error, Failure, Received};
use proptest::prelude::*;

use crate::common::{OVER, data, on_all, within, world};

/// Long enough to be announced rather than sent at once.
const LONG: usize = 400_000;

#[test]
fn each_message_is_received_once_and_its_sender_named() {
    for over in OVER {
        within(30, move || {
            on_all(over.world(4), |comm| {
                let rank = comm.rank();
                if rank != 0 {
                    for (i, n) in [rank, LONG + rank, 0, 3].into_iter().enumerate() {
                        comm.send(&vec![(10 * rank + i) as i64; n], 0, 7).expect("received");
                    }
                    return;
                }
                let mut seen = [0_usize; 4];
                for _ in 0..12 {
                    let mut buffer = vec![-1_i64; LONG + 4];
                    let (from, n) = comm.recv_any(&mut buffer, 7).expect("sent");
                    let message = seen[from];
                    seen[from] += 1;
                    assert_eq!(n, [from, LONG + from, 0, 3][message], "message {message} of rank {from}");
                    assert!(buffer[..n].iter().all(|x| *x == (10 * from + message) as i64));
                    assert!(buffer[n..].iter().all(|x| *x == -1), "nothing is written past the message");
                }
                assert_eq!(seen, [0, 4, 4, 4]);
            })
        });
    }
}

#[test]
fn receives_of_a_tag_are_given_messages_in_the_order_they_were_posted() {
    within(20, || {
        on_all(world(3), |comm| {
            let rank = comm.rank();
            if rank != 0 {
                // All receives are posted by then; rank 2's message comes last.
                sleep(Duration::from_millis(100 * rank as u64));
                let messages = [3, 1][rank - 1];
                for i in 0..messages {
                    comm.send(&[(10 * rank + i) as i64], 0, 1).expect("received");
                }
                comm.barrier().expect("all ranks");
                return;
            }
            let receive = |from: Option<usize>| match from {
                Some(from) => comm.recv_async(vec![-1_i64], from, 1),
                None => comm.recv_any_async(vec![-1_i64], 1),
            };
            let other_tag = comm.recv_any_async(vec![-1_i64], 2);
            let works: Vec<_> = [Some(1), None, Some(2), Some(1)].map(receive).into();
            // The one that names rank 1 is first; the next is rank 1's too; then only its own are left for the last.
            for (work, expected) in works.into_iter().zip([10, 11, 20, 12]) {
                assert!(work.wait_at_most(Duration::from_secs(10)));
                let received = Received { rank: expected as usize / 10, bytes: 8 };
                assert_eq!(work.received(), Some(received));
                assert_eq!(work.wait().expect("sent"), [expected]);
            }
            assert_eq!((other_tag.is_done(), other_tag.received()), (false, None));
            comm.barrier().expect("all ranks");
        })
    });
}

#[test]
fn what_came_early_is_taken_from_the_ranks_in_turn() {
    for over in OVER {
        within(30, move || {
            on_all(over.world(4), |comm| {
                let (rank, each) = (comm.rank(), 50);
                if rank != 0 {
                    (0..each).for_each(|i| comm.send(&data(rank, i), 0, 3).expect("sent"));
                    comm.barrier().expect("all ranks");
                    return;
                }
                comm.barrier().expect("all ranks");
                // Let what has been sent be drained.
                sleep(Duration::from_millis(50));
                let mut got = [0_usize; 4];
                for _ in 0..3 * each {
                    let (from, n) = comm.recv_any(&mut vec![0_i64; each], 3).expect("sent");
                    assert_eq!(n, got[from], "in order");
                    got[from] += 1;
                    let others = &got[1..];
                    let spread = others.iter().max().expect("three") - others.iter().min().expect("three");
                    // What is still on its way when its turn has come is passed by.
                    assert!(spread <= 20, "{got:?}");
                }
            })
        });
    }
}

#[test]
fn one_rank_that_always_has_a_message_keeps_no_other_waiting() {
    within(30, || {
        on_all(world(3), |comm| match comm.rank() {
            0 => {
                let mut before = 0;
                while comm.recv_any(&mut [0_i64; 4], 9).expect("sent").0 != 2 {
                    before += 1;
                }
                assert!(before < 20_000, "rank 2 waited for {before} messages of rank 1");
                comm.barrier().expect("all ranks");
            }
            1 => {
                let works: Vec<_> = (0..20_000).map(|_| comm.send_async(vec![1_i64; 4], 0, 9)).collect();
                comm.barrier().expect("all ranks");
                drop(works);
            }
            _ => {
                sleep(Duration::from_millis(1));
                comm.send(&[2_i64], 0, 9).expect("received");
                comm.barrier().expect("all ranks");
            }
        });
    });
}

#[test]
fn a_deadline_names_what_was_waited_for() {
    within(20, || {
        on_all(world(3), |comm| {
            if comm.rank() == 0 {
                let hurried = comm.deadline(Duration::from_millis(200));
                let outcome = hurried.recv_any(&mut [0_i64], 77);
                let Err(Error::Failed(Failure::Deadline { call, waiting, .. })) = outcome else {
                    panic!("{outcome:?}")
                };
                assert!(call.contains("any rank with tag 77"), "{call}");
                assert!(waiting.contains("ranks 1, 2"), "{waiting}");
            }
            comm.barrier().expect("the communicator is none the worse for it");
        })
    });
}

#[test]
fn it_fails_when_no_rank_is_left_and_not_before() {
    for over in OVER {
        within(30, move || {
            on_all(over.world(3), |comm| {
                match comm.rank() {
                    0 => {}
                    1 => return,
                    _ => {
                        sleep(Duration::from_millis(300));
                        comm.send(&data(2, LONG), 0, 5).expect("received");
                        return;
                    }
                }
                let mut buffer = vec![0_i64; LONG];
                // Rank 1 leaves meanwhile; rank 2 can still send.
                assert_eq!(comm.recv_any(&mut buffer, 5).expect("rank 2 sent"), (2, LONG));
                assert!(buffer == data(2, LONG));
                let failed = comm.recv_any_async(vec![0_i64], 5).wait().expect_err("nobody is left");
                let Error::Failed(Failure::PeerLeft { rank: 1 | 2, call, .. }) = &failed.error else {
                    panic!("{:?}", failed.error)
                };
                assert!(call.contains("any rank"), "{call}");
            })
        });
    }
}

#[test]
fn what_makes_no_sense_is_refused_or_fails() {
    let alone = Communicator::alone();
    let error =
        alone.deadline(Duration::from_millis(100)).recv_any(&mut [0_i64], 0).expect_err("alone in the world");
    assert!(error.to_string().contains("this rank's own sends"), "{error}");
    within(20, || {
        on_all(world(2), |comm| {
            for n in [4, LONG] {
                let outcome = match comm.rank() {
                    1 => comm.send(&vec![5_i64; n], 0, 6),
                    _ => comm.recv_any(&mut vec![0_i64; n - 1], 6).map(drop),
                };
                let is_short = n == 4 && comm.rank() == 1;
                assert_eq!(outcome.is_ok(), is_short, "a short message is on its way at once");
                let named = |failure: &Failure| matches!(failure, Failure::MessageSize { tag: 6, bytes, .. } if *bytes == 8 * n as u64);
                assert!(outcome.is_ok() || matches!(&outcome, Err(Error::Failed(failure)) if named(failure)));
                comm.barrier().expect("both");
            }
            let failed = comm.barrier_async();
            assert!(failed.wait_at_most(Duration::from_secs(10)));
            assert_eq!(failed.received(), None, "it is no receive");
            if comm.rank() == 0 {
                let pending = comm.recv_any_async(vec![0_i64], 6);
                comm.abort("a test");
                let error = pending.wait().expect_err("aborted").error;
                assert!(matches!(error, Error::Failed(Failure::Aborted { rank: 0, .. })), "{error}");
            }
        })
    });
}

/// What one rank is sent, and how it receives it.
#[derive(Clone, Debug)]
struct Traffic {
    /// By sender and tag: elements of each message.
    sent: Vec<[Vec<usize>; 2]>,
    /// In order: the tag, and a sender where one is named. Whatever is left is received from any.
    receives: Vec<(usize, Option<usize>)>,
    /// Before which receives it sleeps.
    pauses: Vec<bool>,
}

/// Traffic to rank 0 of a small world in which no receive can be robbed of its message by one posted before it.
fn traffic() -> impl Strategy<Value = Traffic> {
    let length = prop_oneof![4 => 0_usize..50, 1 => 30_000_usize..70_000];
    let by_tag = || prop::collection::vec(length.clone(), 0..7);
    let senders = prop::collection::vec([by_tag(), by_tag()], 2..=3);
    let wishes = prop::collection::vec((0_usize..2, prop::option::of(1_usize..4), any::<bool>()), 0..20);
    (senders, wishes).prop_map(|(sent, wishes)| {
        let (mut named, mut any) = (vec![[0_usize; 2]; sent.len()], [0_usize; 2]);
        let (mut receives, mut pauses) = (Vec::new(), Vec::new());
        for (tag, from, pause) in wishes {
            let from = from.filter(|from| *from <= sent.len());
            match from {
                Some(from) => named[from - 1][tag] += 1,
                None => any[tag] += 1,
            }
            let is_enough = |(s, n): (&[Vec<usize>; 2], &[usize; 2])| n[tag] + any[tag] <= s[tag].len();
            if sent.iter().zip(&named).all(is_enough) {
                receives.push((tag, from));
                pauses.push(pause);
                continue;
            }
            match from {
                Some(from) => named[from - 1][tag] -= 1,
                None => any[tag] -= 1,
            }
        }
        for tag in 0..2 {
            let left: usize = sent.iter().map(|tags| tags[tag].len()).sum();
            let asked = receives.iter().filter(|(of, _)| *of == tag).count();
            receives.extend(std::iter::repeat_n((tag, None), left - asked));
        }
        pauses.resize(receives.len(), false);
        Traffic { sent, receives, pauses }
    })
}

/// Sends what rank `rank` has to send, the tags taking turns.
fn send_all(comm: &Communicator, sent: &[Vec<usize>; 2]) {
    let rank = comm.rank();
    let longest = sent.iter().map(Vec::len).max().unwrap_or(0);
    let mut works = Vec::new();
    for i in 0..longest {
        for (tag, lengths) in sent.iter().enumerate() {
            let Some(n) = lengths.get(i) else { continue };
            let message = vec![(1000 * rank + 100 * tag + i) as i64; *n];
            works.push(comm.send_async(message, 0, tag as u32));
        }
    }
    works.into_iter().for_each(|work| drop(work.wait().expect("received")));
}

fn receive_all(comm: &Communicator, traffic: &Traffic) {
    let mut works = Vec::new();
    for ((tag, from), pause) in traffic.receives.iter().zip(&traffic.pauses) {
        if *pause {
            sleep(Duration::from_micros(300));
        }
        let buffer = vec![-1_i64; 70_001];
        works.push(match from {
            Some(from) => comm.recv_async(buffer, *from, *tag as u32),
            None => comm.recv_any_async(buffer, *tag as u32),
        });
    }
    // Each rank's messages of a tag have gone to the receives in order.
    let mut next = vec![[0_usize; 2]; traffic.sent.len()];
    for (work, (tag, from)) in works.into_iter().zip(&traffic.receives) {
        assert!(work.wait_at_most(Duration::from_secs(20)), "{traffic:?}");
        assert_eq!(work.error().map(|error| error.to_string()), None);
        let Received { rank, bytes } = work.received().expect("it went well");
        assert!(from.is_none_or(|from| from == rank));
        let message = &mut next[rank - 1][*tag];
        let (n, i) = (traffic.sent[rank - 1][*tag][*message], *message);
        *message += 1;
        assert_eq!(bytes, 8 * n as u64, "message {i} with tag {tag} of rank {rank}");
        let buffer = work.wait().expect("it went well");
        assert!(buffer[..n].iter().all(|x| *x == (1000 * rank + 100 * tag + i) as i64));
        assert!(buffer[n..].iter().all(|x| *x == -1));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn any_mix_of_receives_gets_every_message_once_and_in_order(traffic in traffic()) {
        within(60, move || {
            on_all(world(1 + traffic.sent.len()), |comm| match comm.rank() {
                0 => receive_all(&comm, &traffic),
                rank => send_all(&comm, &traffic.sent[rank - 1]),
            })
        });
    }
}
