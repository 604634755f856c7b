//! Merges operations so that bytes are read and written once: receive-reduce, receive-reduce-send, receive-copy-send,
//! many-source reduce, reduce into the output and outgoing messages at once, one send to several peers.
//!
//! As all nodes have one shape there are three merges. *Absorb*: a source that an earlier operation only put into
//! scratch for this one becomes that operation's own sources. *Extend*: an operation that only passes on what an earlier one
//! stored becomes another sink of it. *Share*: operations that pass on the same span become one with all their sinks.
//!
//! A merge moves one operation along the program, which is allowed only where no edge (data or channel order) is turned
//! round, and only within one stage and one resource. Of many merges into one operation the latest comes first: that is
//! the order in which petgraph unlinks edges at no cost.

use petgraph::Direction::Outgoing;
use petgraph::stable_graph::NodeIndex;
use petgraph::visit::EdgeRef;
use rustc_hash::FxHashMap;

use super::place::{Resource, resource};
use crate::graph::{From, Graph, Hazard, To};
use crate::plan::Span;
use crate::shape::BufferKind;
use crate::topology::{LinkClass, Topology};

pub(super) fn fuse(graph: &mut Graph, topology: &Topology) {
    let mut fusing = Fusing::new(graph, topology);
    fusing.each(Fusing::absorb_sources);
    fusing.each(Fusing::extend_by_followers);
    fusing.share_spans();
}

/// No operation, or more than one.
const NONE: u32 = u32::MAX;

/// Who uses a scratch chunk.
#[derive(Clone, Copy)]
struct Use {
    /// The only writer, or `NONE` where there are several.
    writer: u32,
    writes: u32,
    reads: u32,
}

/// Where an operation's messages go.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sends {
    Nothing,
    Near,
    Far,
}

struct Fusing<'a> {
    graph: &'a mut Graph,
    scratch: Vec<Use>,
    /// Of each operation; merging changes none.
    resources: Vec<Resource>,
    /// Of each operation; merging adds.
    sends: Vec<Sends>,
}

impl<'a> Fusing<'a> {
    fn new(graph: &'a mut Graph, topology: &Topology) -> Self {
        let resources = graph.ops.node_weights().map(|op| resource(op, graph.rank, topology)).collect();
        let far = |peer| topology.link(graph.rank, peer) == LinkClass::Remote;
        let sends = graph.ops.node_weights().map(|op| match op.ends_out().next() {
            None => Sends::Nothing,
            Some(end) if far(end.peer) => Sends::Far,
            Some(_) => Sends::Near,
        });
        let sends = sends.collect();
        let scratch = uses(graph);
        Fusing { graph, scratch, resources, sends }
    }

    /// Visits every operation in program order; what is merged away on the way is left out.
    fn each(&mut self, visit: impl Fn(&mut Self, NodeIndex)) {
        for at in self.graph.program() {
            if self.graph.ops.contains_node(at) {
                visit(self, at);
            }
        }
    }

    /// *Absorb*, for every source of `at`.
    fn absorb_sources(&mut self, at: NodeIndex) {
        for i in (0..self.graph.ops[at].sources.len()).rev() {
            let span = self.graph.ops[at].sources[i].span().filter(is_scratch);
            if let Some(maker) = span.and_then(|span| self.maker_for(at, i, span)) {
                self.absorb(at, i, maker);
            }
        }
    }

    /// The operation that does nothing but put into `span` what source `i` of `at` reads from there.
    fn maker_for(&self, at: NodeIndex, i: usize, span: Span) -> Option<NodeIndex> {
        let maker = self.only_writer(span)?;
        let (op, user) = (&self.graph.ops[maker], &self.graph.ops[at]);
        let only_for_this = op.sinks == [To::Span(span)] && self.reads(span) == 1;
        // Folding is from the left: a fold can be spliced in only at the beginning of another.
        let in_order = op.sources.len() == 1 || (i == 0 && user.sources.len() > 1);
        let clear = self.graph.first_after(maker).is_none_or(|next| next >= at);
        (only_for_this && in_order && clear && self.compatible(maker, at)).then_some(maker)
    }

    /// Puts the maker's sources in place of source `i`.
    fn absorb(&mut self, at: NodeIndex, i: usize, maker: NodeIndex) {
        let made = std::mem::take(&mut self.graph.ops[maker].sources);
        let finish = self.graph.ops[maker].finish;
        let into = &mut self.graph.ops[at];
        let taken = into.sources[i];
        if let [only] = made[..] {
            into.sources[i] = only.marked(taken.is_first() || only.is_first());
        } else {
            into.sources.splice(i..=i, made);
        }
        into.finish |= finish;
        self.forget(taken.span());
        self.graph.contract(at, maker);
    }

    /// *Extend*: merges into `at` the operations that only pass on what it stores.
    fn extend_by_followers(&mut self, at: NodeIndex) {
        let mut followers: Vec<_> = self
            .graph
            .ops
            .edges_directed(at, Outgoing)
            .filter(|edge| edge.weight().has(Hazard::RAW))
            .map(|edge| edge.target())
            .collect();
        followers.sort_unstable();
        let stored = self.graph.ops[at].sinks.clone();
        let passes_on = |fusing: &Self, other: NodeIndex| {
            fusing.passed_on(other).is_some_and(|span| stored.contains(&To::Span(span)))
        };
        self.merge(at, &followers, passes_on);
    }

    /// *Share*, for every input or output span.
    fn share_spans(&mut self) {
        let mut groups: FxHashMap<Span, Vec<NodeIndex>> = FxHashMap::default();
        for at in self.graph.program() {
            if let Some(span) = self.passed_on(at).filter(|span| !is_scratch(span)) {
                groups.entry(span).or_default().push(at);
            }
        }
        let mut groups: Vec<_> = groups.into_values().collect();
        groups.sort_unstable_by_key(|group| group[0]);
        for group in groups {
            // What goes to another host leaves with no other message, so only these two can be joined by many.
            let near = group.iter().position(|at| self.sends[at.index()] != Sends::Far);
            for first in [Some(0), near].into_iter().flatten() {
                if self.graph.ops.contains_node(group[first]) {
                    self.merge(group[first], &group[first + 1..], |_, _| true);
                }
            }
        }
    }

    /// Merges into `at` those of `others` (ascending) that may come at once after it.
    fn merge(&mut self, at: NodeIndex, others: &[NodeIndex], wanted: impl Fn(&Self, NodeIndex) -> bool) {
        let mut sinks = Vec::new();
        let mut passed_on = Vec::new();
        for other in others.iter().rev().copied() {
            let there = self.graph.ops.contains_node(other);
            if !there || !wanted(self, other) || !self.may_extend(at, other) {
                continue;
            }
            passed_on.extend(self.passed_on(other));
            sinks.extend(std::mem::take(&mut self.graph.ops[other].sinks).into_iter().rev());
            self.sends[at.index()] = self.together(at, other).unwrap_or(Sends::Nothing);
            self.graph.contract(at, other);
        }
        sinks.reverse();
        for sink in &sinks {
            self.note_writer(at, sink);
        }
        self.graph.ops[at].sinks.extend(sinks);
        for span in passed_on.into_iter().filter(is_scratch) {
            span.chunks().for_each(|chunk| self.scratch[chunk as usize].reads -= 1);
            self.drop_sink_if_unread(at, span);
        }
    }

    /// The span that an operation passes on unchanged.
    fn passed_on(&self, at: NodeIndex) -> Option<Span> {
        let op = &self.graph.ops[at];
        match op.sources[..] {
            [From::Span { span, first: false }] if !op.finish => Some(span),
            _ => None,
        }
    }

    /// Whether `other` could be carried out at once after the earlier operation `at`.
    fn may_extend(&self, at: NodeIndex, other: NodeIndex) -> bool {
        let clear = self.graph.last_before(other).is_none_or(|last| last <= at);
        clear && self.together(at, other).is_some() && self.compatible(at, other)
    }

    /// Where both operations' messages go, if they may leave together: several do only where all readers are on this host.
    fn together(&self, a: NodeIndex, b: NodeIndex) -> Option<Sends> {
        match (self.sends[a.index()], self.sends[b.index()]) {
            (Sends::Nothing, other) | (other, Sends::Nothing) => Some(other),
            (Sends::Near, Sends::Near) => Some(Sends::Near),
            _ => None,
        }
    }

    fn compatible(&self, a: NodeIndex, b: NodeIndex) -> bool {
        let resource = self.resources[a.index()];
        let same_stage = self.graph.ops[a].stage == self.graph.ops[b].stage;
        let fifo = self.graph.ops.find_edge(a, b).is_some_and(|e| self.graph.ops[e].has(Hazard::FIFO));
        !fifo
            && same_stage
            && resource == self.resources[b.index()]
            && !matches!(resource, Resource::Nic { .. })
    }

    /// Removes a scratch sink that nobody reads any more.
    fn drop_sink_if_unread(&mut self, at: NodeIndex, span: Span) {
        let Some(like) = self.graph.like(span) else { return };
        let unread = span.chunks().all(|chunk| self.scratch[chunk as usize].reads == 0);
        if unread && self.graph.ops[at].sinks.len() > 1 {
            self.graph.ops[at].sinks.retain(|sink| *sink != To::Span(span));
            self.graph.ops[at].extent = like;
            self.forget(Some(span));
        }
    }

    /// `at` now writes what an operation merged into it wrote.
    fn note_writer(&mut self, at: NodeIndex, sink: &To) {
        for chunk in sink.span().filter(is_scratch).into_iter().flat_map(Span::chunks) {
            let used = &mut self.scratch[chunk as usize];
            used.writer = if used.writes == 1 { at.index() as u32 } else { NONE };
        }
    }

    fn forget(&mut self, span: Option<Span>) {
        for chunk in span.into_iter().flat_map(Span::chunks) {
            self.scratch[chunk as usize] = Use { writer: NONE, writes: 0, reads: 0 };
        }
    }

    fn only_writer(&self, span: Span) -> Option<NodeIndex> {
        let writer = self.scratch[span.first as usize].writer;
        (writer != NONE).then(|| NodeIndex::new(writer as usize))
    }

    fn reads(&self, span: Span) -> u32 {
        span.chunks().map(|chunk| self.scratch[chunk as usize].reads).max().unwrap_or(0)
    }
}

fn uses(graph: &Graph) -> Vec<Use> {
    let mut scratch = vec![Use { writer: NONE, writes: 0, reads: 0 }; graph.scratch.len()];
    for at in graph.ops.node_indices() {
        let op = &graph.ops[at];
        for span in op.sources.iter().filter_map(From::span).filter(is_scratch) {
            span.chunks().for_each(|chunk| scratch[chunk as usize].reads += 1);
        }
        for chunk in op.sinks.iter().filter_map(To::span).filter(is_scratch).flat_map(Span::chunks) {
            let used = &mut scratch[chunk as usize];
            used.writes += 1;
            used.writer = if used.writes == 1 { at.index() as u32 } else { NONE };
        }
    }
    scratch
}

fn is_scratch(span: &Span) -> bool {
    span.buffer == BufferKind::Scratch
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::{Builder, Op};
    use crate::request::Collective;

    fn fused(write: impl Fn(&mut Builder)) -> Vec<Op> {
        let mut builder = Builder::new(Collective::AllReduce, 4, 0, 0, 2);
        write(&mut builder);
        let mut graph = builder.build();
        fuse(&mut graph, &Topology::hosts(2, 2));
        graph.ops.node_weights().cloned().collect()
    }

    fn shape(ops: &[Op]) -> Vec<(usize, usize)> {
        ops.iter().map(|op| (op.sources.len(), op.sinks.len())).collect()
    }

    #[test]
    fn receive_reduce_send_becomes_one_operation() {
        let ops = fused(|b| {
            let (arrived, sum) = (b.scratch(Span::input(0)), b.scratch(Span::input(0)));
            b.recv_partial(3, 0, arrived, 1);
            b.reduce(&[arrived, Span::input(0)], sum);
            b.send(1, 0, sum);
        });
        assert_eq!(shape(&ops), [(2, 1)]);
        assert!(ops[0].spans().all(|span| span == Span::input(0)));
    }

    #[test]
    fn a_fold_of_a_fold_is_one_only_from_the_left() {
        let fold = |b: &mut Builder, left: bool| {
            let (x, y, sum) = (Span::input(0), Span::input(1), b.scratch(Span::input(0)));
            b.reduce(&[x, y], sum);
            b.reduce(&if left { [sum, x] } else { [x, sum] }, Span::output(0));
        };
        assert_eq!(shape(&fused(|b| fold(b, true))), [(3, 1)]);
        assert_eq!(shape(&fused(|b| fold(b, false))), [(2, 1), (2, 1)]);
    }

    #[test]
    fn sends_of_one_span_leave_together_only_to_this_host() {
        let sends = |peers: &[usize]| {
            let peers = peers.to_vec();
            shape(&fused(move |b| peers.iter().for_each(|peer| b.send(*peer, 0, Span::input(0)))))
        };
        assert_eq!(sends(&[1, 1]), [(1, 1), (1, 1)], "one channel keeps its order");
        assert_eq!(sends(&[2, 3]), [(1, 1), (1, 1)], "two sockets");
    }

    #[test]
    fn a_merge_never_turns_a_channel_round() {
        let ops = fused(|b| {
            let (first, second) = (b.scratch(Span::input(0)), b.scratch(Span::input(0)));
            b.recv_partial(1, 0, first, 1);
            b.recv_partial(1, 0, second, 1);
            b.reduce(&[second, Span::input(0)], Span::output(0));
            b.reduce(&[first, Span::input(1)], Span::output(1));
        });
        let peers: Vec<_> = ops.iter().filter(|op| op.ends_in().count() > 0).map(|op| op.sinks[0]).collect();
        assert_eq!(peers[0].span().map(|s| s.buffer), Some(BufferKind::Scratch), "{ops:?}");
    }

    #[test]
    fn stages_are_kept_apart() {
        let ops = fused(|b| {
            b.reduce(&[Span::input(0), Span::input(1)], Span::output(0));
            b.stage(1);
            b.send(1, 0, Span::output(0));
        });
        assert_eq!(ops.len(), 2);
    }
}
