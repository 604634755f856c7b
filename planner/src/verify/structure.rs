//! Checks of each slice by itself: every index in range, every buffer there, every channel end on one lane. The later
//! checks rely on it, so that no plan from a file can make them panic.

use std::ops::Range;

use super::error::VerifyError;
use crate::buffers::BlockCounts;
use crate::export::words;
use crate::plan::{Direction, EXPECTED_NAME, MAX_CHANNELS, Node, Plan, Sink, Source, Span, check_name};
use crate::shape::BufferKind;

/// The slices belong together, and each makes sense.
pub(super) fn check(plans: &[Plan]) -> Result<(), VerifyError> {
    let Some(first) = plans.first() else { return Err(VerifyError::Slices("there are none".to_owned())) };
    if plans.len() != first.world {
        let reason = format!("{} slices of a world of {}", plans.len(), first.world);
        return Err(VerifyError::Slices(reason));
    }
    for (rank, plan) in plans.iter().enumerate() {
        if plan.rank != rank {
            return Err(VerifyError::Slices(format!("slice {rank} is that of rank {}", plan.rank)));
        }
        let common =
            |p: &Plan| (p.collective, p.world, p.root, p.id, p.parts, p.span_chunks, p.buffered, p.even);
        let fit = |p: &Plan| (p.overlay, p.bytes, p.channels_per_pair);
        if common(plan) != common(first) || fit(plan) != fit(first) || plan.algorithm != first.algorithm {
            return Err(VerifyError::Slices(format!("rank {rank}'s parameters differ from rank 0's")));
        }
        slice(plan).map_err(|reason| VerifyError::Malformed { rank, reason })?;
    }
    Ok(())
}

/// A slice makes sense by itself.
pub(crate) fn slice(plan: &Plan) -> Result<(), String> {
    check_name(&plan.algorithm).map_err(|name| format!("its name is {name}; expected {EXPECTED_NAME}"))?;
    if plan.rank >= plan.world {
        return Err(format!("rank {} in a world of {}", plan.rank, plan.world));
    }
    let chunks = (plan.world as u64).checked_mul(u64::from(plan.parts));
    if plan.parts == 0 || chunks.is_none_or(|chunks| chunks > u64::from(u32::MAX)) {
        return Err(format!("{} parts per block in a world of {}", plan.parts, plan.world));
    }
    if plan.root != 0 && !plan.collective.is_rooted() {
        return Err(format!("root {} of {}, which has none; expected 0", plan.root, plan.collective));
    }
    if plan.root >= plan.world {
        return Err(format!("root {} in a world of {}", plan.root, plan.world));
    }
    if let Some(max) = plan.bytes.max.filter(|max| *max < plan.bytes.min) {
        return Err(format!("it is for at least {} and at most {max} bytes", plan.bytes.min));
    }
    let chunks = Chunks::of(plan);
    for (i, like) in plan.scratch.iter().enumerate() {
        if like.buffer == BufferKind::Scratch || like.count != 1 || !chunks.hold(*like) {
            return Err(format!("scratch chunk {i} is said to be like {}", words::span(*like)));
        }
    }
    channels(plan)?;
    lanes(plan)?;
    lists(plan)?;
    for (id, node) in plan.nodes.iter().enumerate() {
        node_fits(plan, &chunks, node).map_err(|reason| format!("node {id}: {reason}"))?;
    }
    one_lane_per_end(plan)
}

/// Chunks of each buffer.
struct Chunks([u32; 3]);

impl Chunks {
    fn of(plan: &Plan) -> Chunks {
        let blocks = BlockCounts::of(plan.collective, plan.world, plan.rank, plan.root);
        let chunks = |blocks: Option<u32>| blocks.unwrap_or(0) * plan.parts;
        Chunks([chunks(blocks.input), chunks(blocks.output), plan.scratch.len() as u32])
    }

    fn hold(&self, span: Span) -> bool {
        let chunks = self.0[span.buffer as usize];
        span.count > 0 && span.first.checked_add(span.count).is_some_and(|end| end <= chunks)
    }
}

fn channels(plan: &Plan) -> Result<(), String> {
    if usize::from(plan.channels_per_pair) > MAX_CHANNELS {
        return Err(format!("{} channels per pair; the limit is {MAX_CHANNELS}", plan.channels_per_pair));
    }
    for (i, channel) in plan.channels.iter().enumerate() {
        if channel.peer >= plan.world || channel.peer == plan.rank {
            return Err(format!("channel {i} leads to rank {}", channel.peer));
        }
        if channel.index >= plan.channels_per_pair {
            let limit = plan.channels_per_pair;
            return Err(format!("channel {i} has index {}, of {limit} channels per pair", channel.index));
        }
    }
    let mut ends = plan.channels.clone();
    ends.sort_unstable();
    match ends.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(twice) => Err(format!("channel {} is listed twice", words::channel(&twice[0]))),
        None => Ok(()),
    }
}

fn lanes(plan: &Plan) -> Result<(), String> {
    let mut next = 0;
    for (number, lane) in plan.lanes.iter().enumerate() {
        if lane.nodes.start != next || lane.nodes.end < next || lane.nodes.end as usize > plan.nodes.len() {
            return Err(format!("lane {number} holds nodes {:?}", lane.nodes));
        }
        if plan.nodes[lane.nodes.start as usize..lane.nodes.end as usize]
            .iter()
            .any(|n| n.lane != number as u32)
        {
            return Err(format!("a node of lane {number} says it is of another"));
        }
        next = lane.nodes.end;
    }
    if next as usize == plan.nodes.len() { Ok(()) } else { Err("a node is on no lane".to_owned()) }
}

/// No more sources, sinks and dependencies than the lists hold: nodes do not share entries, so that there is no more of a plan than of its text.
fn lists(plan: &Plan) -> Result<(), String> {
    let taken =
        |range: fn(&Node) -> &Range<u32>| plan.nodes.iter().map(|node| range(node).len()).sum::<usize>();
    for (what, taken, listed) in [
        ("sources", taken(|node| &node.sources), plan.sources.len()),
        ("sinks", taken(|node| &node.sinks), plan.sinks.len()),
        ("dependencies", taken(|node| &node.deps), plan.deps.len()),
    ] {
        if taken > listed {
            return Err(format!("its nodes have {taken} {what} of a list of {listed}"));
        }
    }
    Ok(())
}

fn node_fits(plan: &Plan, chunks: &Chunks, node: &Node) -> Result<(), String> {
    let within = |range: &Range<u32>, len: usize| range.start <= range.end && range.end as usize <= len;
    let lists = within(&node.sources, plan.sources.len())
        && within(&node.sinks, plan.sinks.len())
        && within(&node.deps, plan.deps.len());
    if !lists || node.sources.is_empty() || node.sinks.is_empty() {
        return Err("its lists are empty or out of range".to_owned());
    }
    if let Some(dep) = plan.deps_of(node).iter().find(|dep| **dep as usize >= plan.nodes.len()) {
        return Err(format!("it depends on node {dep}, which is not there"));
    }
    for source in plan.sources_of(node) {
        match source {
            Source::Span { span, .. } => span_fits(plan, chunks, *span)?,
            Source::Message { channel, .. } => end_fits(plan, *channel, Direction::In)?,
        }
    }
    for sink in plan.sinks_of(node) {
        match sink {
            Sink::Span(span) if span.buffer == BufferKind::Input => {
                return Err("it writes the input".to_owned());
            }
            Sink::Span(span) => span_fits(plan, chunks, *span)?,
            Sink::Message { channel } => end_fits(plan, *channel, Direction::Out)?,
        }
    }
    if !plan.collective.reduces() && (node.finish || plan.sources_of(node).iter().any(is_marked)) {
        return Err(format!("it is marked as a fold, and {} reduces nothing", plan.collective));
    }
    span_fits(plan, chunks, node.extent)
}

fn is_marked(source: &Source) -> bool {
    let (Source::Span { first, .. } | Source::Message { first, .. }) = source;
    *first
}

fn span_fits(plan: &Plan, chunks: &Chunks, span: Span) -> Result<(), String> {
    if !chunks.hold(span) {
        return Err(format!("{} is not within the buffer", words::span(span)));
    }
    if span.count > plan.span_chunks {
        return Err(format!(
            "{} has more chunks than a message may have ({})",
            words::span(span),
            plan.span_chunks
        ));
    }
    Ok(())
}

fn end_fits(plan: &Plan, channel: u32, direction: Direction) -> Result<(), String> {
    match plan.channels.get(channel as usize) {
        Some(end) if end.direction == direction => Ok(()),
        _ => Err(format!("channel {channel} is not there, or points the other way")),
    }
}

fn one_lane_per_end(plan: &Plan) -> Result<(), String> {
    let mut lanes = vec![None; plan.channels.len()];
    for (id, node) in plan.nodes.iter().enumerate() {
        let incoming = plan.sources_of(node).iter().filter_map(|source| match source {
            Source::Message { channel, .. } => Some(*channel),
            Source::Span { .. } => None,
        });
        let outgoing = plan.sinks_of(node).iter().filter_map(|sink| match sink {
            Sink::Message { channel } => Some(*channel),
            Sink::Span(_) => None,
        });
        for channel in incoming.chain(outgoing) {
            if *lanes[channel as usize].get_or_insert(node.lane) != node.lane {
                return Err(format!("node {id}: channel {channel} is used on two lanes"));
            }
        }
    }
    Ok(())
}
