//! Direct: every rank sends each block straight to the rank that needs it.
//!
//! *all_gather*: to all others. *reduce_scatter*: block j to rank j, which folds in rank order. *gather*, *reduce*: to
//! the root. *scatter*, *broadcast*: from the root.
//!
//! Steps: 1. Bytes sent per rank: (n - 1)/n of the full buffer; broadcast: (n - 1) S at the root, reduce: S per rank. Each
//! element is rounded once.

use hcomm_ops::Rank;

use super::group::Group;
use super::one_shot::fold_all;
use super::{Algorithm, Call, Layout, ONE_CHANNEL, in_rank_order, serves_all};
use crate::choose::{Pattern, Work};
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
    ],
    channels: ONE_CHANNEL,
    rank_order: in_rank_order,
    refuses: serves_all,
    layout: |_| Layout::of(1),
    work,
    build,
};

fn work(call: &Call<'_>) -> Work {
    let (others, n) = (call.world - 1, call.world as f64);
    let star = Work::new(call, Pattern::Everyone, 1, others, others as f64);
    let spread = Work::new(call, Pattern::Everyone, 1, others, others as f64 / n);
    match call.collective {
        Collective::Broadcast => star.copying(1.0),
        Collective::Reduce => star.reducing(others as f64, 1),
        Collective::ReduceScatter => spread.reducing(others as f64 / n, 1),
        _ => spread.copying(1.0 / n),
    }
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
