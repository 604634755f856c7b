//! Plans as MSCCL's XML, for other tools and for `import`, which reads back what is written here.
//!
//! `lower` turns each node into steps that fold at most two operands, `blocks` gives every channel end a thread block, `schedule` puts the
//! steps into blocks with the waits that they need, `write` spells them. A node that rounds once becomes steps that round each time;
//! all ranks still fold in the same order.

mod blocks;
mod lower;
mod schedule;
#[cfg(test)]
mod tests;
mod write;

use crate::import::msccl::words::Written;
use crate::plan::Plan;
use crate::request::Collective;
use crate::verify::{VerifyError, program_order, verify};
use blocks::Blocks;
use lower::Lowered;

/// Messages that a channel of MSCCL's holds at least.
const DEPTH: usize = 2;

/// Why a plan cannot be written as MSCCL's XML.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExportError {
    /// A collective that MSCCL has no name for.
    #[error("MSCCL has no {0}; expected another collective")]
    Collective(Collective),
    /// MSCCL's files name no root.
    #[error("root {0}; MSCCL's files have no root, so only plans of root 0 can be written")]
    Root(usize),
    /// A world in which nothing is sent.
    #[error("a world of {0}; MSCCL's files are for at least 2 ranks")]
    World(usize),
    /// More of something than MSCCL's runtime takes.
    #[error("{what}: {given}; MSCCL takes at most {limit}")]
    Limit {
        /// Of what.
        what: String,
        /// How many the plan needs.
        given: usize,
        /// How many there may be.
        limit: usize,
    },
    /// The plan is wrong to begin with.
    #[error("the plan fails its proof: {0}")]
    Unproved(#[from] VerifyError),
}

/// Writes the slices of all ranks, in rank order.
///
/// # Errors
/// [`ExportError`] where the plan is wrong, or MSCCL cannot express it.
pub fn to_msccl(plans: &[Plan]) -> Result<String, ExportError> {
    verify(plans, DEPTH)?;
    let plan = &plans[0];
    let written = Written::of(plan.collective).ok_or(ExportError::Collective(plan.collective))?;
    if plan.root != 0 {
        return Err(ExportError::Root(plan.root));
    }
    if plan.world < 2 {
        return Err(ExportError::World(plan.world));
    }
    let mut lowered: Vec<Lowered<'_>> = plans.iter().map(Lowered::new).collect();
    for (rank, node) in program_order(plans, DEPTH)? {
        lowered[rank].add(node);
    }
    let mut gpus = Vec::with_capacity(plans.len());
    for lowered in &lowered {
        let schedule = |pairs| schedule::schedule(lowered, Blocks::new(lowered, pairs));
        gpus.push(schedule(false).or_else(|_| schedule(true))?);
    }
    Ok(write::write(plans, written, &lowered, &gpus))
}

/// Checks that MSCCL takes so many.
fn within(what: impl FnOnce() -> String, given: usize, limit: usize) -> Result<(), ExportError> {
    if given <= limit { Ok(()) } else { Err(ExportError::Limit { what: what(), given, limit }) }
}
