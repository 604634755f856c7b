//! [`Picture`]: what all drawings show: the nodes of some slices in boxes, the edges between these, and each box's column.
//!
//! A box is a node. In a slice of many lanes, folded, it is all nodes of a kind in a column, so that ranks with a lane for each of many peers can be
//! read; the edges are then those between any of their nodes.

use std::collections::{HashMap, HashSet};

use rustc_hash::FxHashMap;

use crate::plan::{Direction, NodeId, NodeKind, Plan, Sink, Source};

/// Slices of more lanes are folded, where folding is asked for.
const MANY_LANES: usize = 8;

/// Why an edge is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Tie {
    /// The lane's order.
    Lane,
    /// A dependency.
    Dep,
    /// A message, on the channel of this index.
    Message(u8),
}

/// An edge between boxes, or, while these are not known, between nodes; both are counted through all slices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Edge {
    pub from: usize,
    pub to: usize,
    pub tie: Tie,
}

/// One or several nodes of a slice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Boxed {
    pub slice: usize,
    /// Their numbers in the slice, ascending; at least one.
    pub nodes: Vec<usize>,
    /// How many nodes come before them on the longest way.
    pub column: usize,
}

/// The nodes of some slices.
#[derive(Debug)]
pub(super) struct Picture<'a> {
    pub plans: &'a [Plan],
    /// Number of each slice's first node.
    pub base: Vec<usize>,
    pub boxes: Vec<Boxed>,
    /// By node, its box.
    pub box_of: Vec<usize>,
    /// Between boxes.
    pub edges: Vec<Edge>,
    /// By slice, whether its lanes are folded.
    pub folded: Vec<bool>,
}

impl<'a> Picture<'a> {
    /// With a box for every node.
    pub fn new(plans: &'a [Plan]) -> Picture<'a> {
        Picture::with(plans, |_| false)
    }

    /// With the lanes of slices folded that have many.
    pub fn folded(plans: &'a [Plan]) -> Picture<'a> {
        Picture::with(plans, |plan| plan.lanes.len() > MANY_LANES)
    }

    /// Whether anything is folded.
    pub fn is_folded(&self) -> bool {
        self.folded.contains(&true)
    }

    fn with(plans: &'a [Plan], is_folded: impl Fn(&Plan) -> bool) -> Picture<'a> {
        let base = plans.iter().scan(0, |next, plan| {
            let first = *next;
            *next += plan.nodes.len();
            Some(first)
        });
        let mut picture = Picture {
            plans,
            base: base.collect(),
            boxes: Vec::new(),
            box_of: Vec::new(),
            edges: Vec::new(),
            folded: plans.iter().map(is_folded).collect(),
        };
        (0..plans.len()).for_each(|index| picture.add_local(index));
        picture.add_messages();
        picture.put_into_boxes();
        picture
    }

    /// The plan of a box, and its first node.
    pub fn first(&self, at: usize) -> (&'a Plan, usize) {
        let Boxed { slice, nodes, .. } = &self.boxes[at];
        (&self.plans[*slice], nodes[0])
    }

    /// The slice and id of a node.
    pub fn node(&self, at: usize) -> (&'a Plan, usize) {
        let slice = self.base.partition_point(|base| *base <= at) - 1;
        (&self.plans[slice], at - self.base[slice])
    }

    /// Nodes of all slices.
    pub fn len(&self) -> usize {
        self.plans.iter().map(|plan| plan.nodes.len()).sum()
    }

    fn add_local(&mut self, index: usize) {
        let (plan, base) = (&self.plans[index], self.base[index]);
        for lane in &plan.lanes {
            let nodes = lane.nodes.start as usize..lane.nodes.end as usize;
            let pairs = nodes.clone().zip(nodes.skip(1));
            self.edges.extend(pairs.map(|(a, b)| Edge { from: base + a, to: base + b, tie: Tie::Lane }));
        }
        for (id, node) in plan.nodes.iter().enumerate() {
            let deps = plan.deps_of(node).iter();
            self.edges.extend(deps.map(|dep| Edge {
                from: base + *dep as usize,
                to: base + id,
                tie: Tie::Dep,
            }));
        }
    }

    fn add_messages(&mut self) {
        let mut waiting: FxHashMap<(usize, usize, u8), Vec<usize>> = FxHashMap::default();
        for at in 0..self.len() {
            let (plan, id) = self.node(at);
            for sink in plan.sinks_of(&plan.nodes[id]) {
                if let Sink::Message { channel } = sink {
                    let end = plan.channels[*channel as usize];
                    debug_assert_eq!(end.direction, Direction::Out);
                    waiting.entry((plan.rank, end.peer, end.index)).or_default().push(at);
                }
            }
        }
        let mut taken: HashMap<(usize, usize, u8), usize> = HashMap::new();
        for at in 0..self.len() {
            let (plan, id) = self.node(at);
            for source in plan.sources_of(&plan.nodes[id]) {
                let Source::Message { channel, .. } = source else { continue };
                let end = plan.channels[*channel as usize];
                let key = (end.peer, plan.rank, end.index);
                let nth = taken.entry(key).or_insert(0);
                let sender = waiting.get(&key).and_then(|senders| senders.get(*nth)).copied();
                *nth += 1;
                let edge = |from| Edge { from, to: at, tie: Tie::Message(end.index) };
                self.edges.extend(sender.map(edge));
            }
        }
    }

    /// The number of a node of a rank's slice, if that is among these.
    pub fn number_of(&self, rank: usize, node: NodeId) -> Option<usize> {
        let is_own = |slice: &usize| self.plans.get(*slice).is_some_and(|plan| plan.rank == rank);
        let slice = Some(rank).filter(is_own).or_else(|| (0..self.plans.len()).find(is_own))?;
        Some(self.base[slice] + node as usize)
    }

    /// Makes the boxes, and edges between nodes edges between those.
    fn put_into_boxes(&mut self) {
        let columns = self.longest_ways();
        let mut known: FxHashMap<(usize, usize, NodeKind), usize> = FxHashMap::default();
        for (slice, plan) in self.plans.iter().enumerate() {
            for (id, node) in plan.nodes.iter().enumerate() {
                let (next, column) = (self.boxes.len(), columns[self.base[slice] + id]);
                let at = match self.folded[slice] {
                    true => *known.entry((slice, column, plan.kind_of(node))).or_insert(next),
                    false => next,
                };
                if at == next {
                    self.boxes.push(Boxed { slice, nodes: Vec::new(), column });
                }
                self.boxes[at].nodes.push(id);
                self.box_of.push(at);
            }
        }
        let box_of = &self.box_of;
        let moved = |edge: Edge| Edge { from: box_of[edge.from], to: box_of[edge.to], ..edge };
        let mut seen = HashSet::new();
        self.edges = std::mem::take(&mut self.edges).into_iter().map(moved).collect();
        self.edges.retain(|edge| edge.from != edge.to && seen.insert(*edge));
    }

    /// Longest ways, by Kahn's order; nodes on a circle stay where they are.
    fn longest_ways(&self) -> Vec<usize> {
        let (mut columns, mut open) = (vec![0; self.len()], vec![0; self.len()]);
        let mut outgoing = vec![Vec::new(); self.len()];
        for edge in &self.edges {
            open[edge.to] += 1;
            outgoing[edge.from].push(edge.to);
        }
        let mut ready: Vec<_> = (0..self.len()).filter(|at| open[*at] == 0).collect();
        while let Some(at) = ready.pop() {
            for to in &outgoing[at] {
                columns[*to] = columns[*to].max(columns[at] + 1);
                open[*to] -= 1;
                if open[*to] == 0 {
                    ready.push(*to);
                }
            }
        }
        columns
    }
}

/// Fill colours of lanes, light enough for black text.
pub(super) const COLOURS: [&str; 12] = [
    "#a6cee3", "#b2df8a", "#fdbf6f", "#cab2d6", "#fb9a99", "#ffff99", "#8dd3c7", "#fccde5", "#d9d9d9",
    "#ccebc5", "#ffed6f", "#bebada",
];

/// The colour of a rank's lane.
pub(super) fn colour(lane: usize) -> &'static str {
    COLOURS[lane % COLOURS.len()]
}
