//! [`Place`]: chunks of one rank's buffer, as the steps of a [`super::PlanBuilder`] name them.

use std::fmt;
use std::ops::Range;

use hcomm_ops::Rank;

use crate::shape::BufferKind;

/// Chunks side by side: one (`3`) or several (`0..4`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Chunks {
    pub(super) first: usize,
    pub(super) count: usize,
}

impl From<usize> for Chunks {
    fn from(chunk: usize) -> Chunks {
        Chunks { first: chunk, count: 1 }
    }
}

impl From<Range<usize>> for Chunks {
    fn from(chunks: Range<usize>) -> Chunks {
        Chunks { first: chunks.start, count: chunks.end.saturating_sub(chunks.start) }
    }
}

/// Chunks of one rank's input, output or scratch. Made by [`input`], [`output`] and [`scratch`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Place {
    pub(super) rank: Rank,
    pub(super) buffer: BufferKind,
    /// Of the array, where the buffer is scratch.
    pub(super) name: &'static str,
    pub(super) chunks: Chunks,
}

/// Chunks of what rank `rank` contributes. Chunk `b * parts + p` is part p of block b.
pub fn input(rank: Rank, chunks: impl Into<Chunks>) -> Place {
    Place { rank, buffer: BufferKind::Input, name: "", chunks: chunks.into() }
}

/// Chunks of what rank `rank` ends with. Chunk `b * parts + p` is part p of block b.
pub fn output(rank: Rank, chunks: impl Into<Chunks>) -> Place {
    Place { buffer: BufferKind::Output, ..input(rank, chunks) }
}

/// Chunks of rank `rank`'s own room. It has as many as are used, each as long as what is put there.
pub fn scratch(rank: Rank, chunks: impl Into<Chunks>) -> Place {
    Place { buffer: BufferKind::Scratch, ..input(rank, chunks) }
}

impl Place {
    /// The same chunks of another array of scratch: every name has its own. Of input and output there is one each.
    #[must_use]
    pub fn named(self, name: &'static str) -> Place {
        Place { name, ..self }
    }

    /// Its `i`-th chunk.
    pub(super) fn chunk(self, i: usize) -> usize {
        self.chunks.first + i
    }

    /// How many chunks.
    pub(super) fn count(self) -> usize {
        self.chunks.count
    }

    /// Whether both have a chunk in common.
    pub(super) fn overlaps(self, other: Place) -> bool {
        let (a, b) = (self.chunks, other.chunks);
        let same = (self.rank, self.buffer, self.name) == (other.rank, other.buffer, other.name);
        same && a.first < b.first.saturating_add(b.count) && b.first < a.first.saturating_add(a.count)
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.buffer {
            BufferKind::Input => "in",
            BufferKind::Output => "out",
            BufferKind::Scratch if self.name.is_empty() => "scratch",
            BufferKind::Scratch => self.name,
        })?;
        let Chunks { first, count } = self.chunks;
        match count {
            1 => write!(f, "[{first}]")?,
            _ => write!(f, "[{first}..{}]", first.saturating_add(count))?,
        }
        write!(f, " of rank {}", self.rank)
    }
}
