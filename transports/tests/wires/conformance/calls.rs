//! Messages of another call are reported, never delivered.

use hcomm_transports::{Arrival, Key, Wire, Word};

use super::Connect;
use crate::pair::{CONFIG, Pair, key, keyed, message};

fn difference(pair: &mut Pair, expected: Key, bytes: usize) -> (Word, u64) {
    pair.until("a difference", |_, b| match b.poll(expected, bytes) {
        Arrival::NotYet => None,
        Arrival::Differs { word, bytes } => Some((word, bytes)),
        other => panic!("delivered: {other:?}"),
    })
}

/// The operation is compared.
pub fn another_operation_differs(connect: Connect) {
    for bytes in [8, 2000] {
        let mut pair = connect(CONFIG, 0);
        pair.send(keyed(0, 8), &message(1, bytes));
        assert_eq!(difference(&mut pair, keyed(0, 7), bytes), (keyed(0, 8).word, bytes as u64));
        assert_eq!(difference(&mut pair, keyed(0, 9), bytes), (keyed(0, 8).word, bytes as u64));
        assert_eq!(pair.receive(keyed(0, 8), bytes), message(1, bytes));
    }
}

/// The fingerprint is compared, at every lap.
pub fn another_fingerprint_differs(connect: Connect) {
    let mut pair = connect(CONFIG, 0);
    for n in 0..10 {
        let sent = Key { port: 1, word: Word { operation: 7, fingerprint: n } };
        let expected = Key { port: 1, word: Word { operation: 7, fingerprint: n ^ 0x8000_0000 } };
        pair.send(sent, &message(n, 16));
        assert_eq!(difference(&mut pair, expected, 16), (sent.word, 16));
        assert_eq!(pair.receive(sent, 16), message(n, 16));
    }
}

/// The byte count is compared.
pub fn another_length_differs(connect: Connect) {
    let mut pair = connect(CONFIG, 0);
    for (sent, expected) in [(8, 16), (16, 8), (0, 8), (8, 0), (100, 8), (8, 100), (100, 4096), (4096, 100)] {
        pair.send(key(0), &message(5, sent));
        assert_eq!(difference(&mut pair, key(0), expected), (key(0).word, sent as u64));
        assert_eq!(pair.receive(key(0), sent), message(5, sent));
    }
}

/// A message that differs stays where it is, and so do those behind it; other ports go on.
pub fn a_difference_stays(connect: Connect) {
    let mut pair = connect(CONFIG, 0);
    pair.send(keyed(0, 20), b"first");
    pair.send(keyed(0, 21), b"second");
    pair.send(keyed(1, 22), b"third");
    for _ in 0..3 {
        assert_eq!(difference(&mut pair, keyed(0, 21), 6), (keyed(0, 20).word, 5));
    }
    assert_eq!(pair.receive(keyed(1, 22), 5), b"third");
    assert_eq!(pair.receive(keyed(0, 20), 5), b"first");
    assert_eq!(pair.receive(keyed(0, 21), 6), b"second");
}

/// The same call's earlier message in the same slot is not the next one: neither here nor different, but not yet.
pub fn a_stale_message_is_not_taken_for_new(connect: Connect) {
    for fingerprint in [0, u32::MAX, 0x9E37_79B1] {
        let word = Word { operation: 0, fingerprint };
        let next = Key { port: 0, word };
        let mut pair = connect(CONFIG, 0);
        for n in 0..4 * CONFIG.depth {
            assert_eq!(pair.b.poll(next, 8), Arrival::NotYet);
            pair.send(next, &message(n, 8));
            assert_eq!(pair.receive(next, 8), message(n, 8));
            pair.settle();
            for operation in 0..3 {
                let other = Key { port: 0, word: Word { operation, fingerprint } };
                assert_eq!(pair.b.poll(other, 8), Arrival::NotYet);
            }
        }
    }
}
