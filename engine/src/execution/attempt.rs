//! [`Hands`]: carries a node out for one tile, if its messages are there and its channels have room.

use hcomm_ops::{Rank, RawSpan};
use hcomm_planner::plan::NodeId;
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
            if !matches!(wire.poll(key, bytes), Arrival::Here(_)) {
                ranks.push(peer as Rank);
            }
        }
        for sink in self.call.sinks_of(node) {
            let CallSink::Message { peer, channel } = *sink else { continue };
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
        while let Some(&CallSink::Message { peer, channel }) = sinks.get(sent)
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
        match wire.send_from(key, pieces, self.call.lends) {
            Sent::Done => true,
            Sent::Lent(ticket) => {
                self.unsettled.lent.push(Lent { node, tile, peer, ticket });
                true
            }
            Sent::Full => false,
        }
    }

    /// Looks whether all messages are there and all channels have room, then folds.
    fn fold(&mut self, node: &CallNode, tile: u32) -> Attempt {
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
            let CallSink::Message { peer, channel } = *sink else { continue };
            let key = self.key(channel);
            let Some(wire) = &mut self.wires[peer as Rank] else { return Attempt::Waits };
            match wire.reserve(key, bytes) {
                Room::Slot(span) => self.room.reserved(span),
                Room::Full => return Attempt::Waits,
            }
        }
        self.room.fold(call, memory, node, tile);
        self.hand_over(node, bytes);
        Attempt::Issued(bytes)
    }

    /// Commits what a fold has built and releases what it has read.
    #[inline]
    fn hand_over(&mut self, node: &CallNode, bytes: usize) {
        for sink in self.call.sinks_of(node) {
            if let CallSink::Message { peer, channel } = *sink {
                let key = self.key(channel);
                self.wires[peer as Rank].iter_mut().for_each(|wire| wire.commit(key, bytes));
            }
        }
        for source in self.call.sources_of(node) {
            if let CallSource::Message { peer, channel, .. } = *source {
                let port = self.key(channel).port;
                self.wires[peer as Rank].iter_mut().for_each(|wire| wire.release(port));
            }
        }
    }

    #[inline]
    pub fn key(&self, channel: u8) -> Key {
        Key { port: (self.first_port + u16::from(channel)) % PORTS, word: self.word }
    }
}
