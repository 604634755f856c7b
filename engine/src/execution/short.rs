//! Carries out the nodes of a short call: without lists, in one piece each.

use hcomm_ops::{Operand, Rank, RawSpan};
use hcomm_planner::BufferKind;
use hcomm_planner::plan::NodeId;
use hcomm_transports::{Arrival, Room, Sent, Wire};

use super::attempt::{Attempt, Hands};
use super::state::Lent;
use crate::call::{FEW, ShortEnd, ShortNode, ShortOperand, ShortPlace, ShortWay};

impl Hands<'_> {
    /// Carries out a node of a short call. What is out of the ordinary goes the long way.
    #[inline]
    pub fn attempt_short(&mut self, id: NodeId, node: &ShortNode) -> Attempt {
        if let Some(end) = node.awaits
            && !self.may_have(end)
        {
            return Attempt::Waits;
        }
        let attempt = match &node.way {
            _ if self.memory.is_split() => None,
            ShortWay::Send(place, end) => self.send_short(id, node, *place, *end),
            ShortWay::Receive { from, with, to, finish } => {
                self.receive_short(node, *from, *with, *to, *finish)
            }
            ShortWay::Fold { sources, source_count, sinks, sink_count, finish } => {
                self.fold_short(node, &sources[..*source_count], &sinks[..*sink_count], *finish)
            }
            ShortWay::Long => None,
        };
        attempt.unwrap_or_else(|| self.attempt_long(id))
    }

    /// As a node of any other call.
    #[inline(never)]
    fn attempt_long(&mut self, id: NodeId) -> Attempt {
        self.attempt(id, 0)
    }

    /// `None` where there is nothing to send from, or nobody to send to.
    #[inline]
    fn send_short(
        &mut self,
        id: NodeId,
        node: &ShortNode,
        place: ShortPlace,
        end: ShortEnd,
    ) -> Option<Attempt> {
        let ShortPlace::Local(buffer, start) = place else { return None };
        let (peer, key) = (end.peer as Rank, self.key(end.channel));
        let piece = self.memory.slice(buffer, start, node.bytes);
        let wire = self.wires[peer].as_mut()?;
        match wire.send_from(key, &[piece], self.call.may_lend(wire)) {
            Sent::Done => {}
            Sent::Lent(ticket) => self.unsettled.lent.push(Lent { node: id, tile: 0, peer, ticket }),
            Sent::Full => return Some(Attempt::Waits),
        }
        Some(Attempt::Issued(node.bytes))
    }

    /// `None` where another call's message has come.
    #[inline]
    fn receive_short(
        &mut self,
        node: &ShortNode,
        (end, first): (ShortEnd, bool),
        with: Option<ShortOperand>,
        to: (BufferKind, u64),
        finish: bool,
    ) -> Option<Attempt> {
        let Hands { call, memory, .. } = *self;
        let key = self.key(end.channel);
        let local = |(buffer, start)| memory.slice(buffer, start, node.bytes);
        let fold = |message: RawSpan| {
            let message = Operand { span: message, first };
            let sinks = [local(to)];
            match with {
                None => call.kernel.fold(&[message], &sinks, finish),
                Some(with) => {
                    let own = Operand { span: local(with.place), first: with.first };
                    let operands = if with.leads { [own, message] } else { [message, own] };
                    call.kernel.fold(&operands, &sinks, finish);
                }
            }
        };
        match self.wires[end.peer as Rank].as_mut()?.take(key, node.bytes, fold) {
            Arrival::Here(_) => Some(Attempt::Issued(node.bytes)),
            Arrival::NotYet => Some(Attempt::Waits),
            Arrival::Landed | Arrival::Differs { .. } => None,
        }
    }

    /// `None` where another call's message has come. While it waits, it reads nobody's memory.
    #[inline]
    fn fold_short(
        &mut self,
        node: &ShortNode,
        sources: &[(ShortPlace, bool)],
        sinks: &[ShortPlace],
        finish: bool,
    ) -> Option<Attempt> {
        let attempt = self.try_fold_short(node, sources, sinks, finish);
        if !matches!(attempt, Some(Attempt::Issued(_))) {
            sources.iter().for_each(|(place, _)| {
                let _ = self.end_reading_at(place);
            });
        }
        attempt
    }

    #[inline]
    fn try_fold_short(
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
                ShortPlace::Local(buffer, start) => self.memory.slice(buffer, start, node.bytes),
                ShortPlace::Message(end) => match self.poll(end, node.bytes) {
                    Arrival::Here(span) => span,
                    Arrival::NotYet => return Some(Attempt::Waits),
                    Arrival::Landed | Arrival::Differs { .. } => return None,
                },
            };
            *operand = Operand { span, first: *first };
        }
        for (target, place) in targets.iter_mut().zip(sinks) {
            *target = match *place {
                ShortPlace::Local(buffer, start) => self.memory.slice(buffer, start, node.bytes),
                ShortPlace::Message(end) => match self.reserve(end, node.bytes) {
                    Room::Slot(slot) => slot.slice(0, node.bytes),
                    Room::Full => return Some(Attempt::Waits),
                },
            };
        }
        self.call.kernel.fold(&operands[..sources.len()], &targets[..sinks.len()], finish);
        if let Some(taken) = sources.iter().find_map(|(place, _)| self.end_reading_at(place)) {
            return Some(Attempt::Differs(self.called_back(taken, node.bytes)));
        }
        for place in sinks {
            self.commit(place, node.bytes);
        }
        for (place, _) in sources {
            self.release(place);
        }
        Some(Attempt::Issued(node.bytes))
    }

    #[inline]
    fn may_have(&self, end: ShortEnd) -> bool {
        let port = self.key(end.channel).port;
        self.wires[end.peer as Rank].as_ref().is_some_and(|wire| wire.may_have(port))
    }

    #[inline]
    fn poll(&mut self, end: ShortEnd, bytes: usize) -> Arrival {
        let key = self.key(end.channel);
        self.wires[end.peer as Rank].as_mut().map_or(Arrival::NotYet, |wire| wire.poll(key, bytes))
    }

    #[inline]
    fn reserve(&mut self, end: ShortEnd, bytes: usize) -> Room {
        let key = self.key(end.channel);
        self.wires[end.peer as Rank].as_mut().map_or(Room::Full, |wire| wire.reserve(key, bytes))
    }

    #[inline]
    fn commit(&mut self, place: &ShortPlace, bytes: usize) {
        let ShortPlace::Message(end) = *place else { return };
        let key = self.key(end.channel);
        self.wires[end.peer as Rank].iter_mut().for_each(|wire| wire.commit(key, bytes));
    }

    /// The sender of a message that has taken it back while it was read.
    #[inline]
    fn end_reading_at(&mut self, place: &ShortPlace) -> Option<Rank> {
        let ShortPlace::Message(end) = *place else { return None };
        let (peer, port) = (end.peer as Rank, self.key(end.channel).port);
        self.wires[peer].as_mut().is_some_and(|wire| !wire.end_reading(port)).then_some(peer)
    }

    #[inline]
    fn release(&mut self, place: &ShortPlace) {
        let ShortPlace::Message(end) = *place else { return };
        let port = self.key(end.channel).port;
        self.wires[end.peer as Rank].iter_mut().for_each(|wire| wire.release(port));
    }
}
