//! Binomial tree: rank v (counted from the root) has the children v + 1, v + 2, v + 4, ... below its own lowest bit.
//!
//! *broadcast*, *scatter*: from the root down, the largest subtree first. *reduce*, *gather*: from the leaves up.
//! A rank folds its own vector, then its children's in order, so that the tree folds in rank order from the root.
//!
//! Steps: ceil(lg n). Bytes: broadcast: S ceil(lg n) at the root; reduce: S per rank; gather and scatter: (n - 1)/n of the full
//! buffer at the root. An element is rounded once per level. Gather and scatter pass other ranks' blocks on through
//! scratch of their own block's length: blocks must be equally long.

use hcomm_ops::Rank;

use super::group::{ahead, behind, log2_ceil};
use super::recursive_doubling::MAX_SPAN;
use super::tally::Tally;
use super::{Algorithm, Call, Layout, NO_PAIRS, ONE_CHANNEL, only_of_two, serves_all};
use crate::choose::Work;
use crate::graph::Builder;
use crate::plan::Span;
use crate::request::Collective;
use crate::shape::BufferKind;

pub(super) const ALGORITHM: Algorithm = Algorithm {
    name: "binomial",
    doc: "A tree in which the number of ranks reached doubles at every step.",
    collectives: &[Collective::Broadcast, Collective::Reduce, Collective::Gather, Collective::Scatter],
    channels: ONE_CHANNEL,
    pairs: NO_PAIRS,
    rank_order: only_of_two,
    refuses: serves_all,
    layout,
    work,
    build,
};

fn layout(call: &Call<'_>) -> Layout {
    match call.collective {
        Collective::Broadcast | Collective::Reduce => Layout::of(1),
        _ => Layout { even: true, span_chunks: largest_message(call.world, call.root), ..Layout::of(1) },
    }
}

fn work(call: &Call<'_>) -> Work {
    let one_block = matches!(call.collective, Collective::Broadcast | Collective::Reduce);
    let down = matches!(call.collective, Collective::Broadcast | Collective::Scatter);
    let mut tally = Tally::new(call);
    for me in 1..call.world {
        let tree = Tree { world: call.world, root: call.root, me };
        let Some(parent) = tree.parent() else { continue };
        let (child, parent) = (tree.rank(me), tree.rank(parent));
        let (from, to) = if down { (parent, child) } else { (child, parent) };
        match one_block {
            true => tally.message(from, to, 1),
            false => tree.messages(me).iter().for_each(|(_, count)| tally.message(from, to, *count)),
        }
    }
    // As many levels as a rank below n can have bits that are set.
    let (levels, children) = (call.world.ilog2() as usize, log2_ceil(call.world));
    match call.collective {
        Collective::Broadcast => tally.work(levels, 1).copying(1.0),
        Collective::Reduce => tally.work(levels, 1).reducing(f64::from(children), levels),
        _ => tally.work(levels, call.world).copying(1.0 / call.world as f64),
    }
}

fn build(call: &Call<'_>, rank: Rank, b: &mut Builder) {
    let tree = Tree::new(call.world, call.root, rank);
    match call.collective {
        Collective::Broadcast => broadcast(b, &tree),
        Collective::Reduce => reduce(b, &tree),
        Collective::Gather => gather(b, &tree),
        _ => scatter(b, &tree),
    }
}

fn broadcast(b: &mut Builder, tree: &Tree) {
    let source = match tree.parent() {
        None => {
            b.copy(Span::input(0), Span::output(0));
            Span::input(0)
        }
        Some(parent) => {
            b.recv(tree.rank(parent), 0, Span::output(0));
            Span::output(0)
        }
    };
    for child in tree.children().into_iter().rev() {
        b.send(tree.rank(child), 0, source);
    }
}

fn reduce(b: &mut Builder, tree: &Tree) {
    let own = Span::input(0);
    let mut sources = vec![own];
    for child in tree.children() {
        let arrived = b.scratch(own);
        b.recv_partial(tree.rank(child), 0, arrived, tree.size(child) as u64);
        sources.push(arrived);
    }
    match tree.parent() {
        None => b.reduce(&sources, Span::output(0)),
        Some(parent) if sources.len() == 1 => b.send(tree.rank(parent), 0, own),
        Some(parent) => {
            let sum = b.scratch(own);
            b.reduce(&sources, sum);
            b.send(tree.rank(parent), 0, sum);
        }
    }
}

fn gather(b: &mut Builder, tree: &Tree) {
    let Some(parent) = tree.parent() else {
        b.copy(Span::input(0), Span::output(tree.rank(0) as u32));
        for child in tree.children() {
            for (first, count) in tree.messages(child) {
                let into = Span::new(BufferKind::Output, tree.rank(first) as u32, count as u32);
                b.recv(tree.rank(child), 0, into);
            }
        }
        return;
    };
    let held = tree.held(b, Span::input(0));
    if tree.size(tree.me) > 1 {
        b.copy(Span::input(0), held.part(0, 1));
    }
    for child in tree.children() {
        for (first, count) in tree.messages(child) {
            b.recv(tree.rank(child), 0, held.part((first - tree.me) as u32, count as u32));
        }
    }
    for (first, count) in tree.messages(tree.me) {
        b.send(tree.rank(parent), 0, held.part((first - tree.me) as u32, count as u32));
    }
}

fn scatter(b: &mut Builder, tree: &Tree) {
    let Some(parent) = tree.parent() else {
        b.copy(Span::input(tree.rank(0) as u32), Span::output(0));
        for child in tree.children().into_iter().rev() {
            for (first, count) in tree.messages(child) {
                let from = Span::new(BufferKind::Input, tree.rank(first) as u32, count as u32);
                b.send(tree.rank(child), 0, from);
            }
        }
        return;
    };
    let held = tree.held(b, Span::output(0));
    for (first, count) in tree.messages(tree.me) {
        b.recv(tree.rank(parent), 0, held.part((first - tree.me) as u32, count as u32));
    }
    for child in tree.children().into_iter().rev() {
        for (first, count) in tree.messages(child) {
            b.send(tree.rank(child), 0, held.part((first - tree.me) as u32, count as u32));
        }
    }
    if tree.size(tree.me) > 1 {
        b.copy(held.part(0, 1), Span::output(0));
    }
}

/// The tree as one rank sees it. Its members are counted from the root.
pub(super) struct Tree {
    world: usize,
    root: Rank,
    me: usize,
}

impl Tree {
    /// The tree under `root`, as `rank` sees it.
    pub fn new(world: usize, root: Rank, rank: Rank) -> Tree {
        Tree { world, root, me: behind(rank, root, world) }
    }

    fn rank(&self, member: usize) -> Rank {
        ahead(self.root, member, self.world)
    }

    /// Whom this rank hangs off.
    pub fn parent(&self) -> Option<usize> {
        (self.me != 0).then(|| self.me & (self.me - 1))
    }

    /// The children, the smallest subtree first.
    pub fn children(&self) -> Vec<usize> {
        let end = if self.me == 0 { log2_ceil(self.world) } else { self.me.trailing_zeros() };
        (0..end).map(|bit| self.me + (1 << bit)).filter(|child| *child < self.world).collect()
    }

    /// Members of a subtree.
    pub fn size(&self, member: usize) -> usize {
        let whole = if member == 0 { self.world } else { 1 << member.trailing_zeros() };
        whole.min(self.world - member)
    }

    /// The runs of members, (first, count), that a subtree's blocks travel in.
    fn messages(&self, member: usize) -> Vec<(usize, usize)> {
        runs(self.world, self.root, member, self.size(member))
    }

    /// Where a rank other than the root keeps its subtree's blocks: its own buffer, where it has no children.
    fn held(&self, b: &mut Builder, own: Span) -> Span {
        match self.size(self.me) {
            1 => own,
            size => b.scratch_run(own, size as u32),
        }
    }
}

/// Cuts members `first .. first + size` where the ranks wrap round, and to the most chunks in a message.
fn runs(world: usize, root: Rank, first: usize, size: usize) -> Vec<(usize, usize)> {
    let (wrap, end) = (world - root, first + size);
    let mut runs = Vec::new();
    let mut at = first;
    while at < end {
        let stop = if at < wrap { wrap.min(end) } else { end };
        let count = (stop - at).min(MAX_SPAN);
        runs.push((at, count));
        at += count;
    }
    runs
}

/// The most chunks in any message of the tree.
fn largest_message(world: usize, root: Rank) -> u32 {
    let tree = Tree { world, root, me: 0 };
    let largest = |child: usize| tree.messages(child).into_iter().map(|(_, count)| count).max();
    tree.children().into_iter().filter_map(largest).max().unwrap_or(1) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_member_has_one_parent_and_subtrees_add_up() {
        for world in 2..40 {
            let mut seen = vec![0; world];
            for me in 0..world {
                let tree = Tree { world, root: 0, me };
                let below: usize = tree.children().iter().map(|c| tree.size(*c)).sum();
                assert_eq!(tree.size(me), below + 1, "member {me} of {world}");
                for child in tree.children() {
                    seen[child] += 1;
                    assert_eq!(Tree { world, root: 0, me: child }.parent(), Some(me));
                }
            }
            assert!(seen[1..].iter().all(|times| *times == 1));
        }
    }

    #[test]
    fn runs_stop_at_the_wrap_and_the_limit() {
        assert_eq!(runs(8, 3, 4, 4), [(4, 1), (5, 3)]);
        assert_eq!(runs(128, 0, 64, 64), [(64, 32), (96, 32)]);
    }
}
