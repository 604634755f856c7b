//! Carries out the nodes of a short call: without lists, in one piece each.

use hcomm_ops::{Operand, Rank, RawSpan};
use hcomm_planner::plan::NodeId;
use hcomm_transports::{Arrival, Room, Wire};

use super::attempt::{Attempt, Hands};
use crate::call::{FEW, ShortEnd, ShortNode, ShortPlace, ShortWay};

impl Hands<'_> {
    /// Carries out a node of a short call. What is out of the ordinary goes the long way.
    #[inline]
    pub fn attempt_short(&mut self, id: NodeId, node: &ShortNode) -> Attempt {
        match &node.way {
            ShortWay::Send(place, end) => self.send_short(id, node, *place, *end),
            ShortWay::Fold { sources, source_count, sinks, sink_count, finish } => {
                let (sources, sinks) = (&sources[..*source_count], &sinks[..*sink_count]);
                self.fold_short(node, sources, sinks, *finish).unwrap_or_else(|| self.attempt(id, 0))
            }
            ShortWay::Long => self.attempt(id, 0),
        }
    }

    #[inline]
    fn send_short(&mut self, id: NodeId, node: &ShortNode, place: ShortPlace, end: ShortEnd) -> Attempt {
        let ShortPlace::Local(buffer, start) = place else { return self.attempt(id, 0) };
        let piece = self.memory.buffer(buffer).piece(start, node.bytes);
        if piece.len() != node.bytes {
            return self.attempt(id, 0);
        }
        match self.send_to(id, 0, (end.peer as Rank, end.channel), &[piece]) {
            true => Attempt::Issued(node.bytes),
            false => Attempt::Waits,
        }
    }

    /// `None` where a span lies in several pieces, or another call's message has come.
    #[inline]
    fn fold_short(
        &mut self,
        node: &ShortNode,
        sources: &[(ShortPlace, bool)],
        sinks: &[ShortPlace],
        finish: bool,
    ) -> Option<Attempt> {
        let mut operands = [Operand { span: RawSpan::empty(), first: false }; FEW];
        let mut targets = [RawSpan::empty(); FEW];
        for (operand, (place, first)) in operands.iter_mut().zip(sources) {
            let span = match *place {
                ShortPlace::Local(buffer, start) => self.memory.buffer(buffer).piece(start, node.bytes),
                ShortPlace::Message(end) => match self.poll(end, node.bytes)? {
                    Some(span) => span,
                    None => return Some(Attempt::Waits),
                },
            };
            *operand = Operand { span, first: *first };
        }
        for (target, place) in targets.iter_mut().zip(sinks) {
            *target = match *place {
                ShortPlace::Local(buffer, start) => self.memory.buffer(buffer).piece(start, node.bytes),
                ShortPlace::Message(end) => match self.reserve(end, node.bytes) {
                    Some(span) => span,
                    None => return Some(Attempt::Waits),
                },
            };
        }
        let (operands, targets) = (&operands[..sources.len()], &targets[..sinks.len()]);
        let is_whole = |span: &RawSpan| span.len() == node.bytes;
        if !operands.iter().all(|o| is_whole(&o.span)) || !targets.iter().all(is_whole) {
            return None;
        }
        self.call.kernel.fold(operands, targets, finish);
        self.commit_all(sinks, node.bytes);
        self.release_all(sources);
        Some(Attempt::Issued(node.bytes))
    }

    /// The message that has come, if it has; `None` where it is another than expected.
    #[inline]
    fn poll(&mut self, end: ShortEnd, bytes: usize) -> Option<Option<RawSpan>> {
        let key = self.key(end.channel);
        let Some(wire) = &mut self.wires[end.peer as Rank] else { return Some(None) };
        match wire.poll(key, bytes) {
            Arrival::Here(span) => Some(Some(span)),
            Arrival::NotYet => Some(None),
            Arrival::Landed | Arrival::Differs { .. } => None,
        }
    }

    /// Where a message is to be built, if there is room.
    #[inline]
    fn reserve(&mut self, end: ShortEnd, bytes: usize) -> Option<RawSpan> {
        let key = self.key(end.channel);
        match self.wires[end.peer as Rank].as_mut()?.reserve(key, bytes) {
            Room::Slot(slot) => Some(slot.slice(0, bytes)),
            Room::Full => None,
        }
    }

    #[inline]
    fn commit_all(&mut self, sinks: &[ShortPlace], bytes: usize) {
        for place in sinks {
            if let ShortPlace::Message(end) = place
                && let Some(wire) = &mut self.wires[end.peer as Rank]
            {
                wire.commit(Hands::key_of(self.word, self.first_port, end.channel), bytes);
            }
        }
    }

    #[inline]
    fn release_all(&mut self, sources: &[(ShortPlace, bool)]) {
        for (place, _) in sources {
            if let ShortPlace::Message(end) = place
                && let Some(wire) = &mut self.wires[end.peer as Rank]
            {
                wire.release(Hands::key_of(self.word, self.first_port, end.channel).port);
            }
        }
    }
}
