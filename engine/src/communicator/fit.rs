//! Whether a submitted plan is right for a call: how its buffers lie, and their size. A built plan serves all; one from a file says what it is for.

use hcomm_planner::{Plan, Request};

use crate::bindings::Spans;
use crate::error::Refused;

/// Checks both. A call without bytes lies in no way, and a rank with only one of the buffers may hold it as it likes.
pub(super) fn check(plan: &Plan, request: &Request, spans: &Spans) -> Result<(), Refused> {
    let algorithm = || plan.algorithm.clone();
    let bytes = request.full_bytes(plan.world).unwrap_or(0);
    if !plan.bytes.contains(bytes) {
        return Err(Refused::PlanBytes { algorithm: algorithm(), range: plan.bytes, bytes });
    }
    match lies_in_place(spans) {
        Some(in_place) if !plan.overlay.allows(in_place) => {
            let given = if in_place { "in place" } else { "out of place" };
            Err(Refused::Overlay { algorithm: algorithm(), right: plan.overlay, given })
        }
        _ => Ok(()),
    }
}

/// Whether input and output share bytes; `None` where there are not both, or they are empty.
fn lies_in_place(spans: &Spans) -> Option<bool> {
    if !spans.more.is_empty() {
        return Some(true);
    }
    let (input, output) = (spans.input?, spans.output?);
    (!input.is_empty() && !output.is_empty()).then(|| input.overlaps(output))
}
