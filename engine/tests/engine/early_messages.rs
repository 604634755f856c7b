//! Messages that come long before their receives: how many are kept, that other tags go on, and that types are compared.

use std::collections::VecDeque;
use std::thread::sleep;
use std::time::Duration;

use hcomm_engine::bindings::InputOnly;
use hcomm_engine::{Communicator, Error, Failure, Work};
use proptest::prelude::*;

use crate::common::{OVER, data, on_all, within, world, world_with};

/// Too long to be sent at once.
const LONG: usize = 400_000;

#[test]
fn unmatched_messages_of_one_tag_keep_no_other_tag_waiting() {
    for over in OVER {
        within(60, move || {
            on_all(over.world(2), |comm| {
                let (messages, each) = (400, 2_000);
                if comm.rank() == 0 {
                    let early: Vec<_> = (0..messages).map(|i| comm.send_async(data(i, each), 1, 1)).collect();
                    // What comes after them, in both directions, short and long.
                    comm.send(&[2_i64; 4], 1, 2).expect("tag 2 goes on");
                    comm.send(&data(3, LONG), 1, 3).expect("tag 3 goes on");
                    let mut back = vec![0; LONG];
                    comm.recv(&mut back, 1, 4).expect("the other direction goes on");
                    assert!(back == data(4, LONG));
                    assert!(early.iter().any(|work| !work.is_done()), "no more is kept than was said");
                    early.into_iter().for_each(|work| drop(work.wait().expect("received")));
                    return comm.barrier().expect("both");
                }
                let mut found = vec![0; LONG];
                assert_eq!(comm.recv(&mut found[..4], 0, 2).expect("sent"), 4);
                assert_eq!(comm.recv(&mut found, 0, 3).expect("sent"), LONG);
                assert!(found == data(3, LONG));
                comm.send(&data(4, LONG), 0, 4).expect("received");
                for i in 0..messages {
                    assert_eq!(comm.recv(&mut found, 0, 1).expect("sent"), each);
                    assert!(found[..each] == data(i, each), "message {i}");
                }
                comm.barrier().expect("both");
            })
        });
    }
}

#[test]
fn messages_of_no_bytes_are_kept_in_bounded_number() {
    within(60, || {
        on_all(world(2), |comm| {
            let messages = 70_000;
            if comm.rank() == 0 {
                let nothing = || -> Vec<u8> { Vec::new() };
                let works: Vec<_> = (0..messages).map(|_| comm.send_async(nothing(), 1, 1)).collect();
                comm.send(&[1_u8], 1, 2).expect("tag 2 goes on");
                let done = works.iter().filter(|work| work.is_done()).count();
                assert!((60_000..=(4 << 20) / 64).contains(&done), "{done} were kept");
                works.into_iter().for_each(|work| drop(work.wait().expect("received")));
            } else {
                comm.recv(&mut [0_u8], 0, 2).expect("sent");
                for _ in 0..messages {
                    assert_eq!(comm.recv(&mut [0_u8], 0, 1).expect("sent"), 0);
                }
            }
            comm.barrier().expect("both");
        })
    });
}

#[test]
fn many_tags_are_announced_at_once_and_all_go_on_in_the_end() {
    within(120, || {
        on_all(world_with(2, &[("HCOMM_DEADLINE", "60s")]), |comm| {
            // Nothing fits a slot; of tag 7 there are more messages than are announced at a time.
            let (tags, n) = (3_000_u32, 20_000);
            if comm.rank() == 0 {
                let shared: Vec<_> =
                    (0..tags).map(|tag| comm.send_async(vec![tag as u8; n * 8], 1, tag)).collect();
                let more: Vec<_> = (0..40_u8).map(|i| comm.send_async(vec![i; n * 8], 1, 7)).collect();
                shared.into_iter().chain(more).for_each(|work| drop(work.wait().expect("received")));
                return;
            }
            let mut found = vec![0_u8; n * 8];
            for tag in (0..tags).rev() {
                comm.recv(&mut found, 0, tag).expect("sent");
                assert!(found[0] == tag as u8 && found[n * 8 - 1] == tag as u8, "tag {tag}");
            }
            for i in 0..40_u8 {
                comm.recv(&mut found, 0, 7).expect("sent");
                assert!(found[0] == i && found[n * 8 - 1] == i, "message {i}");
            }
        })
    });
}

#[test]
fn a_message_of_another_type_is_an_error_that_names_both() {
    for over in OVER {
        within(20, move || {
            on_all(over.world(2), |comm| {
                for n in [2, LONG] {
                    let outcome = match comm.rank() {
                        0 => comm.send(&vec![255_u8; n], 1, 9),
                        _ => {
                            let mut found = vec![false; n];
                            let outcome = comm.recv(&mut found, 0, 9).map(drop);
                            assert!(found.iter().all(|x| !x), "untouched");
                            outcome
                        }
                    };
                    let is_short = n == 2 && comm.rank() == 0;
                    assert_eq!(outcome.is_ok(), is_short, "a short message is on its way at once");
                    if let Err(error) = outcome {
                        let Error::Failed(Failure::MessageType { from: 0, to: 1, tag: 9, .. }) = &error
                        else {
                            panic!("{error}")
                        };
                        assert_eq!(
                            error.to_string(),
                            "rank 0 sent u8 with tag 9, but rank 1 receives it as bool"
                        );
                    }
                    comm.barrier().expect("none the worse for it");
                }
                match comm.rank() {
                    0 => comm.send(&[true, false], 1, 9).expect("sent"),
                    _ => {
                        let mut found = [false; 2];
                        comm.recv_any(&mut found, 9).expect("of one type");
                        assert_eq!(found, [true, false]);
                    }
                }
                comm.close().expect("closes well");
            })
        });
    }
}

/// Messages by tag and length, and the order of tags in which they are received.
fn traffic() -> impl Strategy<Value = (Vec<(u32, usize)>, Vec<usize>)> {
    let length = prop_oneof![3 => 0_usize..40, 3 => 8_000_usize..16_000, 1 => 17_000_usize..60_000];
    let sent = prop::collection::vec((0_u32..5, length), 1..120);
    (sent, prop::collection::vec(any::<usize>(), 120))
}

fn send_all(comm: &Communicator, sent: &[(u32, usize)]) {
    let send = |(i, (tag, n)): (usize, &(u32, usize))| comm.send_async(data(i, *n), 1, *tag);
    let works: Vec<Work<InputOnly<Vec<i64>>>> = sent.iter().enumerate().map(send).collect();
    works.into_iter().for_each(|work| drop(work.wait().expect("received")));
}

fn receive_all(comm: &Communicator, sent: &[(u32, usize)], picks: &[usize]) {
    let mut left: Vec<VecDeque<(usize, usize)>> = vec![VecDeque::new(); 5];
    for (i, (tag, n)) in sent.iter().enumerate() {
        left[*tag as usize].push_back((i, *n));
    }
    for pick in picks.iter().cycle().take(sent.len()) {
        let tags: Vec<usize> = (0..5).filter(|tag| !left[*tag].is_empty()).collect();
        let tag = tags[pick % tags.len()];
        let Some((i, n)) = left[tag].pop_front() else { continue };
        if pick % 7 == 0 {
            sleep(Duration::from_micros(200));
        }
        let mut found = vec![-1; n + 1];
        assert_eq!(comm.recv(&mut found, 0, tag as u32).expect("sent"), n);
        assert!(found[..n] == data(i, n) && found[n] == -1, "message {i}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// Up to 10 MB that is received in another order than it was sent.
    #[test]
    fn any_order_of_tags_receives_all((sent, picks) in traffic()) {
        within(60, move || {
            on_all(world(2), |comm| match comm.rank() {
                0 => send_all(&comm, &sent),
                _ => receive_all(&comm, &sent, &picks),
            })
        });
    }
}
