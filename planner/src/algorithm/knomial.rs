//! K-nomial tree of radix 4 (see `knomial_tree`): in every step each rank that has been reached reaches three others.
//!
//! *broadcast*: from the root down, the largest subtrees first. *reduce*: from the leaves up; a rank folds its own vector, then
//! its children's in order, all at once, so that the tree folds in rank order from the root.
//!
//! Steps: the most digits that are not 0, at most ceil(log4 n). Bytes: broadcast: S per child at the root, at most 3
//! ceil(log4 n); reduce: S per rank, and as many reach the root. An element is rounded once per level.

use hcomm_ops::Rank;

use super::knomial_tree::{Tree, broadcast, reduce};
use super::tally::Tally;
use super::{Algorithm, Call, Layout, NO_PAIRS, ONE_CHANNEL, only_of_two, serves_all};
use crate::choose::Work;
use crate::graph::Builder;
use crate::request::Collective;

pub(super) const ALGORITHM: Algorithm = Algorithm {
    name: "knomial",
    doc: "A tree in which the number of ranks reached grows fourfold at every step.",
    collectives: &[Collective::Broadcast, Collective::Reduce],
    channels: ONE_CHANNEL,
    pairs: NO_PAIRS,
    rank_order: only_of_two,
    refuses: serves_all,
    layout: |_| Layout::of(1),
    work,
    build,
};

/// Of this tree, and of the barrier's.
pub(super) const RADIX: usize = 4;

fn work(call: &Call<'_>) -> Work {
    let tree = Tree::new(RADIX, call.world, call.root, call.root);
    let mut tally = Tally::new(call);
    for (child, parent) in tree.edges() {
        let (child, parent) = (tree.rank(child), tree.rank(parent));
        let (from, to) =
            if call.collective == Collective::Broadcast { (parent, child) } else { (child, parent) };
        tally.message(from, to, 1);
    }
    let levels = tree.depth();
    match call.collective {
        Collective::Broadcast => tally.work(levels, 1).copying(1.0),
        _ => tally.work(levels, 1).reducing(tree.children().len() as f64, levels),
    }
}

fn build(call: &Call<'_>, rank: Rank, b: &mut Builder) {
    let tree = Tree::new(RADIX, call.world, call.root, rank);
    match call.collective {
        Collective::Broadcast => broadcast(b, &tree),
        _ => reduce(b, &tree),
    }
}
