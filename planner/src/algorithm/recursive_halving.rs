//! Recursive halving: in every step ranks that differ in one bit, the highest first, split what they still sum: each sends
//! the other its contributions to the other's half and folds what it gets into its own. In the end each has its own block.
//!
//! With n not a power of two each excess rank first hands its whole vector to a neighbour, which stands for both and gives
//! it its block at the end; halves then differ by as many blocks as ranks stand for two. So the work is the least that it can be for
//! powers of two; for other worlds `bruck` and `pat` send less.
//!
//! Steps: lg n, or floor(lg n) + 2. Bytes sent per rank: (n - 1)/n of the full buffer; a rank that stands for two receives
//! twice that. An element is rounded once per fold.

use std::ops::Range;

use hcomm_ops::Rank;

use super::recursive_doubling::Fold;
use super::runs::{in_turn, pieces};
use super::tally::Tally;
use super::{Algorithm, Call, Layout, NO_PAIRS, ONE_CHANNEL, only_of_two, serves_all};
use crate::choose::Work;
use crate::graph::{Builder, MAX_SPAN};
use crate::plan::Span;
use crate::request::Collective;
use crate::shape::BufferKind;

pub(super) const ALGORITHM: Algorithm = Algorithm {
    name: "recursive_halving",
    doc: "Ranks that differ in one bit split what they still sum, until each has its own block.",
    collectives: &[Collective::ReduceScatter],
    channels: ONE_CHANNEL,
    pairs: NO_PAIRS,
    rank_order: only_of_two,
    refuses: serves_all,
    layout,
    work,
    build,
};

fn layout(call: &Call<'_>) -> Layout {
    let longest = if call.world.is_power_of_two() { call.world / 2 } else { call.world };
    Layout { span_chunks: (longest as u32).min(MAX_SPAN), ..Layout::of(1) }
}

fn work(call: &Call<'_>) -> Work {
    let n = call.world;
    let fold = Fold::new(n);
    let mut tally = Tally::new(call);
    for index in 0..fold.excess {
        let (even, odd) = (2 * index, 2 * index + 1);
        tally.messages(even, odd, n.div_ceil(MAX_SPAN as usize), n);
        tally.message(odd, even, 1);
    }
    for halving in fold.halvings() {
        for index in 0..fold.core {
            let peer = fold.rank(index ^ halving);
            let blocks = fold.blocks(index, halving).len();
            tally.messages(peer, fold.rank(index), blocks.div_ceil(most_blocks(halving)), blocks);
        }
    }
    let folding = usize::from(fold.excess > 0);
    let folds = folding + fold.core.ilog2() as usize;
    // Whoever is at place 0 folds most: the low places stand for two ranks.
    let kept: usize = fold.halvings().map(|halving| fold.blocks(0, halving).len()).sum();
    let folded = (kept + folding * n) as f64 / n as f64;
    tally.work(fold.steps(), n).reducing(folded, folds)
}

fn build(call: &Call<'_>, rank: Rank, b: &mut Builder) {
    let fold = Fold::new(call.world);
    let all = inputs(0..call.world);
    match fold.core_index(rank) {
        None => {
            pieces(all, MAX_SPAN).for_each(|piece| b.send(rank + 1, 0, piece));
            b.recv(rank + 1, 0, Span::output(0));
        }
        Some(index) if rank < 2 * fold.excess => {
            let sums = b.scratch(all);
            for (piece, sum) in pieces(all, MAX_SPAN).zip(pieces(sums, MAX_SPAN)) {
                let arrived = b.scratch(piece);
                b.recv_partial(rank - 1, 0, arrived, 1);
                b.reduce(&[arrived, piece], sum);
            }
            let others = b.scratch(Span::input(rank as u32 - 1));
            halve(b, &fold, index, sums, &[others, Span::output(0)]);
            b.send(rank - 1, 0, others);
        }
        Some(index) => halve(b, &fold, index, all, &[Span::output(0)]),
    }
}

/// The steps of the core: `held` is what this rank sums of all blocks; the sums of its own blocks come out in `results`.
fn halve(b: &mut Builder, fold: &Fold, index: usize, mut held: Span, results: &[Span]) {
    let mut first = 0;
    for halving in fold.halvings() {
        let other = index ^ halving;
        let (peer, mine) = (fold.rank(other), fold.blocks(index, halving));
        let part = |run: &Range<usize>| held.part((run.start - first) as u32, run.len() as u32);
        let sums = if halving == 1 { held } else { b.scratch(part(&mine)) };
        for (sent, kept) in in_turn(fold.messages(other, halving), fold.messages(index, halving)) {
            sent.into_iter().for_each(|run| b.send(peer, 0, part(&run)));
            let Some(run) = kept else { continue };
            let (own, at) = (part(&run), run.start - mine.start);
            let arrived = b.scratch(own);
            b.recv_partial(peer, 0, arrived, fold.folded(other, halving));
            let sum = if halving == 1 { results[at] } else { sums.part(at as u32, run.len() as u32) };
            b.reduce(&if index < other { [own, arrived] } else { [arrived, own] }, sum);
        }
        (held, first) = (sums, mine.start);
    }
}

/// The input's blocks.
/// Blocks of a message.
fn most_blocks(halving: usize) -> usize {
    if halving == 1 { 1 } else { MAX_SPAN as usize }
}

fn inputs(blocks: Range<usize>) -> Span {
    Span::new(BufferKind::Input, blocks.start as u32, blocks.len() as u32)
}

impl Fold {
    /// The bits in which ranks differ, step by step.
    fn halvings(&self) -> impl Iterator<Item = usize> + use<> {
        (0..self.core.ilog2()).rev().map(|bit| 1 << bit)
    }

    /// The blocks of the ranks at the aligned run of `len` places around `index`.
    fn blocks(&self, index: usize, len: usize) -> Range<usize> {
        let first = index & !(len - 1);
        let start = |index: usize| index + index.min(self.excess);
        start(first)..start(first + len)
    }

    /// How those blocks travel to the rank at `index`: in the last step one by one, as they go to different places.
    fn messages(&self, index: usize, halving: usize) -> impl Iterator<Item = Range<usize>> + use<> {
        let most = most_blocks(halving);
        let Range { start, end } = self.blocks(index, halving);
        (start..end).step_by(most).map(move |at| at..end.min(at + most))
    }

    /// How many messages wait for one another.
    fn steps(&self) -> usize {
        let mut ready: Vec<usize> = (0..self.core).map(|place| usize::from(place < self.excess)).collect();
        for halving in self.halvings() {
            let before = ready.clone();
            let waits = |place: usize| before[place].max(1 + before[place ^ halving]);
            ready = (0..self.core).map(waits).collect();
        }
        let back = |place: usize| ready[place] + usize::from(place < self.excess);
        (0..self.core).map(back).max().unwrap_or(0)
    }

    /// How many ranks' inputs the sums have in them that the rank at `index` holds before a step.
    fn folded(&self, index: usize, halving: usize) -> u64 {
        let places = (index % (2 * halving)..self.core).step_by(2 * halving);
        let pairs = places.clone().filter(|place| *place < self.excess).count();
        (places.len() + pairs) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_step_leaves_each_place_its_own_blocks() {
        for world in 2..40 {
            let fold = Fold::new(world);
            let mut blocks: Vec<usize> = Vec::new();
            for index in 0..fold.core {
                let own = fold.blocks(index, 1);
                assert_eq!(own.end - 1, fold.rank(index), "place {index} of {world}");
                blocks.extend(own);
                let mut whole = fold.blocks(index, fold.core);
                for halving in fold.halvings() {
                    let (mine, theirs) = (fold.blocks(index, halving), fold.blocks(index ^ halving, halving));
                    assert_eq!(mine.start.min(theirs.start)..mine.end.max(theirs.end), whole);
                    whole = mine;
                }
            }
            assert_eq!(blocks, (0..world).collect::<Vec<_>>());
        }
    }
}
