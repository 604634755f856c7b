//! [`Prices`]: what nodes and messages cost. The only place of the timeline that knows the fields of [`Costs`].

use super::error::TimelineError;
use crate::choose::{Costs, LinkCost};
use crate::plan::{Node, Plan, Sink, Source};
use crate::sizing::{Load, Sizing};
use crate::topology::{LinkClass, Topology};
use crate::verify::joined::Joined;
use hcomm_ops::Rank;
use std::ops::Range;

/// The costs, and who is near whom.
#[derive(Clone, Copy)]
pub(super) struct Prices<'a> {
    costs: &'a Costs,
    topology: &'a Topology,
}

/// What one node has to do for a tile.
#[derive(Debug)]
pub(super) struct Job {
    pub trips: u64,
    load: Load,
    fixed_ns: f64,
    byte_ns: f64,
}

impl Job {
    /// Bytes of each of its sources and sinks in a tile.
    pub fn bytes(&self, tile: usize) -> u64 {
        self.load.tile_bytes(tile as u64)
    }

    /// Bytes of each of its sources and sinks in some tiles.
    pub fn bytes_of(&self, tiles: Range<u64>) -> u64 {
        self.load.bytes_of(tiles)
    }

    /// How long it takes for some tiles, one after the other.
    pub fn duration_of_ns(&self, tiles: Range<u64>) -> f64 {
        let trips = tiles.end.min(self.trips).saturating_sub(tiles.start);
        self.fixed_ns * trips as f64 + self.byte_ns * self.bytes_of(tiles) as f64
    }

    /// How long it takes for a tile.
    pub fn duration_ns(&self, tile: usize) -> f64 {
        self.fixed_ns + self.byte_ns * self.bytes(tile) as f64
    }
}

impl<'a> Prices<'a> {
    pub fn new(costs: &'a Costs, topology: &'a Topology) -> Result<Prices<'a>, TimelineError> {
        let of = |link: &LinkCost| [link.latency_ns, link.message_ns, link.byte_ns];
        let [a, b, c] = of(&costs.local);
        let [d, e, f] = of(&costs.remote);
        let all = [a, b, c, d, e, f, costs.reduce_byte_ns, costs.copy_byte_ns];
        match all.into_iter().find(|cost| !cost.is_finite() || *cost < 0.0) {
            Some(cost) => Err(TimelineError::Cost(cost)),
            None => Ok(Prices { costs, topology }),
        }
    }

    /// The jobs of all nodes, in the order of `joined`.
    pub fn jobs(&self, joined: &Joined<'_>, sizing: &Sizing) -> Result<Vec<Job>, TimelineError> {
        let mut jobs = Vec::with_capacity(joined.links.len());
        for (rank, plan) in joined.plans.iter().enumerate() {
            let sizes = sizing.of(plan);
            for (id, node) in plan.nodes.iter().enumerate() {
                let load = sizes.as_ref().and_then(|sizes| sizes.load(node.extent));
                let load = load.ok_or(TimelineError::Sizes { rank, node: id })?;
                jobs.push(self.job(plan, node, load));
            }
        }
        Ok(jobs)
    }

    /// Whether two ranks are on different hosts.
    pub fn is_remote(&self, a: Rank, b: Rank) -> bool {
        self.topology.link(a, b) == LinkClass::Remote
    }

    /// The host of a rank.
    pub fn host(&self, rank: Rank) -> usize {
        self.topology.place(rank).host
    }

    /// Hosts.
    pub fn hosts(&self) -> usize {
        self.topology.host_names().len()
    }

    /// From the end of a node to its message's arrival (or of its first byte, at another host).
    pub fn latency_ns(&self, from: Rank, to: Rank) -> f64 {
        self.link(from, to).latency_ns
    }

    /// How long so many bytes occupy the way out of or into a host.
    pub fn way_ns(&self, bytes: u64) -> f64 {
        self.costs.remote.byte_ns * bytes as f64
    }

    fn link(&self, a: Rank, b: Rank) -> &LinkCost {
        if self.is_remote(a, b) { &self.costs.remote } else { &self.costs.local }
    }

    fn job(&self, plan: &Plan, node: &Node, load: Load) -> Job {
        let ends = Ends::of(self, plan, node);
        let most = |class: [usize; 2]| class[0].max(class[1]) as f64;
        let fixed_ns =
            most(ends.local) * self.costs.local.message_ns + most(ends.remote) * self.costs.remote.message_ns;
        let carried = (ends.local[0] + ends.local[1]) as f64 / 2.0;
        let folded = node.sources.len() as f64 - 1.0;
        let byte_ns = carried * self.costs.local.byte_ns
            + folded * self.costs.reduce_byte_ns
            + ends.stored(node) as f64 * self.costs.copy_byte_ns;
        Job { trips: load.trips(), load, fixed_ns, byte_ns }
    }
}

/// A node's messages (received, sent), and the local spans that it writes.
struct Ends {
    local: [usize; 2],
    remote: [usize; 2],
    spans: usize,
}

impl Ends {
    fn of(prices: &Prices<'_>, plan: &Plan, node: &Node) -> Ends {
        let mut ends = Ends { local: [0; 2], remote: [0; 2], spans: 0 };
        for source in plan.sources_of(node) {
            if let Source::Message { channel, .. } = source {
                ends.add(prices, plan, *channel, 0);
            }
        }
        for sink in plan.sinks_of(node) {
            match sink {
                Sink::Message { channel } => ends.add(prices, plan, *channel, 1),
                Sink::Span(_) => ends.spans += 1,
            }
        }
        ends
    }

    fn add(&mut self, prices: &Prices<'_>, plan: &Plan, channel: u32, way: usize) {
        let peer = plan.channels[channel as usize].peer;
        let class = if prices.is_remote(plan.rank, peer) { &mut self.remote } else { &mut self.local };
        class[way] += 1;
    }

    /// Spans that are stored beside what folding or receiving stores anyhow.
    fn stored(&self, node: &Node) -> usize {
        let stores_anyhow = node.sources.len() > 1 || self.local[0] + self.remote[0] > 0;
        self.spans.saturating_sub(usize::from(stores_anyhow))
    }
}
