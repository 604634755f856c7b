//! [`Program`]: what an execution plan says, its numbers resolved and checked. `read` makes it, `run` carries it out.

use std::fmt;

use hcomm_ops::Rank;

use super::kinds::Kind;
use crate::import::slices::{Buffer, Operand, Outline};

/// A whole plan.
#[derive(Clone, Debug)]
pub(super) struct Program {
    pub outline: Outline,
    pub in_place: bool,
    pub gpus: Vec<Gpu>,
    /// What waits and acquires take from: channels' ends and semaphores.
    pub counters: Vec<Counter>,
}

/// One rank's part.
#[derive(Clone, Debug)]
pub(super) struct Gpu {
    /// Chunks of its buffers.
    pub chunks: [u32; 3],
    pub blocks: Vec<Block>,
}

/// A thread block.
#[derive(Clone, Debug)]
pub(super) struct Block {
    pub ops: Vec<Op>,
}

/// A count that some blocks raise and others take from, waiting while nothing is left.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counter {
    /// What may be taken without anybody having raised it.
    pub initial: i64,
}

/// One operation.
#[derive(Clone, Debug)]
pub(super) struct Op {
    pub spot: Spot,
    pub kind: &'static Kind,
    pub act: Act,
}

/// What it does.
#[derive(Clone, Debug)]
pub(super) enum Act {
    Nothing,
    /// Raises counters.
    Raise(Vec<usize>),
    /// Takes one from each counter.
    Take(Vec<usize>),
    /// Meets so many blocks of its gpu.
    Meet {
        barrier: u64,
        blocks: usize,
    },
    /// Moves chunks; then raises counters.
    Move {
        moves: Vec<Move>,
        raises: Vec<usize>,
    },
}

/// Folds sources from left to right into all sinks.
#[derive(Clone, Debug)]
pub(super) struct Move {
    pub sources: Vec<Place>,
    pub sinks: Vec<Place>,
    /// Chunks of each.
    pub count: u32,
}

/// Where an operand lies: at one rank, or at all of a switch's.
#[derive(Clone, Debug)]
pub(super) struct Place {
    pub ranks: Vec<Rank>,
    pub operand: Operand,
    pub packets: bool,
}

impl Program {
    /// All that is moved.
    pub fn moves(&self) -> impl Iterator<Item = &Move> {
        let ops = self.gpus.iter().flat_map(|gpu| &gpu.blocks).flat_map(|block| &block.ops);
        ops.flat_map(|op| match &op.act {
            Act::Move { moves, .. } => &moves[..],
            _ => &[],
        })
    }

    /// Whether an operation writes what the file calls an input.
    pub fn writes_input(&self) -> bool {
        self.moves().flat_map(|each| &each.sinks).any(|sink| sink.operand.buffer == Buffer::Input)
    }
}

/// An element, for errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Spot {
    pub gpu: Rank,
    pub block: usize,
    pub op: usize,
    /// Within a pipeline.
    pub inner: Option<usize>,
}

impl fmt::Display for Spot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "gpu {}, threadblock {}, op {}", self.gpu, self.block, self.op)?;
        self.inner.map_or(Ok(()), |inner| write!(f, ".{inner}"))
    }
}
