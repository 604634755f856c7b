//! The passes between an algorithm's program and a frozen plan: a file each, and the one list of them.
//!
//! A pass sees one rank's graph. It must not change the number, order or size of what passes over any channel.

mod fuse;
mod mark;
mod place;
mod scratch;
mod thin;

use crate::graph::{End, Graph};
use crate::hash::Map;
use crate::plan::{Direction, LaneKind};
use crate::topology::Topology;

/// One entry of the list.
pub(crate) struct Pass {
    /// What it does, in one word.
    #[allow(dead_code, reason = "read by tests")]
    pub name: &'static str,
    pub run: fn(&mut Graph, &Topology, &mut Placement),
}

/// Every pass, in the order in which they run.
pub(crate) static PASSES: &[Pass] = &[
    Pass { name: "mark", run: |graph, _, _| mark::mark(graph) },
    Pass { name: "fuse", run: |graph, topology, _| fuse::fuse(graph, topology) },
    Pass { name: "scratch", run: |graph, _, _| scratch::compact(graph) },
    Pass { name: "place", run: place::place },
    Pass { name: "thin", run: |graph, _, placement| thin::thin(graph, placement) },
];

/// Where the operations were placed: what `place` leaves for `thin` and `freeze`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Placement {
    /// The lanes, in the order of their first operation.
    pub lanes: Vec<LaneKind>,
    /// The lane of every channel end.
    pub ends: Map<(Direction, End), u32>,
}

/// Runs every pass.
pub(crate) fn run_all(graph: &mut Graph, topology: &Topology) -> Placement {
    let mut placement = Placement::default();
    for pass in PASSES {
        (pass.run)(graph, topology, &mut placement);
    }
    placement
}
