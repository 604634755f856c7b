//! Bruck: in step k every rank gets from the rank 2^k places on all that one has, so that what a rank has doubles, whatever
//! the number of ranks.
//!
//! *all_gather*: after step k rank r has the blocks r to r + 2^(k+1) - 1, round the ranks. They are received where they
//! belong, so that nothing is rotated in the end. *reduce_scatter*: the same backwards, the longest step first: a rank folds what it
//! gets into its own contributions, until only its own block is left. *all_to_all*: see `bruck_exchange`.
//!
//! Steps: ceil(lg n). Bytes sent per rank: (n - 1)/n of the full buffer. Blocks that wrap round, or are more than 32, are more than
//! one message. reduce_scatter rounds an element once per step.

use std::ops::Range;

use hcomm_ops::Rank;

use super::group::{Group, ahead, behind, log2_ceil};
use super::runs::{Run, doublings, in_turn, run_count, runs};
use super::tally::Tally;
use super::{Algorithm, Call, Layout, NO_PAIRS, ONE_CHANNEL, bruck_exchange, only_of_two, serves_all};
use crate::choose::Work;
use crate::graph::{Builder, MAX_SPAN};
use crate::plan::Span;
use crate::request::Collective;
use crate::shape::BufferKind;

pub(super) const ALGORITHM: Algorithm = Algorithm {
    name: "bruck",
    doc: "In step k every rank gets all that the rank 2^k places on has.",
    collectives: &[Collective::AllGather, Collective::ReduceScatter, Collective::AllToAll],
    channels: ONE_CHANNEL,
    pairs: NO_PAIRS,
    rank_order: only_of_two,
    refuses: serves_all,
    layout,
    work,
    build,
};

fn layout(call: &Call<'_>) -> Layout {
    let span_chunks = match call.collective {
        Collective::AllGather => longest(call.world),
        Collective::ReduceScatter => longest_partial(call.world),
        _ => return bruck_exchange::layout(call),
    };
    Layout { span_chunks, ..Layout::of(1) }
}

fn work(call: &Call<'_>) -> Work {
    let n = call.world as f64;
    let mut tally = Tally::new(call);
    match call.collective {
        Collective::AllGather => {
            gathered(
                call.world,
                |_| 1,
                |from, to, messages, blocks| tally.messages(from, to, messages, blocks),
            );
            tally.work(steps_to_gather(call.world), call.world).copying(1.0 / n)
        }
        Collective::ReduceScatter => {
            scattered(call.world, |from, to, messages, blocks| tally.messages(from, to, messages, blocks));
            let rounded = log2_ceil(call.world) as usize;
            tally.work(steps_to_scatter(call.world), call.world).reducing((n - 1.0) / n, rounded)
        }
        _ => bruck_exchange::work(call),
    }
}

fn build(call: &Call<'_>, rank: Rank, b: &mut Builder) {
    let world = Group::world(call.world, rank);
    match call.collective {
        Collective::AllGather => {
            b.copy(Span::input(0), Span::output(rank as u32));
            let place = |run: Run| match (run.offset, run.count) {
                (0, 1) => Span::input(0),
                _ => run.of(BufferKind::Output),
            };
            all_gather(b, &world, 0, place, |_| 1);
        }
        Collective::ReduceScatter => {
            reduce_scatter(b, &world, 0, |run| run.of(BufferKind::Input), Span::output(0));
        }
        _ => bruck_exchange::build(b, &world),
    }
}

/// The most blocks in any message of an all_gather.
pub(super) fn longest(blocks: usize) -> u32 {
    let longest = doublings(blocks).map(|(_, offsets)| offsets.len()).max();
    (longest.unwrap_or(1) as u32).min(MAX_SPAN)
}

/// Gives every member all blocks. `place` says where a run of blocks is, counted from this member's own. Member m has the
/// first `held(m)` blocks from its own on already, and is sent none of them.
pub(super) fn all_gather(
    b: &mut Builder,
    group: &Group,
    channel: u8,
    place: impl Fn(Run) -> Span,
    held: impl Fn(usize) -> usize,
) {
    let (n, me) = (group.len(), group.me);
    for (distance, offsets) in doublings(n) {
        let (to, from) = (behind(me, distance, n), ahead(me, distance, n));
        let sent = runs(to, lacking(&offsets, held(to)), n).map(|run| run.seen_from_ahead(distance));
        for (sent, kept) in in_turn(sent, runs(me, lacking(&offsets, held(me)), n)) {
            sent.into_iter().for_each(|run| b.send(group.rank(to), channel, place(run)));
            kept.into_iter().for_each(|run| b.recv(group.rank(from), channel, place(run)));
        }
    }
}

/// How many messages of an all_gather wait for one another. What the last step sends may be there before the step before.
fn steps_to_gather(members: usize) -> usize {
    let waits = |(distance, offsets): (usize, Range<usize>)| log2_ceil(offsets.end - distance) as usize + 1;
    doublings(members).map(waits).max().unwrap_or(0)
}

/// What a member that holds the first `held` blocks lacks of some.
fn lacking(offsets: &Range<usize>, held: usize) -> Range<usize> {
    offsets.start.max(held)..offsets.end
}

/// What goes from whom to whom in every step of [`all_gather`]: sender, receiver, messages, blocks.
pub(super) fn gathered(
    members: usize,
    held: impl Fn(usize) -> usize,
    mut tell: impl FnMut(usize, usize, usize, usize),
) {
    for (distance, offsets) in doublings(members) {
        for to in 0..members {
            let from = ahead(to, distance, members);
            let lacking = lacking(&offsets, held(to));
            tell(from, to, run_count(to, &lacking, members), lacking.len());
        }
    }
}

/// Leaves the sum of block `group.me` in `result`; `own` says where this member's contributions to a run of blocks are,
/// counted from its own.
pub(super) fn reduce_scatter(
    b: &mut Builder,
    group: &Group,
    channel: u8,
    own: impl Fn(Run) -> Span,
    result: Span,
) {
    let (n, me) = (group.len(), group.me);
    let mut sums = result;
    for step in halvings(n) {
        let (to, from) = (ahead(me, step.distance, n), behind(me, step.distance, n));
        let held = |run: Run| if run.offset < step.summed { run.within(sums) } else { own(run) };
        let next = if step.distance == 1 { result } else { room(b, me, step.received(), n, &own) };
        for (sent, run) in in_turn(step.messages(me, n), step.messages(from, n)) {
            sent.into_iter().for_each(|run| b.send(group.rank(to), channel, held(run)));
            let Some(run) = run else { continue };
            let mine = run.seen_from_ahead(step.distance);
            let arrived = b.scratch(own(mine));
            b.recv_partial(group.rank(from), channel, arrived, step.contributions(run.offset, n));
            b.reduce(&[arrived, held(mine)], mine.within(next));
        }
        sums = next;
    }
}

/// Scratch for the sums of the first `count` blocks from block `first` on, side by side.
fn room(b: &mut Builder, first: usize, count: usize, n: usize, own: impl Fn(Run) -> Span) -> Span {
    let rooms: Vec<Span> = runs(first, 0..count, n).map(|run| b.scratch(own(run))).collect();
    Span { count: count as u32, ..rooms[0] }
}

/// What goes from whom to whom in every step of [`reduce_scatter`]: sender, receiver, messages, blocks.
pub(super) fn scattered(members: usize, mut tell: impl FnMut(usize, usize, usize, usize)) {
    for step in halvings(members) {
        for from in 0..members {
            let to = ahead(from, step.distance, members);
            let messages = step.parts().iter().map(|part| run_count(from, part, members)).sum();
            tell(from, to, messages, step.offsets.len());
        }
    }
}

/// How many messages of a reduce_scatter wait for one another.
pub(super) fn steps_to_scatter(members: usize) -> usize {
    // By offset: after how many messages the sum is what a member sends on. From block 0 on nothing wraps round.
    let mut ready = vec![0; members];
    for step in halvings(members) {
        let mut last = 0;
        for run in step.messages(0, members) {
            let (from, to) = (run.offset, run.offset - step.distance);
            last = last.max(1 + ready[from..from + run.count].iter().max().copied().unwrap_or(0));
            ready[to..to + run.count].iter_mut().for_each(|there| *there = last.max(*there));
        }
    }
    ready[0]
}

/// The most blocks in any message of a reduce_scatter.
pub(super) fn longest_partial(blocks: usize) -> u32 {
    // From block 0 on nothing wraps round.
    let longest = halvings(blocks).flat_map(|step| step.messages(0, blocks)).map(|run| run.count).max();
    longest.unwrap_or(1) as u32
}

/// One step of a reduce_scatter.
#[derive(Clone, Debug)]
struct Halving {
    distance: usize,
    /// Which blocks, counted from its own, a member sends.
    offsets: Range<usize>,
    /// Of so many blocks, counted from its own, a member holds sums; of the others only its own contribution.
    summed: usize,
}

/// The steps of a reduce_scatter among so many members.
fn halvings(members: usize) -> impl Iterator<Item = Halving> {
    let mut summed = 0;
    doublings(members).rev().map(move |(distance, offsets)| {
        let step = Halving { distance, offsets, summed };
        summed = step.received();
        step
    })
}

impl Halving {
    /// Of how many blocks, counted from its own, a member receives.
    fn received(&self) -> usize {
        self.offsets.end - self.distance
    }

    /// The messages of member `from`. Sums and contributions of one rank travel apart, and so do those that are folded
    /// into sums and into contributions.
    fn messages(&self, from: usize, members: usize) -> impl Iterator<Item = Run> + use<> {
        self.parts().into_iter().flat_map(move |part| runs(from, part, members))
    }

    /// The blocks that travel apart from one another.
    fn parts(&self) -> [Range<usize>; 3] {
        let within = |offset: usize| offset.clamp(self.offsets.start, self.offsets.end);
        let (here, there) = (within(self.summed), within(self.summed + self.distance));
        [self.offsets.start..here, here..there, there..self.offsets.end]
    }

    /// How many members' contributions the block that a member sends at `offset` has in it.
    fn contributions(&self, offset: usize, members: usize) -> u64 {
        (members - offset).div_ceil(2 * self.distance) as u64
    }
}
