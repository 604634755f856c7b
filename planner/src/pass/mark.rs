//! Marks where average and pre-multiplied sum do their extra work: `first` on sources that are raw contributions,
//! `finish` on the operation that completes a result.
//!
//! It follows what every local chunk holds; of a message, the algorithm has said so. Counts are those of the team that an
//! operation belongs to: what another team has folded is one member's contribution.

use crate::graph::{From, Graph, Holds};
use crate::plan::Span;
use crate::shape::BufferKind;

pub(super) fn mark(graph: &mut Graph) {
    if !graph.collective.reduces() {
        return;
    }
    let mut held = Held::new(graph);
    for at in graph.program() {
        let op = &mut graph.ops[at];
        let (number, team) = (op.team, graph.teams[op.team as usize]);
        let members = op.sources.iter().map(|source| held.by(source).members_of(number)).sum();
        let folds = op.sources.len() > 1;
        let result = if folds { Holds::Sum { team: number, members } } else { held.by(&op.sources[0]) };
        if folds || graph.world == 1 {
            for source in &mut op.sources {
                *source = source.marked(held.by(source) == Holds::Raw);
            }
            op.finish = team.completes && members == team.members;
        }
        for span in op.sinks.iter().filter_map(|sink| sink.span()) {
            held.set(span, result);
        }
    }
}

impl Holds {
    /// Contributions of members of a team.
    fn members_of(self, team: u32) -> u64 {
        match self {
            Holds::Sum { team: of, members } if of == team => members,
            _ => 1,
        }
    }
}

/// What every output and scratch chunk holds.
struct Held {
    output: Vec<Holds>,
    scratch: Vec<Holds>,
}

impl Held {
    fn new(graph: &Graph) -> Held {
        let raw = |buffer| vec![Holds::Raw; graph.chunks(buffer) as usize];
        Held { output: raw(BufferKind::Output), scratch: raw(BufferKind::Scratch) }
    }

    fn by(&self, source: &From) -> Holds {
        match source {
            From::Message { holds, .. } => *holds,
            From::Span { span, .. } => match span.buffer {
                BufferKind::Input => Holds::Raw,
                BufferKind::Output => self.output[span.first as usize],
                BufferKind::Scratch => self.scratch[span.first as usize],
            },
        }
    }

    fn set(&mut self, span: Span, value: Holds) {
        let buffer = match span.buffer {
            BufferKind::Scratch => &mut self.scratch,
            _ => &mut self.output,
        };
        span.chunks().for_each(|chunk| buffer[chunk as usize] = value);
    }
}
