//! [`Hands`]: carries a node out for one tile, if its messages are there and its channels have room.

use hcomm_ops::{Rank, RawSpan};
use hcomm_planner::plan::NodeId;
use hcomm_transports::wire::REVOKED_BYTES;
use hcomm_transports::{Arrival, Key, Room, Sent, Wire, Word};

use super::fold::Workspace;
use super::state::{Lent, Unsettled};
use super::{PORTS, Progress, Wires};
use crate::call::{Call, CallNode, CallSink, CallSource, Way};
use crate::memory::Memory;

/// What one attempt at a node came to.
pub(super) enum Attempt {
    /// Issued, with this many bytes.
    Issued(usize),
    /// A message or room is missing.
    Waits,
    /// Another call's message is there.
    Differs(Progress),
}

/// What a node is carried out with.
pub(super) struct Hands<'a> {
    pub call: &'a Call,
    pub memory: &'a Memory,
    pub room: &'a mut Workspace,
    pub wires: &'a mut Wires,
    pub unsettled: &'a mut Unsettled,
    pub word: Word,
    pub first_port: u16,
}

impl Hands<'_> {
    /// Carries out a node for a tile.
    #[inline]
    pub fn attempt(&mut self, id: NodeId, tile: u32) -> Attempt {
        let node = &self.call.nodes[id as usize];
        match node.way {
            Way::Send => self.send(id, node, tile),
            Way::Fold => self.fold(node, tile),
        }
    }

    /// Appends the peers whose message or room a node lacks.
    pub fn missing(&mut self, id: NodeId, tile: u32, ranks: &mut Vec<Rank>) {
        let node = &self.call.nodes[id as usize];
        let bytes = self.call.message_bytes(node, tile);
        for source in self.call.sources_of(node) {
            let CallSource::Message { peer, channel, .. } = *source else { continue };
            let key = self.key(channel);
            let Some(wire) = &mut self.wires[peer as Rank] else { continue };
            if !matches!(wire.poll(key, bytes), Arrival::Here(_)) || !wire.end_reading(key.port) {
                ranks.push(peer as Rank);
            }
        }
        for sink in self.call.sinks_of(node) {
            let CallSink::Message { peer, channel, .. } = *sink else { continue };
            let key = self.key(channel);
            let Some(wire) = &mut self.wires[peer as Rank] else { continue };
            if !matches!(wire.reserve(key, bytes), Room::Slot(_)) {
                ranks.push(peer as Rank);
            }
        }
    }

    /// A plain send: the transport may read the span itself. Sinks that found room stay sent while others wait.
    #[inline]
    fn send(&mut self, id: NodeId, node: &CallNode, tile: u32) -> Attempt {
        let Hands { call, memory, .. } = *self;
        let pieces = self.room.take_pieces(call, memory, node, tile);
        let sinks = call.sinks_of(node);
        let before = self.unsettled.take_sent(id);
        let mut sent = before;
        while let Some(&CallSink::Message { peer, channel, .. }) = sinks.get(sent)
            && self.send_to(id, tile, (peer as Rank, channel), &pieces)
        {
            sent += 1;
        }
        let bytes = pieces.iter().map(|piece| piece.len()).sum();
        self.room.put_back(pieces);
        if sent < sinks.len() {
            self.unsettled.sent.push((id, sent));
            return Attempt::Waits;
        }
        Attempt::Issued(bytes)
    }

    /// Returns whether there was room.
    #[inline]
    pub fn send_to(
        &mut self,
        node: NodeId,
        tile: u32,
        (peer, channel): (Rank, u8),
        pieces: &[RawSpan],
    ) -> bool {
        let key = self.key(channel);
        let Some(wire) = &mut self.wires[peer] else { return false };
        match wire.send_from(key, pieces, self.call.may_lend(wire)) {
            Sent::Done => true,
            Sent::Lent(ticket) => {
                self.unsettled.lent.push(Lent { node, tile, peer, ticket });
                true
            }
            Sent::Full => false,
        }
    }

    /// Looks whether all messages are there and all channels have room, then folds. While it waits, it reads nobody's memory.
    fn fold(&mut self, node: &CallNode, tile: u32) -> Attempt {
        let attempt = self.try_fold(node, tile);
        if !matches!(attempt, Attempt::Issued(_)) {
            let sources = self.call.sources_of(node);
            sources.iter().for_each(|source| {
                let _ = self.end_reading_of(source);
            });
        }
        attempt
    }

    #[inline]
    fn try_fold(&mut self, node: &CallNode, tile: u32) -> Attempt {
        let Hands { call, memory, .. } = *self;
        let bytes = call.message_bytes(node, tile);
        self.room.clear();
        for source in call.sources_of(node) {
            let CallSource::Message { peer, channel, .. } = *source else { continue };
            let (peer, key) = (peer as Rank, self.key(channel));
            let Some(wire) = &mut self.wires[peer] else { return Attempt::Waits };
            match wire.poll(key, bytes) {
                Arrival::Here(span) => self.room.arrived(span),
                Arrival::Landed | Arrival::NotYet => return Attempt::Waits,
                Arrival::Differs { word, bytes: theirs } => {
                    let differs = Progress::Differs { peer, word, bytes: theirs, expected: bytes };
                    return Attempt::Differs(differs);
                }
            }
        }
        for sink in call.sinks_of(node) {
            let CallSink::Message { peer, channel, answers } = *sink else { continue };
            let key = self.key(channel);
            let place = match answers.and_then(|from| self.answer_place(peer, from, key.port, bytes)) {
                Some(span) => Room::Slot(span),
                None => match &mut self.wires[peer as Rank] {
                    Some(wire) => wire.reserve(key, bytes),
                    None => return Attempt::Waits,
                },
            };
            match place {
                Room::Slot(span) => self.room.reserved(span),
                Room::Full => return Attempt::Waits,
            }
        }
        self.room.fold(call, memory, node, tile);
        if let Some(taken) = call.sources_of(node).iter().find_map(|source| self.end_reading_of(source)) {
            return Attempt::Differs(self.called_back(taken, bytes));
        }
        self.hand_over(node, bytes);
        Attempt::Issued(bytes)
    }

    /// Ends the reading of a message. Returns its sender where that has taken it back meanwhile: what was read is worth nothing.
    #[inline]
    fn end_reading_of(&mut self, source: &CallSource) -> Option<Rank> {
        let CallSource::Message { peer, channel, .. } = *source else { return None };
        let (peer, port) = (peer as Rank, self.key(channel).port);
        self.wires[peer].as_mut().is_some_and(|wire| !wire.end_reading(port)).then_some(peer)
    }

    /// What a message is that its sender took back while it was read.
    #[cold]
    pub fn called_back(&self, peer: Rank, bytes: usize) -> Progress {
        Progress::Differs { peer, word: self.word, bytes: REVOKED_BYTES, expected: bytes }
    }

    /// The message received from `peer` on channel `from`, if what answers it on `port` can take its place.
    fn answer_place(&mut self, peer: u32, from: u8, port: u16, bytes: usize) -> Option<RawSpan> {
        let received = self.key(from);
        let wire = self.wires[peer as Rank].as_mut()?;
        if !wire.can_pass_back(received.port, port) {
            return None;
        }
        let Arrival::Here(span) = wire.poll(received, bytes) else { return None };
        self.room.answered.push((peer, from));
        Some(span)
    }

    /// Commits what a fold has built and releases what it has read.
    #[inline]
    fn hand_over(&mut self, node: &CallNode, bytes: usize) {
        for sink in self.call.sinks_of(node) {
            let CallSink::Message { peer, channel, answers } = *sink else { continue };
            let key = self.key(channel);
            match answers.filter(|from| self.room.answered.contains(&(peer, *from))) {
                None => self.wires[peer as Rank].iter_mut().for_each(|wire| wire.commit(key, bytes)),
                Some(from) => self.pass_back(peer as Rank, from, key, bytes),
            }
        }
        for source in self.call.sources_of(node) {
            if let CallSource::Message { peer, channel, .. } = *source
                && !self.room.answered.contains(&(peer, channel))
            {
                let port = self.key(channel).port;
                self.wires[peer as Rank].iter_mut().for_each(|wire| wire.release(port));
            }
        }
    }

    /// Sends a message back into which its answer was built, as `can_pass_back` allowed.
    fn pass_back(&mut self, peer: Rank, from: u8, key: Key, bytes: usize) {
        let port = self.key(from).port;
        let passed = self.wires[peer].as_mut().is_some_and(|wire| wire.pass_back(port, key, bytes));
        assert!(passed, "a message that could be passed back to rank {peer} was not");
    }

    #[inline]
    pub fn key(&self, channel: u8) -> Key {
        Key { port: (self.first_port + u16::from(channel)) % PORTS, word: self.word }
    }
}
