//! [`Places`]: where chunks lie, with input and output apart or in place.

use std::fmt;

use crate::plan::{Plan, Span};
use crate::request::Collective;
use crate::shape::{BufferKind, alias};
use hcomm_ops::Rank;

/// A chunk's bytes. In place, an input chunk is the output chunk that it lies on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Place {
    pub buffer: BufferKind,
    pub chunk: u32,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&crate::export::words::span(Span::new(self.buffer, self.chunk, 1)))
    }
}

/// How one rank's buffers lie.
#[derive(Clone, Copy, Debug)]
pub(super) struct Places {
    collective: Collective,
    rank: Rank,
    parts: u32,
    inputs: u32,
    outputs: u32,
    scratch: usize,
    in_place: bool,
}

impl Places {
    pub fn new(plan: &Plan, in_place: bool) -> Places {
        let blocks = crate::buffers::BlockCounts::of(plan.collective, plan.world, plan.rank, plan.root);
        let chunks = |blocks: Option<u32>| blocks.unwrap_or(0) * plan.parts;
        let (inputs, outputs, scratch) = (chunks(blocks.input), chunks(blocks.output), plan.scratch.len());
        let Plan { collective, rank, parts, .. } = *plan;
        Places { collective, rank, parts, inputs, outputs, scratch, in_place }
    }

    /// How many places there are.
    pub fn count(self) -> usize {
        self.inputs as usize + self.outputs as usize + self.scratch
    }

    /// The number of a place, below [`Places::count`].
    pub fn index(self, place: Place) -> usize {
        let before = match place.buffer {
            BufferKind::Input => 0,
            BufferKind::Output => self.inputs as usize,
            BufferKind::Scratch => self.inputs as usize + self.outputs as usize,
        };
        before + place.chunk as usize
    }

    /// The places of a span's chunks.
    pub fn of(self, span: Span) -> impl Iterator<Item = Place> {
        span.chunks().map(move |chunk| self.place(span.buffer, chunk))
    }

    pub fn place(&self, buffer: BufferKind, chunk: u32) -> Place {
        let apart = Place { buffer, chunk };
        if buffer != BufferKind::Input || !self.in_place {
            return apart;
        }
        match alias(self.collective, self.rank, self.parts, chunk) {
            Some(twin) if twin < self.outputs => Place { buffer: BufferKind::Output, chunk: twin },
            _ => apart,
        }
    }
}
