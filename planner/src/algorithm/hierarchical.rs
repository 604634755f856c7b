//! Two-level all_reduce: reduce_scatter inside each host, all_reduce of each shard across hosts, all_gather inside.
//!
//! With k hosts of g ranks the vector is cut into g shards of k chunks. Inside a host member i collects shard i from all
//! members (direct); members i of all hosts form a ring that sums their shard (ring, chunk by chunk); then each
//! member sends its finished chunks to the others of its host.
//!
//! Steps: 1 + 2(k - 1) + 1. Bytes sent per rank: 2(g - 1)/g S inside, 2(k - 1)/k S/g across. Each element is rounded k times at
//! most: once in its host and once per hop of the ring but the first.

use std::hash::Hasher;

use hcomm_ops::Rank;

use super::group::Group;
use super::{Algorithm, Call, Layout, ONE_CHANNEL, only_of_two, ring};
use crate::choose::{PerLink, Work};
use crate::graph::Builder;
use crate::hash::Fnv;
use crate::plan::Span;
use crate::request::Collective;

pub(super) const ALGORITHM: Algorithm = Algorithm {
    name: "hierarchical",
    doc: "Reduces inside each host, then across hosts, and gathers inside.",
    collectives: &[Collective::AllReduce],
    channels: ONE_CHANNEL,
    rank_order: only_of_two,
    refuses,
    layout,
    work,
    build,
};

fn refuses(call: &Call<'_>) -> Option<String> {
    let hosts = call.topology.host_names().len();
    match call.topology.uniform_host_size() {
        _ if hosts < 2 => Some(format!("needs at least 2 hosts, not {hosts}")),
        None => Some("needs hosts with equally many ranks".to_owned()),
        Some(1) => Some("needs at least 2 ranks on each host, not 1".to_owned()),
        Some(_) => None,
    }
}

fn layout(call: &Call<'_>) -> Layout {
    let mut hosts = Fnv::new();
    (0..call.world).for_each(|rank| hosts.number(call.topology.place(rank).host as u64));
    Layout { channels: 2, salt: hosts.finish(), ..Layout::of(call.world) }
}

fn work(call: &Call<'_>) -> Work {
    let k = call.topology.host_names().len() as f64;
    let g = call.world as f64 / k;
    Work {
        steps: PerLink { local: 2.0, remote: 2.0 * (k - 1.0) },
        messages: PerLink { local: 2.0 * (g - 1.0) * k, remote: 2.0 * (k - 1.0) },
        // The g rings of a host share its way out: g times S/g.
        sent: PerLink { local: 2.0 * (g - 1.0) / g, remote: 2.0 * (k - 1.0) / k },
        reduced: (g - 1.0) / g + (k - 1.0) / k / g,
        copied: 0.0,
        roundings: k as u32,
    }
}

fn build(call: &Call<'_>, rank: Rank, b: &mut Builder) {
    let hosts = call.topology.host_names().len();
    let host = call.topology.place(rank).host;
    let inside = Group::of(call.topology.members(host).to_vec(), rank);
    let across = Group::of((0..hosts).map(|h| call.topology.members(h)[inside.me]).collect(), rank);
    let chunk = |shard: usize, block: usize| Span::output((shard * hosts + block) as u32);

    for block in 0..hosts {
        collect(b, &inside, |shard| Span::input((shard * hosts + block) as u32), chunk(inside.me, block));
    }
    b.stage(1);
    let own = |block: usize| chunk(inside.me, block);
    ring::reduce_scatter(b, &across, 0, own, own(across.me), inside.len() as u64);
    b.stage(2);
    ring::all_gather(b, &across, 1, own(across.me), own);
    b.stage(3);
    for block in 0..hosts {
        spread(b, &inside, |shard| chunk(shard, block));
    }
}

/// Sends each other member its chunk and folds what arrives for this one.
fn collect(b: &mut Builder, inside: &Group, chunk: impl Fn(usize) -> Span, result: Span) {
    for other in inside.others() {
        b.send(inside.rank(other), 0, chunk(other));
    }
    super::one_shot::fold_all(b, inside, 0, chunk(inside.me), result, 1);
}

/// Sends this member's finished chunk to the others and receives theirs.
fn spread(b: &mut Builder, inside: &Group, chunk: impl Fn(usize) -> Span) {
    for other in inside.others() {
        b.send(inside.rank(other), 1, chunk(inside.me));
    }
    for other in inside.others() {
        b.recv(inside.rank(other), 1, chunk(other));
    }
}
