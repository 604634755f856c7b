//! Messages of a rank to itself.

use std::time::Duration;

use hcomm_engine::{Communicator, Error, Failure, Received};

use crate::common::{OVER, data, on_all, within};

/// Too long to be kept until it is received.
const LONG: usize = 400_000;

#[test]
fn a_rank_sends_to_itself_before_and_after_it_receives() {
    for over in OVER {
        within(30, move || {
            on_all(over.world(2), |comm| {
                let me = comm.rank();
                for n in [0, 1, 9, 8192, 8193, LONG] {
                    // The send first: a short one returns before there is a receive.
                    let sent = comm.send_async(data(me, n), me, 3);
                    assert_eq!(
                        sent.wait_at_most(Duration::from_millis(if n == LONG { 20 } else { 5_000 })),
                        n <= 8192,
                        "{n}"
                    );
                    let mut got = vec![-1; n + 1];
                    assert_eq!(comm.recv(&mut got, me, 3).expect("sent"), n);
                    assert!(got[..n] == data(me, n) && got[n] == -1);
                    sent.wait().expect("received");
                    // The receive first.
                    let received = comm.recv_async(vec![-1; n + 1], me, 3);
                    comm.send(&data(me, n), me, 3).expect("received");
                    assert!(received.wait_at_most(Duration::from_secs(5)));
                    assert_eq!(received.received(), Some(Received { rank: me, bytes: 8 * n as u64 }));
                    let got = received.wait().expect("sent");
                    assert!(got[..n] == data(me, n) && got[n] == -1);
                }
                comm.barrier().expect("both");
                comm.close().expect("closes well");
            })
        });
    }
}

#[test]
fn own_messages_come_in_order_beside_those_of_others() {
    within(30, || {
        on_all(crate::common::world(3), |comm| {
            let me = comm.rank();
            let lengths = [4, LONG, 0, 7, LONG + 3, 1];
            let sends: Vec<_> = (0..3)
                .flat_map(|to| lengths.map(|n| (to, n)))
                .map(|(to, n)| comm.send_async(data(me + n, n), to, 1))
                .collect();
            let mut next = [0; 3];
            for _ in 0..3 * lengths.len() {
                let mut got = vec![-1; LONG + 3];
                let (from, n) = comm.recv_any(&mut got, 1).expect("sent");
                assert_eq!(n, lengths[next[from]], "of rank {from}");
                assert!(got[..n] == data(from + n, n));
                next[from] += 1;
            }
            assert_eq!(next, [lengths.len(); 3]);
            sends.into_iter().for_each(|send| drop(send.wait().expect("received")));
            comm.barrier().expect("all ranks came");
        })
    });
}

#[test]
fn one_rank_alone_has_only_itself() {
    within(20, || {
        let comm = Communicator::alone();
        comm.send(&data(0, 5), 0, 2).expect("it is kept");
        let mut got = vec![0; 5];
        assert_eq!(comm.recv_any(&mut got, 2).expect("sent"), (0, 5));
        assert!(got == data(0, 5));
        let hasty = comm.deadline(Duration::from_millis(100));
        let late = hasty.send(&data(0, LONG), 0, 2).expect_err("nobody receives").to_string();
        assert!(
            late.contains("a send to this rank itself with tag 2") && late.contains("its receive"),
            "{late}"
        );
        let refused = comm.send(&[1_i64], 1, 2).expect_err("there is no rank 1");
        assert!(matches!(refused, Error::Refused(_)), "{refused}");
        comm.close().expect("closes well");
    });
}

#[test]
fn what_does_not_fit_or_differs_fails_both_sides_that_wait() {
    within(20, || {
        let comm = Communicator::alone();
        for n in [4, LONG] {
            let sent = comm.send_async(vec![1_i64; n], 0, 6);
            let small = comm.recv(&mut vec![0_i64; n - 1], 0, 6).expect_err("one too few");
            assert!(matches!(&small, Error::Failed(Failure::MessageSize { tag: 6, .. })), "{small}");
            assert_eq!(sent.wait().is_err(), n == LONG);
            let sent = comm.send_async(vec![1_i64; n], 0, 6);
            let other = comm.recv(&mut vec![0_f64; n], 0, 6).expect_err("another type").to_string();
            assert!(other.contains("i64") && other.contains("f64"), "{other}");
            assert_eq!(sent.wait().is_err(), n == LONG);
        }
        comm.barrier().expect("none the worse for it");
        let waiting = comm.send_async(vec![1_i64; LONG], 0, 6);
        comm.abort("a test");
        let error = waiting.wait().expect_err("aborted").error;
        assert!(matches!(error, Error::Failed(Failure::Aborted { rank: 0, .. })), "{error}");
    });
}
