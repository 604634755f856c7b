//! Double tree: the vector is cut in two, and each half travels over a binary tree of its own. Who passes on in one tree is
//! a leaf of the other, so that nobody sends more than one vector.
//!
//! The trees ([`Trees`]) are over all ranks but the root, counted from the one after it. *broadcast*: the root gives
//! half c to the root of tree c, and every rank passes what it gets to its children. *reduce*: the same backwards; a rank folds what
//! comes from before it in the tree, its own, and what comes from after it.
//!
//! Steps: 1 + ceil(lg(n - 1)). Bytes sent per rank: S at most; the tile loop keeps all levels busy. An element is rounded once
//! per level.

use hcomm_ops::Rank;

use super::group::{ahead, behind, log2_ceil};
use super::trees::{Child, Trees};
use super::{Algorithm, Call, Layout, NO_PAIRS, ONE_CHANNEL, only_of_two, serves_all};
use crate::choose::{Pattern, Work};
use crate::graph::Builder;
use crate::plan::Span;
use crate::request::Collective;

pub(super) const ALGORITHM: Algorithm = Algorithm {
    name: "double_tree",
    doc: "Each half of the vector travels over a binary tree whose leaves pass on in the other tree.",
    collectives: &[Collective::Broadcast, Collective::Reduce],
    channels: ONE_CHANNEL,
    pairs: NO_PAIRS,
    rank_order: only_of_two,
    refuses: serves_all,
    layout: |_| Layout { channels: 2, ..Layout::of(2) },
    work,
    build,
};

fn work(call: &Call<'_>) -> Work {
    let steps = 1 + log2_ceil(call.world - 1) as usize;
    let whole = Work::new(call, Pattern::Everyone, steps, 2, 1.0);
    match call.collective {
        Collective::Broadcast => whole.copying(1.0),
        _ => whole.reducing(1.0, steps),
    }
}

fn build(call: &Call<'_>, rank: Rank, b: &mut Builder) {
    let members = Members { world: call.world, root: call.root, trees: Trees::new(call.world - 1) };
    match (call.collective, behind(rank, call.root, call.world)) {
        (Collective::Broadcast, 0) => feed(b, &members),
        (Collective::Broadcast, place) => (0..2).for_each(|tree| pass_down(b, &members, tree, place - 1)),
        (_, 0) => finish(b, &members),
        (_, place) => (0..2).for_each(|tree| fold_up(b, &members, tree, place - 1)),
    }
}

/// The ranks of the trees: member m is m + 1 places after the root.
struct Members {
    world: usize,
    root: Rank,
    trees: Trees,
}

impl Members {
    fn rank(&self, member: usize) -> Rank {
        ahead(self.root, member + 1, self.world)
    }

    /// Whom a member hangs off in a tree: the root of all, at the tree's root.
    fn above(&self, tree: usize, member: usize) -> Rank {
        self.trees.node(tree, member).parent.map_or(self.root, |parent| self.rank(parent))
    }
}

fn feed(b: &mut Builder, members: &Members) {
    for tree in 0..2 {
        let half = Span::input(tree as u32);
        b.copy(half, Span::output(tree as u32));
        b.send(members.rank(members.trees.root(tree)), tree as u8, half);
    }
}

fn pass_down(b: &mut Builder, members: &Members, tree: usize, member: usize) {
    let half = Span::output(tree as u32);
    b.recv(members.above(tree, member), tree as u8, half);
    for child in members.trees.node(tree, member).children() {
        b.send(members.rank(child.member), tree as u8, half);
    }
}

fn fold_up(b: &mut Builder, members: &Members, tree: usize, member: usize) {
    let own = Span::input(tree as u32);
    let node = members.trees.node(tree, member);
    let arrived = |child: Child, b: &mut Builder| {
        let arrived = b.scratch(own);
        b.recv_partial(members.rank(child.member), tree as u8, arrived, child.members as u64);
        arrived
    };
    let before = node.left.map(|child| arrived(child, b));
    let after = node.right.map(|child| arrived(child, b));
    let sources: Vec<Span> = before.into_iter().chain([own]).chain(after).collect();
    let sum = if sources.len() == 1 { own } else { b.scratch(own) };
    if sources.len() > 1 {
        b.reduce(&sources, sum);
    }
    b.send(members.above(tree, member), tree as u8, sum);
}

fn finish(b: &mut Builder, members: &Members) {
    for tree in 0..2 {
        let own = Span::input(tree as u32);
        let arrived = b.scratch(own);
        let others = members.world as u64 - 1;
        b.recv_partial(members.rank(members.trees.root(tree)), tree as u8, arrived, others);
        b.reduce(&[own, arrived], Span::output(tree as u32));
    }
}
