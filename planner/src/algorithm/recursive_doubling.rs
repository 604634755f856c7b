//! Recursive doubling: in step k ranks that differ in bit k exchange all they have.
//!
//! *all_reduce*: they exchange partial sums of the whole vector, so lg n steps and S lg n bytes. With n not a power
//! of two, each excess rank first hands its vector to a neighbour and gets the result back: two steps more.
//! *all_gather* (powers of two): what they have doubles, so lg n steps and (n - 1)/n of the buffer.
//!
//! All ranks fold the lower half first, so that all get the same bits. An element is rounded once per step.

use hcomm_ops::Rank;

use super::group::power_of_two_below;
use super::tally::Tally;
use super::{Algorithm, Call, Layout, NO_PAIRS, ONE_CHANNEL, only_of_two};
use crate::choose::Work;
use crate::graph::Builder;
use crate::plan::Span;
use crate::request::Collective;
use crate::shape::BufferKind;

/// In the units of this file.
const MAX_SPAN: usize = crate::graph::MAX_SPAN as usize;

pub(super) const ALGORITHM: Algorithm = Algorithm {
    name: "recursive_doubling",
    doc: "In step k ranks that differ in bit k exchange all they have.",
    collectives: &[Collective::AllReduce, Collective::AllGather],
    channels: ONE_CHANNEL,
    pairs: NO_PAIRS,
    rank_order: only_of_two,
    refuses,
    layout,
    work,
    build,
};

fn refuses(call: &Call<'_>) -> Option<String> {
    let odd = call.collective == Collective::AllGather && !call.world.is_power_of_two();
    odd.then(|| format!("gathers only in worlds of a power of two, not {}", call.world))
}

fn layout(call: &Call<'_>) -> Layout {
    match call.collective {
        Collective::AllGather => {
            Layout { span_chunks: (call.world / 2).min(MAX_SPAN) as u32, ..Layout::of(1) }
        }
        _ => Layout { buffered: call.world == 2, ..Layout::of(1) },
    }
}

fn work(call: &Call<'_>) -> Work {
    let steps = call.world.ilog2();
    let mut tally = Tally::in_rounds(call);
    if call.collective == Collective::AllGather {
        for bit in (0..steps).map(|step| 1 << step) {
            let messages = usize::div_ceil(bit, MAX_SPAN);
            (0..call.world).for_each(|rank| tally.messages(rank, rank ^ bit, messages, bit));
            tally.end_round();
        }
        return tally.work_in_rounds(call.world).copying(1.0 / call.world as f64);
    }
    let fold = Fold::new(call.world);
    (0..fold.excess).for_each(|pair| tally.message(2 * pair, 2 * pair + 1, 1));
    tally.end_round();
    for bit in (0..steps).map(|step| 1 << step) {
        (0..fold.core).for_each(|index| tally.message(fold.rank(index), fold.rank(index ^ bit), 1));
        tally.end_round();
    }
    (0..fold.excess).for_each(|pair| tally.message(2 * pair + 1, 2 * pair, 1));
    let folds = steps as usize + usize::from(fold.excess > 0);
    tally.work_in_rounds(1).reducing(folds as f64, folds)
}

fn build(call: &Call<'_>, rank: Rank, b: &mut Builder) {
    match call.collective {
        Collective::AllGather => all_gather(b, call.world, rank),
        _ => all_reduce(b, call.world, rank),
    }
}

fn all_reduce(b: &mut Builder, world: usize, rank: Rank) {
    let fold = Fold::new(world);
    let (input, output) = (Span::input(0), Span::output(0));
    match fold.core_index(rank) {
        None => {
            b.send(rank + 1, 0, input);
            b.recv(rank + 1, 0, output);
        }
        Some(index) if rank < 2 * fold.excess => {
            let (other, pair) = (b.scratch(input), b.scratch(input));
            b.recv_partial(rank - 1, 0, other, 1);
            b.reduce(&[other, input], pair);
            exchange(b, &fold, index, pair, output);
            b.send(rank - 1, 0, output);
        }
        Some(index) => exchange(b, &fold, index, input, output),
    }
}

/// The steps of the core: `held` goes in, the sum over the core comes out in `output`.
fn exchange(b: &mut Builder, fold: &Fold, index: usize, mut held: Span, output: Span) {
    let mut bit = 1;
    while bit < fold.core {
        let other = index ^ bit;
        let peer = fold.rank(other);
        b.send(peer, 0, held);
        let arrived = b.scratch(held);
        b.recv_partial(peer, 0, arrived, fold.contributions(other, bit));
        let sum = if bit * 2 == fold.core { output } else { b.scratch(held) };
        b.reduce(&if index < other { [held, arrived] } else { [arrived, held] }, sum);
        held = sum;
        bit *= 2;
    }
}

fn all_gather(b: &mut Builder, world: usize, rank: Rank) {
    b.copy(Span::input(0), Span::output(rank as u32));
    let mut bit = 1;
    while bit < world {
        let (mine, theirs) = (rank & !(bit - 1), (rank ^ bit) & !(bit - 1));
        for at in (0..bit).step_by(MAX_SPAN) {
            let run =
                |first: usize| Span::new(BufferKind::Output, (first + at) as u32, bit.min(MAX_SPAN) as u32);
            b.send(rank ^ bit, 0, run(mine));
            b.recv(rank ^ bit, 0, run(theirs));
        }
        bit *= 2;
    }
}

/// How a world folds onto a core of a power of two: ranks 0 and 1, 2 and 3, and so on share a place in the core until
/// the excess is used up, the odd one standing for both.
pub(super) struct Fold {
    /// Places in the core.
    pub core: usize,
    /// How many of them stand for two ranks.
    pub excess: usize,
}

impl Fold {
    /// A world of at least one rank.
    pub fn new(world: usize) -> Fold {
        let core = power_of_two_below(world);
        Fold { core, excess: world - core }
    }

    /// The rank's place in the core, unless its neighbour stands for it.
    pub fn core_index(&self, rank: Rank) -> Option<usize> {
        match rank {
            _ if rank >= 2 * self.excess => Some(rank - self.excess),
            _ if rank % 2 == 1 => Some(rank / 2),
            _ => None,
        }
    }

    /// The rank at a place in the core.
    pub fn rank(&self, index: usize) -> Rank {
        if index < self.excess { 2 * index + 1 } else { index + self.excess }
    }

    /// How many ranks' inputs the aligned run of `len` places around `index` holds.
    fn contributions(&self, index: usize, len: usize) -> u64 {
        let first = index & !(len - 1);
        let pairs = self.excess.clamp(first, first + len) - first;
        (len + pairs) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fold_gives_every_rank_one_place() {
        for world in 2..40 {
            let fold = Fold::new(world);
            let core: Vec<_> = (0..world).filter_map(|r| fold.core_index(r).map(|i| (i, r))).collect();
            assert_eq!(core.len(), fold.core);
            assert!(core.iter().enumerate().all(|(at, (i, r))| at == *i && fold.rank(*i) == *r));
            assert_eq!(fold.contributions(0, fold.core), world as u64);
        }
    }
}
