//! Order, room, sizes and counters.

use hcomm_ops::StableBuffer;
use hcomm_transports::{Arrival, Room, Sent, Wire, WireConfig};

use super::Connect;
use crate::pair::{CONFIG, key, keyed, message, slot};

/// The n-th message sent on a port is the n-th received on that port.
pub fn order_is_kept_per_port(connect: Connect) {
    let mut pair = connect(CONFIG, 0);
    for round in 0..10 {
        for n in 0..CONFIG.depth {
            for port in 0..CONFIG.ports {
                let seed = round * 100 + n * 10 + u32::from(port);
                pair.send(key(port), &message(seed, 100));
            }
        }
        for port in (0..CONFIG.ports).rev() {
            for n in 0..CONFIG.depth {
                let seed = round * 100 + n * 10 + u32::from(port);
                assert_eq!(
                    pair.receive(key(port), 100),
                    message(seed, 100),
                    "round {round}, port {port}, {n}"
                );
            }
        }
    }
}

/// A full port never holds up another, whatever the sizes.
pub fn ports_are_independent(connect: Connect) {
    let mut pair = connect(CONFIG, 0);
    let all = CONFIG.slot_bytes;
    for n in 0..CONFIG.depth {
        pair.send(key(0), &message(n, all));
    }
    for n in 0..20 * CONFIG.depth {
        for port in 1..CONFIG.ports {
            let bytes = [all, 10, 0][n as usize % 3];
            pair.send(key(port), &message(1000 + n, bytes));
            assert_eq!(pair.receive(key(port), bytes), message(1000 + n, bytes));
        }
    }
    for n in 0..CONFIG.depth {
        assert_eq!(pair.receive(key(0), all), message(n, all));
    }
}

/// `depth` messages of the largest size fit on all ports at once; one more is refused until one is released.
pub fn a_port_holds_depth_messages(connect: Connect) {
    let mut pair = connect(CONFIG, 0);
    let all = CONFIG.slot_bytes;
    for n in 0..CONFIG.depth {
        (0..CONFIG.ports).for_each(|port| pair.send(key(port), &message(n, all)));
    }
    pair.settle();
    for port in 0..CONFIG.ports {
        assert_eq!(pair.a.reserve(key(port), 0), Room::Full);
        assert_eq!(pair.a.send_from(key(port), &[], false), Sent::Full);
        assert_eq!(pair.a.send_from(key(port), &[message(1, all).span()], true), Sent::Full);
    }
    assert_eq!(pair.receive(key(1), all), message(0, all));
    pair.send(key(1), &message(CONFIG.depth, all));
    pair.settle();
    assert_eq!(pair.a.reserve(key(0), 1), Room::Full);
    assert_eq!(pair.a.reserve(key(1), 1), Room::Full);
    for n in 1..=CONFIG.depth {
        assert_eq!(pair.receive(key(1), all), message(n, all));
    }
}

/// `poll` finds nothing on a port while others are full.
pub fn a_port_that_is_full_names_no_other(connect: Connect) {
    let mut pair = connect(CONFIG, 0);
    pair.send(key(2), b"for port 2");
    pair.arrive(key(2), 10);
    assert_eq!(pair.b.poll(key(0), 10), Arrival::NotYet);
    assert_eq!(pair.b.poll(key(1), 10), Arrival::NotYet);
    assert_eq!(pair.receive(key(2), 10), b"for port 2");
    pair.settle();
    assert_eq!(pair.b.poll(key(2), 10), Arrival::NotYet);
}

/// Both directions of a port, full at both ends, do not hold each other up; one-sided traffic neither.
pub fn both_directions_at_once(connect: Connect) {
    let mut pair = connect(CONFIG, 0);
    let all = CONFIG.slot_bytes;
    for round in 0..30 {
        let one_sided = round % 3 == 2;
        for n in 0..CONFIG.depth {
            (0..CONFIG.ports).for_each(|port| pair.send(key(port), &message(round + n, all)));
        }
        pair = pair.swap();
        for n in 0..CONFIG.depth {
            (0..CONFIG.ports).for_each(|port| pair.send(key(port), &message(round + n + 50, all)));
        }
        if !one_sided {
            drain(&mut pair, round + 50);
        }
        pair = pair.swap();
        drain(&mut pair, round);
        pair = pair.swap();
        if one_sided {
            drain(&mut pair, round + 50);
        }
        if round % 5 != 0 {
            pair = pair.swap();
        }
    }
}

fn drain(pair: &mut crate::pair::Pair, seed: u32) {
    for n in 0..CONFIG.depth {
        for port in 0..CONFIG.ports {
            assert_eq!(pair.receive(key(port), CONFIG.slot_bytes), message(seed + n, CONFIG.slot_bytes));
        }
    }
}

/// Messages of every size that is on either side of a limit arrive, built in place or copied.
pub fn every_size_arrives(connect: Connect) {
    let mut pair = connect(CONFIG, 0);
    let all = CONFIG.slot_bytes;
    for bytes in [0, 1, 63, 64, 65, 127, 128, 1023, 1024, 1127, 1128, 1129, all - 1, all] {
        let sent = message(bytes as u32, bytes);
        pair.send(key(0), &sent);
        assert_eq!(pair.receive(key(0), bytes), sent, "{bytes} bytes copied");
        let room = pair.until("room", |a, _| slot(a, key(1), bytes));
        assert!(room.len() >= bytes);
        room.write(&sent);
        pair.a.commit(key(1), bytes);
        assert_eq!(pair.receive(key(1), bytes), sent, "{bytes} bytes built in place");
    }
}

/// Asking again before the commit gives the same slot.
pub fn a_reserved_slot_stays(connect: Connect) {
    let mut pair = connect(CONFIG, 0);
    for bytes in [8, 2000] {
        let first = pair.until("room", |a, _| slot(a, key(0), bytes));
        first.write(&message(1, bytes));
        let other = pair.until("room", |a, _| slot(a, key(1), bytes));
        assert!(!other.overlaps(first));
        other.write(&message(2, bytes));
        assert_eq!(slot(&mut pair.a, key(0), bytes), Some(first));
        pair.a.commit(key(1), bytes);
        assert_eq!(slot(&mut pair.a, key(0), bytes), Some(first));
        pair.a.commit(key(0), bytes);
        assert_eq!(pair.receive(key(1), bytes), message(2, bytes));
        assert_eq!(pair.receive(key(0), bytes), message(1, bytes));
    }
}

/// A message may be shorter than what was reserved for it.
pub fn less_may_be_committed_than_reserved(connect: Connect) {
    let mut pair = connect(CONFIG, 0);
    for (reserved, sent) in [(100, 10), (4096, 1129), (40, 0), (1200, 1128)] {
        let room = pair.until("room", |a, _| slot(a, key(0), reserved));
        room.write(&message(3, sent));
        pair.a.commit(key(0), sent);
        assert_eq!(pair.receive(key(0), sent), message(3, sent));
    }
}

/// `send_from` sends the concatenation of its pieces.
pub fn pieces_are_joined(connect: Connect) {
    let mut pair = connect(CONFIG, 0);
    for lengths in
        [&[][..], &[0, 0], &[1, 2, 3], &[40, 0, 8], &[40, 9], &[1000, 1, 3000], &[4096], &[4000, 96]]
    {
        let mut pieces: Vec<Vec<u8>> =
            (0..).zip(lengths).map(|(seed, &bytes)| message(seed, bytes)).collect();
        let spans: Vec<_> = pieces.iter_mut().map(|piece| piece.span()).collect();
        let sent = pair.until("room", |a, _| match a.send_from(key(2), &spans, false) {
            Sent::Full => None,
            sent => Some(sent),
        });
        assert_eq!(sent, Sent::Done);
        let joined = pieces.concat();
        pieces.iter_mut().for_each(|piece| piece.fill(0));
        assert_eq!(pair.receive(key(2), joined.len()), joined);
    }
}

/// Sequence numbers and operation numbers wrap without being noticed, at any depth.
pub fn counters_wrap(connect: Connect) {
    for depth in [2, 3, 5] {
        let config = WireConfig { depth, ..CONFIG };
        let mut pair = connect(config, u32::MAX - 6);
        for n in 0..20_u32 {
            let operation = (u32::MAX - 3).wrapping_add(n);
            let ahead = n % depth;
            for extra in 0..=ahead {
                pair.send(keyed(0, operation), &message(n + extra, 60));
            }
            for extra in 0..=ahead {
                assert_eq!(pair.receive(keyed(0, operation), 60), message(n + extra, 60));
            }
        }
    }
}
