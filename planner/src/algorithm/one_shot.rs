//! One-shot all_reduce: every rank sends its whole vector to every other, and folds what it gets in rank order.
//!
//! Steps: 1. Bytes sent per rank: (n - 1) S. Each element is rounded once, and all ranks fold in the same order.
//!
//! In place, a rank's result overwrites what it sent while its peer does the same: it needs copying paths.

use hcomm_ops::Rank;

use super::group::Group;
use super::tally::all_pairs;
use super::{Algorithm, Call, Layout, NO_PAIRS, ONE_CHANNEL, in_rank_order, serves_all};
use crate::choose::Work;
use crate::graph::Builder;
use crate::plan::Span;
use crate::request::Collective;

pub(super) const ALGORITHM: Algorithm = Algorithm {
    name: "one_shot",
    doc: "Every rank sends its whole vector to every other and folds all of them.",
    collectives: &[Collective::AllReduce],
    channels: ONE_CHANNEL,
    pairs: NO_PAIRS,
    rank_order: in_rank_order,
    refuses: serves_all,
    layout: |_| Layout { buffered: true, ..Layout::of(1) },
    work,
    build,
};

fn work(call: &Call<'_>) -> Work {
    all_pairs(call, 1, 1, call.world).reducing(call.world as f64 - 1.0, 1)
}

fn build(call: &Call<'_>, rank: Rank, b: &mut Builder) {
    let world = Group::world(call.world, rank);
    for peer in world.others() {
        b.send(peer, 0, Span::input(0));
    }
    fold_all(b, &world, 0, Span::input(0), Span::output(0), 1);
}

/// Receives one vector from every other member and folds all, this member's `own` at its place, into `result`. Every
/// vector holds the inputs of `each` ranks.
pub(super) fn fold_all(b: &mut Builder, group: &Group, channel: u8, own: Span, result: Span, each: u64) {
    let mut sources = vec![own; group.len()];
    for other in group.others() {
        sources[other] = b.scratch(own);
        b.recv_partial(group.rank(other), channel, sources[other], each);
    }
    b.reduce(&sources, result);
}
