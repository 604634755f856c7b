//! [`State`]: how far an execution has come. Which node may come next is the `order`'s business, how it is carried out `attempt`'s.

use hcomm_ops::Rank;
use hcomm_planner::plan::NodeId;
use hcomm_transports::{Ticket, Wire, Word};

use super::attempt::Hands;
use super::fold::Workspace;
use super::order::Order;
use super::{Observer, Progress, WINDOW_CHANNELS, WINDOWS, Wires};
use crate::call::Call;
use crate::memory::Memory;

/// What an advance works with; none of it is the execution's own progress.
pub(super) struct Step<'a> {
    pub call: &'a Call,
    pub memory: &'a Memory,
    pub room: &'a mut Workspace,
    pub wires: &'a mut Wires,
}

/// See the module's text.
#[derive(Debug, Default)]
pub(super) struct State {
    word: Word,
    first_port: u16,
    order: Order,
    unsettled: Unsettled,
}

/// What nodes have begun and not ended.
#[derive(Debug, Default)]
pub(super) struct Unsettled {
    /// Sends whose source somebody still reads.
    pub lent: Vec<Lent>,
    /// Nodes some of whose sends have found room while others wait, and how many have.
    pub sent: Vec<(NodeId, usize)>,
}

/// A span that was sent and is still read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lent {
    pub node: NodeId,
    pub tile: u32,
    pub peer: Rank,
    pub ticket: Ticket,
}

impl Unsettled {
    /// How many of a node's sends have found room already.
    pub fn take_sent(&mut self, node: NodeId) -> usize {
        let at = self.sent.iter().position(|(of, _)| *of == node);
        at.map_or(0, |at| self.sent.swap_remove(at).1)
    }

    /// Whether nobody reads what a node lent.
    #[inline]
    pub fn is_settled(&self, node: NodeId, tile: u32) -> bool {
        self.lent.is_empty() || !self.lent.iter().any(|lent| (lent.node, lent.tile) == (node, tile))
    }
}

impl State {
    /// Begins a call as an operation.
    #[inline]
    pub fn start(&mut self, call: &Call, number: u64) {
        self.word = Word { operation: number as u32, fingerprint: call.fingerprint };
        self.first_port = (number % WINDOWS) as u16 * WINDOW_CHANNELS;
        self.order.start(call);
        self.unsettled.lent.clear();
        self.unsettled.sent.clear();
    }

    #[inline]
    pub fn follow(&mut self, fingerprint: u32) {
        self.word.fingerprint = fingerprint;
    }

    pub fn word(&self) -> Word {
        self.word
    }

    /// Steps (node and tile) issued so far.
    pub fn steps(&self, call: &Call) -> u64 {
        self.order.steps(call)
    }

    /// Issues at most one node on each lane.
    #[inline]
    pub fn advance_round(&mut self, step: &mut Step<'_>, observer: &mut impl Observer) -> Progress {
        if !self.unsettled.lent.is_empty() {
            self.collect(step.wires);
        }
        let State { word, first_port, order, unsettled } = self;
        let Step { call, memory, room, wires } = step;
        let mut hands = Hands { call, memory, room, wires, unsettled, word: *word, first_port: *first_port };
        let moved = order.round(call, &mut hands, observer);
        match moved {
            Err(differs) => differs,
            Ok(_) if self.order.is_over(step.call) && self.unsettled.lent.is_empty() => Progress::Finished,
            Ok(true) => Progress::Moved,
            Ok(false) => Progress::Blocked,
        }
    }

    /// The ranks whose message, room or acknowledgement it lacks.
    pub fn waits_for(&mut self, step: &mut Step<'_>) -> Vec<Rank> {
        let mut ranks: Vec<Rank> = self.unsettled.lent.iter().map(|lent| lent.peer).collect();
        let next = self.order.next(step.call, &self.unsettled);
        let State { word, first_port, unsettled, .. } = self;
        let Step { call, memory, room, wires } = step;
        let mut hands = Hands { call, memory, room, wires, unsettled, word: *word, first_port: *first_port };
        next.into_iter().for_each(|(node, tile)| hands.missing(node, tile, &mut ranks));
        ranks.sort_unstable();
        ranks.dedup();
        ranks
    }

    /// Takes back the spans that peers have finished reading.
    fn collect(&mut self, wires: &mut Wires) {
        let is_read = |lent: &Lent| wires[lent.peer].as_mut().is_some_and(|wire| !wire.is_done(lent.ticket));
        self.unsettled.lent.retain(is_read);
    }
}
