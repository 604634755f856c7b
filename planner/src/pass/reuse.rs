//! Lets the values that a program kept in one place of scratch, one after another, lie in one place again.
//!
//! A program of one's own has a fresh chunk for every value, so that fusing sees who makes and who uses it. What is
//! left after fusing goes where the place's last value lay, if all who touched that come earlier in the program; edges keep
//! them earlier. Algorithms of the list take fresh scratch for every value and are left as they are.

use petgraph::stable_graph::NodeIndex;
use rustc_hash::FxHashMap;

use crate::graph::{Graph, Hazard};
use crate::plan::Span;
use crate::shape::BufferKind;

pub(super) fn reuse(graph: &mut Graph) {
    if graph.homes.iter().all(Option::is_none) {
        return;
    }
    let touched = touched(graph);
    let mut slots: Vec<u32> = (0..graph.scratch.len() as u32).collect();
    let mut last: FxHashMap<u32, Span> = FxHashMap::default();
    for at in graph.program() {
        let written: Vec<Span> = graph.ops[at].sinks.iter().filter_map(|sink| sink.span()).collect();
        for value in written.into_iter().filter(|span| span.buffer == BufferKind::Scratch) {
            let Some(home) = graph.homes[value.first as usize] else { continue };
            if let Some(before) = last.insert(home, value).filter(|before| fits(graph, *before, value)) {
                let users = before.chunks().flat_map(|chunk| &touched[chunk as usize]);
                move_to(graph, &mut slots, at, users.copied().collect(), before, value);
            }
        }
    }
    super::scratch::renumber(graph, &slots);
}

/// By scratch chunk: the operations that read or write it, in program order.
fn touched(graph: &Graph) -> Vec<Vec<NodeIndex>> {
    let mut touched = vec![Vec::new(); graph.scratch.len()];
    for at in graph.program() {
        for span in graph.ops[at].spans().filter(|span| span.buffer == BufferKind::Scratch) {
            span.chunks().for_each(|chunk| touched[chunk as usize].push(at));
        }
    }
    touched
}

/// Whether two values are of the same places and sizes.
fn fits(graph: &Graph, a: Span, b: Span) -> bool {
    let part = |chunk: u32| graph.scratch[chunk as usize].first % graph.parts;
    let same = |(a, b): (u32, u32)| graph.homes[a as usize] == graph.homes[b as usize] && part(a) == part(b);
    a.count == b.count && a.chunks().zip(b.chunks()).all(same)
}

/// Puts `value`, written by `at`, where `before` lies, unless one of that one's users comes later.
fn move_to(
    graph: &mut Graph,
    slots: &mut [u32],
    at: NodeIndex,
    users: Vec<NodeIndex>,
    before: Span,
    value: Span,
) {
    if users.iter().any(|user| *user > at) || reads_a_part(graph, at, before) {
        return;
    }
    for user in users.into_iter().filter(|user| *user != at) {
        graph.join(user, at, Hazard::WAR);
    }
    for (from, to) in value.chunks().zip(before.chunks()) {
        slots[from as usize] = slots[to as usize];
    }
}

/// Whether an operation reads some chunks of a value, but not just all of them in their places.
fn reads_a_part(graph: &Graph, at: NodeIndex, value: Span) -> bool {
    let read = graph.ops[at].sources.iter().filter_map(|source| source.span());
    let overlaps = |span: Span| {
        span.buffer == value.buffer
            && span.first < value.first + value.count
            && value.first < span.first + span.count
    };
    read.into_iter().any(|span| span != value && overlaps(span))
}
