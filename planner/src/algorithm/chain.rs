//! Chain: every rank passes on to the next what it got from the one before. The tile loop makes it a pipeline: while a
//! rank passes on one tile the one before it already sends the next.
//!
//! *broadcast*: from the root on, round to the rank before it. *reduce*: from rank 0 to the last rank, each adding its own, and
//! from there to the root, so that every element is folded in rank order whatever the root. *all_reduce*: such a reduce to the last
//! rank, and a broadcast back from it; the two are stages of their own, so that tiles go both ways at once. Partials cross in the
//! type itself: types that accumulate in another are rounded at every rank.
//!
//! Steps: n - 1; reduce one more, unless the last rank is the root; all_reduce 2(n - 1). Bytes sent per rank: S, all_reduce 2 S. A root
//! in the middle of a reduce receives 2 S. An element is rounded n - 1 times.

use hcomm_ops::Rank;

use super::group::{ahead, behind};
use super::tally::Tally;
use super::{Algorithm, Call, Layout, NO_PAIRS, ONE_CHANNEL, is_narrow, serves_all};
use crate::choose::Work;
use crate::graph::Builder;
use crate::plan::Span;
use crate::request::Collective;

pub(super) const ALGORITHM: Algorithm = Algorithm {
    name: "chain",
    doc: "Every rank passes on to the next what it got from the one before, tile after tile.",
    collectives: &[Collective::AllReduce, Collective::Broadcast, Collective::Reduce],
    channels: ONE_CHANNEL,
    pairs: NO_PAIRS,
    rank_order,
    refuses: serves_all,
    layout: |_| Layout::of(1),
    work,
    build,
};

/// Crossing a wire loses nothing, or no partial crosses one.
fn rank_order(call: &Call<'_>) -> bool {
    call.world == 2 || !is_narrow(call.dtype)
}

fn work(call: &Call<'_>) -> Work {
    let hops = call.world - 1;
    let first = if call.collective == Collective::Broadcast { call.root } else { 0 };
    let mut tally = Tally::new(call);
    for place in 0..hops {
        let (from, to) = (ahead(first, place, call.world), ahead(first, place + 1, call.world));
        tally.message(from, to, 1);
        if call.collective == Collective::AllReduce {
            tally.message(to, from, 1);
        }
    }
    match call.collective {
        Collective::Broadcast => tally.work(hops, 1).copying(1.0),
        Collective::AllReduce => tally.work(2 * hops, 1).reducing(1.0, hops),
        _ if call.root == hops => tally.work(hops, 1).reducing(1.0, hops),
        _ => {
            tally.message(hops, call.root, 1);
            tally.work(hops + 1, 1).reducing(1.0, hops)
        }
    }
}

fn build(call: &Call<'_>, rank: Rank, b: &mut Builder) {
    match call.collective {
        Collective::AllReduce => all_reduce(b, call.world, rank),
        Collective::Broadcast => broadcast(b, call, rank),
        _ => reduce(b, call, rank),
    }
}

fn all_reduce(b: &mut Builder, world: usize, rank: Rank) {
    let (own, result, last) = (Span::input(0), Span::output(0), world - 1);
    let mut sum = own;
    if rank > 0 {
        let arrived = b.scratch(own);
        b.recv_partial(rank - 1, 0, arrived, rank as u64);
        sum = if rank == last { result } else { b.scratch(own) };
        b.reduce(&[arrived, own], sum);
    }
    if rank < last {
        b.send(rank + 1, 0, sum);
    }
    b.stage(1);
    if rank < last {
        b.recv(rank + 1, 0, result);
    }
    if rank > 0 {
        b.send(rank - 1, 0, result);
    }
}

fn broadcast(b: &mut Builder, call: &Call<'_>, rank: Rank) {
    let place = behind(rank, call.root, call.world);
    let whole = if place == 0 { Span::input(0) } else { Span::output(0) };
    if place == 0 {
        b.copy(whole, Span::output(0));
    } else {
        b.recv(behind(rank, 1, call.world), 0, whole);
    }
    if place + 1 < call.world {
        b.send(ahead(rank, 1, call.world), 0, whole);
    }
}

fn reduce(b: &mut Builder, call: &Call<'_>, rank: Rank) {
    let (own, last) = (Span::input(0), call.world - 1);
    let next = if rank == last { call.root } else { rank + 1 };
    let mut sum = own;
    if rank > 0 {
        let arrived = b.scratch(own);
        b.recv_partial(rank - 1, 0, arrived, rank as u64);
        sum = if next == rank { Span::output(0) } else { b.scratch(own) };
        b.reduce(&[arrived, own], sum);
    }
    if next != rank {
        b.send(next, 0, sum);
    }
    if rank == call.root && rank != last {
        b.recv(last, 0, Span::output(0));
    }
}
