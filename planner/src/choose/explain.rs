//! `explain`: why a call gets the algorithm it gets: every algorithm's predicted cost, and what the losers lack.

use std::fmt::Write;

use super::{Candidate, Choice, Line, Work};
use crate::algorithm::Call;
use crate::compile::{PlanError, select};
use crate::request::Request;
use crate::topology::Topology;

/// One candidate that can serve the call.
struct Row {
    candidate: Candidate,
    work: Work,
    line: Line,
}

/// A table of all algorithms for a call, the chosen one first, and the sizes at which the choice changes.
///
/// # Errors
/// As `compile`: where the call makes no sense or nothing serves it.
pub fn explain(request: &Request, topology: &Topology, choice: &Choice) -> Result<String, PlanError> {
    let world = topology.world();
    request.check(world)?;
    let call = Call::new(request, world, topology);
    let chosen = select(request, &call, choice)?;
    let bytes = request.full_bytes(world);
    let mut text = match bytes {
        Some(bytes) => format!("{call}, {bytes} bytes: {chosen}"),
        None => format!("{call}: {chosen}"),
    };
    text.push_str(if request.algorithm.is_some() { " (pinned)\n\n" } else { "\n\n" });
    let rows = rows(&call, choice, chosen, bytes.unwrap_or(0));
    table(&mut text, &rows, bytes.unwrap_or(0));
    refusals(&mut text, &call);
    thresholds(&mut text, &call, choice);
    Ok(text)
}

fn rows(call: &Call<'_>, choice: &Choice, chosen: Candidate, bytes: u64) -> Vec<Row> {
    let able = Candidate::all().filter(|candidate| candidate.supports(call).is_ok());
    let row = |candidate: Candidate| {
        let work = candidate.work(call);
        Row { candidate, work, line: choice.costs().line(&work) }
    };
    let mut rows: Vec<Row> = able.map(row).collect();
    let key = |row: &Row| (row.candidate != chosen, row.line.at(bytes));
    rows.sort_by(|a, b| key(a).partial_cmp(&key(b)).unwrap_or(std::cmp::Ordering::Equal));
    rows
}

fn table(text: &mut String, rows: &[Row], bytes: u64) {
    let _ = writeln!(
        text,
        "{:<20} {:>12} {:>6} {:>9} {:>13} {:>9}  why",
        "algorithm", "predicted", "steps", "messages", "bytes sent", "roundings"
    );
    for row in rows {
        let work = &row.work;
        let sent = ((work.sent.local + work.sent.remote) * bytes as f64).round() as u64;
        let _ = writeln!(
            text,
            "{:<20} {:>9.1} us {:>6} {:>9} {sent:>13} {:>9}  {}",
            row.candidate,
            row.line.at(bytes) / 1000.0,
            work.steps.local + work.steps.remote,
            (work.messages.local + work.messages.remote).round(),
            work.roundings,
            reason(row, &rows[0], bytes)
        );
    }
}

/// What a row costs beside the first one, largest part first.
fn reason(row: &Row, winner: &Row, bytes: u64) -> String {
    if row.candidate == winner.candidate {
        return "chosen".to_owned();
    }
    let fixed = row.line.fixed_ns - winner.line.fixed_ns;
    let moved = (row.line.byte_ns - winner.line.byte_ns) * bytes as f64;
    let total = (fixed + moved) / 1000.0;
    match (fixed > moved, total > 0.0) {
        (_, false) => format!("{:.1} us less, but not asked for", -total),
        (true, true) => format!("{total:.1} us more: steps and messages"),
        (false, true) => format!("{total:.1} us more: bytes moved and folded"),
    }
}

fn refusals(text: &mut String, call: &Call<'_>) {
    let mut last = None;
    for candidate in Candidate::all().filter(|c| c.algorithm.collectives.contains(&call.collective)) {
        let refused = candidate.supports(call).err().map(|reason| (candidate.algorithm.name, reason));
        if let Some((name, reason)) = refused.as_ref().filter(|_| refused != last) {
            let _ = writeln!(text, "{name:<20} cannot: {reason}");
        }
        last = refused.or(last);
    }
}

fn thresholds(text: &mut String, call: &Call<'_>, choice: &Choice) {
    let Some(table) = choice.thresholds(call) else { return };
    let steps: Vec<_> = table.steps().map(|(from, name)| format!("{name} from {from} bytes")).collect();
    let _ = writeln!(text, "\nby size: {}", steps.join(", "));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::choose::Costs;
    use crate::request::Collective;
    use hcomm_ops::{DType, ReduceOp};

    fn explained(request: &Request, topology: &Topology) -> String {
        explain(request, topology, &Choice::new(topology, Costs::shm())).expect("a supported call")
    }

    #[test]
    fn every_algorithm_has_a_row_with_a_reason() {
        let request = Request::new(Collective::AllReduce, DType::F32, ReduceOp::Sum, 250_000);
        let text = explained(&request, &Topology::single_host(8));
        assert!(text.starts_with("all_reduce (sum) of f32 in a world of 8, 1000000 bytes: "), "{text}");
        for name in ["one_shot", "two_shot", "ring", "recursive_doubling"] {
            assert!(
                text.lines().any(|line| line.starts_with(name) && line.contains(" us")),
                "{name}: {text}"
            );
        }
        assert!(text.contains("hierarchical         cannot: needs at least 2 hosts, not 1"), "{text}");
        assert!(text.contains("by size: one_shot from 0 bytes"), "{text}");
        assert_eq!(text.matches("chosen").count(), 1);
    }

    #[test]
    fn a_pinned_algorithm_is_first_even_where_another_is_faster() {
        let request =
            Request::new(Collective::AllReduce, DType::F32, ReduceOp::Sum, 1).with_algorithm("ring");
        let text = explained(&request, &Topology::single_host(8));
        assert!(text.contains(": ring (pinned)"), "{text}");
        assert!(text.contains("less, but not asked for"), "{text}");
    }
}
