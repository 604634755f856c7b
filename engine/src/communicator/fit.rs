//! Whether a submitted plan is right for a call: how its buffers lie, their size, and the order of its folds. A built plan serves all; one from a file says what it is for.

use hcomm_ops::DType;
use hcomm_planner::verify::FoldOrder;
use hcomm_planner::{Plan, Request};

use crate::bindings::Spans;
use crate::call::Call;
use crate::error::Refused;

/// Checks both. A call without bytes lies in no way, and a rank with only one of the buffers may hold it as it likes.
pub(super) fn check(plan: &Plan, request: &Request, spans: &Spans) -> Result<(), Refused> {
    let algorithm = || plan.algorithm.clone();
    let bytes = request.full_bytes(plan.world).unwrap_or(0);
    if !plan.bytes.contains(bytes) {
        return Err(Refused::PlanBytes { algorithm: algorithm(), range: plan.bytes, bytes });
    }
    match spans.lie_in_place() {
        Some(in_place) if !plan.overlay.allows(in_place) => {
            let given = if in_place { "in place" } else { "out of place" };
            Err(Refused::Overlay { algorithm: algorithm(), right: plan.overlay, given })
        }
        _ => Ok(()),
    }
}

/// Whether a plan may carry out a deterministic reduction of a type: whether it was proved to fold as that asks.
pub(super) fn check_order(plan: &Plan, dtype: DType) -> Result<(), Refused> {
    let (proved, needed) = (plan.proved.order, FoldOrder::deterministic(dtype));
    match proved >= needed {
        true => Ok(()),
        false => Err(Refused::FoldOrder { algorithm: plan.algorithm.clone(), proved, dtype, needed }),
    }
}

/// Whether the scratch is within reason. No algorithm needs more than all ranks' buffers together, and a file's plan can ask for anything.
pub(super) fn check_scratch(call: &Call) -> Result<(), Refused> {
    let own = call.input_bytes.unwrap_or(0).saturating_add(call.output_bytes.unwrap_or(0));
    let (bytes, limit) = (call.scratch_bytes, own.saturating_mul(call.plan.world as u64));
    match bytes <= limit {
        true => Ok(()),
        false => Err(Refused::Scratch { algorithm: call.plan.algorithm.clone(), bytes, limit }),
    }
}
