//! Direct: every rank sends each block straight to the rank that needs it.
//!
//! *all_gather*: to all others. *reduce_scatter*: block j to rank j, which folds in rank order. *gather*, *reduce*: to
//! the root. *scatter*, *broadcast*: from the root. *barrier*: that it has come, to all others. *all_to_all*: block j to rank j,
//! all at once; in place both ends of a pair overwrite what they send one another, which needs copying paths.
//!
//! Steps: 1. Bytes sent per rank: (n - 1)/n of the full buffer; broadcast: (n - 1) S at the root, reduce: S per rank. Each
//! element is rounded once.

use hcomm_ops::Rank;

use super::group::Group;
use super::one_shot::fold_all;
use super::tally::{Tally, all_pairs};
use super::{Algorithm, Call, Layout, NO_PAIRS, ONE_CHANNEL, in_rank_order, serves_all};
use crate::choose::Work;
use crate::graph::Builder;
use crate::plan::Span;
use crate::request::Collective;

pub(super) const ALGORITHM: Algorithm = Algorithm {
    name: "direct",
    doc: "Every rank sends each block straight to the rank that needs it.",
    collectives: &[
        Collective::AllGather,
        Collective::ReduceScatter,
        Collective::Broadcast,
        Collective::Reduce,
        Collective::Gather,
        Collective::Scatter,
        Collective::AllToAll,
        Collective::Barrier,
    ],
    channels: ONE_CHANNEL,
    pairs: NO_PAIRS,
    rank_order: in_rank_order,
    refuses: serves_all,
    layout: |call| {
        let buffered = matches!(call.collective, Collective::AllToAll | Collective::Barrier);
        Layout { buffered, ..Layout::of(1) }
    },
    work,
    build,
};

fn work(call: &Call<'_>) -> Work {
    let (others, n) = ((call.world - 1) as f64, call.world as f64);
    match call.collective {
        Collective::Broadcast => star(call, 1).copying(1.0),
        Collective::Reduce => star(call, 1).reducing(others, 1),
        Collective::Scatter | Collective::Gather => star(call, call.world).copying(1.0 / n),
        Collective::ReduceScatter => all_pairs(call, 1, 1, 1).reducing(others / n, 1),
        Collective::Barrier => all_pairs(call, 1, 1, 0),
        _ => all_pairs(call, 1, 1, 1).copying(1.0 / n),
    }
}

/// One message of one chunk, of so many, between the root and every other rank.
fn star(call: &Call<'_>, chunks: usize) -> Work {
    let mut tally = Tally::new(call);
    for peer in (0..call.world).filter(|peer| *peer != call.root) {
        match call.collective {
            Collective::Broadcast | Collective::Scatter => tally.message(call.root, peer, 1),
            _ => tally.message(peer, call.root, 1),
        }
    }
    tally.work(1, chunks)
}

fn build(call: &Call<'_>, rank: Rank, b: &mut Builder) {
    let world = Group::world(call.world, rank);
    let at_root = rank == call.root;
    match call.collective {
        Collective::AllGather => all_gather(b, &world),
        Collective::ReduceScatter => reduce_scatter(b, &world),
        Collective::Broadcast if at_root => from_root(b, &world, |_| Span::input(0)),
        Collective::Scatter if at_root => from_root(b, &world, |peer| Span::input(peer as u32)),
        Collective::Broadcast | Collective::Scatter => b.recv(call.root, 0, Span::output(0)),
        Collective::Reduce if at_root => fold_all(b, &world, 0, Span::input(0), Span::output(0), 1),
        Collective::Gather if at_root => gather(b, &world),
        Collective::AllToAll => all_to_all(b, &world),
        Collective::Barrier => barrier(b, &world),
        _ => b.send(call.root, 0, Span::input(0)),
    }
}

fn all_gather(b: &mut Builder, world: &Group) {
    b.copy(Span::input(0), Span::output(world.me as u32));
    for peer in world.others() {
        b.send(peer, 0, Span::input(0));
    }
    for peer in world.others() {
        b.recv(peer, 0, Span::output(peer as u32));
    }
}

/// What has been heard is written as a fold of empty messages.
fn barrier(b: &mut Builder, world: &Group) {
    for peer in world.others() {
        b.send(peer, 0, Span::input(0));
    }
    fold_all(b, world, 0, Span::input(0), Span::output(0), 1);
}

fn reduce_scatter(b: &mut Builder, world: &Group) {
    for peer in world.others() {
        b.send(peer, 0, Span::input(peer as u32));
    }
    fold_all(b, world, 0, Span::input(world.me as u32), Span::output(0), 1);
}

fn from_root(b: &mut Builder, world: &Group, block: impl Fn(Rank) -> Span) {
    b.copy(block(world.me), Span::output(0));
    for peer in world.others() {
        b.send(peer, 0, block(peer));
    }
}

fn gather(b: &mut Builder, world: &Group) {
    b.copy(Span::input(0), Span::output(world.me as u32));
    for peer in world.others() {
        b.recv(peer, 0, Span::output(peer as u32));
    }
}

fn all_to_all(b: &mut Builder, world: &Group) {
    let own = world.me as u32;
    b.copy(Span::input(own), Span::output(own));
    for peer in world.others() {
        b.send(peer, 0, Span::input(peer as u32));
    }
    for peer in world.others() {
        b.recv(peer, 0, Span::output(peer as u32));
    }
}
