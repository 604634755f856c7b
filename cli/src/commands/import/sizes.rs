//! The sizes at which an imported plan is run: those asked for, or some of its own range.

use hcomm::settings::Bytes;
use hcomm::{Collective, DType, Op, Plan, Request};

use crate::mistake::CommandError;

/// One size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// Bytes of the full buffer.
    pub bytes: u64,
    /// Elements per block.
    pub count: u64,
    /// What was asked for, where that is not whole elements.
    pub asked: Option<u64>,
}

/// The size that drawings show unasked; others unasked stay below this, unless the plan is for larger ones only.
const USUAL_BYTES: u64 = 1 << 20;

/// The call of a plan on `count` 64-bit integers per block; a barrier has none.
pub fn request(plan: &Plan, count: u64) -> Request {
    let count = if plan.collective == Collective::Barrier { 0 } else { count };
    Request::new(plan.collective, DType::I64, Op::Sum, count).with_root(plan.root)
}

/// The sizes asked for, each one that the plan is for.
pub fn of(plans: &[Plan], asked: &[Bytes]) -> Result<Vec<Size>, CommandError> {
    asked.iter().map(|bytes| size(&plans[0], bytes.0)).collect()
}

/// The size to draw a plan at: the first asked for, or one at which every chunk has bytes, as far as the plan is for such.
pub fn drawn(plans: &[Plan], asked: &[Size]) -> Size {
    let plan = &plans[0];
    if let Some(first) = asked.first() {
        return *first;
    }
    let (least, most) = counts(plan);
    let usual = USUAL_BYTES.checked_div(per_element(plan)).unwrap_or(0).max(u64::from(plan.parts));
    Size::new(plan, usual.max(least).min(most))
}

fn size(plan: &Plan, asked: u64) -> Result<Size, CommandError> {
    let size = Size::new(plan, asked.checked_div(per_element(plan)).unwrap_or(0));
    if plan.bytes.contains(size.bytes) {
        return Ok(Size { asked: Some(asked).filter(|asked| *asked != size.bytes), ..size });
    }
    let (range, bytes) = (plan.bytes, size.bytes);
    Err(CommandError::Usage(format!(
        "--bytes: {bytes} bytes in whole elements; expected {range}, as the plan is for"
    )))
}

/// Those to run at where none is asked for: the smallest, one that the chunks do not divide, and a larger one.
pub fn usual(plans: &[Plan]) -> Vec<Size> {
    let plan = &plans[0];
    let (element, parts) = (per_element(plan), u64::from(plan.parts));
    if element == 0 {
        return vec![Size::new(plan, 0)];
    }
    let (least, most) = counts(plan);
    let large = (USUAL_BYTES / element).max(least.saturating_add(1000 * parts));
    let counts = [least.max(1), least.saturating_add(3 * parts + 1), large];
    let mut counts: Vec<u64> = counts.into_iter().map(|count| count.min(most)).collect();
    counts.dedup();
    let sizes = counts.into_iter().map(|count| Size::new(plan, count));
    sizes.filter(|size| plan.bytes.contains(size.bytes)).collect()
}

/// The least and the most elements per block that a plan is for.
fn counts(plan: &Plan) -> (u64, u64) {
    let element = per_element(plan).max(1);
    (plan.bytes.min.div_ceil(element), plan.bytes.max.unwrap_or(u64::MAX) / element)
}

/// Bytes of the full buffer per element of a block.
fn per_element(plan: &Plan) -> u64 {
    request(plan, 1).full_bytes(plan.world).unwrap_or(0)
}

impl Size {
    fn new(plan: &Plan, count: u64) -> Size {
        Size { bytes: count.saturating_mul(per_element(plan)), count, asked: None }
    }
}
