//! Two ends over the loopback interface, and the receiving half fed with whatever bytes.

use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use hcomm_ops::RawSpan;
use proptest::prelude::*;

use super::frame::{Header, encode_message};
use super::inbox::Inbox;
use super::outbox::Outbox;
use super::sys::{self, Slot};
use super::{TcpOptions, TcpWire};
use crate::wire::{Arrival, Key, Lost, Room, Sent, Wire, WireConfig, Word};

const CONFIG: WireConfig = WireConfig { ports: 5, depth: 4, slot_bytes: 64 * 1024 };
const WORD: Word = Word { operation: 1, fingerprint: 0xabcd };
/// Each port's first message, so that its counters wrap within a test.
const NEAR_WRAP: u32 = u32::MAX - 2;

fn streams() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    (near, listener.accept().unwrap().0)
}

fn pair(options: TcpOptions) -> (TcpWire, TcpWire) {
    let (near, far) = streams();
    let wire = |stream| TcpWire::with_first(stream, CONFIG, options, NEAR_WRAP).unwrap();
    (wire(near), wire(far))
}

fn key(port: u16) -> Key {
    Key { port, word: WORD }
}

fn filled(bytes: usize, seed: u8) -> Slot {
    let slot = Slot::new(bytes);
    slot.span().write(&(0..bytes).map(|at| seed.wrapping_add((at * 7 + at / 251) as u8)).collect::<Vec<_>>());
    slot
}

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(10);
    while !is_so() {
        assert!(Instant::now() < deadline, "{what} did not happen within 10 s");
        std::thread::yield_now();
    }
}

fn arrival(wire: &mut TcpWire, port: u16, bytes: usize) -> Arrival {
    let mut arrival = Arrival::NotYet;
    until("an arrival", || {
        wire.progress();
        arrival = wire.poll(key(port), bytes);
        arrival != Arrival::NotYet
    });
    arrival
}

fn bytes_of(arrival: Arrival) -> Vec<u8> {
    match arrival {
        Arrival::Here(span) => span.to_vec(),
        other => panic!("expected bytes in a slot, got {other:?}"),
    }
}

#[test]
fn messages_of_all_sizes_cross_in_order_past_the_wrap() {
    let (mut near, mut far) = pair(TcpOptions::default());
    for (round, bytes) in [0, 1, 31, 4096, 4097, 65536, 8, 0, 65535, 20000].into_iter().enumerate() {
        let source = filled(bytes, round as u8);
        let source = source.span().slice(0, bytes);
        let Sent::Done = near.send_from(key(3), &[source], false) else {
            panic!("round {round} was not taken")
        };
        assert_eq!(bytes_of(arrival(&mut far, 3, bytes)), source.to_vec(), "round {round}");
        far.release(3);
        until("the credit", || {
            far.progress();
            near.progress();
            near.outbox.has_room(3, bytes)
        });
    }
}

#[test]
fn a_full_port_leaves_the_others_free() {
    let (mut near, mut far) =
        pair(TcpOptions { inflight_bytes: 1 << 24, link_bytes_per_s: None, ..TcpOptions::default() });
    let source = filled(CONFIG.slot_bytes, 1);
    for _ in 0..CONFIG.depth {
        assert_ne!(near.send_from(key(0), &[source.span()], false), Sent::Full);
    }
    assert_eq!(near.send_from(key(0), &[source.span()], false), Sent::Full);
    assert_eq!(near.reserve(key(0), 1), Room::Full);
    let small = filled(8, 9);
    assert_eq!(near.send_from(key(1), &[small.span()], false), Sent::Done);
    until("the small message", || {
        near.progress();
        far.progress();
        far.poll(key(1), 8) != Arrival::NotYet
    });
}

#[test]
fn what_the_kernel_does_not_take_is_bounded_and_lent_or_copied() {
    let (mut near, mut far) = pair(TcpOptions {
        inflight_bytes: 128 * 1024,
        link_bytes_per_s: Some(1 << 20),
        ..TcpOptions::default()
    });
    let source = filled(CONFIG.slot_bytes, 1);
    let Sent::Lent(ticket) = near.send_from(key(0), &[source.span()], true) else {
        panic!("a slow link lends")
    };
    assert!(!near.is_done(ticket));
    assert_eq!(near.send_from(key(1), &[source.span()], false), Sent::Full);
    assert!(near.next_wakeup().is_some_and(|wait| wait < Duration::from_millis(1)));
    assert!(near.revoke(WORD.operation));
    assert!(near.is_done(ticket));
    let expected = source.span().to_vec();
    source.span().write(&vec![0; CONFIG.slot_bytes]);
    until("the lent message", || {
        near.progress();
        far.progress();
        far.poll(key(0), CONFIG.slot_bytes) != Arrival::NotYet
    });
    assert_eq!(bytes_of(far.poll(key(0), CONFIG.slot_bytes)), expected);
    until("the flush", || near.is_flushed());
    assert_eq!(near.next_wakeup(), None);
}

#[test]
fn a_posted_message_lands_and_a_revoked_one_does_not() {
    // So slow that a busy machine looks while a message is half there.
    let (mut near, mut far) = pair(TcpOptions {
        inflight_bytes: 1 << 20,
        link_bytes_per_s: Some(1 << 18),
        ..TcpOptions::default()
    });
    let (source, target) = (filled(60_000, 3), Slot::new(60_000));
    assert!(far.post(key(2), target.span()));
    let _ = near.send_from(key(2), &[source.span()], false);
    until("the landing", || {
        near.progress();
        far.progress();
        far.poll(key(2), 60_000) != Arrival::NotYet
    });
    assert_eq!(far.poll(key(2), 60_000), Arrival::Landed);
    assert_eq!(target.span().to_vec(), source.span().to_vec());
    far.release(2);
    assert!(far.post(key(2), target.span()));
    let _ = near.send_from(key(2), &[source.span()], false);
    until("the start of the second", || {
        near.progress();
        far.progress();
        !far.inbox.is_between_frames()
    });
    assert!(far.revoke(WORD.operation));
    target.span().write(&[0; 60_000]);
    until("the second", || {
        near.progress();
        far.progress();
        far.poll(key(2), 60_000) != Arrival::NotYet
    });
    assert_eq!(bytes_of(far.poll(key(2), 60_000)), source.span().to_vec());
    assert_eq!(target.span().to_vec(), vec![0; 60_000]);
}

#[test]
fn a_message_of_another_call_is_reported_and_stays() {
    let (mut near, mut far) = pair(TcpOptions::default());
    let source = filled(16, 0);
    let other = Word { operation: 2, ..WORD };
    assert_eq!(near.send_from(Key { port: 0, word: other }, &[source.span()], false), Sent::Done);
    let differs = Arrival::Differs { word: other, bytes: 16 };
    assert_eq!(arrival(&mut far, 0, 16), differs);
    assert_eq!(far.poll(key(0), 8), differs);
    assert!(matches!(far.poll(Key { port: 0, word: other }, 16), Arrival::Here(_)));
}

#[test]
fn the_end_of_the_stream_counts_after_the_messages_before_it() {
    let (mut near, mut far) = pair(TcpOptions::default());
    let source = filled(50_000, 5);
    assert_eq!(near.send_from(key(0), &[source.span()], false), Sent::Done);
    drop(near);
    until("the loss", || {
        far.progress();
        far.lost().is_some()
    });
    assert_eq!(far.lost().unwrap().to_string(), "it closed the connection");
    assert_eq!(bytes_of(far.poll(key(0), 50_000)), source.span().to_vec());
    assert!(far.poll_fd().is_none());
    assert!(far.is_flushed());
}

#[test]
fn a_wire_marked_lost_keeps_what_has_come() {
    let (mut near, mut far) = pair(TcpOptions::default());
    let source = filled(9, 5);
    assert_eq!(near.send_from(key(0), &[source.span()], false), Sent::Done);
    until("the flush", || near.is_flushed());
    far.mark_lost(Lost { cause: "its process was killed".to_owned() });
    assert_eq!(far.lost().unwrap().to_string(), "its process was killed");
    assert!(matches!(far.poll(key(0), 9), Arrival::Here(_)));
}

#[test]
fn a_malformed_frame_ends_the_wire_with_its_fault() {
    let cases = [
        (Header { port: 9, ..good() }, "its port is 9, of 5"),
        (Header { bytes: 70_000, ..good() }, "it has 70000 bytes, and a slot 65536"),
        (Header { sequence: 4, ..good() }, "it is message 4 of port 0, where 0 was next"),
        (Header { released: 1, ..good() }, "it releases port 0 up to message 1, outside 0..=0"),
    ];
    for (header, fault) in cases {
        let (near, far) = streams();
        let mut far = TcpWire::new(far, CONFIG, TcpOptions::default()).unwrap();
        let frame = encode_message(&header);
        assert_eq!(sys::send(std::os::fd::AsFd::as_fd(&near), &[sys::span_of(&frame)], 32).unwrap(), 32);
        until("the loss", || {
            far.progress();
            far.lost().is_some()
        });
        assert_eq!(far.lost().unwrap().to_string(), format!("it sent a malformed frame: {fault}"));
    }
}

fn good() -> Header {
    Header { port: 0, word: WORD, sequence: 0, bytes: 0, released: 0 }
}

fn feed(inbox: &mut Inbox, outbox: &mut Outbox, bytes: &[u8]) -> bool {
    let mut rest = bytes;
    while !rest.is_empty() {
        let spare = inbox.spare();
        let mut count = 0;
        for span in spare {
            let taken = rest.len().min(span.len());
            span.write(&rest[..taken]);
            rest = &rest[taken..];
            count += taken;
        }
        assert!(count > 0, "an inbox always has room for more of the stream");
        if inbox.handle_filled(count, outbox).is_err() {
            return false;
        }
    }
    true
}

#[test]
fn one_message_too_many_is_an_overrun() {
    let config = WireConfig { ports: 1, depth: 2, slot_bytes: 128 };
    let (mut inbox, mut outbox) = (Inbox::new(config, 0), Outbox::new(config, 0, 0));
    let frame = |sequence| encode_message(&Header { sequence, ..good() });
    assert!(feed(&mut inbox, &mut outbox, &[frame(0), frame(1)].concat()));
    inbox.release(0);
    assert!(feed(&mut inbox, &mut outbox, &frame(2)));
    assert!(!feed(&mut inbox, &mut outbox, &frame(3)));
}

proptest! {
    #[test]
    fn any_stream_is_taken_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..4000)) {
        let config = WireConfig { ports: 2, depth: 2, slot_bytes: 128 };
        let (mut inbox, mut outbox) = (Inbox::new(config, 0), Outbox::new(config, 0, 0));
        feed(&mut inbox, &mut outbox, &bytes);
    }

    #[test]
    fn a_stream_means_the_same_however_it_is_cut(sizes in proptest::collection::vec(0..40_000_usize, 1..5), cut in 1..30_000_usize) {
        let (mut inbox, mut outbox) = (Inbox::new(CONFIG, 0), Outbox::new(CONFIG, 0, 0));
        let mut stream = Vec::new();
        for (at, &bytes) in sizes.iter().enumerate() {
            let (sequence, bytes) = (at as u32, bytes as u32);
            stream.extend(encode_message(&Header { sequence, bytes, ..good() }));
            stream.extend((0..bytes).map(|byte| byte as u8 ^ at as u8));
        }
        for part in stream.chunks(cut) {
            prop_assert!(feed(&mut inbox, &mut outbox, part));
        }
        for (at, &bytes) in sizes.iter().enumerate() {
            let expected: Vec<u8> = (0..bytes).map(|byte| byte as u8 ^ at as u8).collect();
            let Arrival::Here(span) = inbox.poll(key(0), bytes) else { panic!("message {at} is not there") };
            prop_assert_eq!(RawSpan::to_vec(span), expected);
            inbox.release(0);
        }
    }
}

#[test]
fn the_system_looks_after_a_connection_that_is_idle() {
    use rustix::net::sockopt::{socket_keepalive, tcp_keepcnt, tcp_keepidle, tcp_keepintvl};
    for (silence, probe) in
        [(Duration::from_secs(50), Some(10)), (Duration::from_millis(20), Some(1)), (Duration::ZERO, None)]
    {
        let (wire, _far) = pair(TcpOptions { silence, ..TcpOptions::default() });
        let (socket, _) = wire.poll_fd().expect("a socket");
        assert_eq!(socket_keepalive(socket), Ok(probe.is_some()));
        if let Some(seconds) = probe {
            assert_eq!(tcp_keepidle(socket), Ok(Duration::from_secs(seconds)));
            assert_eq!(tcp_keepintvl(socket), Ok(Duration::from_secs(seconds)));
            assert_eq!(tcp_keepcnt(socket), Ok(5));
        }
    }
}
