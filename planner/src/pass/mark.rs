//! Marks where average and pre-multiplied sum do their extra work: `first` on sources that are raw contributions,
//! `finish` on the operation that completes a result.
//!
//! It follows how many ranks' inputs every local chunk holds; of a message, the algorithm has said so.

use crate::graph::{From, Graph};
use crate::plan::Span;
use crate::shape::BufferKind;

pub(super) fn mark(graph: &mut Graph) {
    if !graph.collective.reduces() {
        return;
    }
    let world = graph.world as u64;
    let mut held = Held::new(graph);
    for at in graph.program() {
        let op = &mut graph.ops[at];
        let counts: Vec<u64> = op.sources.iter().map(|source| held.by(source)).collect();
        let sum: u64 = counts.iter().sum();
        if op.sources.len() > 1 || world == 1 {
            for (source, count) in op.sources.iter_mut().zip(&counts) {
                *source = source.marked(*count == 1);
            }
            op.finish = sum == world;
        }
        for span in op.sinks.iter().filter_map(|sink| sink.span()) {
            held.set(span, sum);
        }
    }
}

/// How many ranks' inputs each output and scratch chunk holds.
struct Held {
    output: Vec<u64>,
    scratch: Vec<u64>,
}

impl Held {
    fn new(graph: &Graph) -> Held {
        let zeroes = |buffer| vec![0; graph.chunks(buffer) as usize];
        Held { output: zeroes(BufferKind::Output), scratch: zeroes(BufferKind::Scratch) }
    }

    fn by(&self, source: &From) -> u64 {
        match source {
            From::Message { contributions, .. } => *contributions,
            From::Span { span, .. } => match span.buffer {
                BufferKind::Input => 1,
                BufferKind::Output => self.output[span.first as usize],
                BufferKind::Scratch => self.scratch[span.first as usize],
            },
        }
    }

    fn set(&mut self, span: Span, count: u64) {
        let buffer = match span.buffer {
            BufferKind::Scratch => &mut self.scratch,
            _ => &mut self.output,
        };
        span.chunks().for_each(|chunk| buffer[chunk as usize] = count);
    }
}
