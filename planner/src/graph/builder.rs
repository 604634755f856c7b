//! [`Builder`]: what an algorithm writes one rank's program with. It infers every data hazard and makes its edge.

use hcomm_ops::Rank;
use petgraph::stable_graph::{NodeIndex, StableDiGraph};

use super::hazard::Hazards;
use super::{End, From, Graph, Hazard, Op, To};
use crate::buffers::BlockCounts;
use crate::hash::Map;
use crate::plan::{Direction, Span};
use crate::request::Collective;
use crate::shape::BufferKind;

/// Takes one rank's operations in program order.
///
/// The order must be one in which the ranks could run their programs one operation at a time, each channel holding two
/// messages: lanes only ever relax it.
#[derive(Debug)]
pub(crate) struct Builder {
    graph: Graph,
    hazards: Hazards,
    last_on: Map<(Direction, End), u32>,
    stage: u8,
    /// Edges of the operation being added; kept to reuse its room.
    edges: Vec<(u32, Hazard)>,
}

impl Builder {
    /// An empty program of rank `rank`.
    pub fn new(collective: Collective, world: usize, rank: Rank, root: Rank, parts: u32) -> Self {
        let blocks = BlockCounts::of(collective, world, rank, root);
        let ops = StableDiGraph::new();
        Builder {
            graph: Graph {
                ops,
                collective,
                world,
                rank,
                parts,
                blocks,
                scratch: Vec::new(),
                homes: Vec::new(),
            },
            hazards: Hazards::new(collective, rank, parts, blocks),
            last_on: Map::default(),
            stage: 0,
            edges: Vec::new(),
        }
    }

    /// Fresh scratch, each chunk as long as the chunk of `like` in its place.
    pub fn scratch(&mut self, like: Span) -> Span {
        let first = self.graph.scratch.len() as u32;
        for chunk in like.chunks() {
            let one = match like.buffer {
                BufferKind::Scratch => self.graph.scratch[chunk as usize],
                buffer => Span::new(buffer, chunk, 1),
            };
            self.graph.scratch.push(one);
            self.graph.homes.push(None);
            self.hazards.add_scratch();
        }
        Span::new(BufferKind::Scratch, first, like.count)
    }

    /// Fresh scratch for one value of the program's place `home`. Chunks that are written at once follow one another.
    pub fn scratch_for(&mut self, home: Option<u32>, like: Span) {
        let span = self.scratch(like);
        self.graph.homes[span.first as usize] = home;
    }

    /// Scratch of `count` chunks, each as long as the one chunk `like`.
    pub fn scratch_run(&mut self, like: Span, count: u32) -> Span {
        let first = self.graph.scratch.len() as u32;
        for _ in 0..count {
            self.scratch(like);
        }
        Span::new(BufferKind::Scratch, first, count)
    }

    /// Operations from here on are of stage `stage`: never fused with those of another, so that each stage's lanes go
    /// on to the next tile on their own.
    pub fn stage(&mut self, stage: u8) {
        self.stage = stage;
    }

    /// Sends `span`.
    pub fn send(&mut self, peer: Rank, index: u8, span: Span) {
        self.add(&[From::Span { span, first: false }], To::Message(End { peer, index }), span);
    }

    /// Receives into `span` what no reduction is to read.
    pub fn recv(&mut self, peer: Rank, index: u8, span: Span) {
        self.recv_partial(peer, index, span, self.graph.world as u64);
    }

    /// Receives into `span` a value with `contributions` ranks' inputs in it.
    pub fn recv_partial(&mut self, peer: Rank, index: u8, span: Span, contributions: u64) {
        let message = From::Message { end: End { peer, index }, first: false, contributions };
        self.add(&[message], To::Span(span), span);
    }

    /// Folds `sources`, left to right, into `sink`.
    pub fn reduce(&mut self, sources: &[Span], sink: Span) {
        let sources: Vec<_> = sources.iter().map(|span| From::Span { span: *span, first: false }).collect();
        self.add(&sources, To::Span(sink), sink);
    }

    /// Copies `source` to `sink`.
    pub fn copy(&mut self, source: Span, sink: Span) {
        self.reduce(&[source], sink);
    }

    /// The graph of what was written.
    pub fn build(self) -> Graph {
        self.graph
    }

    fn add(&mut self, sources: &[From], sink: To, extent: Span) {
        let op = self.graph.ops.node_count() as u32;
        self.edges.clear();
        let edges = &mut self.edges;
        let mut edge = |before: u32, hazard: Hazard| edges.push((before, hazard));
        for source in sources {
            match source {
                From::Span { span, .. } => self.hazards.read(op, *span, &mut edge),
                From::Message { end, .. } => {
                    let last = self.last_on.insert((Direction::In, *end), op);
                    last.into_iter().for_each(|last| edge(last, Hazard::FIFO));
                }
            }
        }
        match sink {
            To::Span(span) => {
                debug_assert!(span.buffer != BufferKind::Input, "an input is only read");
                let copied = if let [one] = sources { one.span() } else { None };
                self.hazards.write(op, span, copied, &mut edge);
            }
            To::Message(end) => {
                let last = self.last_on.insert((Direction::Out, end), op);
                last.into_iter().for_each(|last| edge(last, Hazard::FIFO));
            }
        }
        self.insert(Op {
            sources: sources.to_vec(),
            sinks: vec![sink],
            extent,
            finish: false,
            stage: self.stage,
            lane: 0,
        });
    }

    fn insert(&mut self, op: Op) {
        let at = self.graph.ops.add_node(op);
        self.edges.sort_unstable_by_key(|(before, _)| *before);
        for same in self.edges.chunk_by(|a, b| a.0 == b.0) {
            let hazard = same.iter().map(|(_, hazard)| *hazard).reduce(Hazard::and);
            if let Some(hazard) = hazard {
                self.graph.ops.add_edge(NodeIndex::new(same[0].0 as usize), at, hazard);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edges(builder: Builder) -> Vec<(usize, usize, Hazard)> {
        let graph = builder.build();
        let mut edges: Vec<_> = graph
            .ops
            .edge_indices()
            .map(|e| {
                let (a, b) = graph.ops.edge_endpoints(e).expect("an edge has ends");
                (a.index(), b.index(), graph.ops[e])
            })
            .collect();
        edges.sort_unstable_by_key(|(a, b, _)| (*a, *b));
        edges
    }

    #[test]
    fn hazards_become_edges() {
        let mut b = Builder::new(Collective::AllReduce, 2, 0, 0, 1);
        let scratch = b.scratch(Span::input(0));
        b.recv(1, 0, scratch);
        b.send(1, 0, Span::input(0));
        b.reduce(&[scratch, Span::input(0)], Span::output(0));
        b.recv(1, 0, scratch);
        let expected = [
            (0, 2, Hazard::RAW),
            (0, 3, Hazard::WAW.and(Hazard::FIFO)),
            (1, 2, Hazard::WAR),
            (2, 3, Hazard::WAR),
        ];
        assert_eq!(edges(b), expected);
    }

    #[test]
    fn a_copy_onto_the_twin_holds_up_no_reader_of_the_input() {
        let mut b = Builder::new(Collective::AllGather, 2, 1, 0, 1);
        b.send(0, 0, Span::input(0));
        b.copy(Span::input(0), Span::output(1));
        b.send(0, 0, Span::input(0));
        b.send(0, 1, Span::output(1));
        assert_eq!(edges(b), [(0, 2, Hazard::FIFO), (1, 3, Hazard::RAW)]);
    }
}
