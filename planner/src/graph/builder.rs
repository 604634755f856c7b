//! [`Builder`]: what an algorithm writes one rank's program with. It infers every data hazard and makes its edge.

use hcomm_ops::Rank;
use petgraph::stable_graph::{NodeIndex, StableDiGraph};
use rustc_hash::FxHashMap;

use super::frame::Entered;
use super::hazard::Hazards;
use super::{End, Frame, From, Graph, Hazard, Holds, MAX_SPAN, Op, Team, To};
use crate::buffers::BlockCounts;
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
    last_on: FxHashMap<(Direction, End), u32>,
    /// The frames that are being written in, the innermost last.
    frames: Vec<Entered>,
    /// The plan's number of each stage that was named outside of all frames.
    stages: Vec<u16>,
    stage: u16,
    last_stage: u16,
    /// Edges of the operation being added; kept to reuse its room.
    edges: Vec<(u32, Hazard)>,
}

impl Builder {
    /// An empty program of rank `rank`.
    pub fn new(collective: Collective, world: usize, rank: Rank, root: Rank, parts: u32) -> Self {
        let blocks = BlockCounts::of(collective, world, rank, root);
        let teams = vec![Team { members: world as u64, completes: true }];
        let ops = StableDiGraph::new();
        Builder {
            graph: Graph {
                ops,
                collective,
                world,
                rank,
                parts,
                teams,
                blocks,
                scratch: Vec::new(),
                homes: Vec::new(),
            },
            hazards: Hazards::new(collective, rank, parts, blocks),
            last_on: FxHashMap::default(),
            frames: Vec::new(),
            stages: vec![0],
            stage: 0,
            last_stage: 0,
            edges: Vec::new(),
        }
    }

    /// Takes what `write` writes as the program of a smaller world: ranks, spans, channels, stages and contributions are
    /// those of the frame. Its stage 0 is the current one.
    pub fn within(&mut self, frame: Frame, write: impl FnOnce(&mut Builder)) {
        let stage = self.stage;
        let entered = self.entered(frame);
        self.frames.push(entered);
        write(self);
        self.frames.pop();
        self.stage = stage;
    }

    /// Fresh scratch, each chunk as long as the chunk of `like` in its place.
    pub fn scratch(&mut self, like: Span) -> Span {
        let runs = self.runs(like);
        let first = self.graph.scratch.len() as u32;
        runs.into_iter().for_each(|run| self.add_scratch(run));
        let count = self.graph.scratch.len() as u32 - first;
        let Some(frame) = self.frames.last_mut() else {
            return Span::new(BufferKind::Scratch, first, count);
        };
        let (own, each) = (frame.scratch.len() as u32, count / like.count);
        let chunk = |at: u32| Span::new(BufferKind::Scratch, first + at * each, each);
        frame.scratch.extend((0..like.count).map(chunk));
        Span::new(BufferKind::Scratch, own, like.count)
    }

    /// Fresh scratch for one value of the program's place `home`. Chunks that are written at once follow one another.
    pub fn scratch_for(&mut self, home: Option<u32>, like: Span) {
        let span = self.scratch(like);
        self.graph.homes[span.first as usize] = home;
    }

    /// Scratch of `count` chunks, each as long as the one chunk `like`.
    pub fn scratch_run(&mut self, like: Span, count: u32) -> Span {
        let first = self.scratch(like).first;
        (1..count).for_each(|_| {
            self.scratch(like);
        });
        Span::new(BufferKind::Scratch, first, count)
    }

    /// Operations from here on are of stage `stage`: never fused with those of another, so that each stage's lanes go
    /// on to the next tile on their own.
    pub fn stage(&mut self, stage: u8) {
        let stages = self.frames.last_mut().map_or(&mut self.stages, |frame| &mut frame.stages);
        while stages.len() <= usize::from(stage) {
            self.last_stage += 1;
            stages.push(self.last_stage);
        }
        self.stage = stages[usize::from(stage)];
    }

    /// Sends `span`.
    pub fn send(&mut self, peer: Rank, index: u8, span: Span) {
        let end = self.end(peer, index);
        self.each_run(&[span], |b, runs| {
            b.add(vec![From::Span { span: runs[0], first: false }], To::Message(end), runs[0]);
        });
    }

    /// Receives into `span` what no reduction is to read.
    pub fn recv(&mut self, peer: Rank, index: u8, span: Span) {
        let team = self.team();
        self.recv_partial(peer, index, span, self.graph.teams[team as usize].members);
    }

    /// Receives into `span` a value with `contributions` ranks' inputs in it; if that is one, the peer's.
    pub fn recv_partial(&mut self, peer: Rank, index: u8, span: Span, contributions: u64) {
        let end = self.end(peer, index);
        let raw = contributions == 1 && self.frames.last().is_none_or(|frame| frame.raw[peer]);
        let sum = Holds::Sum { team: self.team(), members: contributions };
        let message = From::Message { end, first: false, holds: if raw { Holds::Raw } else { sum } };
        self.each_run(&[span], |b, runs| b.add(vec![message], To::Span(runs[0]), runs[0]));
    }

    /// Folds `sources`, left to right, into `sink`; one source is copied, unless a frame has it in the sink's place.
    pub fn reduce(&mut self, sources: &[Span], sink: Span) {
        if let ([source], false) = (sources, self.frames.is_empty())
            && self.runs(*source) == self.runs(sink)
        {
            return;
        }
        let spans: Vec<_> = sources.iter().copied().chain([sink]).collect();
        self.each_run(&spans, |b, runs| {
            let (sink, sources) = runs.split_last().expect("a sink behind the sources");
            let sources = sources.iter().map(|span| From::Span { span: *span, first: false });
            b.add(sources.collect(), To::Span(*sink), *sink);
        });
    }

    /// Copies `source` to `sink`.
    pub fn copy(&mut self, source: Span, sink: Span) {
        self.reduce(&[source], sink);
    }

    /// The graph of what was written.
    pub fn build(self) -> Graph {
        self.graph
    }

    /// A frame in the terms of the plan.
    fn entered(&mut self, frame: Frame) -> Entered {
        let around = self.graph.teams[self.team() as usize];
        let members = frame.ranks.len() as u64;
        let completes = around.completes && frame.held.iter().sum::<u64>() == around.members;
        self.graph.teams.push(Team { members, completes });
        let is_raw = |(rank, held): (&Rank, &u64)| {
            *held == 1 && self.frames.last().is_none_or(|frame| frame.raw[*rank])
        };
        let raw = frame.ranks.iter().zip(&frame.held).map(is_raw).collect();
        let whole = |span: &Span| self.whole_run(*span);
        let frame = Frame {
            ranks: frame.ranks.iter().map(|rank| self.end(*rank, 0).peer).collect(),
            input: frame.input.iter().map(whole).collect(),
            output: frame.output.iter().map(whole).collect(),
            channel: self.end(0, frame.channel).index,
            held: frame.held,
        };
        Entered::new(frame, raw, self.graph.teams.len() as u32 - 1, self.stage)
    }

    /// The one run of the plan that a span stands for.
    fn whole_run(&self, span: Span) -> Span {
        let runs = self.runs(span);
        let count = runs.iter().map(|run| run.count).sum();
        debug_assert!(runs.windows(2).all(|pair| pair[0].first + pair[0].count == pair[1].first));
        Span { count, ..runs[0] }
    }

    fn team(&self) -> u32 {
        self.frames.last().map_or(0, |frame| frame.team)
    }

    fn end(&self, peer: Rank, index: u8) -> End {
        match self.frames.last() {
            None => End { peer, index },
            Some(Entered { frame, .. }) => End { peer: frame.ranks[peer], index: frame.channel + index },
        }
    }

    /// Calls `add` with the runs of the plan that equally long spans stand for, one run of each at a time.
    fn each_run(&mut self, spans: &[Span], mut add: impl FnMut(&mut Self, &[Span])) {
        let Some(frame) = self.frames.last() else { return add(self, spans) };
        let runs: Vec<_> = spans.iter().map(|span| frame.runs(*span)).collect();
        for run in 0..runs[0].len() {
            let run: Vec<_> = runs.iter().map(|runs| runs[run]).collect();
            add(self, &run);
        }
    }

    fn runs(&self, span: Span) -> Vec<Span> {
        self.frames.last().map_or_else(|| vec![span], |frame| frame.runs(span))
    }

    fn add_scratch(&mut self, like: Span) {
        for chunk in like.chunks() {
            let one = match like.buffer {
                BufferKind::Scratch => self.graph.scratch[chunk as usize],
                buffer => Span::new(buffer, chunk, 1),
            };
            self.graph.scratch.push(one);
            self.graph.homes.push(None);
            self.hazards.add_scratch();
        }
    }

    fn add(&mut self, sources: Vec<From>, sink: To, extent: Span) {
        debug_assert!(extent.count <= MAX_SPAN, "{extent:?} does not fit a message");
        let op = self.graph.ops.node_count() as u32;
        self.edges.clear();
        let edges = &mut self.edges;
        let mut edge = |before: u32, hazard: Hazard| edges.push((before, hazard));
        for source in &sources {
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
                let copied = if let [one] = sources[..] { one.span() } else { None };
                self.hazards.write(op, span, copied, &mut edge);
            }
            To::Message(end) => {
                let last = self.last_on.insert((Direction::Out, end), op);
                last.into_iter().for_each(|last| edge(last, Hazard::FIFO));
            }
        }
        self.insert(Op {
            sources,
            sinks: vec![sink],
            extent,
            finish: false,
            stage: self.stage,
            team: self.team(),
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
