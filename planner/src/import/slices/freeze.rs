//! Ordered drafts become the slices of a plan, lane by lane.

use std::fmt::Display;

use super::deps::deps;
use super::{Draft, Fifo, Ordered, Origin, Outline, Target, Where};
use crate::plan::{
    Channel, Direction, Lane, LaneKind, Node, NodeId, Overlay, Plan, Proved, Sink, Source, Span,
};
use crate::shape::BufferKind;
use crate::verify::At;

/// The slices of all ranks; `buffered` ones are for paths that copy what they send.
pub(crate) fn freeze<S>(
    outline: &Outline,
    fifos: &[Fifo],
    overlay: Overlay,
    ordered: &[Ordered<S>],
    buffered: bool,
) -> Vec<Plan> {
    let slices = ordered.iter().enumerate();
    let mut plans: Vec<Plan> = slices
        .map(|(rank, ordered)| Slice::new(fifos, rank, ordered, overlay, buffered).plan(outline))
        .collect();
    let longest = plans.iter().flat_map(|plan| &plan.nodes).map(|node| node.extent.count).max().unwrap_or(1);
    plans.iter_mut().for_each(|plan| plan.span_chunks = longest);
    plans
}

/// The element of the file that a node comes from.
pub(crate) fn name<S: Display>(ordered: &[Ordered<S>], at: &At) -> Option<String> {
    let drafts = &ordered.get(at.rank)?.drafts;
    Some(drafts[*by_lane(drafts).get(at.node as usize)?].spot.to_string())
}

/// The most channels of a pair.
fn widest(fifos: &[Fifo]) -> u8 {
    fifos.iter().map(|fifo| fifo.index + 1).max().unwrap_or(1)
}

/// Drafts in the order of their node ids.
fn by_lane<S>(drafts: &[Draft<S>]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..drafts.len()).collect();
    order.sort_by_key(|draft| drafts[*draft].lane);
    order
}

struct Slice<'a, S> {
    fifos: &'a [Fifo],
    rank: usize,
    ordered: &'a Ordered<S>,
    overlay: Overlay,
    buffered: bool,
    channels: Vec<Channel>,
    scratch: Vec<Span>,
    rooms: std::collections::BTreeMap<(u32, u32), u32>,
}

impl<'a, S> Slice<'a, S> {
    fn new(
        fifos: &'a [Fifo],
        rank: usize,
        ordered: &'a Ordered<S>,
        overlay: Overlay,
        buffered: bool,
    ) -> Self {
        let out = fifos.iter().filter(|fifo| fifo.source == rank);
        let out =
            out.map(|fifo| Channel { peer: fifo.destination, direction: Direction::Out, index: fifo.index });
        let incoming = fifos.iter().filter(|fifo| fifo.destination == rank);
        let incoming =
            incoming.map(|fifo| Channel { peer: fifo.source, direction: Direction::In, index: fifo.index });
        let mut channels: Vec<Channel> = out.chain(incoming).collect();
        channels.sort_unstable();
        let (scratch, rooms) = ordered.storage.scratch();
        Slice { fifos, rank, ordered, overlay, buffered, channels, scratch, rooms }
    }

    fn plan(self, outline: &Outline) -> Plan {
        let order = by_lane(&self.ordered.drafts);
        let mut plan = Plan {
            collective: outline.collective,
            algorithm: outline.name.clone(),
            world: outline.world,
            rank: self.rank,
            root: outline.root,
            id: 0,
            sum: 0,
            proved: Proved::default(),
            parts: outline.parts,
            scratch: self.scratch.clone(),
            span_chunks: 1,
            buffered: self.buffered,
            even: true,
            overlay: self.overlay,
            bytes: outline.bytes,
            channels_per_pair: widest(self.fifos),
            channels: self.channels.clone(),
            lanes: self.lanes(&order),
            nodes: Vec::with_capacity(order.len()),
            sources: Vec::new(),
            sinks: Vec::new(),
            deps: Vec::new(),
        };
        let mut ids = vec![0; order.len()];
        order.iter().enumerate().for_each(|(id, draft)| ids[*draft] = id as NodeId);
        let deps = deps(self.ordered, self.overlay, self.buffered);
        for draft in &order {
            let mut deps: Vec<NodeId> = deps[*draft].iter().map(|dep| ids[*dep]).collect();
            deps.sort_unstable();
            self.add(&mut plan, &self.ordered.drafts[*draft], &deps);
        }
        plan
    }

    fn lanes(&self, order: &[usize]) -> Vec<Lane> {
        let mut lanes = Vec::new();
        let (mut first, mut workers) = (0, 0);
        for lane in order.chunk_by(|a, b| self.lane_of(*a) == self.lane_of(*b)) {
            let nodes = first..first + lane.len() as NodeId;
            first = nodes.end;
            lanes.push(Lane { kind: self.lane_kind(lane, &mut workers), nodes });
        }
        lanes
    }

    fn lane_of(&self, draft: usize) -> usize {
        self.ordered.drafts[draft].lane
    }

    /// A lane that talks to one peer is that peer's; any other a worker.
    fn lane_kind(&self, lane: &[usize], workers: &mut u32) -> LaneKind {
        if let Some(kind) = lane.first().and_then(|draft| self.ordered.kinds.get(&self.lane_of(*draft))) {
            return *kind;
        }
        let mut peers = lane.iter().flat_map(|draft| self.peers(&self.ordered.drafts[*draft]));
        match peers.next() {
            Some(peer) if peers.all(|other| other == peer) => LaneKind::Shm { peer },
            _ => {
                *workers += 1;
                LaneKind::Worker { index: *workers - 1 }
            }
        }
    }

    fn peers(&self, draft: &Draft<S>) -> Vec<usize> {
        let incoming = draft.sources.iter().filter_map(|source| match source {
            Origin::Message { fifo, .. } => Some(self.fifos[*fifo].source),
            Origin::Span { .. } => None,
        });
        let outgoing = draft.sinks.iter().filter_map(|sink| match sink {
            Target::Message(fifo) => Some(self.fifos[*fifo].destination),
            Target::Span(_) => None,
        });
        incoming.chain(outgoing).collect()
    }

    fn add(&self, plan: &mut Plan, draft: &Draft<S>, deps: &[NodeId]) {
        let starts = (plan.sources.len() as u32, plan.sinks.len() as u32, plan.deps.len() as u32);
        plan.sources.extend(draft.sources.iter().map(|source| self.source(source, draft.count)));
        plan.sinks.extend(draft.sinks.iter().map(|sink| self.sink(sink, draft.count)));
        plan.deps.extend(deps);
        let lane = plan.lanes.partition_point(|lane| lane.nodes.end as usize <= plan.nodes.len());
        plan.nodes.push(Node {
            sources: starts.0..plan.sources.len() as u32,
            sinks: starts.1..plan.sinks.len() as u32,
            deps: starts.2..plan.deps.len() as u32,
            extent: self.extent(draft),
            finish: draft.finish,
            lane: lane as u32,
        });
    }

    fn extent(&self, draft: &Draft<S>) -> Span {
        let source = draft.sources.iter().find_map(|source| match source {
            Origin::Span { at, .. } => Some(*at),
            Origin::Message { .. } => None,
        });
        let sink = draft.sinks.iter().find_map(|sink| match sink {
            Target::Span(at) => Some(*at),
            Target::Message(_) => None,
        });
        self.span(source.or(sink).unwrap_or(Where::Input(0)), draft.count)
    }

    fn source(&self, source: &Origin, count: u32) -> Source {
        match *source {
            Origin::Span { at, first } => Source::Span { span: self.span(at, count), first },
            Origin::Message { fifo, first } => {
                Source::Message { channel: self.channel(fifo, Direction::In), first }
            }
        }
    }

    fn sink(&self, sink: &Target, count: u32) -> Sink {
        match *sink {
            Target::Span(at) => Sink::Span(self.span(at, count)),
            Target::Message(fifo) => Sink::Message { channel: self.channel(fifo, Direction::Out) },
        }
    }

    fn channel(&self, fifo: usize, direction: Direction) -> u32 {
        let fifo = &self.fifos[fifo];
        let peer = if direction == Direction::In { fifo.source } else { fifo.destination };
        let end = Channel { peer, direction, index: fifo.index };
        self.channels.binary_search(&end).expect("every channel's ends are listed") as u32
    }

    fn span(&self, at: Where, count: u32) -> Span {
        match at {
            Where::Input(first) => Span::new(BufferKind::Input, first, count),
            Where::Output(first) => Span::new(BufferKind::Output, first, count),
            Where::Room { layer, first } => {
                let first = self.rooms.get(&(layer, first)).copied().expect("room in use has a number");
                Span::new(BufferKind::Scratch, first, count)
            }
        }
    }
}
