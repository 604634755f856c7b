//! The passes between an algorithm's program and a frozen plan: a file each, and the one list of them.
//!
//! A pass sees one rank's graph. It must not change the number, order or size of what passes over any channel.

mod fuse;
mod mark;
mod place;
mod reuse;
mod scratch;
mod thin;

use rustc_hash::FxHashMap;

use crate::graph::{End, Graph};
use crate::plan::{Direction, LaneKind};
use crate::topology::Topology;

/// One entry of the list.
pub(crate) struct Pass {
    /// What it does, in one word.
    pub name: &'static str,
    pub run: fn(&mut Graph, &Topology, &mut Placement),
}

/// Every pass, in the order in which they run.
pub(crate) static PASSES: &[Pass] = &[
    Pass { name: "mark", run: |graph, _, _| mark::mark(graph) },
    Pass { name: "fuse", run: |graph, topology, _| fuse::fuse(graph, topology) },
    Pass { name: "reuse", run: |graph, _, _| reuse::reuse(graph) },
    Pass { name: "scratch", run: |graph, _, _| scratch::compact(graph) },
    Pass { name: "place", run: place::place },
    Pass { name: "thin", run: |graph, _, _| thin::thin(graph) },
];

/// Where the operations were placed: what `place` leaves for `thin` and `freeze`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Placement {
    /// The lanes, in the order of their first operation.
    pub lanes: Vec<LaneKind>,
    /// The lane of every channel end.
    pub ends: FxHashMap<(Direction, End), u32>,
}

/// Runs every pass.
pub(crate) fn run_all(graph: &mut Graph, topology: &Topology) -> Placement {
    run(graph, topology, |_| true)
}

/// Runs every pass but `fuse`. What is left runs as the program says, operation by operation; fused, it might not: what one
/// operation waits for, all that it is fused with wait for.
pub(crate) fn run_unfused(graph: &mut Graph, topology: &Topology) -> Placement {
    run(graph, topology, |pass| pass.name != "fuse")
}

fn run(graph: &mut Graph, topology: &Topology, wanted: impl Fn(&Pass) -> bool) -> Placement {
    let mut placement = Placement::default();
    for pass in PASSES.iter().filter(|pass| wanted(pass)) {
        (pass.run)(graph, topology, &mut placement);
    }
    placement
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algorithm::{Call, Variant};
    use crate::choose::Candidate;
    use crate::plan::Span;
    use hcomm_ops::{DType, ReduceOp};
    use std::collections::BTreeMap;

    /// The chunks of every message, channel end by channel end, in order.
    fn traffic(graph: &Graph) -> BTreeMap<(Direction, End), Vec<Vec<Option<Span>>>> {
        let mut traffic: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for op in graph.ops.node_weights() {
            let chunks = op.extent.chunks().map(|chunk| Span::new(op.extent.buffer, chunk, 1));
            let size: Vec<_> = chunks.map(|chunk| size(graph, chunk)).collect();
            let incoming = op.ends_in().map(|end| (Direction::In, end));
            for end in incoming.chain(op.ends_out().map(|end| (Direction::Out, end))) {
                traffic.entry(end).or_default().push(size.clone());
            }
        }
        traffic
    }

    /// A chunk of the same size, the same for all of one part.
    fn size(graph: &Graph, chunk: Span) -> Option<Span> {
        graph.like(chunk).map(|like| Span::input(like.first % graph.parts))
    }

    #[test]
    fn no_pass_changes_what_passes_over_a_channel() {
        for topology in [Topology::single_host(5), Topology::single_host(8), Topology::hosts(2, 3)] {
            for candidate in Candidate::all() {
                let algorithm = candidate.algorithm;
                for collective in algorithm.collectives {
                    let (world, topology) = (topology.world(), &topology);
                    let (dtype, op, variant) = (DType::F32, ReduceOp::Sum, Variant::Even);
                    let call = Call {
                        collective: *collective,
                        dtype,
                        op,
                        root: 1,
                        variant,
                        world,
                        topology,
                        deterministic: false,
                        channels: candidate.channels,
                        pair: candidate.pair,
                    };
                    if algorithm.supports(&call).is_err() {
                        continue;
                    }
                    for rank in 0..world {
                        let mut graph = algorithm.build(&call, rank);
                        let before = traffic(&graph);
                        let mut placement = Placement::default();
                        for pass in PASSES {
                            (pass.run)(&mut graph, topology, &mut placement);
                            assert_eq!(
                                traffic(&graph),
                                before,
                                "{} of {candidate} on rank {rank}",
                                pass.name
                            );
                        }
                    }
                }
            }
        }
    }
}
