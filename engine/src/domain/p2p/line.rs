//! [`Line`]: all between this rank and one peer. It takes messages off the port, matches them with receives, answers
//! announcements, and sends.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use hcomm_ops::{Rank, RawSpan, StableBuffer};
use hcomm_transports::{AnyWire, Arrival, Room, Wire};
use rustc_hash::FxHashMap;

use super::anyone::Anyone;
use super::budget::{BUDGET, MESSAGE_COST, Returns};
use super::header::{HEADER_BYTES, Header, Kind, key};
use super::matching::Matching;
use super::outgoing::{Outgoing, Send, Way};
use super::{Message, PORT, Posted, Receive};
use crate::domain::peers::Peers;
use crate::error::Failure;

/// All between this rank and one peer.
pub(super) struct Line {
    rank: Rank,
    peer: Rank,
    matching: Matching<Early>,
    /// Bytes that `matching` keeps, as the budget counts them.
    kept: u64,
    returns: Returns,
    /// Receives whose messages are coming, by the id of the announcement.
    streams: FxHashMap<u32, Stream>,
    outgoing: Outgoing,
    /// Whether the port was left with messages on it that are to be taken at once, when other peers have had their turn.
    is_cut: bool,
    replies: VecDeque<Header>,
    sent: u32,
    seen: u32,
}

/// A message that came before its receive; of an announced one, only that.
struct Early {
    header: Header,
    payload: Vec<u8>,
}

/// A receive whose message is coming.
struct Stream {
    receive: Receive,
    /// Bytes that have come, and all of them.
    offset: usize,
    total: usize,
}

/// No peer that keeps to its budget makes a rank keep more than this: one that does not is not listened to until receives are posted.
const MAX_KEPT: u64 = 2 * BUDGET as u64;

impl Line {
    pub fn new(rank: Rank, peer: Rank) -> Self {
        Line {
            rank,
            peer,
            matching: Matching::new(peer),
            kept: 0,
            returns: Returns::default(),
            streams: FxHashMap::default(),
            outgoing: Outgoing::default(),
            is_cut: false,
            replies: VecDeque::new(),
            sent: 0,
            seen: 0,
        }
    }

    /// Whether nothing is posted.
    pub fn is_idle(&self) -> bool {
        self.outgoing.is_empty()
            && self.matching.has_no_receives()
            && self.streams.is_empty()
            && self.replies.is_empty()
    }

    pub fn send(&mut self, posted: Posted) {
        self.outgoing.post(posted);
    }

    /// A receive from this peer. What came early is given to it.
    pub fn receive(&mut self, receive: Receive) {
        let Some(Early { header, mut payload }) = self.matching.take_early(receive.posted.tag) else {
            return self.matching.post(receive);
        };
        match header.kind {
            Kind::Eager => {
                self.kept -= cost(&payload);
                self.give(receive, header, payload.span());
            }
            _ => self.answer(receive, header),
        }
    }

    /// Whether a message of this tag came before its receive.
    pub fn has_early(&self, tag: u32) -> bool {
        self.matching.has_early(tag)
    }

    /// Moves what can move. Returns whether anything did.
    pub fn advance(&mut self, wire: &mut AnyWire, anyone: &mut Anyone) -> bool {
        self.drain(wire, anyone) | self.reply(wire) | self.push(wire)
    }

    /// Takes all arrived messages off the port, up to one that is given to a receive from any rank: then other peers have their turn.
    fn drain(&mut self, wire: &mut AnyWire, anyone: &mut Anyone) -> bool {
        let mut any = false;
        self.is_cut = false;
        while self.kept <= MAX_KEPT {
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
            let given = anyone.given();
            self.take(message, anyone);
            wire.release(PORT);
            self.seen = self.seen.wrapping_add(1);
            any = true;
            if anyone.given() != given {
                self.is_cut = true;
                break;
            }
        }
        any
    }

    /// Handles one message. What makes no sense is ignored; its stream then meets its deadline.
    fn take(&mut self, message: RawSpan, anyone: &mut Anyone) {
        let Some(head) = message.checked_slice(0, HEADER_BYTES) else { return };
        let Some(header) = Header::decode(&head.to_vec()) else { return };
        let payload = message.slice(HEADER_BYTES, message.len() - HEADER_BYTES);
        self.outgoing.budget.handle_returned(header.returned);
        match header.kind {
            Kind::Eager | Kind::Announce => match self.matching.take_receive(header.tag, anyone) {
                Some(receive) if header.kind == Kind::Eager => self.give(receive, header, payload),
                Some(receive) => self.answer(receive, header),
                None => self.keep(header, payload),
            },
            Kind::Grant => self.outgoing.handle_granted(header.id),
            Kind::Refuse => self.refused(header),
            Kind::Data => self.take_data(header.id, payload),
            Kind::Credit => {}
        }
    }

    fn keep(&mut self, header: Header, payload: RawSpan) {
        let payload = payload.to_vec();
        if header.kind == Kind::Eager {
            self.kept += cost(&payload);
        }
        self.matching.keep(header.tag, Early { header, payload });
    }

    /// Gives a message that came all at once to its receive.
    fn give(&mut self, receive: Receive, header: Header, payload: RawSpan) {
        self.returns.take(payload.len());
        let message = self.message(&header);
        receive.posted.deliver(message, payload);
    }

    /// Answers an announcement for its receive.
    fn answer(&mut self, receive: Receive, header: Header) {
        let (posted, total) = (&receive.posted, header.total);
        let outcome = posted.takes(self.message(&header));
        let kind = if outcome.is_ok() { Kind::Grant } else { Kind::Refuse };
        let room = posted.span.len() as u64;
        self.replies.push_back(Header { kind, dtype: posted.dtype, total: room, ..header });
        match outcome {
            Ok(()) => {
                self.streams.insert(header.id, Stream { receive, offset: 0, total: total as usize });
            }
            Err(failure) => receive.posted.operation.complete(Err(failure)),
        }
    }

    /// A message of the peer's, for this rank.
    fn message(&self, header: &Header) -> Message {
        Message { from: self.peer, to: self.rank, tag: header.tag, dtype: header.dtype, bytes: header.total }
    }

    fn refused(&mut self, header: Header) {
        let Some(Send { posted, .. }) = self.outgoing.take_announced(header.id) else { return };
        let message = Message {
            from: self.rank,
            to: self.peer,
            tag: posted.tag,
            dtype: posted.dtype,
            bytes: posted.span.len() as u64,
        };
        let failure = message.fault(header.dtype, header.total);
        posted.operation.complete(failure.map_or(Ok(()), Err));
    }

    fn take_data(&mut self, id: u32, payload: RawSpan) {
        let Some(stream) = self.streams.get_mut(&id) else { return };
        let Some(room) = stream.receive.posted.span.checked_slice(stream.offset, payload.len()) else {
            return;
        };
        room.copy_from(payload);
        stream.offset += payload.len();
        if stream.offset >= stream.total
            && let Some(Stream { receive, total, .. }) = self.streams.remove(&id)
        {
            receive.posted.ended(self.peer, total as u64);
        }
    }

    /// Sends what the peer waits for.
    fn reply(&mut self, wire: &mut AnyWire) -> bool {
        let mut any = false;
        while let Some(header) = self.replies.front().copied() {
            if !self.transmit(wire, header, RawSpan::empty()) {
                return any;
            }
            self.replies.pop_front();
            any = true;
        }
        any | (self.returns.is_due() && self.transmit(wire, Header::credit(), RawSpan::empty()))
    }

    /// Sends what may be sent: begins messages, and sends parts of those that stream, in turn, until the port is full.
    fn push(&mut self, wire: &mut AnyWire) -> bool {
        if self.outgoing.is_empty() {
            return false;
        }
        let before = self.sent;
        while self.begin_messages(wire) && self.send_parts(wire) {}
        self.sent != before
    }

    /// Begins all messages that may be begun. Returns whether the port has room still.
    fn begin_messages(&mut self, wire: &mut AnyWire) -> bool {
        let room = wire.config().slot_bytes - HEADER_BYTES;
        while let Some((way, send)) = self.outgoing.next(room) {
            let Posted { tag, span, dtype, .. } = send.posted;
            let (kind, id, payload) = match way {
                Way::Eager => (Kind::Eager, 0, span),
                Way::Announce(id) => (Kind::Announce, id, RawSpan::empty()),
            };
            let header = Header { kind, dtype, tag, total: span.len() as u64, id, returned: 0 };
            if !self.transmit(wire, header, payload) {
                self.outgoing.put_back(send);
                return false;
            }
            match way {
                Way::Eager => {
                    self.outgoing.budget.spend(span.len());
                    send.posted.operation.complete(Ok(()));
                }
                Way::Announce(id) => self.outgoing.note_announced(id, send),
            }
        }
        true
    }

    /// Sends a part of each message that streams. Returns whether any did and the port has room still.
    fn send_parts(&mut self, wire: &mut AnyWire) -> bool {
        let room = wire.config().slot_bytes - HEADER_BYTES;
        let streams = self.outgoing.streams();
        for _ in 0..streams {
            let Some((id, send)) = self.outgoing.streaming() else { break };
            let Posted { tag, span, dtype, .. } = send.posted;
            let part = span.slice(send.offset, room.min(span.len() - send.offset));
            let header =
                Header { kind: Kind::Data, dtype, tag, total: span.len() as u64, id: *id, returned: 0 };
            if !self.transmit(wire, header, part) {
                return false;
            }
            if let Some((_, send)) = self.outgoing.streaming() {
                send.offset += part.len();
            }
            if let Some(send) = self.outgoing.turn() {
                send.posted.operation.complete(Ok(()));
            }
        }
        streams > 0
    }

    fn transmit(&mut self, wire: &mut AnyWire, header: Header, payload: RawSpan) -> bool {
        let (key, bytes) = (key(self.sent), HEADER_BYTES + payload.len());
        let Room::Slot(slot) = wire.reserve(key, bytes) else { return false };
        slot.write(&Header { returned: self.returns.taken(), ..header }.encode());
        slot.slice(HEADER_BYTES, payload.len()).copy_from(payload);
        wire.commit(key, bytes);
        self.returns.note_said();
        self.sent = self.sent.wrapping_add(1);
        true
    }

    /// Fails what waits for a peer that is gone, and forgets what it announced and cannot send any more.
    pub fn blame(&mut self, wire: &AnyWire, peers: &Peers) -> Option<Failure> {
        if self.is_idle() && self.matching.has_nothing_early() {
            return None;
        }
        let call = format!("a message with rank {}", self.peer);
        let failure = self.gone(wire, peers, &call)?;
        let is_idle = self.is_idle();
        self.matching.retain_early(|early| early.header.kind != Kind::Announce);
        self.fail_all(&failure);
        (!is_idle).then_some(failure)
    }

    /// Why nothing more can come from the peer, if so.
    pub fn gone(&self, wire: &AnyWire, peers: &Peers, call: &str) -> Option<Failure> {
        let is_drained = wire.lost().is_some() && !self.is_cut;
        peers.gone(self.peer, u64::MAX, is_drained, call)
    }

    pub fn fail_all(&mut self, failure: &Failure) {
        self.outgoing.fail_all(failure);
        self.matching.fail_all(failure);
        self.replies.clear();
        for (_, stream) in self.streams.drain() {
            stream.receive.posted.operation.complete(Err(failure.clone()));
        }
    }

    pub fn check_time(&mut self, now: Instant, default: Duration) {
        let peer = self.peer;
        self.outgoing.check_time(now, default);
        self.matching.check_time(now, default);
        self.streams.retain(|_, stream| stream.receive.is_in_time(peer, now, default));
    }
}

/// What keeping a message takes of its sender's budget.
fn cost(payload: &[u8]) -> u64 {
    u64::from(MESSAGE_COST) + payload.len() as u64
}
