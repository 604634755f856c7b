//! Plans as text: a line per node, lane by lane.

use std::fmt::Write;

use super::drawing::Drawing;
use super::words;
use crate::plan::Plan;

/// The slices, one after the other.
pub fn text(plans: &[Plan]) -> String {
    Drawing::new(plans).text()
}

impl Drawing<'_> {
    /// The slices as text, one after the other; devices by the topology's names.
    pub fn text(&self) -> String {
        self.plans.iter().map(|plan| slice(self, plan)).collect::<Vec<_>>().join("\n")
    }
}

fn slice(drawing: &Drawing<'_>, plan: &Plan) -> String {
    let mut text = format!(
        "{} by {}: rank {} of {}, id {:016x}, {} part{} per block, {} scratch, {} nodes{}{}\n",
        plan.collective,
        plan.algorithm,
        plan.rank,
        plan.world,
        plan.id,
        plan.parts,
        if plan.parts == 1 { "" } else { "s" },
        plan.scratch.len(),
        plan.nodes.len(),
        if plan.buffered { ", buffered" } else { "" },
        if plan.even { ", equal blocks only" } else { "" },
    );
    for (number, lane) in plan.lanes.iter().enumerate() {
        let _ = writeln!(text, "  lane {number}: {}", drawing.lane(plan, number));
        for id in lane.nodes.clone() {
            let Some(node) = plan.nodes.get(id as usize) else { continue };
            let deps: Vec<_> = plan.deps_of(node).iter().map(u32::to_string).collect();
            let after = if deps.is_empty() { String::new() } else { format!("  after {}", deps.join(", ")) };
            let _ = writeln!(text, "    {id}: {}{after}", words::node(plan, node));
        }
    }
    text
}

impl Plan {
    /// The slice as text.
    pub fn to_text(&self) -> String {
        text(std::slice::from_ref(self))
    }
}
