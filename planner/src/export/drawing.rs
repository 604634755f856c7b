//! [`Drawing`]: what a picture shows: some slices, and, where they are known, bytes, predicted times and measured ones. And what
//! follows from those for all pictures alike: the heading, and which nodes and edges are on the critical path.

use std::collections::HashSet;

use super::joined::{Edge, Picture, Tie};
use super::words;
use crate::plan::Plan;
use crate::request::Request;
use crate::sizing::{Sizing, byte_words};
use crate::timeline::{Measured, Step, Timeline, Why};
use crate::topology::Topology;

/// Some slices of a plan, and what is known beside them.
#[derive(Clone, Copy, Debug)]
pub struct Drawing<'a> {
    pub(super) plans: &'a [Plan],
    pub(super) sizing: Option<&'a Sizing>,
    pub(super) timeline: Option<&'a Timeline>,
    pub(super) measured: Option<&'a Measured>,
    pub(super) topology: Option<&'a Topology>,
    /// The time by which the plan was chosen.
    pub(super) chosen_by_ns: Option<f64>,
}

impl<'a> Drawing<'a> {
    /// The slices alone.
    pub fn new(plans: &'a [Plan]) -> Drawing<'a> {
        Drawing { plans, sizing: None, timeline: None, measured: None, topology: None, chosen_by_ns: None }
    }

    /// With the bytes of the chunks.
    pub fn with_sizing(self, sizing: &'a Sizing) -> Drawing<'a> {
        Drawing { sizing: Some(sizing), ..self }
    }

    /// With what the cost model predicts; the timeline is that of all ranks, whichever slices are drawn.
    pub fn with_timeline(self, timeline: &'a Timeline) -> Drawing<'a> {
        Drawing { timeline: Some(timeline), ..self }
    }

    /// With the time by which the plan was chosen among others: that of a model that follows no single message, and so not that of
    /// the timeline.
    pub fn with_chosen_by_ns(self, time_ns: f64) -> Drawing<'a> {
        Drawing { chosen_by_ns: Some(time_ns), ..self }
    }

    /// With what a trace says. Only the page shows it.
    pub fn with_measured(self, measured: &'a Measured) -> Drawing<'a> {
        Drawing { measured: Some(measured), ..self }
    }

    /// With the hosts that the ranks are on, and the names of GPUs and NICs.
    pub fn with_topology(self, topology: &'a Topology) -> Drawing<'a> {
        Drawing { topology: Some(topology), ..self }
    }

    /// The name of a slice's lane.
    pub(super) fn lane(&self, plan: &Plan, number: usize) -> String {
        words::lane(plan, number, self.topology)
    }

    /// The hosts of the slices, where there are several: names, and which slices are on each, in the order of their ranks.
    pub(super) fn hosts(&self) -> Vec<(&'a str, Vec<usize>)> {
        let Some(topology) = self.topology.filter(|topology| topology.host_names().len() > 1) else {
            return Vec::new();
        };
        if self.plans.iter().any(|plan| plan.rank >= topology.world()) {
            return Vec::new();
        }
        let host_of = |at: &usize| topology.place(self.plans[*at].rank).host;
        let on = |host: usize| (0..self.plans.len()).filter(move |at| host_of(at) == host);
        let hosts =
            topology.host_names().iter().enumerate().map(|(host, name)| (name.as_str(), on(host).collect()));
        hosts.filter(|(_, slices): &(_, Vec<usize>)| !slices.is_empty()).collect()
    }

    /// Whether an edge is a message between hosts.
    pub(super) fn is_between_hosts(&self, picture: &Picture<'_>, edge: &Edge) -> bool {
        let host = |at: usize| {
            let rank = picture.first(at).0.rank;
            self.topology.filter(|topology| rank < topology.world()).map(|topology| topology.place(rank).host)
        };
        matches!(edge.tie, Tie::Message(_)) && host(edge.from) != host(edge.to)
    }

    /// What is drawn, on one line.
    pub(super) fn title(&self) -> String {
        let Some(plan) = self.plans.first() else { return "no slices".to_owned() };
        let whose = match self.plans {
            [one] if one.world > 1 => format!("rank {} of {}", one.rank, one.world),
            [_] => "1 rank".to_owned(),
            all if all.len() == plan.world => format!("{} ranks", plan.world),
            some => format!("{} of {} ranks", some.len(), plan.world),
        };
        format!("{} by {}, {whose}", plan.collective, plan.algorithm)
    }

    /// The call and its time, on a second line.
    pub(super) fn subtitle(&self) -> String {
        let call = self.sizing.map(|sizing| call_words(sizing, self.plans.first()));
        let time = self.timeline.map(|timeline| {
            let followed = time_words(timeline.total_ns());
            match self.chosen_by_ns {
                Some(ns) => format!(
                    "predicted {followed} message by message ({} by the choice's model)",
                    time_words(ns)
                ),
                None => format!("predicted {followed}"),
            }
        });
        let plan = self.plans.first().map(|plan| format!("plan {:016x}", plan.id));
        [call, time, plan].into_iter().flatten().collect::<Vec<_>>().join(" · ")
    }

    /// Bytes and tiles of every node of a slice, where they are known.
    pub(super) fn sizes(&self, plan: &Plan) -> Vec<Option<String>> {
        let sizes = self.sizing.and_then(|sizing| sizing.of(plan));
        let words = |extent| Some(sizes.as_ref()?.load(extent)?.words());
        plan.nodes.iter().map(|node| words(node.extent)).collect()
    }
}

fn call_words(sizing: &Sizing, plan: Option<&Plan>) -> String {
    let Sizing { request: Request { collective, dtype, op, root, .. }, tile_bytes } = sizing;
    let what = if collective.reduces() { format!("{op} of {dtype}") } else { dtype.to_string() };
    let root = if collective.is_rooted() { format!(", root {root}") } else { String::new() };
    let bytes = plan.and_then(|plan| sizing.request.full_bytes(plan.world));
    let bytes = bytes.map(|bytes| format!(", {}", byte_words(bytes))).unwrap_or_default();
    format!("{what}{root}{bytes} in tiles of up to {}", byte_words(*tile_bytes))
}

/// A time for people.
pub(super) fn time_words(ns: f64) -> String {
    match ns {
        ns if ns < 1e3 => format!("{ns:.0} ns"),
        ns if ns < 1e6 => format!("{:.1} µs", ns / 1e3),
        ns if ns < 1e9 => format!("{:.2} ms", ns / 1e6),
        ns => format!("{:.2} s", ns / 1e9),
    }
}

/// The boxes and edges of a picture that are on the critical path of one tile.
#[derive(Debug, Default)]
pub(super) struct Critical {
    nodes: HashSet<usize>,
    edges: HashSet<(usize, usize, bool)>,
}

impl Critical {
    pub fn of(picture: &Picture<'_>, timeline: Option<&Timeline>) -> Critical {
        let path = timeline.map_or(&[][..], Timeline::critical_path_of_one_tile);
        let at = |step: &Step| Some(picture.box_of[picture.number_of(step.run.rank, step.run.node)?]);
        let nodes = path.iter().filter_map(at).collect();
        let edges = path.windows(2).filter_map(|pair| {
            let is_message = match pair[1].why {
                Why::Message => true,
                Why::Lane | Why::Dep => false,
                Why::Start | Why::Room | Why::Processor => return None,
            };
            Some((at(&pair[0])?, at(&pair[1])?, is_message))
        });
        Critical { nodes, edges: edges.collect() }
    }

    pub fn has_any(&self) -> bool {
        !self.nodes.is_empty()
    }

    pub fn has_node(&self, at: usize) -> bool {
        self.nodes.contains(&at)
    }

    pub fn has_edge(&self, edge: &Edge) -> bool {
        self.edges.contains(&(edge.from, edge.to, matches!(edge.tie, Tie::Message(_))))
    }
}
