//! What the box of a node says, in three short lines, and about how wide that is.

use crate::plan::{Plan, Sink, Source};

use super::words;

/// The lines of a box: number and kind; what it takes and where that goes; its bytes, where they are known.
pub(super) fn lines(plan: &Plan, id: usize, size: Option<&str>) -> [String; 3] {
    let node = &plan.nodes[id];
    let finish = if node.finish { " !" } else { "" };
    let heading = format!("{id} {}{finish}", words::kind(plan.kind_of(node)));
    [heading, flow(plan, id), size.unwrap_or_default().to_owned()]
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

/// About how many pixels wide a line is at 11 pixels, in the usual fonts.
pub(super) fn width(line: &str) -> usize {
    let tenths = |c: char| match c {
        'i' | 'j' | 'l' | 'f' | 't' | 'I' | '.' | ',' | ':' | '!' | '|' | '[' | ']' | '(' | ')' | ' ' => 34,
        'm' | 'w' | 'M' | 'W' | '→' => 98,
        'A'..='Z' | '+' | '·' => 76,
        _ => 61,
    };
    line.chars().map(tenths).sum::<usize>().div_ceil(10)
}

/// A line cut to so many pixels.
pub(super) fn cut(line: &str, most: usize) -> String {
    if width(line) <= most {
        return line.to_owned();
    }
    let mut kept = String::new();
    for c in line.chars() {
        kept.push(c);
        if width(&kept) + 9 > most {
            kept.pop();
            break;
        }
    }
    format!("{}…", kept.trim_end())
}
