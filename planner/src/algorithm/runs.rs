//! [`runs`]: cuts blocks that travel together into messages. Blocks are numbered round the ranks, a span does not wrap, and a
//! message holds [`MAX_SPAN`] chunks at most; both ends cut alike.

use std::ops::Range;

use crate::graph::MAX_SPAN;
use crate::plan::Span;
use crate::shape::BufferKind;

/// Blocks side by side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Run {
    /// How far the first one is from the block that they are counted from.
    pub offset: usize,
    /// The first one.
    pub block: usize,
    /// How many.
    pub count: usize,
}

impl Run {
    /// The run in a buffer with one chunk per block.
    pub fn of(self, buffer: BufferKind) -> Span {
        Span::new(buffer, self.block as u32, self.count as u32)
    }

    /// The run within a span that begins with the block that they are counted from.
    pub fn within(self, span: Span) -> Span {
        span.part(self.offset as u32, self.count as u32)
    }

    /// The same blocks, counted from one `by` places further on.
    pub fn seen_from_ahead(self, by: usize) -> Run {
        Run { offset: self.offset - by, ..self }
    }
}

/// The blocks `offsets` places after block `from`, of `blocks` in a circle: cut where they wrap round, and to what a message
/// may hold.
pub(super) fn runs(from: usize, offsets: Range<usize>, blocks: usize) -> impl Iterator<Item = Run> {
    let mut at = offsets.start;
    std::iter::from_fn(move || {
        let block = (from + at) % blocks;
        let count = offsets.end.saturating_sub(at).min(blocks - block).min(MAX_SPAN as usize);
        let run = Run { offset: at, block, count };
        at += count;
        (count > 0).then_some(run)
    })
}

/// How many messages [`runs`] cuts those blocks into, without cutting them.
pub(super) fn run_count(from: usize, offsets: &Range<usize>, blocks: usize) -> usize {
    let before_the_wrap = (blocks - (from + offsets.start) % blocks).min(offsets.len());
    let most = MAX_SPAN as usize;
    before_the_wrap.div_ceil(most) + (offsets.len() - before_the_wrap).div_ceil(most)
}

/// Cuts a span into pieces of at most `most` chunks.
pub(super) fn pieces(span: Span, most: u32) -> impl Iterator<Item = Span> {
    (0..span.count).step_by(most as usize).map(move |at| span.part(at, (span.count - at).min(most)))
}

/// What is sent and what is received, in turn, so that neither gets far ahead of the other.
pub(super) fn in_turn<T>(
    sent: impl IntoIterator<Item = T>,
    received: impl IntoIterator<Item = T>,
) -> impl Iterator<Item = (Option<T>, Option<T>)> {
    let (mut sent, mut received) = (sent.into_iter().fuse(), received.into_iter().fuse());
    std::iter::from_fn(move || match (sent.next(), received.next()) {
        (None, None) => None,
        both => Some(both),
    })
}

/// The distances 1, 2, 4 and so on below `blocks`, each with the offsets at twice to once that distance, the end cut off.
pub(super) fn doublings(blocks: usize) -> impl DoubleEndedIterator<Item = (usize, Range<usize>)> {
    let steps = super::group::log2_ceil(blocks);
    (0..steps).map(move |step| (1 << step, 1 << step..(2 << step).min(blocks)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_stop_at_the_wrap_and_the_limit() {
        let cut = |from, offsets, blocks| {
            runs(from, offsets, blocks).map(|run| (run.offset, run.block, run.count)).collect::<Vec<_>>()
        };
        assert_eq!(cut(6, 1..5, 8), [(1, 7, 1), (2, 0, 3)]);
        assert_eq!(cut(0, 64..128, 128), [(64, 64, 32), (96, 96, 32)]);
        assert_eq!(cut(3, 2..2, 8), []);
    }

    #[test]
    fn runs_are_counted_as_they_are_cut() {
        for (from, offsets, blocks) in
            [(6, 1..5, 8), (0, 64..128, 128), (3, 2..2, 8), (90, 5..99, 100), (99, 1..100, 100)]
        {
            assert_eq!(
                run_count(from, &offsets, blocks),
                runs(from, offsets.clone(), blocks).count(),
                "{offsets:?}"
            );
        }
    }

    #[test]
    fn doublings_cover_all_offsets_but_the_first() {
        for blocks in 1..40 {
            let offsets: Vec<_> = doublings(blocks).flat_map(|(_, offsets)| offsets).collect();
            assert_eq!(offsets, (1..blocks).collect::<Vec<_>>());
        }
    }
}
