//! [`Line`]: all between this rank and one peer. It takes messages off the port, matches them with receives, answers
//! announcements, and sends.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use hcomm_ops::{Rank, RawSpan};
use hcomm_transports::{AnyWire, Arrival, Room, Wire};

use super::anyone::Anyone;
use super::header::{HEADER_BYTES, Header, Kind, key};
use super::{PORT, Posted, Receive};
use crate::domain::peers::Peers;
use crate::error::Failure;

/// What may wait unmatched, per peer; beyond it the peer's sends wait.
const MAX_EARLY_BYTES: usize = 4 << 20;

/// All between this rank and one peer.
pub(super) struct Line {
    peer: Rank,
    sends: VecDeque<Send>,
    receives: Vec<Receive>,
    early: VecDeque<Early>,
    early_bytes: usize,
    /// Whether the port was left with messages on it that are to be taken at once, when other peers have had their turn.
    is_cut: bool,
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

struct Early {
    header: Header,
    payload: Vec<u8>,
}

impl Line {
    pub fn new(peer: Rank) -> Self {
        Line {
            peer,
            sends: VecDeque::new(),
            receives: Vec::new(),
            early: VecDeque::new(),
            early_bytes: 0,
            is_cut: false,
            replies: VecDeque::new(),
            sent: 0,
            seen: 0,
            next_id: 0,
        }
    }

    /// Whether nothing is posted.
    pub fn is_idle(&self) -> bool {
        self.sends.is_empty() && self.receives.is_empty() && self.replies.is_empty()
    }

    pub fn send(&mut self, posted: Posted) {
        self.sends.push_back(Send { posted, state: Sending::New, since: None });
    }

    /// A receive from this peer. What came early is given to it.
    pub fn receive(&mut self, receive: Receive, anyone: &mut Anyone) {
        let tag = receive.posted.tag;
        self.receives.push(receive);
        self.match_early(tag, anyone);
    }

    /// Moves what can move. Returns whether anything did.
    pub fn advance(&mut self, wire: &mut AnyWire, anyone: &mut Anyone) -> bool {
        self.drain(wire, anyone) | self.reply(wire) | self.push(wire)
    }

    /// Takes all arrived messages off the port, up to one that is given to a receive from any rank: then other peers have their turn.
    fn drain(&mut self, wire: &mut AnyWire, anyone: &mut Anyone) -> bool {
        let mut any = false;
        self.is_cut = false;
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
        match header.kind {
            Kind::Eager if self.take_eager(header, payload, anyone) => {}
            Kind::Announce if self.take_announce(header, anyone) => {}
            Kind::Eager | Kind::Announce => {
                self.early_bytes += payload.len();
                self.early.push_back(Early { header, payload: payload.to_vec() });
            }
            Kind::Grant => self.granted(header.id),
            Kind::Refuse => self.refused(header),
            Kind::Data => self.take_data(header.id, payload),
        }
    }

    /// The first unmatched receive of a tag, of those posted for this peer or for any. It is among `receives` then.
    fn matching(&mut self, tag: u32, anyone: &mut Anyone) -> Option<usize> {
        let own = self.receives.iter().position(|r| r.stream.is_none() && r.posted.tag == tag);
        let before = own.map(|at| self.receives[at].order);
        let Some(receive) = anyone.give(tag, before, self.peer) else { return own };
        self.receives.push(receive);
        Some(self.receives.len() - 1)
    }

    fn take_eager(&mut self, header: Header, payload: RawSpan, anyone: &mut Anyone) -> bool {
        let Some(at) = self.matching(header.tag, anyone) else { return false };
        let posted = self.receives.remove(at).posted;
        posted.deliver(header.total, payload);
        true
    }

    fn take_announce(&mut self, header: Header, anyone: &mut Anyone) -> bool {
        let Some(at) = self.matching(header.tag, anyone) else { return false };
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

    /// Gives the first early message of a tag to the receive that has just been posted, which no other is waiting for.
    pub fn match_early(&mut self, tag: u32, anyone: &mut Anyone) {
        let Some(at) = self.early_of(tag) else { return };
        let Some(Early { header, mut payload }) = self.early.remove(at) else { return };
        self.early_bytes -= payload.len();
        match header.kind {
            Kind::Eager => self.take_eager(header, hcomm_ops::StableBuffer::span(&mut payload), anyone),
            _ => self.take_announce(header, anyone),
        };
    }

    /// The place of the first message of a tag that came early.
    pub fn early_of(&self, tag: u32) -> Option<usize> {
        self.early.iter().position(|early| early.header.tag == tag)
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
            self.receives.remove(at).posted.ended(total);
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

    /// Fails what waits for a peer that is gone, and forgets what it announced and cannot send any more.
    pub fn blame(&mut self, wire: &AnyWire, peers: &Peers) -> bool {
        let is_announced = self.early.iter().any(Early::is_announced);
        if self.sends.is_empty() && self.receives.is_empty() && !is_announced {
            return false;
        }
        let call = format!("a message with rank {}", self.peer);
        let Some(failure) = self.gone(wire, peers, &call) else { return false };
        self.early.retain(|early| !early.is_announced());
        self.fail_all(&failure);
        true
    }

    /// Why nothing more can come from the peer, if so.
    pub fn gone(&self, wire: &AnyWire, peers: &Peers, call: &str) -> Option<Failure> {
        let is_drained = wire.lost().is_some() && !self.is_cut;
        peers.gone(self.peer, u64::MAX, is_drained, call)
    }

    pub fn fail_all(&mut self, failure: &Failure) {
        let sends = self.sends.drain(..).map(|s| s.posted);
        for posted in sends.chain(self.receives.drain(..).map(|r| r.posted)) {
            posted.operation.complete(Err(failure.clone()));
        }
    }

    pub fn check_time(&mut self, now: Instant, default: Duration) {
        let peer = self.peer;
        let in_time = |posted: &Posted, since: &mut Option<Instant>, what: &str| {
            posted.is_in_time(since, now, default, || {
                let call = format!("{what} rank {peer} with tag {}", posted.tag);
                (call, format!("waiting for rank {peer}"))
            })
        };
        self.sends.retain_mut(|s| in_time(&s.posted, &mut s.since, "a send to"));
        self.receives.retain_mut(|r| in_time(&r.posted, &mut r.since, "a receive from"));
    }
}

impl Early {
    fn is_announced(&self) -> bool {
        self.header.kind == Kind::Announce
    }
}

/// What one attempt at a send came to.
enum Pushed {
    Nothing,
    Some,
    Ended,
    Full,
}
