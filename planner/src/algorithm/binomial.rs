//! Binomial tree (see `knomial_tree`): rank v (counted from the root) has the children v + 1, v + 2, v + 4, ... below its own lowest bit.
//!
//! *broadcast*, *scatter*: from the root down, the largest subtree first. *reduce*, *gather*: from the leaves up.
//! A rank folds its own vector, then its children's in order, so that the tree folds in rank order from the root.
//!
//! Steps: ceil(lg n). Bytes: broadcast: S ceil(lg n) at the root; reduce: S per rank; gather and scatter: (n - 1)/n of the full
//! buffer at the root. An element is rounded once per level. Gather and scatter pass other ranks' blocks on through
//! scratch of their own block's length: blocks must be equally long.

use hcomm_ops::Rank;

use super::knomial_tree::{Tree, broadcast, reduce};
use super::runs::Run;
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

pub(super) const RADIX: usize = 2;

fn layout(call: &Call<'_>) -> Layout {
    match call.collective {
        Collective::Broadcast | Collective::Reduce => Layout::of(1),
        _ => Layout { even: true, span_chunks: largest_message(call.world, call.root), ..Layout::of(1) },
    }
}

fn work(call: &Call<'_>) -> Work {
    let one_block = matches!(call.collective, Collective::Broadcast | Collective::Reduce);
    let down = matches!(call.collective, Collective::Broadcast | Collective::Scatter);
    let tree = Tree::new(RADIX, call.world, call.root, call.root);
    let mut tally = Tally::new(call);
    for (member, parent) in tree.edges() {
        let (child, parent) = (tree.rank(member), tree.rank(parent));
        let (from, to) = if down { (parent, child) } else { (child, parent) };
        match one_block {
            true => tally.message(from, to, 1),
            false => tree.blocks(member).for_each(|run| tally.message(from, to, run.count)),
        }
    }
    let (levels, children) = (tree.depth(), tree.children().len());
    match call.collective {
        Collective::Broadcast => tally.work(levels, 1).copying(1.0),
        Collective::Reduce => tally.work(levels, 1).reducing(children as f64, levels),
        _ => tally.work(levels, call.world).copying(1.0 / call.world as f64),
    }
}

fn build(call: &Call<'_>, rank: Rank, b: &mut Builder) {
    let tree = Tree::new(RADIX, call.world, call.root, rank);
    match call.collective {
        Collective::Broadcast => broadcast(b, &tree),
        Collective::Reduce => reduce(b, &tree),
        Collective::Gather => gather(b, &tree),
        _ => scatter(b, &tree),
    }
}

fn gather(b: &mut Builder, tree: &Tree) {
    let Some(parent) = tree.parent() else {
        b.copy(Span::input(0), Span::output(tree.rank(0) as u32));
        for child in tree.children() {
            tree.blocks(child).for_each(|run| b.recv(tree.rank(child), 0, run.of(BufferKind::Output)));
        }
        return;
    };
    let held = held(b, tree, Span::input(0));
    if tree.size(tree.me) > 1 {
        b.copy(Span::input(0), held.part(0, 1));
    }
    for child in tree.children() {
        own_blocks(tree, child).for_each(|run| b.recv(tree.rank(child), 0, run.within(held)));
    }
    own_blocks(tree, tree.me).for_each(|run| b.send(tree.rank(parent), 0, run.within(held)));
}

fn scatter(b: &mut Builder, tree: &Tree) {
    let Some(parent) = tree.parent() else {
        b.copy(Span::input(tree.rank(0) as u32), Span::output(0));
        for child in tree.children().into_iter().rev() {
            tree.blocks(child).for_each(|run| b.send(tree.rank(child), 0, run.of(BufferKind::Input)));
        }
        return;
    };
    let held = held(b, tree, Span::output(0));
    own_blocks(tree, tree.me).for_each(|run| b.recv(tree.rank(parent), 0, run.within(held)));
    for child in tree.children().into_iter().rev() {
        own_blocks(tree, child).for_each(|run| b.send(tree.rank(child), 0, run.within(held)));
    }
    if tree.size(tree.me) > 1 {
        b.copy(held.part(0, 1), Span::output(0));
    }
}

/// The runs that a subtree's blocks travel in, counted from this rank's own block.
fn own_blocks(tree: &Tree, member: usize) -> impl Iterator<Item = Run> {
    let me = tree.me;
    tree.blocks(member).map(move |run| run.seen_from_ahead(me))
}

/// Where a rank other than the root keeps its subtree's blocks: its own buffer, where it has no children.
fn held(b: &mut Builder, tree: &Tree, own: Span) -> Span {
    match tree.size(tree.me) {
        1 => own,
        size => b.scratch_run(own, size as u32),
    }
}

/// The most chunks in any message of the tree.
fn largest_message(world: usize, root: Rank) -> u32 {
    let tree = Tree::new(RADIX, world, root, root);
    let counts = tree.children().into_iter().flat_map(|child| tree.blocks(child).map(|run| run.count));
    counts.max().unwrap_or(1) as u32
}
