//! Two-shot all_reduce: rank r collects chunk r from every rank, folds it in rank order, and sends the result to all.
//!
//! Steps: 2. Bytes sent per rank: 2(n - 1)/n S. Each element is rounded once, and folded at one place. The phases have
//! channels of their own, so that one tile is gathered while the next is reduced.

use hcomm_ops::Rank;

use super::group::Group;
use super::one_shot::fold_all;
use super::tally::all_pairs;
use super::{Algorithm, Call, Layout, NO_PAIRS, ONE_CHANNEL, in_rank_order, serves_all};
use crate::choose::Work;
use crate::graph::Builder;
use crate::plan::Span;
use crate::request::Collective;

pub(super) const ALGORITHM: Algorithm = Algorithm {
    name: "two_shot",
    doc: "Rank r folds chunk r of all ranks and sends the result to every other.",
    collectives: &[Collective::AllReduce],
    channels: ONE_CHANNEL,
    pairs: NO_PAIRS,
    rank_order: in_rank_order,
    refuses: serves_all,
    layout: |call| Layout { channels: 2, ..Layout::of(call.world) },
    work,
    build,
};

fn work(call: &Call<'_>) -> Work {
    let n = call.world as f64;
    all_pairs(call, 2, 2, 2).reducing((n - 1.0) / n, 1)
}

fn build(call: &Call<'_>, rank: Rank, b: &mut Builder) {
    let world = Group::world(call.world, rank);
    let own = rank as u32;
    for peer in world.others() {
        b.send(peer, 0, Span::input(peer as u32));
    }
    fold_all(b, &world, 0, Span::input(own), Span::output(own), 1);
    for peer in world.others() {
        b.send(peer, 1, Span::output(own));
    }
    for peer in world.others() {
        b.recv(peer, 1, Span::output(peer as u32));
    }
}
