//! [`Shape`]: how a buffer's elements fall into blocks, chunks and tiles. Pure arithmetic, shared by planner and engine.
//!
//! A buffer is a sequence of **blocks** (one, or one per rank). Every block is split into the same number of **parts**,
//! as evenly as possible, and a part is a **chunk**: chunk `b * parts + p` is part p of block b.

use std::ops::Range;
use std::sync::Arc;

use hcomm_ops::Rank;

use crate::request::Collective;

/// Which buffer of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BufferKind {
    /// What the rank contributes. In place, it shares bytes with the output.
    Input,
    /// Where the result goes.
    Output,
    /// Room that the plan needs for itself.
    Scratch,
}

/// The elements of one buffer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shape {
    /// First element of each block, and the total at the end.
    offsets: Arc<[u64]>,
    parts: u64,
}

impl Shape {
    /// Blocks of the given elements, each split into `parts` chunks.
    ///
    /// # Panics
    /// Where `parts` is 0 or the total exceeds `u64`: the request has been checked before.
    pub fn new(blocks: impl IntoIterator<Item = u64>, parts: u32) -> Self {
        assert!(parts > 0, "a block has at least one chunk");
        let mut offsets = vec![0_u64];
        for block in blocks {
            let end =
                offsets[offsets.len() - 1].checked_add(block).expect("the request's total fits 64 bits");
            offsets.push(end);
        }
        Shape { offsets: offsets.into(), parts: u64::from(parts) }
    }

    /// Chunks in the buffer.
    pub fn chunks(&self) -> u32 {
        ((self.offsets.len() as u64 - 1) * self.parts) as u32
    }

    /// Elements in the buffer.
    pub fn elements(&self) -> u64 {
        self.offsets[self.offsets.len() - 1]
    }

    /// The elements of one chunk.
    #[inline]
    pub fn chunk(&self, chunk: u32) -> Range<u64> {
        let (block, part) = (u64::from(chunk) / self.parts, u64::from(chunk) % self.parts);
        let (start, end) = (self.offsets[block as usize], self.offsets[block as usize + 1]);
        let (each, longer) = ((end - start) / self.parts, (end - start) % self.parts);
        let first = start + part * each + part.min(longer);
        first..first + each + u64::from(part < longer)
    }

    /// How many chunks from this one on, within its block, are as long as it is.
    pub(crate) fn alike(&self, chunk: u32) -> u64 {
        let (block, part) = (u64::from(chunk) / self.parts, u64::from(chunk) % self.parts);
        let longer = (self.offsets[block as usize + 1] - self.offsets[block as usize]) % self.parts;
        if part < longer { longer - part } else { self.parts - part }
    }

    /// The part of a chunk that tile `tile` of `tile_elements` elements covers; empty past the chunk's end.
    #[inline]
    pub fn tile(&self, chunk: u32, tile: u64, tile_elements: u64) -> Range<u64> {
        let whole = self.chunk(chunk);
        let first = whole.start.saturating_add(tile.saturating_mul(tile_elements)).min(whole.end);
        first..first.saturating_add(tile_elements).min(whole.end)
    }
}

/// Bytes of a chunk's tile so that `span_chunks` of them fit a message: a multiple of 128 where there is room for it, always of
/// the element.
pub fn tile_bytes(message_bytes: u64, span_chunks: u32, element_bytes: u64) -> u64 {
    let each = message_bytes / u64::from(span_chunks.max(1));
    let unit = if each >= 128 { 128 } else { element_bytes };
    (each / unit * unit).max(element_bytes)
}

/// How many tiles a message is cut into whose largest chunk has `elements`: at least one, so that empty messages
/// are still sent.
#[inline]
pub fn trip_count(elements: u64, tile_elements: u64) -> u64 {
    elements.div_ceil(tile_elements).max(1)
}

/// The output chunk that lies on input chunk `chunk` when rank `rank` calls in place, if any.
///
/// all_gather and gather: the input is the rank's own block of the output; reduce_scatter and scatter: the output is the
/// rank's own block of the input; elsewhere the two are the same buffer.
pub fn alias(collective: Collective, rank: Rank, parts: u32, chunk: u32) -> Option<u32> {
    let own = rank as u32 * parts;
    match collective {
        Collective::AllGather | Collective::Gather => Some(own + chunk),
        Collective::ReduceScatter | Collective::Scatter => chunk.checked_sub(own).filter(|c| *c < parts),
        _ => Some(chunk),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_cover_their_block_without_padding() {
        let shape = Shape::new([10, 0, 3], 4);
        let ranges: Vec<_> = (0..shape.chunks()).map(|c| shape.chunk(c)).collect();
        let expected =
            [0..3, 3..6, 6..8, 8..10, 10..10, 10..10, 10..10, 10..10, 10..11, 11..12, 12..13, 13..13];
        assert_eq!(ranges, expected);
    }

    #[test]
    fn tiles_cover_their_chunk() {
        let shape = Shape::new([10], 1);
        let tiles: Vec<_> = (0..4).map(|t| shape.tile(0, t, 4)).collect();
        assert_eq!(tiles, [0..4, 4..8, 8..10, 10..10]);
        assert_eq!(trip_count(10, 4), 3);
        assert_eq!(trip_count(0, 4), 1);
    }
}
