//! [`Sizing`]: the bytes that a drawing shows beside the chunks, where the counts are known.

use crate::plan::{Plan, Span};
use crate::request::{Counts, Request};
use crate::shape::{BufferKind, Shape, trip_count};

/// A call's counts and the size of a tile.
#[derive(Clone, Debug)]
pub struct Sizing {
    /// The call, of the collective that is drawn.
    pub request: Request,
    /// Largest tile of a chunk, in bytes.
    pub tile_bytes: u64,
}

impl Sizing {
    /// `1.5 KiB in 3 tiles`, for the chunks of a span; `None` where only another rank knows their length.
    pub(super) fn words(&self, plan: &Plan, span: Span) -> Option<String> {
        let element = self.request.dtype.size_bytes() as u64;
        let lengths: Option<Vec<u64>> =
            span.chunks().map(|chunk| self.elements(plan, span.buffer, chunk)).collect();
        let lengths = lengths?;
        let tiles = trip_count(lengths.iter().copied().max()?, (self.tile_bytes / element).max(1));
        let total = bytes(lengths.iter().sum::<u64>().saturating_mul(element));
        Some(format!("{total} in {tiles} tile{}", if tiles == 1 { "" } else { "s" }))
    }

    fn elements(&self, plan: &Plan, buffer: BufferKind, chunk: u32) -> Option<u64> {
        if matches!(self.request.counts, Counts::Local { .. }) || self.request.check(plan.world).is_err() {
            return None;
        }
        let blocks = self.request.blocks(plan.rank, plan.world);
        let (blocks, chunk) = match buffer {
            BufferKind::Input => (blocks.input?, chunk),
            BufferKind::Output => (blocks.output?, chunk),
            BufferKind::Scratch => {
                let like = plan.scratch.get(chunk as usize)?;
                return self.elements(plan, like.buffer, like.first);
            }
        };
        let shape = Shape::new(blocks, plan.parts);
        (chunk < shape.chunks()).then(|| shape.chunk(chunk)).map(|range| range.end - range.start)
    }
}

/// Bytes for people.
fn bytes(bytes: u64) -> String {
    match bytes {
        0..1024 => format!("{bytes} B"),
        1024..0x10_0000 => format!("{:.1} KiB", bytes as f64 / 1024.0),
        0x10_0000..0x4000_0000 => format!("{:.1} MiB", bytes as f64 / 1_048_576.0),
        _ => format!("{:.1} GiB", bytes as f64 / 1_073_741_824.0),
    }
}
