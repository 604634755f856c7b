//! [`PointToPoint`]: tagged messages between two ranks, on a port of their own so that they never stand in a collective's way.
//!
//! Protocol, per pair and direction. Every message on the port begins with a header (`kind`, `tag`, `total` bytes, `id`).
//! - A payload that fits a slot goes at once (`Eager`). A longer one is announced (`Announce`); the receiver grants it (`Grant`) when
//!   a receive of its tag is posted and its turn has come, and the sender streams it (`Data`). A receive that is too small
//!   refuses it (`Refuse`).
//! - Eager messages and announcements of one tag are matched with receives of that tag in order.
//! - The port is drained whether or not a receive is posted: what comes early is kept, up to [`MAX_EARLY_BYTES`] a peer.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hcomm_ops::{Rank, RawSpan};
use hcomm_transports::{AnyWire, Arrival, Key, Room, Wire, Word};

use super::peers::Peers;
use crate::error::Failure;
use crate::execution::{PORTS, Wires};
use crate::operation::Operation;

/// The port, after those of the windows.
pub(crate) const PORT: u16 = PORTS;

/// What may wait unmatched, per peer; beyond it the peer's sends wait.
const MAX_EARLY_BYTES: usize = 4 << 20;

/// Marks the port's messages.
const FINGERPRINT: u32 = 0x7032_7074;

const HEADER_BYTES: usize = 24;

/// One side of a message, submitted.
pub(crate) struct Posted {
    /// The other rank.
    pub peer: Rank,
    /// The tag.
    pub tag: u32,
    /// The bytes, or the room for them.
    pub span: RawSpan,
    /// Shared with the submitter; for a receive it takes the bytes received.
    pub operation: Arc<Operation>,
}

/// See the module's text.
#[derive(Default)]
pub(crate) struct PointToPoint {
    lines: Vec<Line>,
    /// Whether any message was sent, received or seen.
    used: bool,
}

/// All between this rank and one peer.
#[derive(Default)]
struct Line {
    sends: VecDeque<Send>,
    receives: Vec<Receive>,
    early: VecDeque<Early>,
    early_bytes: usize,
    replies: VecDeque<Header>,
    sent: u32,
    seen: u32,
    next_id: u32,
}

struct Send {
    posted: Posted,
    state: Sending,
    since: Option<Instant>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Sending {
    New,
    Announced { id: u32 },
    Streaming { id: u32, offset: usize },
}

struct Receive {
    posted: Posted,
    /// The stream that it has been matched with, and the bytes that have come.
    stream: Option<(u32, usize, usize)>,
    since: Option<Instant>,
}

struct Early {
    header: Header,
    payload: Vec<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Header {
    kind: Kind,
    tag: u32,
    total: u64,
    id: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Eager = 1,
    Announce = 2,
    Grant = 3,
    Data = 4,
    Refuse = 5,
}

impl PointToPoint {
    pub fn new(world: usize) -> Self {
        PointToPoint { lines: (0..world).map(|_| Line::default()).collect(), used: false }
    }

    /// Whether nothing is posted.
    pub fn is_idle(&self) -> bool {
        !self.used
            || self.lines.iter().all(|l| l.sends.is_empty() && l.receives.is_empty() && l.replies.is_empty())
    }

    pub fn send(&mut self, posted: Posted) {
        self.used = true;
        let line = &mut self.lines[posted.peer];
        line.sends.push_back(Send { posted, state: Sending::New, since: None });
    }

    pub fn receive(&mut self, posted: Posted) {
        self.used = true;
        let line = &mut self.lines[posted.peer];
        line.receives.push(Receive { posted, stream: None, since: None });
        line.match_early();
    }

    /// Moves what can move. Returns whether anything did.
    pub fn advance(&mut self, wires: &mut Wires, peers: &Peers) -> bool {
        if !self.used {
            return false;
        }
        let mut moved = false;
        for (peer, line) in self.lines.iter_mut().enumerate() {
            let Some(wire) = &mut wires[peer] else { continue };
            moved |= line.drain(wire) | line.reply(wire) | line.push(wire);
            if peers.any_gone() {
                moved |= line.blame(peer, wire, peers);
            }
        }
        moved
    }

    /// Looks at deadlines, and whether a peer has begun to send.
    pub fn check_time(&mut self, now: Instant, deadline: Duration) {
        self.used = true;
        for (peer, line) in self.lines.iter_mut().enumerate() {
            line.check_time(peer, now, deadline);
        }
    }

    /// Ends everything.
    pub fn fail_all(&mut self, failure: &Failure) {
        for line in &mut self.lines {
            line.fail_all(failure);
        }
    }
}

impl Line {
    /// Takes all arrived messages off the port.
    fn drain(&mut self, wire: &mut AnyWire) -> bool {
        let mut any = false;
        while self.early_bytes < MAX_EARLY_BYTES {
            let key = key(self.seen);
            let message = match wire.poll(key, HEADER_BYTES) {
                Arrival::Here(span) => span,
                Arrival::Differs { word, bytes } if word == key.word => {
                    match wire.poll(key, bytes as usize) {
                        Arrival::Here(span) => span,
                        _ => return any,
                    }
                }
                _ => return any,
            };
            self.take(message);
            wire.release(PORT);
            self.seen = self.seen.wrapping_add(1);
            any = true;
        }
        any
    }

    /// Handles one message. What makes no sense is ignored; its stream then meets its deadline.
    fn take(&mut self, message: RawSpan) {
        let Some(head) = message.checked_slice(0, HEADER_BYTES) else { return };
        let Some(header) = Header::decode(&head.to_vec()) else { return };
        let payload = message.slice(HEADER_BYTES, message.len() - HEADER_BYTES);
        match header.kind {
            Kind::Eager if self.take_eager(header, payload) => {}
            Kind::Announce if self.take_announce(header) => {}
            Kind::Eager | Kind::Announce => {
                self.early_bytes += payload.len();
                self.early.push_back(Early { header, payload: payload.to_vec() });
            }
            Kind::Grant => self.granted(header.id),
            Kind::Refuse => self.refused(header),
            Kind::Data => self.take_data(header.id, payload),
        }
    }

    /// The first unmatched receive of a tag, unless an earlier message of that tag waits already.
    fn matching(&self, tag: u32) -> Option<usize> {
        self.receives.iter().position(|r| r.stream.is_none() && r.posted.tag == tag)
    }

    fn take_eager(&mut self, header: Header, payload: RawSpan) -> bool {
        let Some(at) = self.matching(header.tag) else { return false };
        let posted = self.receives.remove(at).posted;
        posted.deliver(header.total, payload);
        true
    }

    fn take_announce(&mut self, header: Header) -> bool {
        let Some(at) = self.matching(header.tag) else { return false };
        let receive = &mut self.receives[at];
        let fits = header.total <= receive.posted.span.len() as u64;
        let kind = if fits { Kind::Grant } else { Kind::Refuse };
        let room = receive.posted.span.len() as u64;
        self.replies.push_back(Header { kind, tag: header.tag, total: room, id: header.id });
        if fits {
            receive.stream = Some((header.id, 0, header.total as usize));
        } else {
            let posted = self.receives.remove(at).posted;
            posted.too_small(header.total);
        }
        true
    }

    /// Gives early messages to a receive that has just been posted.
    fn match_early(&mut self) {
        let mut at = 0;
        while let Some(early) = self.early.get(at) {
            if self.matching(early.header.tag).is_none() {
                at += 1;
                continue;
            }
            let Some(mut early) = self.early.remove(at) else { return };
            self.early_bytes -= early.payload.len();
            match early.header.kind {
                Kind::Eager => {
                    self.take_eager(early.header, hcomm_ops::StableBuffer::span(&mut early.payload))
                }
                _ => self.take_announce(early.header),
            };
        }
    }

    fn granted(&mut self, id: u32) {
        if let Some(send) = self.sends.iter_mut().find(|s| s.state == Sending::Announced { id }) {
            send.state = Sending::Streaming { id, offset: 0 };
        }
    }

    fn refused(&mut self, header: Header) {
        let refused = |s: &Send| s.state == Sending::Announced { id: header.id };
        if let Some(send) = self.sends.iter().position(refused).and_then(|at| self.sends.remove(at)) {
            let posted = send.posted;
            let bytes = posted.span.len() as u64;
            let failure =
                Failure::MessageSize { rank: posted.peer, tag: posted.tag, bytes, room: header.total };
            posted.operation.complete(Err(failure));
        }
    }

    fn take_data(&mut self, id: u32, payload: RawSpan) {
        let Some(at) = self.receives.iter().position(|r| r.stream.is_some_and(|(s, ..)| s == id)) else {
            return;
        };
        let receive = &mut self.receives[at];
        let Some((_, offset, total)) = &mut receive.stream else { return };
        let Some(room) = receive.posted.span.checked_slice(*offset, payload.len()) else { return };
        room.copy_from(payload);
        *offset += payload.len();
        if *offset >= *total {
            let total = *total as u64;
            let operation = self.receives.remove(at).posted.operation;
            operation.set_received(total);
            operation.complete(Ok(()));
        }
    }

    fn reply(&mut self, wire: &mut AnyWire) -> bool {
        let mut any = false;
        while let Some(header) = self.replies.front().copied() {
            if !self.transmit(wire, header, RawSpan::empty()) {
                break;
            }
            self.replies.pop_front();
            any = true;
        }
        any
    }

    /// Sends what may be sent: new messages in order, and parts of the granted ones.
    fn push(&mut self, wire: &mut AnyWire) -> bool {
        let room = wire.config().slot_bytes - HEADER_BYTES;
        let mut any = false;
        let mut at = 0;
        while at < self.sends.len() {
            match self.push_one(at, room, wire) {
                Pushed::Nothing => at += 1,
                Pushed::Some => any = true,
                Pushed::Ended => {
                    let send = self.sends.remove(at).expect("the index was just in range");
                    send.posted.operation.complete(Ok(()));
                    any = true;
                }
                Pushed::Full => break,
            }
        }
        any
    }

    fn push_one(&mut self, at: usize, room: usize, wire: &mut AnyWire) -> Pushed {
        let Send { posted, state, .. } = &self.sends[at];
        let (tag, span, total) = (posted.tag, posted.span, posted.span.len() as u64);
        match *state {
            Sending::New if span.len() <= room => {
                let header = Header { kind: Kind::Eager, tag, total, id: 0 };
                if self.transmit(wire, header, span) { Pushed::Ended } else { Pushed::Full }
            }
            Sending::New => {
                let id = self.next_id;
                if !self.transmit(wire, Header { kind: Kind::Announce, tag, total, id }, RawSpan::empty()) {
                    return Pushed::Full;
                }
                self.next_id = id.wrapping_add(1);
                self.sends[at].state = Sending::Announced { id };
                Pushed::Some
            }
            Sending::Announced { .. } => Pushed::Nothing,
            Sending::Streaming { id, offset } => {
                let part = span.slice(offset, room.min(span.len() - offset));
                if !self.transmit(wire, Header { kind: Kind::Data, tag, total, id }, part) {
                    return Pushed::Full;
                }
                let offset = offset + part.len();
                self.sends[at].state = Sending::Streaming { id, offset };
                if offset == span.len() { Pushed::Ended } else { Pushed::Some }
            }
        }
    }

    fn transmit(&mut self, wire: &mut AnyWire, header: Header, payload: RawSpan) -> bool {
        let (key, bytes) = (key(self.sent), HEADER_BYTES + payload.len());
        let Room::Slot(slot) = wire.reserve(key, bytes) else { return false };
        slot.write(&header.encode());
        slot.slice(HEADER_BYTES, payload.len()).copy_from(payload);
        wire.commit(key, bytes);
        self.sent = self.sent.wrapping_add(1);
        true
    }

    /// Fails what waits for a peer that is gone.
    fn blame(&mut self, peer: Rank, wire: &AnyWire, peers: &Peers) -> bool {
        if self.sends.is_empty() && self.receives.is_empty() {
            return false;
        }
        let call = format!("a message with rank {peer}");
        let failure = peers.gone(peer, u64::MAX, wire.lost().is_some(), &call);
        failure.is_some_and(|failure| {
            self.fail_all(&failure);
            true
        })
    }

    fn fail_all(&mut self, failure: &Failure) {
        let sends = self.sends.drain(..).map(|s| s.posted);
        for posted in sends.chain(self.receives.drain(..).map(|r| r.posted)) {
            posted.operation.complete(Err(failure.clone()));
        }
    }

    fn check_time(&mut self, peer: Rank, now: Instant, default: Duration) {
        let late = |posted: &Posted, since: &mut Option<Instant>, what: &str| {
            let elapsed = now.duration_since(*since.get_or_insert(now));
            if elapsed < posted.operation.deadline().unwrap_or(default) {
                return true;
            }
            let call = format!("{what} rank {peer} with tag {}", posted.tag);
            let waiting = format!("waiting for rank {peer}");
            posted.operation.complete(Err(Failure::Deadline { call, elapsed, waiting }));
            false
        };
        self.sends.retain_mut(|s| late(&s.posted, &mut s.since, "a send to"));
        self.receives.retain_mut(|r| late(&r.posted, &mut r.since, "a receive from"));
    }
}

/// What one attempt at a send came to.
enum Pushed {
    Nothing,
    Some,
    Ended,
    Full,
}

impl Posted {
    fn deliver(self, total: u64, payload: RawSpan) {
        if payload.len() > self.span.len() {
            return self.too_small(total);
        }
        self.span.copy_from(payload);
        self.operation.set_received(payload.len() as u64);
        self.operation.complete(Ok(()));
    }

    fn too_small(self, bytes: u64) {
        let failure =
            Failure::MessageSize { rank: self.peer, tag: self.tag, bytes, room: self.span.len() as u64 };
        self.operation.complete(Err(failure));
    }
}

impl Header {
    fn encode(self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[0] = self.kind as u8;
        bytes[4..8].copy_from_slice(&self.tag.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.total.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.id.to_le_bytes());
        bytes
    }

    fn decode(bytes: &[u8]) -> Option<Header> {
        let kinds = [Kind::Eager, Kind::Announce, Kind::Grant, Kind::Data, Kind::Refuse];
        let kind = kinds.into_iter().find(|k| *k as u8 == bytes[0])?;
        let word = |at: usize| bytes.get(at..at + 4)?.try_into().ok().map(u32::from_le_bytes);
        let total = u64::from_le_bytes(bytes.get(8..16)?.try_into().ok()?);
        Some(Header { kind, tag: word(4)?, total, id: word(16)? })
    }
}

fn key(message: u32) -> Key {
    Key { port: PORT, word: Word { operation: message, fingerprint: FINGERPRINT } }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_survive_the_wire() {
        for kind in [Kind::Eager, Kind::Announce, Kind::Grant, Kind::Data, Kind::Refuse] {
            let header = Header { kind, tag: u32::MAX - 1, total: u64::MAX, id: 7 };
            assert_eq!(Header::decode(&header.encode()), Some(header));
        }
        assert_eq!(Header::decode(&[9; HEADER_BYTES]), None);
    }
}
