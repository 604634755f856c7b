//! Double tree: the vector is cut in two, and each half travels over a binary tree of its own. Who passes on in one tree is
//! a leaf of the other ([`Trees`]), so that nobody passes on more than one vector.
//!
//! *all_reduce*: the trees are over all ranks; partial sums go up each tree to its root, and the finished halves come down.
//! *broadcast*: the trees are over all ranks but the root, counted from the one after it; the root gives half c to the root of tree
//! c, and every rank passes what it gets to its children. *reduce*: the same backwards. A rank folds what comes from before it in
//! the tree, its own, and what comes from after it.
//!
//! Steps: broadcast and reduce 1 + ceil(lg(n - 1)), all_reduce 2 ceil(lg n). Bytes sent per rank: S at most, all_reduce 2 S; the tile loop
//! keeps all levels busy, and while one tile goes down the tree the next comes up. An element is rounded once per level.

use hcomm_ops::Rank;

use super::group::{ahead, behind, log2_ceil};
use super::tally::Tally;
use super::trees::{Child, Trees};
use super::{Algorithm, Call, Layout, NO_PAIRS, ONE_CHANNEL, only_of_two, serves_all};
use crate::choose::Work;
use crate::graph::Builder;
use crate::plan::Span;
use crate::request::Collective;

pub(super) const ALGORITHM: Algorithm = Algorithm {
    name: "double_tree",
    doc: "Each half of the vector travels over a binary tree whose leaves pass on in the other tree.",
    collectives: &[Collective::AllReduce, Collective::Broadcast, Collective::Reduce],
    channels: ONE_CHANNEL,
    pairs: NO_PAIRS,
    rank_order: only_of_two,
    refuses: serves_all,
    layout: |_| Layout { channels: 2, ..Layout::of(2) },
    work,
    build,
};

fn work(call: &Call<'_>) -> Work {
    let all = call.collective == Collective::AllReduce;
    let members = if all { Members::all(call.world) } else { Members::but(call.root, call.world) };
    let mut tally = Tally::in_rounds(call);
    for tree in 0..2 {
        tally.start_anew();
        let levels = members.levels(tree, (!all).then_some(call.root));
        for level in levels.iter().rev().filter(|_| call.collective != Collective::Broadcast) {
            level.iter().for_each(|(parent, child)| tally.message(*child, *parent, 1));
            tally.end_round();
        }
        for level in levels.iter().filter(|_| call.collective != Collective::Reduce) {
            level.iter().for_each(|(parent, child)| tally.message(*parent, *child, 1));
            tally.end_round();
        }
    }
    let (work, depth) = (tally.work_in_rounds(2), log2_ceil(members.trees.members()) as usize);
    match call.collective {
        Collective::AllReduce => work.reducing(members.most_folded(), depth),
        Collective::Broadcast => work.copying(1.0),
        _ => work.reducing(1.0, 1 + depth),
    }
}

fn build(call: &Call<'_>, rank: Rank, b: &mut Builder) {
    if call.collective == Collective::AllReduce {
        return all_reduce(b, &Members::all(call.world), rank);
    }
    let members = Members::but(call.root, call.world);
    match (call.collective, behind(rank, call.root, call.world)) {
        (Collective::Broadcast, 0) => feed(b, &members),
        (Collective::Broadcast, place) => {
            (0..2).for_each(|tree| pass_down(b, &members, tree, place - 1, Some(call.root)));
        }
        (_, 0) => finish(b, &members),
        (_, place) => (0..2).for_each(|tree| fold_up(b, &members, tree, place - 1, Some(call.root))),
    }
}

fn all_reduce(b: &mut Builder, members: &Members, rank: Rank) {
    (0..2).for_each(|tree| fold_up(b, members, tree, rank, None));
    b.stage(1);
    (0..2).for_each(|tree| pass_down(b, members, tree, rank, None));
}

/// The ranks of the trees, counted from one of them.
struct Members {
    first: Rank,
    world: usize,
    trees: Trees,
}

impl Members {
    fn all(world: usize) -> Members {
        Members { first: 0, world, trees: Trees::new(world) }
    }

    fn but(root: Rank, world: usize) -> Members {
        Members { first: ahead(root, 1, world), world, trees: Trees::new(world - 1) }
    }

    fn rank(&self, member: usize) -> Rank {
        ahead(self.first, member, self.world)
    }

    /// The pairs of a parent and its child in a tree, level by level from the top; the tree's own root hangs off `above`.
    fn levels(&self, tree: usize, above: Option<Rank>) -> Vec<Vec<(Rank, Rank)>> {
        if self.trees.members() == 0 {
            return Vec::new();
        }
        let root = self.trees.root(tree);
        let mut levels: Vec<Vec<_>> = above.map(|above| vec![(above, self.rank(root))]).into_iter().collect();
        let mut members = vec![root];
        while !members.is_empty() {
            let mut level = Vec::new();
            let mut next = Vec::new();
            for member in members {
                for child in self.trees.node(tree, member).children() {
                    level.push((self.rank(member), self.rank(child.member)));
                    next.push(child.member);
                }
            }
            levels.push(level);
            members = next;
        }
        levels
    }

    /// The most that a member folds, in whole vectors.
    fn most_folded(&self) -> f64 {
        let children = |member: usize| -> usize {
            (0..2).map(|tree| self.trees.node(tree, member).children().count()).sum()
        };
        (0..self.trees.members()).map(children).max().unwrap_or(0) as f64 / 2.0
    }
}

/// Sends what a member has in a tree to its parent there, or, at the tree's root, to `above`; without that it is the result.
fn fold_up(b: &mut Builder, members: &Members, tree: usize, member: usize, above: Option<Rank>) {
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
    let parent = node.parent.map(|parent| members.rank(parent)).or(above);
    match parent {
        None => b.reduce(&sources, Span::output(tree as u32)),
        Some(parent) if sources.len() == 1 => b.send(parent, tree as u8, own),
        Some(parent) => {
            let sum = b.scratch(own);
            b.reduce(&sources, sum);
            b.send(parent, tree as u8, sum);
        }
    }
}

/// Passes a half from a member's parent in a tree (or, at the tree's root, from `above`, if it is not there already) to its
/// children.
fn pass_down(b: &mut Builder, members: &Members, tree: usize, member: usize, above: Option<Rank>) {
    let half = Span::output(tree as u32);
    let node = members.trees.node(tree, member);
    if let Some(parent) = node.parent.map(|parent| members.rank(parent)).or(above) {
        b.recv(parent, tree as u8, half);
    }
    for child in node.children() {
        b.send(members.rank(child.member), tree as u8, half);
    }
}

/// What the root of a broadcast does.
fn feed(b: &mut Builder, members: &Members) {
    for tree in 0..2 {
        let half = Span::input(tree as u32);
        b.copy(half, Span::output(tree as u32));
        b.send(members.rank(members.trees.root(tree)), tree as u8, half);
    }
}

/// What the root of a reduce does.
fn finish(b: &mut Builder, members: &Members) {
    for tree in 0..2 {
        let own = Span::input(tree as u32);
        let arrived = b.scratch(own);
        let others = members.world as u64 - 1;
        b.recv_partial(members.rank(members.trees.root(tree)), tree as u8, arrived, others);
        b.reduce(&[own, arrived], Span::output(tree as u32));
    }
}
