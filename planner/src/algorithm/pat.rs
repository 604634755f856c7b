//! PAT, parallel aggregated trees: every rank's block goes down a binomial tree of its own, all trees at once, and what
//! several trees send from one rank to another at the same step is one message. The longest step comes first and carries
//! least: far links see few bytes.
//!
//! The trees are one tree moved round the ranks. A rank at offset o of a block's tree, counted from the block's own rank, has the
//! block after the steps of the distances that add up to o. *all_gather*: with the distances D, D/2, .., 1 (D the largest power of
//! two below n) a rank sends, of all blocks that it has, those whose tree reaches that much further. *reduce_scatter*: the same
//! backwards, near ranks first, folding.
//!
//! Blocks are kept in scratch in the order in which they come, so that what a message carries lies side by side: all that has
//! come so far, except at most one block whose tree ends. They are copied to the output at the end (reduce_scatter: from
//! the input at the beginning).
//!
//! Steps: ceil(lg n). Bytes sent per rank: (n - 1)/n of the full buffer; as many are copied. Any world. reduce_scatter rounds an element
//! once per step.

use std::ops::Range;

use hcomm_ops::Rank;

use super::group::{ahead, behind, log2_ceil};
use super::tally::Tally;
use super::{Algorithm, Call, Layout, NO_PAIRS, ONE_CHANNEL, only_of_two, serves_all};
use crate::choose::Work;
use crate::graph::{Builder, MAX_SPAN};
use crate::plan::Span;
use crate::request::Collective;

pub(super) const ALGORITHM: Algorithm = Algorithm {
    name: "pat",
    doc: "All blocks travel down trees of their own at once, the longest step first.",
    collectives: &[Collective::AllGather, Collective::ReduceScatter],
    channels: ONE_CHANNEL,
    pairs: NO_PAIRS,
    rank_order: only_of_two,
    refuses: serves_all,
    layout,
    work,
    build,
};

fn layout(call: &Call<'_>) -> Layout {
    let folds = call.collective == Collective::ReduceScatter;
    let trees = Trees::new(call.world);
    let messages = trees.steps.iter().flat_map(|step| step.messages(&trees, folds));
    Layout { span_chunks: messages.map(|m| m.count).max().unwrap_or(1), ..Layout::of(1) }
}

fn work(call: &Call<'_>) -> Work {
    let (n, folds) = (call.world, call.collective == Collective::ReduceScatter);
    let trees = Trees::new(n);
    let mut tally = Tally::new(call);
    for step in &trees.steps {
        let counts = step.messages(&trees, folds).map(|message| message.count as usize);
        let (messages, blocks) =
            counts.fold((0, 0), |(messages, blocks), count| (messages + 1, blocks + count));
        (0..n).for_each(|rank| tally.messages(rank, ahead(rank, step.distance, n), messages, blocks));
    }
    let part = |blocks: usize| blocks as f64 / n as f64;
    if folds {
        let work = tally.work(trees.sums_wait(), n).copying(part(trees.packed()));
        return work.reducing(part(n - 1), log2_ceil(n) as usize);
    }
    tally.work(trees.blocks_wait(), n).copying(part(trees.copied()))
}

fn build(call: &Call<'_>, rank: Rank, b: &mut Builder) {
    let trees = Trees::new(call.world);
    match call.collective {
        Collective::AllGather => all_gather(b, &trees, rank),
        _ => reduce_scatter(b, &trees, rank),
    }
}

fn all_gather(b: &mut Builder, trees: &Trees, rank: Rank) {
    let n = trees.offsets.len();
    let block = |offset: usize| Span::output(behind(rank, offset, n) as u32);
    let held = trees.scratch(b, block);
    b.copy(Span::input(0), block(0));
    if trees.own_is_joined() {
        b.copy(Span::input(0), held.part(0, 1));
    }
    for step in &trees.steps {
        let (to, from) = (ahead(rank, step.distance, n), behind(rank, step.distance, n));
        for message in step.messages(trees, false) {
            let alone = (message.near, message.count) == (0, 1);
            b.send(to, 0, if alone { Span::input(0) } else { held.part(message.near, message.count) });
            b.recv(from, 0, held.part(message.far, message.count));
        }
    }
    for (offset, at) in trees.offsets.iter().zip(0..).skip(1) {
        b.copy(held.part(at, 1), block(*offset));
    }
}

fn reduce_scatter(b: &mut Builder, trees: &Trees, rank: Rank) {
    let n = trees.offsets.len();
    let block = |offset: usize| Span::input(behind(rank, offset, n) as u32);
    let sums = trees.scratch(b, block);
    for (offset, at) in trees.offsets.iter().zip(0..) {
        b.copy(block(*offset), sums.part(at, 1));
    }
    for step in trees.steps.iter().rev() {
        let (to, from) = (behind(rank, step.distance, n), ahead(rank, step.distance, n));
        for message in step.messages(trees, true) {
            b.send(to, 0, sums.part(message.far, message.count));
            let kept = sums.part(message.near, message.count);
            let arrived = b.scratch(kept);
            b.recv_partial(from, 0, arrived, message.contributions);
            let last = trees.steps.first().is_some_and(|first| first.distance == step.distance);
            b.reduce(&[kept, arrived], if last { Span::output(0) } else { kept });
        }
    }
}

/// The one tree, by offset from its root, in the order in which an all_gather reaches the offsets.
struct Trees {
    offsets: Vec<usize>,
    /// The longest distance first.
    steps: Vec<Step>,
}

/// The messages of one distance.
struct Step {
    distance: usize,
    /// So many offsets have been reached before.
    reached: usize,
}

/// Blocks that travel together, by their places in the list of offsets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Message {
    /// Where the end that is nearer to their roots keeps the first.
    near: u32,
    /// Where the other end keeps it.
    far: u32,
    count: u32,
    /// How many ranks' inputs the far end's sum of each has in it.
    contributions: u64,
}

impl Trees {
    fn new(world: usize) -> Trees {
        let mut trees = Trees { offsets: vec![0], steps: Vec::new() };
        for bit in (0..log2_ceil(world)).rev() {
            let (distance, reached) = (1 << bit, trees.offsets.len());
            trees.steps.push(Step { distance, reached });
            trees.offsets.extend_from_within(..);
            trees.offsets[reached..].iter_mut().for_each(|offset| *offset += distance);
            trees.offsets.retain(|offset| *offset < world);
        }
        trees
    }

    /// How many messages wait for one another in an all_gather.
    fn blocks_wait(&self) -> usize {
        let mut ready = vec![0; self.offsets.len()];
        for step in &self.steps {
            step.wait(self, false, &mut ready, Message::near, Message::far);
        }
        ready.into_iter().max().unwrap_or(0)
    }

    /// How many messages wait for one another in a reduce_scatter.
    fn sums_wait(&self) -> usize {
        let mut ready = vec![0; self.offsets.len()];
        for step in self.steps.iter().rev() {
            step.wait(self, true, &mut ready, Message::far, Message::near);
        }
        ready[0]
    }

    /// Blocks that an all_gather copies on a rank: its own, and those that have come, or leave, in company. What travels alone
    /// passes from message to message and to its place at once.
    fn copied(&self) -> usize {
        let messages = self.steps.iter().flat_map(|step| step.messages(self, false));
        let joined: Vec<Message> = messages.filter(|message| message.count > 1).collect();
        1 + usize::from(self.own_is_joined())
            + joined.iter().map(|message| message.count as usize).sum::<usize>()
    }

    /// Whether a message of an all_gather brings a rank's own block with others.
    fn own_is_joined(&self) -> bool {
        let mut messages = self.steps.iter().flat_map(|step| step.messages(self, false));
        messages.any(|message| message.near == 0 && message.count > 1)
    }

    /// Blocks that a reduce_scatter copies on a rank: all but those that leave alone, with nothing folded in before.
    fn packed(&self) -> usize {
        let n = self.offsets.len();
        let messages = self.steps.iter().flat_map(|step| step.messages(self, true));
        let alone = messages.filter(|message| message.count == 1 && message.contributions == 1).count();
        if n == 2 { 0 } else { n - alone }
    }

    /// Scratch for the block at every offset, in their order.
    fn scratch(&self, b: &mut Builder, block: impl Fn(usize) -> Span) -> Span {
        let rooms: Vec<Span> = self.offsets.iter().map(|offset| b.scratch(block(*offset))).collect();
        Span { count: rooms.len() as u32, ..rooms[0] }
    }
}

impl Step {
    /// Notes, by place, after how many messages blocks are there, those of one step passing in order.
    fn wait(
        &self,
        trees: &Trees,
        folds: bool,
        ready: &mut [usize],
        from: fn(Message) -> Range<usize>,
        to: fn(Message) -> Range<usize>,
    ) {
        let mut last = 0;
        for message in self.messages(trees, folds) {
            last = last.max(1 + ready[from(message)].iter().max().copied().unwrap_or(0));
            ready[to(message)].iter_mut().for_each(|there| *there = last.max(*there));
        }
    }

    /// Its messages: cut where the near end's blocks do not lie side by side, to what a message may hold, and, where they are
    /// folded, so that contributions of one rank travel apart from sums.
    fn messages(&self, trees: &Trees, folds: bool) -> impl Iterator<Item = Message> + use<> {
        let world = trees.offsets.len();
        let mut messages: Vec<Message> = Vec::new();
        let mut far = self.reached as u32;
        for (offset, near) in trees.offsets[..self.reached].iter().zip(0..) {
            if offset + self.distance >= world {
                continue;
            }
            let contributions = self.distance.min(world - offset - self.distance) as u64;
            match messages.last_mut() {
                Some(last)
                    if last.near + last.count == near
                        && last.count < MAX_SPAN
                        && !(folds && (last.contributions == 1) != (contributions == 1)) =>
                {
                    last.count += 1;
                }
                _ => messages.push(Message { near, far, count: 1, contributions }),
            }
            far += 1;
        }
        messages.into_iter()
    }
}

impl Message {
    fn near(self) -> Range<usize> {
        self.near as usize..(self.near + self.count) as usize
    }

    fn far(self) -> Range<usize> {
        self.far as usize..(self.far + self.count) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_offset_is_reached_once_by_the_distances_that_add_up_to_it() {
        for world in 1..70 {
            let trees = Trees::new(world);
            let mut sorted = trees.offsets.clone();
            sorted.sort_unstable();
            assert_eq!(sorted, (0..world).collect::<Vec<_>>());
            for step in &trees.steps {
                for message in step.messages(&trees, true) {
                    for i in 0..message.count {
                        let offset = |place: u32| trees.offsets[(place + i) as usize];
                        assert_eq!(offset(message.far), offset(message.near) + step.distance, "{world}");
                    }
                }
            }
        }
    }

    #[test]
    fn at_most_one_block_of_a_step_stays_behind() {
        for world in 2..70 {
            let trees = Trees::new(world);
            for step in &trees.steps {
                let sent: u32 = step.messages(&trees, false).map(|message| message.count).sum();
                assert!(sent as usize + 1 >= step.reached, "{sent} of {} in {world}", step.reached);
            }
        }
    }
}
