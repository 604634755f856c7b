//! Tree barrier: every rank tells its parent in a tree of radix 4 that it, and all below it, have arrived; when the root
//! has heard from all, it releases them down the same tree.
//!
//! Steps: twice the depth of the tree, at most 2 ceil(log4 n). Bytes: none, but every message is sent: n - 1 up and n - 1 down, against
//! n ceil(lg n) of the dissemination barrier.

use hcomm_ops::Rank;

use super::knomial::RADIX;
use super::knomial_tree::Tree;
use super::tally::Tally;
use super::{Algorithm, Call, Layout, NO_PAIRS, ONE_CHANNEL, only_of_two, serves_all};
use crate::choose::Work;
use crate::graph::Builder;
use crate::plan::Span;
use crate::request::Collective;

pub(super) const ALGORITHM: Algorithm = Algorithm {
    name: "tree",
    doc: "A tree of radix 4 collects who has arrived and then releases everybody.",
    collectives: &[Collective::Barrier],
    channels: ONE_CHANNEL,
    pairs: NO_PAIRS,
    rank_order: only_of_two,
    refuses: serves_all,
    layout: |_| Layout::of(1),
    work,
    build,
};

fn work(call: &Call<'_>) -> Work {
    let tree = Tree::new(RADIX, call.world, 0, 0);
    let mut tally = Tally::new(call);
    for (child, parent) in tree.edges() {
        tally.message(child, parent, 0);
        tally.message(parent, child, 0);
    }
    // On processors that ranks share a step costs a turn of each, and the release none: who has told its parent runs again anyway.
    // The root, which leaves first, finds the others ready for what comes next.
    let is_crowded = call.topology.ranks_per_processor() > 1.0;
    tally.work(if is_crowded { tree.depth() } else { 2 * tree.depth() }, 1)
}

fn build(call: &Call<'_>, rank: Rank, b: &mut Builder) {
    let tree = Tree::new(RADIX, call.world, 0, rank);
    let own = Span::input(0);
    let mut arrived = vec![own];
    for child in tree.children() {
        let news = b.scratch(own);
        b.recv(tree.rank(child), 0, news);
        arrived.push(news);
    }
    match tree.parent() {
        None => b.reduce(&arrived, Span::output(0)),
        Some(parent) => {
            let all = if arrived.len() == 1 { own } else { b.scratch(own) };
            if arrived.len() > 1 {
                b.reduce(&arrived, all);
            }
            b.send(tree.rank(parent), 0, all);
            b.recv(tree.rank(parent), 0, Span::output(0));
        }
    }
    for child in tree.children().into_iter().rev() {
        b.send(tree.rank(child), 0, Span::output(0));
    }
}
