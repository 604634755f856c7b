//! `verify`: proves the joined, frozen slices of all ranks, lane order included.
//!
//! In this order: each slice makes sense (`structure`); sends match receives in number, order and size (`joined`); the graph is
//! acyclic, and does not deadlock in depth + 1 tiles at the channels' real depth, neither where a send is done as soon as it
//! is copied nor where only once it is received (`order`); nothing is touched in two orders (`race`); every output chunk is
//! the right expression, the same one on all ranks of an all_reduce (`result`): in place and apart, where the plan says it is
//! right so.

mod before;
mod error;
mod expression;
#[cfg(test)]
mod fault_tests;
pub(crate) mod joined;
#[cfg(test)]
mod levels_tests;
mod order;
mod places;
mod race;
mod result;
mod structure;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod work_tests;

pub(crate) use before::Before;
pub use error::{At, Chain, VerifyError};

use std::fmt;

use hcomm_ops::{DType, Rank};

use joined::Joined;
use order::{Rules, run};

use crate::algorithm::is_narrow;
use crate::plan::{NodeId, Plan, Proved};

/// Checks one slice by itself: every index in range, every buffer there, every channel end on one lane. What passes may
/// be run or drawn without a panic; only [`verify`] shows that it does what it should.
///
/// # Errors
/// [`VerifyError::Malformed`] says what contradicts what.
pub fn check_slice(plan: &Plan) -> Result<(), VerifyError> {
    structure::slice(plan).map_err(|reason| VerifyError::Malformed { rank: plan.rank, reason })
}

/// The slices of all ranks as one graph, where each makes sense and every message is matched.
///
/// # Errors
/// The first slice that does not, or message that is not.
pub(crate) fn join(plans: &[Plan]) -> Result<Joined<'_>, VerifyError> {
    structure::check(plans)?;
    Joined::new(plans)
}

/// Every node of all ranks in an order in which they can be carried out one by one, each channel holding `depth` messages.
///
/// # Errors
/// As [`join`], and where there is no such order.
pub(crate) fn program_order(plans: &[Plan], depth: usize) -> Result<Vec<(Rank, NodeId)>, VerifyError> {
    let joined = join(plans)?;
    let order = run(&joined, Rules { tiles: 1, depth, late: false })
        .map_err(|chain| VerifyError::Deadlock { depth, chain })?;
    let node = |at| {
        let rank = joined.rank(at);
        (rank, (at - joined.base[rank]) as NodeId)
    };
    Ok(order.into_iter().map(node).collect())
}

/// What was proved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verified {
    /// Nodes of all ranks.
    pub nodes: usize,
    /// Messages per tile.
    pub messages: usize,
    /// The plan is right only where sends are copied.
    pub needs_copying: bool,
    /// In which order the contributions to every result are folded.
    pub order: FoldOrder,
}

/// How a reduction's results come about, the least orderly one of a plan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum FoldOrder {
    #[default]
    /// In some order, the same on all ranks of an all_reduce.
    Any,
    /// Rank after rank, from the left; partials are rounded to the type in between.
    RankByRank,
    /// All ranks in order in one fold, which rounds once. Also where nothing is folded.
    AtOnce,
}

impl FoldOrder {
    /// The least one by which a reduction of a type is the left fold over the ranks in the accumulate type.
    pub fn deterministic(dtype: DType) -> FoldOrder {
        if is_narrow(dtype) { FoldOrder::AtOnce } else { FoldOrder::RankByRank }
    }
}

impl fmt::Display for FoldOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            FoldOrder::Any => "in some order",
            FoldOrder::RankByRank => "rank by rank",
            FoldOrder::AtOnce => "in rank order at once",
        })
    }
}

impl Verified {
    /// Has the slices say what was proved of them.
    pub(crate) fn note_in(&self, plans: &mut [Plan]) {
        plans.iter_mut().for_each(|plan| plan.proved = Proved { order: self.order });
    }
}

/// Proves the slices of all ranks, in rank order, for channels that hold `depth` messages.
///
/// # Errors
/// The first fault found, with the nodes that show it.
pub fn verify(plans: &[Plan], depth: usize) -> Result<Verified, VerifyError> {
    let joined = join(plans)?;
    joined.check_extents()?;
    let endless = Rules { tiles: 1, depth: usize::MAX / 2, late: false };
    let order = run(&joined, endless).map_err(VerifyError::Cycle)?;
    let real = Rules { tiles: depth + 1, depth, late: false };
    run(&joined, real).map_err(|chain| VerifyError::Deadlock { depth, chain })?;
    let late = run(&joined, Rules { late: true, ..real });
    let buffered = plans[0].buffered;
    if let (Err(chain), false) = (&late, buffered) {
        return Err(VerifyError::NeedsCopying(chain.clone()));
    }
    race::check(&joined, &order, buffered)?;
    let needs_copying = buffered && (late.is_err() || race::check(&joined, &order, false).is_err());
    let mut fold_order = FoldOrder::AtOnce;
    for in_place in plans[0].overlay.modes() {
        fold_order = fold_order.min(result::check(&joined, &order, *in_place)?);
    }
    let (nodes, messages) = (joined.links.len(), joined.messages.len());
    Ok(Verified { nodes, messages, needs_copying, order: fold_order })
}
