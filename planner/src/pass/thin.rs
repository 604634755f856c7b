//! Removes edges that say nothing new: those that a lane's order keeps, and those that another edge implies.
//!
//! A node of a lane is *issued* after all earlier ones of the lane; an edge waits until a node is *done*, which for one
//! that lends its bytes to a peer is later. So such a node is known to be done only to those who have an edge from it.

use petgraph::Direction::Incoming;
use petgraph::stable_graph::{EdgeIndex, NodeIndex};
use petgraph::visit::EdgeRef;
use rustc_hash::FxHashMap;

use crate::graph::{Graph, Hazard};

/// Edges into one node that are compared with one another; a node with more keeps what the lanes do not imply.
const COMPARED: usize = 64;

pub(super) fn thin(graph: &mut Graph) {
    let mut known = Known::default();
    for at in graph.program() {
        let lane = graph.ops[at].lane;
        for (edge, before, hazard) in edges_into(graph, at) {
            let earlier = Earlier::of(graph, before);
            let in_order = earlier.lane == lane && !(earlier.lends && hazard.overwrites());
            if in_order || !hazard.is_data() || known.is_done(earlier, lane, at) {
                graph.ops.remove_edge(edge);
            } else {
                known.learn(earlier, lane, at);
            }
        }
        drop_implied_by_another(graph, at, &known);
    }
}

/// A node that others may wait for.
#[derive(Clone, Copy)]
struct Earlier {
    node: NodeIndex,
    lane: u32,
    lends: bool,
}

impl Earlier {
    fn of(graph: &Graph, node: NodeIndex) -> Earlier {
        let op = &graph.ops[node];
        Earlier { node, lane: op.lane, lends: op.lends() }
    }
}

/// The edges into a node, from the latest node to the earliest.
fn edges_into(graph: &Graph, at: NodeIndex) -> Vec<(EdgeIndex, NodeIndex, Hazard)> {
    let mut edges: Vec<_> =
        graph.ops.edges_directed(at, Incoming).map(|e| (e.id(), e.source(), *e.weight())).collect();
    edges.sort_unstable_by_key(|(_, before, _)| std::cmp::Reverse(*before));
    edges
}

/// Drops an edge from a node that the source of another edge has waited for itself.
fn drop_implied_by_another(graph: &mut Graph, at: NodeIndex, known: &Known) {
    let edges = edges_into(graph, at);
    if edges.len() > COMPARED {
        return;
    }
    for (i, (edge, before, _)) in edges.iter().enumerate() {
        let earlier = Earlier::of(graph, *before);
        let knows = |via: NodeIndex| known.is_done(earlier, graph.ops[via].lane, via);
        if edges[..i].iter().any(|(_, via, _)| knows(*via)) {
            graph.ops.remove_edge(*edge);
        }
    }
}

/// What has been waited for, and by whom. All lists ascend, as the program is read in order.
#[derive(Default)]
struct Known {
    /// For (waiting lane, lane waited for): (waiter, the latest node of that lane it has waited for).
    lanes: FxHashMap<(u32, u32), Vec<(NodeIndex, NodeIndex)>>,
    /// For (waiting lane, node that lends): the first waiter.
    lent: FxHashMap<(u32, NodeIndex), NodeIndex>,
}

impl Known {
    fn learn(&mut self, earlier: Earlier, lane: u32, at: NodeIndex) {
        if earlier.lends {
            self.lent.entry((lane, earlier.node)).or_insert(at);
        }
        let waits = self.lanes.entry((lane, earlier.lane)).or_default();
        if waits.last().is_none_or(|(_, latest)| *latest < earlier.node) {
            waits.push((at, earlier.node));
        }
    }

    /// Whether an earlier node is done when node `at` of lane `lane` is issued.
    fn is_done(&self, earlier: Earlier, lane: u32, at: NodeIndex) -> bool {
        if earlier.lends {
            return self.lent.get(&(lane, earlier.node)).is_some_and(|waiter| *waiter <= at);
        }
        let Some(waits) = self.lanes.get(&(lane, earlier.lane)) else { return false };
        let until = waits.partition_point(|(waiter, _)| *waiter <= at);
        until > 0 && waits[until - 1].1 >= earlier.node
    }
}
