//! The critical path: from the last run that ends, back over what each run waited for last.

use super::run::{Run, Step, Why};
use super::state::{Ran, RunId};
use crate::plan::NodeId;
use crate::verify::joined::Joined;

/// The chain of runs that determines the end, first to last. Skipped tiles take no time and are left out: what came after one
/// waited for what the skipped one did.
pub(super) fn critical_path(joined: &Joined<'_>, runs: &[Ran], tiles: usize) -> Vec<Step> {
    let order = |run: &RunId| (runs[*run].to, run % tiles, std::cmp::Reverse(run / tiles));
    let last = (0..runs.len())
        .filter(|run| !runs[*run].from.is_nan())
        .max_by(|a, b| order(a).partial_cmp(&order(b)).unwrap_or(std::cmp::Ordering::Equal));
    let mut steps = Vec::new();
    let mut next = last;
    while let Some(run) = next {
        let (why, before) = before(runs, run);
        steps.push(Step { run: shown(joined, runs, tiles, run), why });
        next = before;
    }
    steps.reverse();
    steps
}

/// Why a run did not begin sooner, and the run that it waited for.
fn before(runs: &[Ran], run: RunId) -> (Why, Option<RunId>) {
    let mut cause = runs[run].cause;
    while let Some(skipped) = cause.run.filter(|run| runs[*run].from.is_nan()) {
        cause = runs[skipped].cause;
    }
    match cause.run {
        Some(before) => (cause.why, Some(before)),
        None => (Why::Start, None),
    }
}

fn shown(joined: &Joined<'_>, runs: &[Ran], tiles: usize, run: RunId) -> Run {
    let (at, tile) = (run / tiles, run % tiles);
    let rank = joined.rank(at);
    let node = (at - joined.base[rank]) as NodeId;
    Run { rank, node, tile: tile as u32, from_ns: runs[run].from, to_ns: runs[run].to }
}
