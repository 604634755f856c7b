//! [`Graph`]: one rank's plan under construction. Algorithms write it through a [`Builder`], passes rewrite it, and
//! `freeze` turns it into flat arrays.
//!
//! Node indices are program order: an edge always goes from a lower to a higher index, before and after every pass.

mod builder;
mod frame;
mod hazard;

pub(crate) use builder::Builder;
pub(crate) use frame::Frame;
pub(crate) use hazard::Hazards;

use hcomm_ops::Rank;
use petgraph::Direction::{Incoming, Outgoing};
use petgraph::stable_graph::{NodeIndex, StableDiGraph};

use crate::buffers::BlockCounts;
use crate::plan::Span;
use crate::request::Collective;
use crate::shape::BufferKind;

/// A channel end as an operation names it: the operation says the direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct End {
    pub peer: Rank,
    pub index: u8,
}

/// Most chunks in one message: longer runs are cut, so that a slot holds a tile of each.
pub(crate) const MAX_SPAN: u32 = 32;

/// What a value is made of, where the collective reduces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Holds {
    /// One rank's input.
    Raw,
    /// A fold, or a part of one, within a team: of how many of its members' contributions.
    Sum { team: u32, members: u64 },
}

/// Who folds together: all ranks, or those that carry out a part of the plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Team {
    pub members: u64,
    /// The contributions of all members together are those of all ranks.
    pub completes: bool,
}

/// What an operation folds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum From {
    Span { span: Span, first: bool },
    Message { end: End, first: bool, holds: Holds },
}

impl From {
    /// The local span, if it is one.
    pub fn span(&self) -> Option<Span> {
        match self {
            From::Span { span, .. } => Some(*span),
            From::Message { .. } => None,
        }
    }

    /// The same source, marked as a raw contribution or not.
    pub fn marked(self, raw: bool) -> From {
        match self {
            From::Span { span, .. } => From::Span { span, first: raw },
            From::Message { end, holds, .. } => From::Message { end, first: raw, holds },
        }
    }

    /// Whether it is marked as a raw contribution.
    pub fn is_first(&self) -> bool {
        matches!(self, From::Span { first: true, .. } | From::Message { first: true, .. })
    }
}

/// Where an operation stores its result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum To {
    Span(Span),
    Message(End),
}

impl To {
    /// The local span, if it is one.
    pub fn span(&self) -> Option<Span> {
        match self {
            To::Span(span) => Some(*span),
            To::Message(_) => None,
        }
    }
}

/// A node under construction; the same one shape as in the frozen plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Op {
    pub sources: Vec<From>,
    pub sinks: Vec<To>,
    /// Says how many elements the operation moves, where it touches no local span any more.
    pub extent: Span,
    pub finish: bool,
    /// Operations of different stages are never fused, so that their lanes may be on different tiles.
    pub stage: u16,
    /// Into [`Graph::teams`].
    pub team: u32,
    pub lane: u32,
}

impl Op {
    /// Whether it sends.
    pub fn sends(&self) -> bool {
        self.sinks.iter().any(|to| matches!(to, To::Message(_)))
    }

    /// Whether it may be done later than it is issued; see `Plan::lends`.
    pub fn lends(&self) -> bool {
        self.sends() && matches!(self.sources[..], [From::Span { .. }])
    }

    /// The ends it receives from.
    pub fn ends_in(&self) -> impl Iterator<Item = End> + '_ {
        self.sources.iter().filter_map(|from| match from {
            From::Message { end, .. } => Some(*end),
            From::Span { .. } => None,
        })
    }

    /// The ends it sends on.
    pub fn ends_out(&self) -> impl Iterator<Item = End> + '_ {
        self.sinks.iter().filter_map(|to| match to {
            To::Message(end) => Some(*end),
            To::Span(_) => None,
        })
    }

    /// All its local spans, sources first.
    pub fn spans(&self) -> impl Iterator<Item = Span> + '_ {
        self.sources.iter().filter_map(From::span).chain(self.sinks.iter().filter_map(To::span))
    }
}

/// Why one operation follows another: a set of reasons.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Hazard(u8);

impl Hazard {
    /// The later one reads what the earlier one wrote.
    pub const RAW: Hazard = Hazard(1);
    /// The later one overwrites what the earlier one read.
    pub const WAR: Hazard = Hazard(2);
    /// The later one overwrites what the earlier one wrote.
    pub const WAW: Hazard = Hazard(4);
    /// Both use the same channel end.
    pub const FIFO: Hazard = Hazard(8);

    pub fn and(self, other: Hazard) -> Hazard {
        Hazard(self.0 | other.0)
    }

    pub fn has(self, other: Hazard) -> bool {
        self.0 & other.0 != 0
    }

    /// Whether bytes are the reason; a channel's order alone is kept by its lane.
    pub fn is_data(self) -> bool {
        self != Hazard::FIFO
    }

    /// Whether the later one overwrites something.
    pub fn overwrites(self) -> bool {
        self.has(Hazard::WAR.and(Hazard::WAW))
    }
}

/// One rank's operations and the order that they need.
#[derive(Clone, Debug)]
pub(crate) struct Graph {
    pub ops: StableDiGraph<Op, Hazard>,
    pub collective: Collective,
    pub world: usize,
    pub rank: Rank,
    pub parts: u32,
    pub teams: Vec<Team>,
    pub blocks: BlockCounts,
    /// For each scratch chunk, the input or output chunk whose size it has.
    pub scratch: Vec<Span>,
    /// For each scratch chunk, the place of the program that it is a value of, if it has one: later values of a place may lie
    /// where earlier ones lay.
    pub homes: Vec<Option<u32>>,
}

impl Graph {
    /// The operations in program order.
    pub fn program(&self) -> Vec<NodeIndex> {
        self.ops.node_indices().collect()
    }

    /// Chunks of a buffer.
    pub fn chunks(&self, buffer: BufferKind) -> u32 {
        match buffer {
            BufferKind::Input => self.blocks.input.unwrap_or(0) * self.parts,
            BufferKind::Output => self.blocks.output.unwrap_or(0) * self.parts,
            BufferKind::Scratch => self.scratch.len() as u32,
        }
    }

    /// An input or output span of the same chunk sizes, if there is one.
    pub fn like(&self, span: Span) -> Option<Span> {
        if span.buffer != BufferKind::Scratch {
            return Some(span);
        }
        let likes = &self.scratch[span.first as usize..(span.first + span.count) as usize];
        let first = *likes.first()?;
        let side_by_side = |(i, like): (usize, &Span)| *like == first.part(i as u32, 1);
        likes.iter().enumerate().all(side_by_side).then(|| first.part(0, span.count))
    }

    /// The last operation that must precede `op`.
    pub fn last_before(&self, op: NodeIndex) -> Option<NodeIndex> {
        self.ops.neighbors_directed(op, Incoming).max()
    }

    /// The first operation that must follow `op`.
    pub fn first_after(&self, op: NodeIndex) -> Option<NodeIndex> {
        self.ops.neighbors_directed(op, Outgoing).min()
    }

    /// Gives the edges of `gone` to `kept` and removes `gone`, whose contents the caller has moved.
    pub fn contract(&mut self, kept: NodeIndex, gone: NodeIndex) {
        let mut before = self.ops.neighbors_directed(gone, Incoming).detach();
        while let Some((edge, other)) = before.next(&self.ops) {
            if other != kept {
                self.join(other, kept, self.ops[edge]);
            }
        }
        let mut after = self.ops.neighbors_directed(gone, Outgoing).detach();
        while let Some((edge, other)) = after.next(&self.ops) {
            if other != kept {
                self.join(kept, other, self.ops[edge]);
            }
        }
        self.ops.remove_node(gone);
    }

    /// Adds an edge, or a reason to the one that exists.
    pub fn join(&mut self, before: NodeIndex, after: NodeIndex, hazard: Hazard) {
        match self.ops.find_edge(before, after) {
            Some(edge) => self.ops[edge] = self.ops[edge].and(hazard),
            None => {
                self.ops.add_edge(before, after, hazard);
            }
        }
    }
}
