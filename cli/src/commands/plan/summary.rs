//! The lines that `hcomm plan` prints above the nodes: the call, the algorithm, and what the plan consists of.

use std::fmt::Write;

use hcomm::planner::algorithm::Call;
use hcomm::planner::shape::{Shape, trip_count};
use hcomm::planner::{LaneKind, Sink};
use hcomm::settings::Bytes;
use hcomm::{Plan, Request};

use super::ask::Asked;

/// The lines, for the slices that are shown.
pub fn summary(asked: &Asked, shown: &[Plan]) -> String {
    let mut text = format!("call       {}\n", call(asked));
    let Some(plan) = shown.first() else { return text };
    // Writing into a String cannot fail.
    let _ = writeln!(text, "algorithm  {}", algorithm(asked, plan));
    let _ = writeln!(text, "steps      {}", steps(asked));
    let _ = writeln!(text, "messages   {}", messages(shown));
    let _ = writeln!(text, "chunks     {}", chunks(asked, plan));
    let _ = writeln!(text, "lanes      {}", lanes(shown));
    text
}

fn call(asked: &Asked) -> String {
    let Request { collective, dtype, op, root, .. } = asked.request();
    let op = if collective.reduces() { format!(" ({op})") } else { String::new() };
    let root = if collective.is_rooted() { format!(" with root {root}") } else { String::new() };
    let hosts = asked.topology.host_names().len();
    let (world, bytes) = (asked.world(), asked.bytes);
    format!(
        "{collective}{op}{root} of {dtype}, {bytes} bytes, {world} rank{} on {hosts} host{}",
        plural(world),
        plural(hosts)
    )
}

fn algorithm(asked: &Asked, plan: &Plan) -> String {
    let doc = asked.candidate().map_or("", |candidate| candidate.algorithm.doc);
    format!("{}, {}: {doc}", plan.algorithm, asked.how())
}

fn steps(asked: &Asked) -> String {
    let call = Call::new(asked.request(), asked.world(), &asked.topology);
    let steps = asked.candidate().ok().filter(|_| asked.world() > 1).map(|by| by.work(&call).steps);
    let steps = steps.unwrap_or_default();
    format!("{}, each a message that waits for the one before", steps.local + steps.remote)
}

/// Per tile, over the slices shown.
fn messages(shown: &[Plan]) -> String {
    let sent = |plan: &Plan| plan.sinks.iter().filter(|sink| matches!(sink, Sink::Message { .. })).count();
    let counts: Vec<usize> = shown.iter().map(sent).collect();
    let (all, most) = (counts.iter().sum::<usize>(), counts.iter().max().copied().unwrap_or(0));
    match shown {
        [one] => format!("{all} sent by rank {}, per tile", one.rank),
        _ => format!("{all} per tile, at most {most} from one rank"),
    }
}

fn chunks(asked: &Asked, plan: &Plan) -> String {
    let request = asked.request();
    let blocks = request.blocks(plan.rank, asked.world());
    let largest =
        [blocks.input, blocks.output].into_iter().flatten().max_by_key(Vec::len).unwrap_or_default();
    let shape = Shape::new(largest, plan.parts);
    let elements =
        (0..shape.chunks()).map(|chunk| shape.chunk(chunk)).map(|range| range.end - range.start).max();
    let (elements, size) = (elements.unwrap_or(0), request.dtype.size_bytes() as u64);
    let tile = asked.sizing.tile_bytes;
    let tiles = trip_count(elements, (tile / size).max(1));
    format!(
        "{} of up to {} bytes, in {tiles} tile{} of up to {}",
        shape.chunks(),
        elements * size,
        plural(tiles as usize),
        Bytes(tile)
    )
}

/// How many of each kind.
fn lanes(shown: &[Plan]) -> String {
    let kinds = || shown.iter().flat_map(|plan| &plan.lanes).map(|lane| word(lane.kind));
    let mut words: Vec<&str> = kinds().collect();
    words.sort_unstable();
    words.dedup();
    let count = |word: &&str| format!("{} {word}", kinds().filter(|kind| kind == word).count());
    words.iter().map(count).collect::<Vec<_>>().join(", ")
}

fn word(kind: LaneKind) -> &'static str {
    match kind {
        LaneKind::Worker { .. } => "worker",
        LaneKind::Shm { .. } => "shm",
        LaneKind::Socket { .. } => "socket",
        LaneKind::Stream { .. } => "stream",
        LaneKind::QueuePair { .. } => "queue pair",
    }
}

fn plural(count: usize) -> &'static str {
    if count == 1 { "" } else { "s" }
}
