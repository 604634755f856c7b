//! What a box says, in three short lines, and how wide that is in a font whose letters are equally wide, so that no text runs past its box.

use crate::plan::{Plan, Sink, Source};

use super::words;

/// The lines of a box: number and kind; what it takes and where that goes; its bytes, where they are known.
pub(super) fn lines(plan: &Plan, id: usize, size: Option<&str>) -> [String; 3] {
    let node = &plan.nodes[id];
    let finish = if node.finish { " !" } else { "" };
    let heading = format!("{id} {}{finish}", words::kind(plan.kind_of(node)));
    [heading, flow(plan, id), size.unwrap_or_default().to_owned()]
}

/// The lines of a box of several nodes of one kind: how many; with whom; in how many lanes.
pub(super) fn lines_of_many(plan: &Plan, ids: &[usize]) -> [String; 3] {
    let peer = |channel: u32| plan.channels.get(channel as usize).map(|end| end.peer);
    let (mut from, mut to, mut lanes) = (Vec::new(), Vec::new(), Vec::new());
    for node in ids.iter().map(|id| &plan.nodes[*id]) {
        lanes.push(node.lane);
        from.extend(plan.sources_of(node).iter().filter_map(|source| match source {
            Source::Message { channel, .. } => peer(*channel),
            Source::Span { .. } => None,
        }));
        to.extend(plan.sinks_of(node).iter().filter_map(|sink| match sink {
            Sink::Message { channel } => peer(*channel),
            Sink::Span(_) => None,
        }));
    }
    [&mut from, &mut to].into_iter().for_each(sort_out);
    sort_out(&mut lanes);
    let kind = plan.nodes.get(ids[0]).map_or("", |node| words::kind(plan.kind_of(node)));
    let local = || "local".to_owned();
    let flow = format!("{} → {}", peers(&from).unwrap_or_else(local), peers(&to).unwrap_or_else(local));
    let plural = if lanes.len() == 1 { "" } else { "s" };
    [format!("{} × {kind}", ids.len()), flow, format!("{} lane{plural}", lanes.len())]
}

fn sort_out<T: Ord>(numbers: &mut Vec<T>) {
    numbers.sort_unstable();
    numbers.dedup();
}

/// `in[2]* + rank 3 → out[2], rank 1`.
fn flow(plan: &Plan, id: usize) -> String {
    let node = &plan.nodes[id];
    let peer = |channel: u32| plan.channels.get(channel as usize).map(|end| end.peer);
    let (mut sources, mut sinks, mut from, mut to) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for source in plan.sources_of(node) {
        match source {
            Source::Span { .. } => sources.push(words::source(plan, source)),
            Source::Message { channel, .. } => from.extend(peer(*channel)),
        }
    }
    for sink in plan.sinks_of(node) {
        match sink {
            Sink::Span(_) => sinks.push(words::sink(plan, sink)),
            Sink::Message { channel } => to.extend(peer(*channel)),
        }
    }
    sources.extend(peers(&from));
    sinks.extend(peers(&to));
    format!("{} → {}", listed(&sources, " + "), listed(&sinks, ", "))
}

/// `rank 1`, `ranks 1,2,4` or `9 ranks`.
fn peers(ranks: &[usize]) -> Option<String> {
    match ranks {
        [] => None,
        [one] => Some(format!("rank {one}")),
        [_, _, rest @ ..] if rest.len() <= 2 => {
            let ranks: Vec<_> = ranks.iter().map(usize::to_string).collect();
            Some(format!("ranks {}", ranks.join(",")))
        }
        many => Some(format!("{} ranks", many.len())),
    }
}

fn listed(parts: &[String], with: &str) -> String {
    match parts {
        [first, second, rest @ ..] if rest.len() > 2 => {
            format!("{first}{with}{second}{with}{} more", rest.len())
        }
        _ => parts.join(with),
    }
}

/// Tenths of a pixel that a letter is wide at 11 pixels: a little more than in any of the usual fonts of this kind.
const LETTER: usize = 68;

/// How many pixels wide a line is at 11 pixels.
pub(super) fn width(line: &str) -> usize {
    (line.chars().count() * LETTER).div_ceil(10)
}

/// A line cut to so many pixels.
pub(super) fn cut(line: &str, most: usize) -> String {
    if width(line) <= most {
        return line.to_owned();
    }
    let kept: String = line.chars().take((10 * most / LETTER).saturating_sub(1)).collect();
    format!("{}…", kept.trim_end())
}
