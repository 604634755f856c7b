//! Double binary tree: two trees, each for half of the vector, in which no rank has children in both.
//!
//! Partial sums go up each tree to its root, finished halves come down. In a tree over places 0 .. n place r hangs below the
//! place whose lowest bit is one higher (see [`Tree`]); the leaves are the odd places. In an even world the second tree is the
//! first one mirrored, in an odd one shifted by a rank, so that leaves of one are inner ranks of the other: only one rank of
//! an odd world, and none of an even one, has children in both.
//!
//! Steps: about 2 lg n. Bytes sent per rank: 2 S at most (up S/2 in either tree, down S/2 to each of two children). While one tile goes down a
//! tree the next comes up: the two are stages of their own. An element is rounded once per level.

use hcomm_ops::Rank;

use super::{Algorithm, Call, Layout, NO_PAIRS, ONE_CHANNEL, only_of_two, serves_all};
use crate::choose::{Pattern, Work};
use crate::graph::Builder;
use crate::plan::Span;
use crate::request::Collective;

pub(super) const ALGORITHM: Algorithm = Algorithm {
    name: "double_tree",
    doc: "Two binary trees, each reducing and broadcasting half of the vector, with the leaves of one inside the other.",
    collectives: &[Collective::AllReduce],
    channels: ONE_CHANNEL,
    pairs: NO_PAIRS,
    rank_order: only_of_two,
    refuses: serves_all,
    layout: |_| Layout { channels: 2, ..Layout::of(2) },
    work,
    build,
};

fn work(call: &Call<'_>) -> Work {
    let depth = super::group::log2_ceil(call.world) as usize;
    Work::new(call, Pattern::Everyone, 2 * depth, 4, 2.0).reducing(1.5, depth)
}

fn build(call: &Call<'_>, rank: Rank, b: &mut Builder) {
    let trees = [0, 1].map(|tree| Tree::new(call.world, tree));
    for (half, tree) in trees.iter().enumerate() {
        up(b, tree, rank, half as u8);
    }
    b.stage(1);
    for (half, tree) in trees.iter().enumerate() {
        down(b, tree, rank, half as u8);
    }
}

/// Adds the children's sums to the own input and passes the sum on.
fn up(b: &mut Builder, tree: &Tree, rank: Rank, half: u8) {
    let own = Span::input(u32::from(half));
    let place = tree.place(rank);
    let mut sources = vec![own];
    for child in tree.children(place) {
        let arrived = b.scratch(own);
        b.recv_partial(tree.rank(child), half, arrived, tree.size(child) as u64);
        sources.push(arrived);
    }
    match tree.parent(place) {
        None => b.reduce(&sources, Span::output(u32::from(half))),
        Some(parent) if sources.len() == 1 => b.send(tree.rank(parent), half, own),
        Some(parent) => {
            let sum = b.scratch(own);
            b.reduce(&sources, sum);
            b.send(tree.rank(parent), half, sum);
        }
    }
}

/// Passes the result on to the children.
fn down(b: &mut Builder, tree: &Tree, rank: Rank, half: u8) {
    let result = Span::output(u32::from(half));
    let place = tree.place(rank);
    if let Some(parent) = tree.parent(place) {
        b.recv(tree.rank(parent), half, result);
    }
    for child in tree.children(place) {
        b.send(tree.rank(child), half, result);
    }
}

/// A binary tree over places 0 .. `world`, and who stands where. Place 0 is the root and has one child, the largest power of
/// two. Below it, a place whose lowest bit is b has its children, as far as they exist, at half that bit before and after it:
/// it is the middle of its subtree, whose places follow one another.
#[derive(Clone, Copy, Debug)]
struct Tree {
    world: usize,
    kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Plain,
    Mirrored,
    Shifted,
}

impl Tree {
    /// Tree 0 or 1 of a world.
    fn new(world: usize, tree: usize) -> Tree {
        let kind = match (tree, world % 2) {
            (0, _) => Kind::Plain,
            (_, 0) => Kind::Mirrored,
            _ => Kind::Shifted,
        };
        Tree { world, kind }
    }

    fn place(&self, rank: Rank) -> usize {
        match self.kind {
            Kind::Plain => rank,
            Kind::Mirrored => self.world - 1 - rank,
            Kind::Shifted => (rank + self.world - 1) % self.world,
        }
    }

    fn rank(&self, place: usize) -> Rank {
        match self.kind {
            Kind::Plain => place,
            Kind::Mirrored => self.world - 1 - place,
            Kind::Shifted => (place + 1) % self.world,
        }
    }

    fn parent(&self, place: usize) -> Option<usize> {
        if place == 0 {
            return None;
        }
        let bit = lowest_bit(place);
        let above = (place ^ bit) | (bit << 1);
        // Where the world ends before the regular parent, the nearest place that has this one after it stands in.
        Some(if above < self.world { above } else { place ^ bit })
    }

    fn children(&self, place: usize) -> Vec<usize> {
        if place == 0 {
            return vec![super::group::power_of_two_below(self.world - 1)];
        }
        let half = lowest_bit(place) / 2;
        let before = (half > 0).then(|| place - half);
        let halves = std::iter::successors(Some(half), |half| Some(half / 2)).take_while(|half| *half > 0);
        let after = halves.map(|half| place + half).find(|after| *after < self.world);
        before.into_iter().chain(after).collect()
    }

    /// Places of a subtree.
    fn size(&self, place: usize) -> usize {
        let bit = lowest_bit(place);
        (place + bit).min(self.world) - (place - bit) - 1
    }
}

fn lowest_bit(place: usize) -> usize {
    1 << place.trailing_zeros()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parents_and_children_agree_and_subtrees_add_up() {
        for world in 2..100 {
            for tree in [0, 1].map(|tree| Tree::new(world, tree)) {
                for place in 0..world {
                    assert_eq!(tree.place(tree.rank(place)), place);
                    let children = tree.children(place);
                    assert!(children.iter().all(|child| tree.parent(*child) == Some(place)));
                    let below: usize = children.iter().map(|child| tree.size(*child)).sum();
                    let size = if place == 0 { world } else { tree.size(place) };
                    assert_eq!(below + 1, size, "place {place} of {world}");
                }
            }
        }
    }

    #[test]
    fn no_rank_is_a_leaf_in_both_trees_and_at_most_one_inner_in_both() {
        for world in 3..100 {
            let trees = [0, 1].map(|tree| Tree::new(world, tree));
            let children = |rank: Rank| trees.map(|tree| tree.children(tree.place(rank)).len());
            let inner = (0..world).filter(|rank| children(*rank).iter().all(|count| *count > 0)).count();
            assert!((0..world).all(|rank| children(rank) != [0, 0]), "{world}");
            assert_eq!(inner, world % 2, "{world}");
        }
    }
}
