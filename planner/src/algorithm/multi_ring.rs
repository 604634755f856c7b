//! Several rings at once, each with an equal part of the vector, over as many different neighbours as the world allows ([`rings`]).
//!
//! Every ring is the all_reduce of [`ring`] on its own part: a reduce_scatter round it, then an all_gather. Rings that go over
//! the same neighbours have channels of their own there.
//!
//! Steps: 2(n - 1). Bytes sent per rank: 2(n - 1)/n S, in c times as many messages as one ring; but over up to c links at
//! once. An element is rounded n - 1 times.

use hcomm_ops::Rank;

use super::group::Group;
use super::rings::{Ring, rings};
use super::tally::Tally;
use super::{Algorithm, Call, Layout, NO_PAIRS, only_of_two, ring, serves_all};
use crate::choose::Work;
use crate::graph::Builder;
use crate::plan::Span;
use crate::request::Collective;

pub(super) const ALGORITHM: Algorithm = Algorithm {
    name: "multi_ring",
    doc: "Several rings over different neighbours, each with a part of the vector.",
    collectives: &[Collective::AllReduce],
    channels: &[2, 4, 8],
    pairs: NO_PAIRS,
    rank_order: only_of_two,
    refuses: serves_all,
    layout,
    work,
    build,
};

fn layout(call: &Call<'_>) -> Layout {
    let rings = rings(call.topology, call.channels);
    let turns = rings.iter().map(|ring| ring.turn + 1).max().unwrap_or(1);
    Layout { channels: 2 * turns, ..Layout::of(call.world * rings.len()) }
}

fn work(call: &Call<'_>) -> Work {
    let (steps, n) = (call.world - 1, call.world as f64);
    let rings = rings(call.topology, call.channels);
    let mut tally = Tally::new(call);
    rings.iter().for_each(|ring| tally.circle(&ring.order, 2 * steps));
    tally.work_in_rounds(call.world * rings.len()).reducing(steps as f64 / n, steps)
}

fn build(call: &Call<'_>, rank: Rank, b: &mut Builder) {
    let rings = rings(call.topology, call.channels);
    let part = |number: usize| move |block: usize| (number * call.world + block) as u32;
    let groups: Vec<Group> = rings.iter().map(|Ring { order, .. }| Group::of(order.clone(), rank)).collect();
    for (number, (ring, group)) in rings.iter().zip(&groups).enumerate() {
        let chunk = part(number);
        let (own, sum) = (|block| Span::input(chunk(block)), Span::output(chunk(group.me)));
        ring::reduce_scatter(b, group, 2 * ring.turn, own, sum, 1);
    }
    b.stage(1);
    for (number, (ring, group)) in rings.iter().zip(&groups).enumerate() {
        let chunk = part(number);
        let kept = |block| Span::output(chunk(block));
        ring::all_gather(b, group, 2 * ring.turn + 1, kept(group.me), kept);
    }
}
