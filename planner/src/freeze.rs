//! `freeze`: a placed graph becomes a [`Plan`] of flat arrays.

use hcomm_ops::Rank;
use petgraph::Direction::Incoming;
use petgraph::stable_graph::NodeIndex;
use rustc_hash::FxHashMap;

use crate::algorithm::{Algorithm, Call, Layout};
use crate::graph::{End, From, Graph, To};
use crate::hash::Fnv;
use crate::pass::Placement;
use crate::plan::{
    ByteRange, Channel, Direction, Lane, LaneKind, Node, NodeId, Overlay, Plan, Proved, Sink, Source,
};
use crate::request::Collective;

/// What the slices of all ranks have in common.
#[derive(Clone, Debug)]
pub(crate) struct Header {
    pub collective: Collective,
    pub algorithm: String,
    pub world: usize,
    pub root: Rank,
    /// Which messages the plan exchanges, as far as that is not in the call itself.
    pub id: u64,
    pub layout: Layout,
}

impl Header {
    /// That of an algorithm's plan of a call.
    pub fn of(algorithm: &Algorithm, call: &Call<'_>) -> Header {
        let (layout, name) = (algorithm.layout(call), name(algorithm, call));
        Header {
            collective: call.collective,
            id: plan_id(&name, call, &layout),
            algorithm: name,
            world: call.world,
            root: call.root,
            layout,
        }
    }
}

/// The algorithm's name, and of what it is made, if it is made of others: `ring`, `hierarchical(direct,ring)`.
fn name(algorithm: &Algorithm, call: &Call<'_>) -> String {
    match call.pair {
        Some(pair) => format!("{}({pair})", algorithm.name),
        None => algorithm.name.to_owned(),
    }
}

/// The plan's id: which messages it exchanges, as far as that is not in the call itself.
fn plan_id(name: &str, call: &Call<'_>, layout: &Layout) -> u64 {
    let mut hash = Fnv::new();
    hash.bytes(name.as_bytes());
    hash.bytes(call.collective.name().as_bytes());
    for number in [call.world, call.root, layout.parts as usize, layout.span_chunks as usize] {
        hash.number(number as u64);
    }
    hash.bytes(&[call.channels, layout.channels, u8::from(layout.buffered), u8::from(layout.even)]);
    hash.number(layout.salt);
    hash.finish()
}

/// The id of the plans that an algorithm makes for a call which it supports.
pub(crate) fn id_of(algorithm: &Algorithm, call: &Call<'_>) -> u64 {
    plan_id(&name(algorithm, call), call, &algorithm.layout(call))
}

/// Turns a graph into flat arrays, lane by lane; whoever is done with the plan notes its checksum.
pub(crate) fn freeze(graph: &Graph, placement: &Placement, header: &Header) -> Plan {
    let Header { collective, algorithm, world, root, id, layout } = header.clone();
    let mut freezing = Freezing::new(graph, placement);
    let mut plan = Plan {
        collective,
        algorithm,
        world,
        rank: graph.rank,
        root,
        id,
        sum: 0,
        proved: Proved::default(),
        parts: layout.parts,
        scratch: graph.scratch.clone(),
        span_chunks: layout.span_chunks,
        buffered: layout.buffered,
        even: layout.even,
        overlay: Overlay::Either,
        bytes: ByteRange::ANY,
        channels_per_pair: layout.channels,
        channels: freezing.channels.clone(),
        lanes: freezing.lanes(),
        nodes: Vec::with_capacity(graph.ops.node_count()),
        sources: Vec::new(),
        sinks: Vec::new(),
        deps: Vec::new(),
    };
    for at in std::mem::take(&mut freezing.order) {
        freezing.add(&mut plan, at);
    }
    plan
}

struct Freezing<'a> {
    graph: &'a Graph,
    placement: &'a Placement,
    channels: Vec<Channel>,
    numbers: FxHashMap<(Direction, End), u32>,
    /// The operations in the order of their ids.
    order: Vec<NodeIndex>,
    /// Id of each operation, by its index.
    ids: Vec<NodeId>,
}

impl<'a> Freezing<'a> {
    fn new(graph: &'a Graph, placement: &'a Placement) -> Self {
        let mut order = graph.program();
        order.sort_by_key(|at| graph.ops[*at].lane);
        let mut ids = vec![0; order.iter().map(|at| at.index() + 1).max().unwrap_or(0)];
        order.iter().enumerate().for_each(|(id, at)| ids[at.index()] = id as NodeId);
        let mut ends: Vec<_> = placement.ends.keys().copied().collect();
        ends.sort_unstable_by_key(|(direction, end)| (end.peer, *direction, end.index));
        let channel = |(direction, end): &(Direction, End)| Channel {
            peer: end.peer,
            direction: *direction,
            index: end.index,
        };
        let channels = ends.iter().map(channel).collect();
        let numbers = ends.iter().enumerate().map(|(number, end)| (*end, number as u32)).collect();
        Freezing { graph, placement, channels, numbers, order, ids }
    }

    fn lanes(&self) -> Vec<Lane> {
        let mut counts = vec![0; self.placement.lanes.len()];
        self.order.iter().for_each(|at| counts[self.graph.ops[*at].lane as usize] += 1);
        let mut first = 0;
        let lane = |(kind, count): (&LaneKind, &u32)| {
            let nodes = first..first + count;
            first += count;
            Lane { kind: *kind, nodes }
        };
        self.placement.lanes.iter().zip(&counts).map(lane).collect()
    }

    fn add(&self, plan: &mut Plan, at: NodeIndex) {
        let op = &self.graph.ops[at];
        let starts = (plan.sources.len() as u32, plan.sinks.len() as u32, plan.deps.len() as u32);
        plan.sources.extend(op.sources.iter().map(|source| self.source(source)));
        plan.sinks.extend(op.sinks.iter().map(|sink| self.sink(sink)));
        let deps = self.graph.ops.neighbors_directed(at, Incoming).map(|before| self.ids[before.index()]);
        plan.deps.extend(deps);
        plan.deps[starts.2 as usize..].sort_unstable();
        plan.nodes.push(Node {
            sources: starts.0..plan.sources.len() as u32,
            sinks: starts.1..plan.sinks.len() as u32,
            deps: starts.2..plan.deps.len() as u32,
            extent: op.extent,
            finish: op.finish,
            lane: op.lane,
        });
    }

    fn source(&self, source: &From) -> Source {
        match *source {
            From::Span { span, first } => Source::Span { span, first },
            From::Message { end, first, .. } => {
                Source::Message { channel: self.numbers[&(Direction::In, end)], first }
            }
        }
    }

    fn sink(&self, sink: &To) -> Sink {
        match *sink {
            To::Span(span) => Sink::Span(span),
            To::Message(end) => Sink::Message { channel: self.numbers[&(Direction::Out, end)] },
        }
    }
}
