//! Gives back the scratch that fusing left unused, and makes extents that lay in it point at chunks of the same size.

use crate::graph::{From, Graph, To};
use crate::plan::Span;
use crate::shape::BufferKind;

pub(super) fn compact(graph: &mut Graph) {
    for at in graph.program() {
        let op = &graph.ops[at];
        let extent = op.spans().next().or_else(|| graph.like(op.extent)).unwrap_or(op.extent);
        graph.ops[at].extent = extent;
    }
    let mut used = vec![false; graph.scratch.len()];
    for op in graph.ops.node_weights() {
        for span in op.spans().chain([op.extent]).filter(|s| s.buffer == BufferKind::Scratch) {
            span.chunks().for_each(|chunk| used[chunk as usize] = true);
        }
    }
    let numbers: Vec<u32> = used
        .iter()
        .scan(0, |next, used| {
            let number = *next;
            *next += u32::from(*used);
            Some(number)
        })
        .collect();
    renumber(graph, &numbers);
    let mut keep = used.iter();
    graph.scratch.retain(|_| *keep.next().expect("one flag per chunk"));
    let mut keep = used.iter();
    graph.homes.retain(|_| *keep.next().expect("one flag per chunk"));
}

/// Gives every scratch chunk another number. The chunks of a span stay side by side.
pub(super) fn renumber(graph: &mut Graph, numbers: &[u32]) {
    let renumbered = |span: Span| match span.buffer {
        BufferKind::Scratch => Span { first: numbers[span.first as usize], ..span },
        _ => span,
    };
    for op in graph.ops.node_weights_mut() {
        op.extent = renumbered(op.extent);
        for source in &mut op.sources {
            if let From::Span { span, .. } = source {
                *span = renumbered(*span);
            }
        }
        for sink in &mut op.sinks {
            if let To::Span(span) = sink {
                *span = renumbered(*span);
            }
        }
    }
}
