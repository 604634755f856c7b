//! Which buffers a rank has, in blocks, and which chunks of different ranks have the same size. Shared by the graph
//! builder, which lays out hazards, and `verify`, which compares both ends of every message.

use hcomm_ops::Rank;

use crate::plan::Span;
use crate::request::Collective;
use crate::shape::BufferKind;

/// Blocks of a rank's input and output; `None` where the rank has no such buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockCounts {
    /// Of the input.
    pub input: Option<u32>,
    /// Of the output.
    pub output: Option<u32>,
}

impl BlockCounts {
    /// The buffers of rank `rank` in a world of `world`.
    pub fn of(collective: Collective, world: usize, rank: Rank, root: Rank) -> Self {
        let (one, all) = (Some(1), Some(world as u32));
        let at_root = |blocks: Option<u32>| if rank == root { blocks } else { None };
        let (input, output) = match collective {
            Collective::AllReduce | Collective::Barrier => (one, one),
            Collective::AllGather => (one, all),
            Collective::ReduceScatter => (all, one),
            Collective::Broadcast => (at_root(one), one),
            Collective::Reduce => (one, at_root(one)),
            Collective::Gather => (one, at_root(all)),
            Collective::Scatter => (at_root(all), one),
            Collective::AllToAll => (all, all),
        };
        BlockCounts { input, output }
    }
}

/// Names a size: two chunks with equal classes have equally many elements, whatever the counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SizeClass {
    /// Rank that contributes the block, where blocks differ by contributor.
    pub from: u32,
    /// Rank that the block is for, where blocks differ by destination.
    pub to: u32,
    /// Part within the block.
    pub part: u32,
}

/// The size class of an input or output chunk of rank `rank`. Where `even`, all blocks are equally long.
pub fn size_class(
    collective: Collective,
    rank: Rank,
    parts: u32,
    buffer: BufferKind,
    chunk: u32,
    even: bool,
) -> SizeClass {
    let (block, part, me) = (chunk / parts, chunk % parts, rank as u32);
    let is_input = buffer == BufferKind::Input;
    let (from, to) = match collective {
        _ if even => (0, 0),
        Collective::AllGather | Collective::Gather => (if is_input { me } else { block }, 0),
        Collective::ReduceScatter | Collective::Scatter => (0, if is_input { block } else { me }),
        Collective::AllToAll if is_input => (me, block),
        Collective::AllToAll => (block, me),
        _ => (0, 0),
    };
    SizeClass { from, to, part }
}

impl Span {
    /// Chunks `first .. first + count` of a buffer.
    pub const fn new(buffer: BufferKind, first: u32, count: u32) -> Span {
        Span { buffer, first, count }
    }

    /// One chunk of the input.
    pub const fn input(chunk: u32) -> Span {
        Span::new(BufferKind::Input, chunk, 1)
    }

    /// One chunk of the output.
    pub const fn output(chunk: u32) -> Span {
        Span::new(BufferKind::Output, chunk, 1)
    }

    /// `count` chunks from `offset` within this span.
    pub const fn part(self, offset: u32, count: u32) -> Span {
        Span::new(self.buffer, self.first + offset, count)
    }

    /// Its chunks.
    pub fn chunks(self) -> std::ops::Range<u32> {
        self.first..self.first + self.count
    }
}
