//! [`TimelineError`]: why a plan has no predicted timeline.

use crate::verify::VerifyError;

/// See the module. The text names the value at fault.
#[derive(Clone, Debug, thiserror::Error)]
pub enum TimelineError {
    /// The slices are faulty, or do not belong together.
    #[error(transparent)]
    Plan(#[from] VerifyError),
    /// A topology of other ranks.
    #[error("a topology of {given} ranks for a plan of {world}; expected {world}")]
    World {
        /// Ranks of the topology.
        given: usize,
        /// Ranks of the plan.
        world: usize,
    },
    /// The request does not say how long the plan's chunks are.
    #[error(
        "the call does not tell the bytes of node {node} of rank {rank}; expected counts that all ranks know, and the plan's own collective"
    )]
    Sizes {
        /// The rank.
        rank: usize,
        /// Its node.
        node: usize,
    },
    /// A cost that is no time.
    #[error("a cost of {0} ns; expected a finite number that is not below 0")]
    Cost(f64),
    /// More nodes than are followed.
    #[error("a timeline of {nodes} nodes; expected at most {most}")]
    TooMany {
        /// Nodes of the plan.
        nodes: usize,
        /// How many there may be.
        most: usize,
    },
    /// Nodes wait for one another.
    #[error(
        "after {ended} of {all} runs every lane waits for another with channels {depth} deep; verify names the nodes"
    )]
    Stuck {
        /// Runs that ended.
        ended: usize,
        /// Runs that there are.
        all: usize,
        /// Messages that a channel holds.
        depth: usize,
    },
}
