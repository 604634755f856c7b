//! What all readers end with: nodes in an order that their waits allow become the slices of a plan.
//!
//! `storage` says where the chunks of a file lie and what they hold, `fold` what a node folds, `deps` what it has to wait for besides
//! the file's own waits, and `freeze` writes the slices.

mod deps;
mod fold;
mod freeze;
mod storage;

pub(crate) use fold::{Draft, Folded, Operands, Origin, Target};
pub(crate) use freeze::{freeze, name};
pub(crate) use storage::{Storage, Value, Where};

use std::collections::BTreeMap;

use hcomm_ops::Rank;

use crate::buffers::BlockCounts;
use crate::plan::{ByteRange, LaneKind};
use crate::request::Collective;

/// What a file says of the whole plan.
#[derive(Clone, Debug)]
pub(crate) struct Outline {
    pub name: String,
    pub world: usize,
    pub collective: Collective,
    pub root: Rank,
    /// Chunks per block.
    pub parts: u32,
    pub bytes: ByteRange,
}

impl Outline {
    /// Chunks of a rank's input and output; `None` where the collective gives it no such buffer.
    pub fn buffers(&self, rank: Rank) -> [Option<u32>; 2] {
        let blocks = BlockCounts::of(self.collective, self.world, rank, self.root);
        [blocks.input, blocks.output].map(|blocks| blocks.map(|blocks| blocks * self.parts))
    }
}

/// First chunk of what a step reads or writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Operand {
    pub buffer: Buffer,
    pub first: u32,
}

/// A buffer of the file; the number is its place among a rank's sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Buffer {
    Input = 0,
    Output = 1,
    Scratch = 2,
}

impl Buffer {
    /// All, as the file spells them.
    pub const NAMES: [(&'static str, Buffer); 3] =
        [("i", Buffer::Input), ("o", Buffer::Output), ("s", Buffer::Scratch)];

    pub fn name(self) -> &'static str {
        Buffer::NAMES[self as usize].0
    }
}

/// Chunks of a rank's buffer that a step reads or writes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Use {
    pub operand: Operand,
    pub count: u32,
    pub writes: bool,
}

/// A channel in use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Fifo {
    pub source: Rank,
    pub destination: Rank,
    /// Among those of the pair.
    pub index: u8,
}

/// One rank's nodes in an order in which they can be carried out, and its buffers after the last. `S` says which element of the
/// file a node comes from.
#[derive(Clone, Debug)]
pub(crate) struct Ordered<S> {
    pub drafts: Vec<Draft<S>>,
    pub storage: Storage,
    /// What carries a lane out, where that does not follow from whom it talks to.
    pub kinds: BTreeMap<usize, LaneKind>,
}
