//! Ring: blocks travel from each rank to the next.
//!
//! *reduce_scatter*: block b starts at rank b + 1; each rank it passes adds its own contribution and sends it on, and
//! after n - 1 steps it is complete at rank b. *all_gather*: each rank's block travels n - 1 steps, and every rank it
//! passes keeps a copy. *all_reduce*: one after the other, the vector being cut into n chunks.
//!
//! Steps: n - 1 (all_reduce 2(n - 1)). Bytes sent per rank: (n - 1)/n of the full buffer (all_reduce twice that). Only
//! neighbours talk. A partial crosses n - 1 wires, so an element is rounded n - 1 times.

use hcomm_ops::Rank;

use super::group::{Group, behind};
use super::tally::Tally;
use super::{Algorithm, Call, Layout, NO_PAIRS, ONE_CHANNEL, only_of_two, serves_all};
use crate::choose::Work;
use crate::graph::Builder;
use crate::plan::Span;
use crate::request::Collective;

pub(super) const ALGORITHM: Algorithm = Algorithm {
    name: "ring",
    doc: "Blocks travel from each rank to the next, summed or kept on the way.",
    collectives: &[Collective::AllReduce, Collective::AllGather, Collective::ReduceScatter],
    channels: ONE_CHANNEL,
    pairs: NO_PAIRS,
    rank_order: only_of_two,
    refuses: serves_all,
    layout,
    work,
    build,
};

fn layout(call: &Call<'_>) -> Layout {
    match call.collective {
        Collective::AllReduce => Layout { channels: 2, ..Layout::of(call.world) },
        _ => Layout::of(1),
    }
}

fn work(call: &Call<'_>) -> Work {
    let (steps, n) = (call.world - 1, call.world);
    let times = if call.collective == Collective::AllReduce { 2 } else { 1 };
    let mut tally = Tally::new(call);
    tally.circle(&(0..n).collect::<Vec<_>>(), times * steps);
    let work = tally.work_in_rounds(n);
    match call.collective {
        Collective::AllGather => work.copying(1.0 / n as f64),
        _ => work.reducing(steps as f64 / n as f64, steps),
    }
}

fn build(call: &Call<'_>, rank: Rank, b: &mut Builder) {
    let ring = Group::world(call.world, rank);
    let own = |block: usize| Span::input(block as u32);
    let kept = |block: usize| Span::output(block as u32);
    match call.collective {
        Collective::AllGather => {
            b.copy(Span::input(0), kept(rank));
            all_gather(b, &ring, 0, Span::input(0), kept);
        }
        Collective::ReduceScatter => reduce_scatter(b, &ring, 0, own, Span::output(0), 1),
        _ => {
            reduce_scatter(b, &ring, 0, own, kept(rank), 1);
            b.stage(1);
            all_gather(b, &ring, 1, kept(rank), kept);
        }
    }
}

/// Leaves the sum of block `ring.me` in `result`; `own` says where this member's contribution to a block is, which
/// holds the inputs of `each` ranks already.
pub(super) fn reduce_scatter(
    b: &mut Builder,
    ring: &Group,
    channel: u8,
    own: impl Fn(usize) -> Span,
    result: Span,
    each: u64,
) {
    let n = ring.len();
    b.send(ring.right(), channel, own(behind(ring.me, 1, n)));
    for step in 1..n {
        let block = own(behind(ring.me, 1 + step, n));
        let arrived = b.scratch(block);
        b.recv_partial(ring.left(), channel, arrived, step as u64 * each);
        if step == n - 1 {
            b.reduce(&[arrived, block], result);
        } else {
            let partial = b.scratch(block);
            b.reduce(&[arrived, block], partial);
            b.send(ring.right(), channel, partial);
        }
    }
}

/// Sends `first`, block `ring.me`, round the ring and keeps the other members' blocks where `kept` says.
pub(super) fn all_gather(
    b: &mut Builder,
    ring: &Group,
    channel: u8,
    first: Span,
    kept: impl Fn(usize) -> Span,
) {
    let n = ring.len();
    b.send(ring.right(), channel, first);
    for step in 1..n {
        let block = kept(behind(ring.me, step, n));
        b.recv(ring.left(), channel, block);
        if step < n - 1 {
            b.send(ring.right(), channel, block);
        }
    }
}
