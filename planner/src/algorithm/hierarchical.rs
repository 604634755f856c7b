//! Two-level collectives by any two algorithms: one inside each host, one across hosts. Here all_reduce; all_gather,
//! reduce_scatter and all_to_all are in `rails`, and in `uneven_hosts` where hosts differ in size.
//!
//! *Hosts of g ranks each*: the vector is cut into g shards. Inside a host a reduce_scatter leaves shard i with member i;
//! members i of all hosts all_reduce their shard across hosts; an all_gather inside the host gives every member all shards. Each
//! rank sends 2(g - 1)/g S inside, and what the outer algorithm sends of S/g across.
//!
//! *Other hosts, or an inner algorithm that does not scatter*: inside a host a reduce brings the host's sum to its first rank,
//! the first ranks all_reduce it across hosts, and a broadcast inside the host spreads the result.
//!
//! Steps and roundings are those of the three one after the other; each is a stage of its own, so that they work on
//! different tiles at once.

use std::collections::BTreeMap;

use hcomm_ops::Rank;

use super::group::Group;
use super::step::{Step, common_block, layout_of};
use super::{Algorithm, Call, Layout, ONE_CHANNEL, Pair, only_of_two, rails};
use crate::choose::Work;
use crate::graph::{Builder, Frame};
use crate::hash::Fnv;
use crate::request::Collective;
use crate::shape::BufferKind;
use crate::topology::Topology;

pub(super) const ALGORITHM: Algorithm = Algorithm {
    name: "hierarchical",
    doc: "Works inside each host by one algorithm and across hosts by another.",
    collectives: &[
        Collective::AllReduce,
        Collective::AllGather,
        Collective::ReduceScatter,
        Collective::AllToAll,
    ],
    channels: ONE_CHANNEL,
    pairs: &[
        Pair { first: "direct", second: "direct" },
        Pair { first: "direct", second: "bruck" },
        Pair { first: "direct", second: "ring" },
        Pair { first: "direct", second: "two_shot" },
        Pair { first: "direct", second: "recursive_doubling" },
        Pair { first: "direct", second: "halving_doubling" },
        Pair { first: "direct", second: "double_tree" },
        Pair { first: "ring", second: "ring" },
        Pair { first: "binomial", second: "recursive_doubling" },
        Pair { first: "chain", second: "ring" },
        Pair { first: "double_tree", second: "double_tree" },
    ],
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
        Some(1) => Some("needs at least 2 ranks on a host, not 1".to_owned()),
        _ if call.collective != Collective::AllReduce => rails::refuses(call),
        _ => Worlds::new(call.topology).levels(call).err(),
    }
}

fn layout(call: &Call<'_>) -> Layout {
    if call.collective != Collective::AllReduce {
        return rails::layout(call);
    }
    let worlds = Worlds::new(call.topology);
    let levels = worlds.supported(call);
    let layout = layout_of(levels.shards * levels.shard, &levels.steps());
    let mut salt = Fnv::new();
    salt.number(layout.salt);
    (0..call.world).for_each(|rank| salt.number(call.topology.place(rank).host as u64));
    Layout { salt: salt.finish(), ..layout }
}

fn work(call: &Call<'_>) -> Work {
    if call.collective != Collective::AllReduce {
        return rails::work(call);
    }
    let worlds = Worlds::new(call.topology);
    let levels = worlds.supported(call);
    let shards = f64::from(levels.shards);
    let [first, last] = levels.inner.values().next_back().expect("there is a host").map(|step| step.work());
    let outer = levels.outer.work().scaled(1.0 / shards, shards);
    // Its input is its output.
    let outer = outer.in_place(outer.copied);
    if levels.shards > 1 {
        return first.then(outer).then(last.in_place(1.0 / shards));
    }
    // A rank that is alone on its host copies its input.
    let copied = if levels.inner.contains_key(&1) { 1.0 } else { 0.0 };
    let inside = first.then_back(last);
    inside.copying(inside.copied.max(copied)).then(outer)
}

fn build(call: &Call<'_>, rank: Rank, b: &mut Builder) {
    if call.collective != Collective::AllReduce {
        return rails::build(call, rank, b);
    }
    let worlds = Worlds::new(call.topology);
    let levels = worlds.supported(call);
    let hosts = call.topology.host_names().len();
    let members = |host: usize| call.topology.members(host);
    let inside = Group::of(members(call.topology.place(rank).host).to_vec(), rank);
    let [first, last] = levels.inner[&inside.len()];
    let shards = (0..levels.shards).map(|shard| shard * levels.shard);
    let mine = if levels.shards == 1 { 0 } else { inside.me };
    let own = [mine as u32 * levels.shard];

    let (all, sum) = (first.chunks(BufferKind::Input, shards.clone()), first.chunks(BufferKind::Output, own));
    first.build(inside.me, b, &Frame::of(inside.ranks().to_vec(), all, sum));
    if mine == inside.me {
        b.stage(1);
        let (ranks, held) = (0..hosts).map(|host| (members(host)[mine], members(host).len() as u64)).unzip();
        let sum = levels.outer.chunks(BufferKind::Output, own);
        let frame = Frame { ranks, held, input: sum.clone(), output: sum, channel: 0 };
        levels.outer.build(call.topology.place(rank).host, b, &frame);
    }
    b.stage(2);
    let (sum, all) = (last.chunks(BufferKind::Output, own), last.chunks(BufferKind::Output, shards));
    last.build(inside.me, b, &Frame::of(inside.ranks().to_vec(), sum, all));
}

/// The worlds of the steps: one inside each host, by size, and one of a rank of each host.
struct Worlds {
    inside: BTreeMap<usize, Topology>,
    across: Topology,
}

/// The steps before and after the outer one, by size of the host.
type Inner<'a> = BTreeMap<usize, [Step<'a>; 2]>;

/// The steps of a call.
struct Levels<'a> {
    /// Inside the hosts.
    inner: Inner<'a>,
    outer: Step<'a>,
    /// How many shards the hosts' sums are scattered in; 1 where first ranks act for their hosts.
    shards: u32,
    /// Chunks of a shard.
    shard: u32,
}

impl Worlds {
    fn new(topology: &Topology) -> Worlds {
        let hosts = topology.host_names().len();
        let sizes = (0..hosts).map(|host| topology.members(host).len());
        let inside = sizes.map(|size| (size, Topology::single_host(size))).collect();
        Worlds { inside, across: Topology::hosts(hosts, 1) }
    }

    fn supported<'a>(&'a self, call: &Call<'a>) -> Levels<'a> {
        self.levels(call).expect("a call that is not refused")
    }

    fn levels<'a>(&'a self, call: &Call<'a>) -> Result<Levels<'a>, String> {
        let names = call.pair.ok_or("is made of two other algorithms")?;
        let (inner, shards) = self.inside_hosts(call, names.first)?;
        let outer = Step::new(names.second, call.part(Collective::AllReduce, 0, &self.across))?;
        let mut levels = Levels { inner, outer, shards, shard: 1 };
        levels.shard = common_block(&levels.steps());
        levels.outer.block = levels.shard;
        for [first, last] in levels.inner.values_mut() {
            (first.block, last.block) = (levels.shard, levels.shard);
            last.channel = first.next_channel();
        }
        levels.steps().iter().try_for_each(Step::fits)?;
        Ok(levels)
    }

    /// The steps before and after the outer one, and how many shards they scatter the sums in: as many as a host has ranks where
    /// all have as many and the algorithm scatters, otherwise 1.
    fn inside_hosts<'a>(&'a self, call: &Call<'a>, name: &str) -> Result<(Inner<'a>, u32), String> {
        let with = |before, after| self.inner(call, name, [before, after]);
        let whole = with(Collective::Reduce, Collective::Broadcast).map(|inner| (inner, 1));
        let [size] = self.inside.keys().collect::<Vec<_>>()[..] else {
            let unless = "reduce_scatter would do in hosts with equally many ranks";
            return whole.map_err(|reason| format!("{reason} ({unless})"));
        };
        let scattered = with(Collective::ReduceScatter, Collective::AllGather);
        scattered
            .map(|inner| (inner, *size as u32))
            .or_else(|reason| whole.map_err(|other| format!("{reason}; or else it {other}")))
    }

    fn inner<'a>(
        &'a self,
        call: &Call<'a>,
        name: &str,
        collectives: [Collective; 2],
    ) -> Result<Inner<'a>, String> {
        let step = |collective, topology| Step::new(name, call.part(collective, 0, topology));
        let steps = self.inside.iter().map(|(size, topology)| {
            Ok((*size, [step(collectives[0], topology)?, step(collectives[1], topology)?]))
        });
        steps.collect()
    }
}

impl<'a> Levels<'a> {
    fn steps(&self) -> Vec<Step<'a>> {
        self.inner.values().flatten().copied().chain([self.outer]).collect()
    }
}
