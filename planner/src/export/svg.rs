//! Plans as SVG, drawn directly: a band per rank, boxes coloured by lane, a column per step on the longest way; a legend.
//!
//! The elements carry classes and node numbers, by which the page styles and finds them.

use std::fmt::Write;

use super::drawing::{Critical, Drawing};
use super::geometry::{BOX, Geometry, LANE_LINE, TOP};
use super::joined::{Edge, Picture, Tie, colour};
use super::route::routes;
use super::words;
use crate::plan::Plan;
use crate::sizing::Sizing;

const LEGEND: usize = 92;

/// Draws the slices; with their bytes, where a sizing is given.
pub fn svg(plans: &[Plan], sizing: Option<&Sizing>) -> String {
    Drawing { sizing, ..Drawing::new(plans) }.svg()
}

impl Drawing<'_> {
    /// The picture as SVG, with its heading and legend.
    pub fn svg(&self) -> String {
        let picture = Picture::new(self.plans);
        let geometry = Geometry::of(&picture, self);
        let critical = Critical::of(&picture, self.timeline);
        let mut text = String::new();
        let height = geometry.bottom + LEGEND;
        open(
            &mut text,
            (0, geometry.width, height),
            &format!(" width=\"{}\" height=\"{height}\"", geometry.width),
        );
        heading(&mut text, self);
        body(&mut text, &picture, &geometry, &critical);
        legend(&mut text, &geometry, critical.has_any());
        text.push_str("</svg>\n");
        text
    }
}

/// The picture alone, for a page that has its own heading and legend.
pub(super) fn bare(picture: &Picture<'_>, geometry: &Geometry, critical: &Critical) -> String {
    let mut text = String::new();
    open(&mut text, (TOP - 8, geometry.width, geometry.bottom + 16 - TOP), "");
    body(&mut text, picture, geometry, critical);
    text.push_str("</svg>");
    text
}

fn body(text: &mut String, picture: &Picture<'_>, geometry: &Geometry, critical: &Critical) {
    for (slice, plan) in picture.plans.iter().enumerate() {
        band(text, geometry, plan, slice);
    }
    edges(text, picture, geometry, critical);
    for at in 0..picture.len() {
        node(text, picture, geometry, at, critical.has_node(at));
    }
}

impl Plan {
    /// The slice as SVG.
    pub fn to_svg(&self) -> String {
        svg(std::slice::from_ref(self), None)
    }
}

/// How an edge is drawn: class, colour, width, end.
struct Stroke {
    class: &'static str,
    colour: &'static str,
    width: f32,
}

const LANE: Stroke = Stroke { class: "lane", colour: "#a3a3a3", width: 1.0 };
const DEP: Stroke = Stroke { class: "dep", colour: "#3d3d3d", width: 1.1 };
const MESSAGE: Stroke = Stroke { class: "message", colour: "#1f5fbf", width: 1.6 };
const CRITICAL: Stroke = Stroke { class: "critical", colour: "#d62728", width: 2.8 };

/// Begins a picture that shows so much from a top edge on.
fn open(text: &mut String, (top, width, height): (usize, usize, usize), size: &str) {
    let markers: String = [LANE, DEP, MESSAGE, CRITICAL].iter().map(marker).collect();
    let _ = writeln!(
        text,
        "<svg xmlns=\"http://www.w3.org/2000/svg\"{size} viewBox=\"0 {top} {width} {height}\" \
         font-family=\"Helvetica, Arial, sans-serif\" font-size=\"11\">\n<defs>\n{markers}</defs>\n\
         <rect class=\"page\" y=\"{top}\" width=\"{width}\" height=\"{height}\" fill=\"#ffffff\"/>"
    );
}

fn heading(text: &mut String, drawing: &Drawing<'_>) {
    let _ = writeln!(
        text,
        "<text x=\"16\" y=\"26\" font-size=\"16\" font-weight=\"bold\">{}</text>\n\
         <text x=\"16\" y=\"46\" font-size=\"12\" fill=\"#555555\">{}</text>",
        escaped(&drawing.title()),
        escaped(&drawing.subtitle())
    );
}

fn marker(stroke: &Stroke) -> String {
    let Stroke { class, colour, width } = stroke;
    let size = (5.0 + width) / width;
    format!(
        "<marker id=\"end-{class}\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" markerWidth=\"{size:.1}\" markerHeight=\"{size:.1}\" \
         orient=\"auto\"><path class=\"end-{class}\" d=\"M0 0L8 4L0 8z\" fill=\"{colour}\"/></marker>\n"
    )
}

/// The band of one rank, and the list of its lanes.
fn band(text: &mut String, geometry: &Geometry, plan: &Plan, slice: usize) {
    let (band, width) = (geometry.bands[slice], geometry.width - 16);
    let _ = writeln!(
        text,
        "<rect class=\"band\" x=\"8\" y=\"{}\" width=\"{width}\" height=\"{}\" fill=\"#f5f6f8\" stroke=\"#c3c7ce\" rx=\"6\"/>\n\
         <text x=\"18\" y=\"{}\" font-size=\"12\" font-weight=\"bold\">rank {}</text>",
        band.top,
        band.height,
        band.top + 18,
        plan.rank
    );
    for (number, lane) in plan.lanes.iter().enumerate() {
        let y = band.top + 24 + number * LANE_LINE;
        let _ = writeln!(
            text,
            "<rect x=\"18\" y=\"{y}\" width=\"10\" height=\"10\" fill=\"{}\" stroke=\"#777777\" stroke-width=\"0.6\"/>\
             <text class=\"quiet\" x=\"34\" y=\"{}\" fill=\"#555555\">{}</text>",
            colour(number),
            y + 9,
            escaped(&lane.kind.to_string())
        );
    }
}

/// All edges, those that matter most on top.
fn edges(text: &mut String, picture: &Picture<'_>, geometry: &Geometry, critical: &Critical) {
    let routes = routes(picture, geometry);
    let stroke = |edge: &Edge| match edge.tie {
        _ if critical.has_edge(edge) => CRITICAL,
        Tie::Lane => LANE,
        Tie::Dep => DEP,
        Tie::Message(_) => MESSAGE,
    };
    for class in [LANE.class, DEP.class, MESSAGE.class, CRITICAL.class] {
        for (edge, route) in picture.edges.iter().zip(&routes) {
            let Stroke { class: own, colour, width } = stroke(edge);
            if own == class {
                let _ = writeln!(
                    text,
                    "<path class=\"{class}\" data-from=\"{}\" data-to=\"{}\" d=\"{route}\" fill=\"none\" stroke=\"{colour}\" \
                     stroke-width=\"{width}\" marker-end=\"url(#end-{class})\"/>",
                    edge.from, edge.to
                );
            }
        }
    }
}

fn node(text: &mut String, picture: &Picture<'_>, geometry: &Geometry, at: usize, is_critical: bool) {
    let (plan, id) = picture.node(at);
    let (node, place) = (&plan.nodes[id], geometry.places[at]);
    let (class, outline) = match is_critical {
        true => ("node critical", "stroke=\"#d62728\" stroke-width=\"2.6\""),
        false => ("node", "stroke=\"#555555\" stroke-width=\"0.8\""),
    };
    let _ = writeln!(
        text,
        "<g class=\"{class}\" data-node=\"{at}\"><title>{}</title>\
         <rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{BOX}\" rx=\"5\" fill=\"{}\" {outline}/>",
        escaped(&format!("rank {} node {id}: {}", plan.rank, words::node(plan, node))),
        place.x,
        place.y,
        place.width,
        colour(node.lane as usize),
    );
    for (i, line) in geometry.labels[at].iter().enumerate().filter(|(_, line)| !line.is_empty()) {
        let weight = if i == 0 { " font-weight=\"bold\"" } else { "" };
        let (x, y) = (place.x + 7, place.y + 14 + i * 13);
        let _ = writeln!(text, "<text x=\"{x}\" y=\"{y}\"{weight} fill=\"#111111\">{}</text>", escaped(line));
    }
    text.push_str("</g>\n");
}

fn legend(text: &mut String, geometry: &Geometry, with_critical: bool) {
    let y = geometry.bottom + 22;
    let entries = [
        ("lane order", LANE),
        ("dependency", DEP),
        ("message", MESSAGE),
        ("critical path of one tile", CRITICAL),
    ];
    for (i, (name, stroke)) in entries.iter().take(if with_critical { 4 } else { 3 }).enumerate() {
        let Stroke { class, colour, width } = stroke;
        let x = 18 + i * 140;
        let _ = writeln!(
            text,
            "<path class=\"{class}\" d=\"M{x} {y}h36\" stroke=\"{colour}\" stroke-width=\"{width}\" marker-end=\"url(#end-{class})\"/>\
             <text x=\"{}\" y=\"{}\">{name}</text>",
            x + 44,
            y + 4
        );
    }
    let notes = [
        "A band is a rank, a colour one of its lanes, a column a step. The picture is the loop body: every lane runs it once per tile.",
        "in, out, scratch: buffers, by chunk. *: a rank's own contribution, not yet reduced. !: the last contribution is in.",
    ];
    for (i, note) in notes.iter().enumerate() {
        let _ = writeln!(
            text,
            "<text class=\"quiet\" x=\"18\" y=\"{}\" fill=\"#555555\">{note}</text>",
            y + 28 + i * 17
        );
    }
}

/// Text of an XML document, less what no such text can hold.
pub(super) fn escaped(words: &str) -> String {
    let words = words
        .replace(|c: char| (c.is_control() && c != '\n') || matches!(c, '\u{fffe}' | '\u{ffff}'), "\u{fffd}");
    words.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
