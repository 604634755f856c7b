//! Whose bytes are whose: lending, calling back, posting, passing back, flushing, losing.

use hcomm_ops::StableBuffer;
use hcomm_transports::wire::REVOKED_BYTES;
use hcomm_transports::{Arrival, Lost, Sent, Ticket, Wire};

use super::Connect;
use crate::pair::{CONFIG, Pair, Source, key, keyed, message};

const POISON: u8 = 0xEE;

/// Offers a span to be lent; `None` where it was copied (and is poisoned at once).
fn offer(pair: &mut Pair, operation: u32, source: &mut Source) -> Option<Ticket> {
    let sent = pair.until("room", |a, _| match a.send_from(keyed(0, operation), &[source.span()], true) {
        Sent::Full => None,
        sent => Some(sent),
    });
    match sent {
        Sent::Lent(ticket) => Some(ticket),
        _ => {
            source.fill(POISON);
            None
        }
    }
}

/// What was copied may be overwritten at once.
pub fn a_copy_leaves_the_span_free(connect: Connect) {
    let mut pair = connect(CONFIG, 0);
    for bytes in [8, 1128, 1129, 4096] {
        let mut source = message(1, bytes);
        let sent = pair.until("room", |a, _| match a.send_from(key(0), &[source.span()], false) {
            Sent::Full => None,
            sent => Some(sent),
        });
        assert_eq!(sent, Sent::Done, "{bytes} bytes that may not be lent");
        source.fill(POISON);
        assert_eq!(pair.receive(key(0), bytes), message(1, bytes));
    }
}

/// A lent span may be overwritten once its ticket is done, and is done once released.
pub fn a_lent_span_is_read_until_done(connect: Connect) {
    let mut pair = connect(CONFIG, u32::MAX - 4);
    for n in 0..5 * CONFIG.depth {
        let source = |m| Source::of(pair.heap(), &message(n + m, 4000));
        let mut sources: Vec<_> = (0..n % CONFIG.depth + 1).map(source).collect();
        let tickets: Vec<_> = sources.iter_mut().map(|source| offer(&mut pair, 7, source)).collect();
        pair.settle();
        for (source, ticket) in sources.iter_mut().zip(&tickets) {
            if ticket.is_some_and(|ticket| pair.a.is_done(ticket)) {
                source.fill(POISON);
            }
        }
        for m in 0..sources.len() as u32 {
            assert_eq!(pair.receive(key(0), 4000), message(n + m, 4000));
        }
        for ticket in tickets.into_iter().flatten() {
            pair.until("a ticket", |a, _| a.is_done(ticket).then_some(()));
        }
    }
}

/// Once called back, a span is never read; the message arrives as it was or is reported as called back.
pub fn a_called_back_span_is_not_read(connect: Connect) {
    let mut pair = connect(CONFIG, 0);
    let mut source = Source::of(pair.heap(), &message(1, 4000));
    let _ticket = offer(&mut pair, 7, &mut source);
    pair.settle();
    pair.until("the call back", |a, _| a.revoke(7).then_some(()));
    source.fill(POISON);
    assert!(pair.a.revoke(7), "what is back stays back");
    let arrival = pair.until("the message", |_, b| match b.poll(key(0), 4000) {
        Arrival::NotYet => None,
        arrival => Some(arrival),
    });
    match arrival {
        Arrival::Here(span) => assert_eq!(span.to_vec(), message(1, 4000)),
        Arrival::Differs { word, bytes } => assert_eq!((word, bytes), (key(0).word, REVOKED_BYTES)),
        other => panic!("unexpected {other:?}"),
    }
}

/// While the peer reads a span, it is called back only where it was copied, or where the reader learns that what it has read is worth
/// nothing; else the answer is "ask again" until the reading ends. Another operation's call back leaves it alone.
pub fn a_span_being_read_is_not_called_back(connect: Connect) {
    let mut pair = connect(CONFIG, 0);
    let mut source = Source::of(pair.heap(), &message(1, 4000));
    let _ticket = offer(&mut pair, 7, &mut source);
    let here = pair.arrive(key(0), 4000);
    assert!(pair.a.revoke(6), "nothing of operation 6 is lent");
    assert!(pair.b.revoke(6), "nothing of operation 6 is being read");
    let back = pair.a.revoke(7);
    if back {
        source.fill(POISON);
    }
    assert_eq!(pair.b.poll(key(0), 4000), Arrival::Here(here));
    let read = here.to_vec();
    if !pair.b.end_reading(0) {
        assert!(back, "only what was called back is worth nothing");
        let late = pair.b.poll(key(0), 4000);
        return assert!(matches!(late, Arrival::Differs { bytes: REVOKED_BYTES, .. }), "{late:?}");
    }
    assert_eq!(read, message(1, 4000));
    pair.b.release(0);
    pair.until("the call back", |a, _| a.revoke(7).then_some(()));
    source.fill(POISON);
    pair.send(key(0), b"next");
    assert_eq!(pair.receive(key(0), 4), b"next");
}

/// A receiver that revokes the operation stops reading, so that the sender gets its span back.
pub fn a_reader_can_give_up(connect: Connect) {
    let mut pair = connect(CONFIG, 0);
    let mut source = Source::of(pair.heap(), &message(1, 4000));
    let _ticket = offer(&mut pair, 7, &mut source);
    pair.arrive(key(0), 4000);
    pair.until("the reader to give up", |_, b| b.revoke(7).then_some(()));
    pair.until("the call back", |a, _| a.revoke(7).then_some(()));
    source.fill(POISON);
}

/// A posted span is filled by the message that it was posted for, if the transport takes it; a revoked one is left alone.
pub fn a_posted_span_is_filled(connect: Connect) {
    let mut pair = connect(CONFIG, 0);
    for bytes in [8, 4000] {
        let mut place = vec![0; bytes];
        let span = place.span();
        let taken = pair.b.post(key(1), span);
        pair.send(key(1), &message(2, bytes));
        let arrival = pair.until("the message", |_, b| match b.poll(key(1), bytes) {
            Arrival::NotYet => None,
            arrival => Some(arrival),
        });
        match arrival {
            Arrival::Landed => assert!(taken, "landed in a span that was not taken"),
            Arrival::Here(here) => span.copy_from(here),
            other => panic!("unexpected {other:?}"),
        }
        assert_eq!(place, message(2, bytes));
        pair.b.release(1);

        let mut revoked = vec![POISON; bytes];
        pair.b.post(keyed(1, 9), revoked.span());
        pair.until("the span", |_, b| b.revoke(9).then_some(()));
        pair.send(keyed(1, 9), &message(3, bytes));
        assert_eq!(pair.receive(keyed(1, 9), bytes), message(3, bytes));
        assert_eq!(revoked, vec![POISON; bytes]);
    }
}

/// A received message can go back, changed, without a copy; order and credit are as for any other.
pub fn a_message_goes_back_in_its_place(connect: Connect) {
    let mut pair = connect(CONFIG, 0);
    for n in 0..20 * CONFIG.depth {
        let (port, answer_port) = ((n % 2) as u16, (n % 3) as u16);
        let bytes = [4096, 100, 8][n as usize % 3];
        pair.send(key(port), &message(n, bytes));
        let here = pair.arrive(key(port), bytes);
        here.write(&message(n + 1000, 8));
        let can = pair.b.can_pass_back(port, answer_port);
        assert!(!can || pair.b.can_pass_back(port, answer_port), "asking changes nothing");
        let passed = pair.b.pass_back(port, key(answer_port), bytes);
        assert!(passed || !can, "message {n} could be passed back");
        if !passed {
            let sent = pair.until("room", |_, b| match b.send_from(key(answer_port), &[here], false) {
                Sent::Full => None,
                sent => Some(sent),
            });
            assert_eq!(sent, Sent::Done);
            pair.b.release(port);
        }
        let mut expected = message(n, bytes);
        expected[..8].copy_from_slice(&message(n + 1000, 8));
        pair = pair.swap();
        assert_eq!(pair.receive(key(answer_port), bytes), expected, "message {n}");
        if n % 7 != 0 {
            pair = pair.swap();
        }
    }
}

/// Everything sent leaves this process's memory in the end.
pub fn what_was_released_is_flushed(connect: Connect) {
    let mut pair = connect(CONFIG, 0);
    assert!(pair.a.is_flushed(), "nothing has been sent");
    let mut source = Source::of(pair.heap(), &message(1, 4000));
    let _ticket = offer(&mut pair, 7, &mut source);
    pair.send(key(1), b"small");
    assert_eq!(pair.receive(key(0), 4000), message(1, 4000));
    assert_eq!(pair.receive(key(1), 5), b"small");
    pair.until("the flush", |a, _| a.is_flushed().then_some(()));
}

/// A wire whose peer is gone says why, once and for all; messages that came before stay readable.
pub fn lost_keeps_what_came(connect: Connect) {
    let mut pair = connect(CONFIG, 0);
    for n in 0..CONFIG.depth {
        pair.send(key(0), &message(n, 100));
    }
    pair.arrive(key(0), 100);
    pair.settle();
    assert_eq!(pair.b.lost(), None);
    let lost = Lost { cause: "its process was killed (signal 9)".into() };
    pair.b.mark_lost(lost.clone());
    pair.b.mark_lost(Lost { cause: "a later guess".into() });
    assert_eq!(pair.b.lost(), Some(&lost));
    for n in 0..CONFIG.depth {
        assert_eq!(pair.receive(key(0), 100), message(n, 100));
    }
    assert_eq!(pair.b.poll(key(0), 100), Arrival::NotYet);
}
