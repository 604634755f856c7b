//! The lines that `hcomm import` prints: what the plan is, what it is for, and what has been proved.

use std::fmt::Write;

use hcomm::Plan;
use hcomm::planner::Sink;

/// The lines.
pub fn summary(format: &str, plans: &[Plan]) -> String {
    let Some(plan) = plans.first() else { return String::new() };
    let mut text = String::new();
    // Writing into a String cannot fail.
    let _ = writeln!(text, "plan       {}, from {format}, id {:016x}", plan.algorithm, plan.id);
    let _ = writeln!(text, "collective {}{}", plan.collective, root(plan));
    let _ = writeln!(text, "ranks      {}", plan.world);
    let _ = writeln!(text, "chunks     {} per block, up to {} to a message", plan.parts, plan.span_chunks);
    let _ = writeln!(text, "channels   {} per pair and direction", plan.channels_per_pair);
    let _ = writeln!(
        text,
        "nodes      {} on {} lanes{}",
        count(plans, |p| p.nodes.len()),
        lanes(plans),
        scratch(plans)
    );
    let _ = writeln!(text, "messages   {} per tile", count(plans, messages));
    let _ = writeln!(text, "called     {}", plan.overlay);
    let _ = writeln!(text, "bytes      {}", plan.bytes);
    let buffered =
        if plan.buffered { "yes: right only where messages are copied as they are sent" } else { "no" };
    let _ = writeln!(text, "buffered   {buffered}");
    let _ = writeln!(
        text,
        "verified: acyclic, no deadlock with channels 2 deep, no races, every output chunk right {}",
        plan.overlay
    );
    text
}

fn root(plan: &Plan) -> String {
    if plan.collective.is_rooted() { format!(" with root {}", plan.root) } else { String::new() }
}

fn count(plans: &[Plan], of: impl Fn(&Plan) -> usize) -> String {
    let counts = || plans.iter().map(&of);
    let (all, most) = (counts().sum::<usize>(), counts().max().unwrap_or(0));
    format!("{all}, at most {most} of one rank,")
}

fn messages(plan: &Plan) -> usize {
    plan.sinks.iter().filter(|sink| matches!(sink, Sink::Message { .. })).count()
}

fn lanes(plans: &[Plan]) -> usize {
    plans.iter().map(|plan| plan.lanes.len()).sum()
}

fn scratch(plans: &[Plan]) -> String {
    match plans.iter().map(|plan| plan.scratch.len()).max() {
        None | Some(0) => String::new(),
        Some(most) => format!(", up to {most} chunks of scratch"),
    }
}
