//! Plans as SVG, drawn directly: a row per lane, grouped by rank; a column per step on the longest way; a legend.

use std::fmt::Write;

use super::joined::{Edge, Picture, Tie, colour, title};
use super::words;
use crate::plan::{Plan, Sink, Source};
use crate::sizing::Sizing;

const LEFT: usize = 190;
const TOP: usize = 56;
const BOX: (usize, usize) = (150, 44);
const CELL: (usize, usize) = (190, 62);
const GAP: usize = 22;
const LEGEND: usize = 84;

/// Draws the slices; with their bytes, where a sizing is given.
pub fn svg(plans: &[Plan], sizing: Option<&Sizing>) -> String {
    let picture = Picture::new(plans);
    let layout = Layout::of(&picture);
    let mut text = String::new();
    head(&mut text, &layout, &title(plans));
    for (index, plan) in plans.iter().enumerate() {
        rows(&mut text, &layout, plan, index);
    }
    for edge in picture.edges.iter().filter(|edge| edge.tie == Tie::Lane) {
        arrow(&mut text, &layout, edge);
    }
    for edge in picture.edges.iter().filter(|edge| edge.tie != Tie::Lane) {
        arrow(&mut text, &layout, edge);
    }
    for at in 0..picture.len() {
        let (plan, id) = picture.node(at);
        node(&mut text, layout.corners[at], plan, id, sizing);
    }
    legend(&mut text, &layout);
    text.push_str("</svg>\n");
    text
}

impl Plan {
    /// The slice as SVG.
    pub fn to_svg(&self) -> String {
        svg(std::slice::from_ref(self), None)
    }
}

/// Where things are.
struct Layout {
    width: usize,
    height: usize,
    /// Per slice, the top of its first row.
    tops: Vec<usize>,
    /// Per node, the upper left corner of its box.
    corners: Vec<(usize, usize)>,
}

impl Layout {
    fn of(picture: &Picture<'_>) -> Layout {
        let mut top = TOP;
        let mut tops = Vec::new();
        for plan in picture.plans {
            tops.push(top);
            top += plan.lanes.len() * CELL.1 + GAP;
        }
        let corner = |at: usize| {
            let (plan, id) = picture.node(at);
            let slice = picture.base.partition_point(|base| *base <= at) - 1;
            let row = plan.nodes[id].lane as usize;
            (LEFT + picture.columns[at] * CELL.0, tops[slice] + row * CELL.1 + (CELL.1 - BOX.1) / 2)
        };
        let columns = picture.columns.iter().max().map_or(1, |last| last + 1);
        let corners = (0..picture.len()).map(corner).collect();
        Layout { width: (LEFT + columns * CELL.0).max(760), height: top + LEGEND, tops, corners }
    }
}

fn head(text: &mut String, layout: &Layout, title: &str) {
    let Layout { width, height, .. } = layout;
    let _ = writeln!(
        text,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
         viewBox=\"0 0 {width} {height}\" font-family=\"Helvetica, Arial, sans-serif\" font-size=\"11\">\n\
         <defs>\n{}{}{}</defs>\n\
         <rect width=\"{width}\" height=\"{height}\" fill=\"white\"/>\n\
         <text x=\"16\" y=\"28\" font-size=\"15\" font-weight=\"bold\">{}</text>",
        marker("grey", "#999999"),
        marker("black", "#222222"),
        marker("blue", "#1f5fbf"),
        escaped(title)
    );
}

fn marker(id: &str, colour: &str) -> String {
    format!(
        "<marker id=\"{id}\" viewBox=\"0 0 8 8\" refX=\"8\" refY=\"4\" markerWidth=\"7\" markerHeight=\"7\" orient=\"auto\">\
         <path d=\"M0 0 L8 4 L0 8 z\" fill=\"{colour}\"/></marker>\n"
    )
}

/// The bands of one rank's lanes, with their names.
fn rows(text: &mut String, layout: &Layout, plan: &Plan, index: usize) {
    let top = layout.tops[index];
    let width = layout.width - 16;
    let height = plan.lanes.len() * CELL.1;
    let _ = writeln!(
        text,
        "<rect x=\"8\" y=\"{top}\" width=\"{width}\" height=\"{height}\" fill=\"#f7f7f7\" stroke=\"#888888\" rx=\"6\"/>\n\
         <text x=\"16\" y=\"{}\" font-weight=\"bold\">rank {}</text>",
        top + 15,
        plan.rank
    );
    for (number, lane) in plan.lanes.iter().enumerate() {
        let y = top + number * CELL.1;
        if number > 0 {
            let _ = writeln!(text, "<path d=\"M8 {y} h{width}\" stroke=\"#dddddd\"/>");
        }
        let name = words::lane(lane.kind);
        let _ = writeln!(
            text,
            "<rect x=\"16\" y=\"{}\" width=\"10\" height=\"10\" fill=\"{}\" stroke=\"#666666\"/>\
             <text x=\"32\" y=\"{}\">{}</text>",
            y + 26,
            colour(number),
            y + 35,
            escaped(&name)
        );
    }
}

fn node(text: &mut String, (x, y): (usize, usize), plan: &Plan, id: usize, sizing: Option<&Sizing>) {
    let node = &plan.nodes[id];
    let finish = if node.finish { " !" } else { "" };
    let heading = format!("{id}: {}{finish}", words::kind(plan.kind_of(node)));
    let size =
        sizing.and_then(|sizing| Some(sizing.of(plan)?.load(node.extent)?.words())).unwrap_or_default();
    let lines = [heading, chunks(plan, id), size];
    let _ = writeln!(
        text,
        "<g><title>{}</title><rect x=\"{x}\" y=\"{y}\" width=\"{}\" height=\"{}\" rx=\"5\" fill=\"{}\" stroke=\"#444444\"/>",
        escaped(&format!("rank {} node {id}: {}", plan.rank, words::node(plan, node))),
        BOX.0,
        BOX.1,
        colour(node.lane as usize),
    );
    for (i, words) in lines.iter().filter(|words| !words.is_empty()).enumerate() {
        let _ = writeln!(text, "<text x=\"{}\" y=\"{}\">{}</text>", x + 6, y + 13 + i * 13, escaped(words));
    }
    text.push_str("</g>\n");
}

/// The local spans of a node, and how many messages it takes and sends.
fn chunks(plan: &Plan, id: usize) -> String {
    let node = &plan.nodes[id];
    let mut sources = Vec::new();
    let mut sinks = Vec::new();
    let (mut received, mut sent) = (0, 0);
    for source in plan.sources_of(node) {
        match source {
            Source::Span { .. } => sources.push(words::source(plan, source)),
            Source::Message { .. } => received += 1,
        }
    }
    for sink in plan.sinks_of(node) {
        match sink {
            Sink::Span(_) => sinks.push(words::sink(plan, sink)),
            Sink::Message { .. } => sent += 1,
        }
    }
    let messages = |count: usize| (count > 0).then(|| format!("{count} msg"));
    sources.extend(messages(received));
    sinks.extend(messages(sent));
    format!("{} → {}", sources.join(" + "), sinks.join(", "))
}

fn arrow(text: &mut String, layout: &Layout, edge: &Edge) {
    let (from, to) = (layout.corners[edge.from], layout.corners[edge.to]);
    let (x1, y1) = (from.0 + BOX.0, from.1 + BOX.1 / 2);
    let (x2, y2) = (to.0, to.1 + BOX.1 / 2);
    let (bend1, bend2) = (x1 + 26, x2.saturating_sub(26));
    let (colour, marker, more) = match edge.tie {
        Tie::Lane => ("#999999", "grey", ""),
        Tie::Dep => ("#222222", "black", ""),
        Tie::Message(_) => ("#1f5fbf", "blue", " stroke-dasharray=\"5 3\""),
    };
    let _ = writeln!(
        text,
        "<path d=\"M{x1} {y1} C{bend1} {y1} {bend2} {y2} {x2} {y2}\" fill=\"none\" stroke=\"{colour}\" \
         stroke-width=\"1.2\" marker-end=\"url(#{marker})\"{more}/>"
    );
}

fn legend(text: &mut String, layout: &Layout) {
    let y = layout.height - LEGEND + 14;
    let mut x = 16;
    for (name, colour, dash) in [
        ("lane order", "#999999", ""),
        ("dependency", "#222222", ""),
        ("message", "#1f5fbf", " stroke-dasharray=\"5 3\""),
    ] {
        let _ = writeln!(
            text,
            "<path d=\"M{x} {y} h36\" stroke=\"{colour}\" stroke-width=\"1.2\"{dash}/>\
             <text x=\"{}\" y=\"{}\">{name}</text>",
            x + 42,
            y + 4
        );
        x += 150;
    }
    let notes = [
        "A row is a lane, its colour the lane's; a column is a step. Every lane runs its row once per tile.",
        "*: a rank's own contribution, not yet reduced.   !: the last contribution is in.   Point at a node for its channels.",
    ];
    for (i, note) in notes.iter().enumerate() {
        let _ = writeln!(text, "<text x=\"16\" y=\"{}\">{note}</text>", y + 26 + i * 16);
    }
}

/// Text of an XML document.
fn escaped(words: &str) -> String {
    words.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
