//! Plans as SVG, drawn directly: a band per rank, boxes coloured by lane, a column per step on the longest way; a legend.
//!
//! The elements carry classes and node numbers, by which the page styles and finds them.

use std::fmt::Write;

use super::drawing::{Critical, Drawing};
use super::geometry::{BOX, Frame, Geometry, LANE_LINE, NAMES, TOP};
use super::joined::{Edge, Picture, Tie, colour};
use super::route::routes;
use super::words;
use crate::plan::Plan;
use crate::sizing::Sizing;

const LEGEND: usize = 109;

/// Letters that are equally wide, so that it is known how wide a text is.
pub(super) const FONT: &str = "DejaVu Sans Mono, Menlo, Consolas, monospace";

/// Boxes of several nodes name so many of them.
const NAMED: usize = 12;

/// Draws the slices; with their bytes, where a sizing is given.
pub fn svg(plans: &[Plan], sizing: Option<&Sizing>) -> String {
    Drawing { sizing, ..Drawing::new(plans) }.svg()
}

impl Drawing<'_> {
    /// The picture as SVG, with its heading and legend.
    pub fn svg(&self) -> String {
        let picture = Picture::folded(self.plans);
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
        body(&mut text, self, &picture, &geometry, &critical);
        legend(&mut text, &geometry, critical.has_any());
        text.push_str("</svg>\n");
        text
    }
}

/// The picture alone, for a page that has its own heading and legend.
pub(super) fn bare(
    drawing: &Drawing<'_>,
    picture: &Picture<'_>,
    geometry: &Geometry,
    critical: &Critical,
) -> String {
    let mut text = String::new();
    open(&mut text, (TOP - 8, geometry.width, geometry.bottom + 16 - TOP), "");
    body(&mut text, drawing, picture, geometry, critical);
    text.push_str("</svg>");
    text
}

fn body(
    text: &mut String,
    drawing: &Drawing<'_>,
    picture: &Picture<'_>,
    geometry: &Geometry,
    critical: &Critical,
) {
    geometry.frames.iter().for_each(|host| frame(text, geometry, host));
    for (slice, plan) in picture.plans.iter().enumerate() {
        band(text, drawing, geometry, plan, slice);
    }
    edges(text, drawing, picture, geometry, critical);
    for at in 0..picture.boxes.len() {
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
    /// The lengths of dashes and gaps, where it is not one line.
    dashes: &'static str,
}

const LANE: Stroke = Stroke { class: "lane", colour: "#a3a3a3", width: 1.0, dashes: "" };
const DEP: Stroke = Stroke { class: "dep", colour: "#3d3d3d", width: 1.1, dashes: "" };
const MESSAGE: Stroke = Stroke { class: "message", colour: "#1f5fbf", width: 1.6, dashes: "" };
const BETWEEN_HOSTS: Stroke = Stroke { class: "between", colour: "#8a3ab9", width: 2.2, dashes: "7 3" };
const CRITICAL: Stroke = Stroke { class: "critical", colour: "#d62728", width: 2.8, dashes: "" };

/// All strokes, those that matter most last.
const STROKES: [Stroke; 5] = [LANE, DEP, MESSAGE, BETWEEN_HOSTS, CRITICAL];

/// Begins a picture that shows so much from a top edge on.
fn open(text: &mut String, (top, width, height): (usize, usize, usize), size: &str) {
    let markers: String = STROKES.iter().map(marker).collect();
    let _ = writeln!(
        text,
        "<svg xmlns=\"http://www.w3.org/2000/svg\"{size} viewBox=\"0 {top} {width} {height}\" \
         font-family=\"{FONT}\" font-size=\"11\">\n<defs>\n{markers}</defs>\n\
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
    let Stroke { class, colour, width, .. } = stroke;
    let size = (5.0 + width) / width;
    format!(
        "<marker id=\"end-{class}\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" markerWidth=\"{size:.1}\" markerHeight=\"{size:.1}\" \
         orient=\"auto\"><path class=\"end-{class}\" d=\"M0 0L8 4L0 8z\" fill=\"{colour}\"/></marker>\n"
    )
}

/// The frame of a host, and its name.
fn frame(text: &mut String, geometry: &Geometry, host: &Frame) {
    let Frame { name, top, height } = host;
    let _ = writeln!(
        text,
        "<rect class=\"host\" x=\"3\" y=\"{top}\" width=\"{}\" height=\"{height}\" fill=\"none\" stroke=\"#8a3ab9\" rx=\"8\"/>\n\
         <text class=\"host\" x=\"12\" y=\"{}\" font-weight=\"bold\" fill=\"#8a3ab9\">host {}</text>",
        geometry.width - 6,
        top + 14,
        escaped(name)
    );
}

/// The band of one rank, and the list of its lanes.
fn band(text: &mut String, drawing: &Drawing<'_>, geometry: &Geometry, plan: &Plan, slice: usize) {
    let (band, width) = (&geometry.bands[slice], geometry.width - 16);
    let _ = writeln!(
        text,
        "<rect class=\"band\" x=\"8\" y=\"{}\" width=\"{width}\" height=\"{}\" fill=\"#f5f6f8\" stroke=\"#c3c7ce\" rx=\"6\"/>\n\
         <text x=\"18\" y=\"{}\" font-size=\"12\" font-weight=\"bold\">rank {}</text>",
        band.top,
        band.height,
        band.top + 18,
        plan.rank
    );
    for (row, (lane, name)) in band.lanes.iter().enumerate() {
        let y = band.top + 24 + row * LANE_LINE;
        let fill = lane.map_or("none", colour);
        // What is folded is told to who points at it.
        let whole = match lane {
            Some(_) => String::new(),
            None => {
                let names = (0..plan.lanes.len()).map(|lane| drawing.lane(plan, lane));
                format!("<title>{}</title>", escaped(&names.collect::<Vec<_>>().join("\n")))
            }
        };
        let _ = writeln!(
            text,
            "<rect x=\"18\" y=\"{y}\" width=\"10\" height=\"10\" fill=\"{fill}\" stroke=\"#777777\" stroke-width=\"0.6\"/>\
             <text class=\"quiet\" x=\"{NAMES}\" y=\"{}\" fill=\"#555555\">{}{whole}</text>",
            y + 9,
            escaped(name)
        );
    }
}

/// All edges, those that matter most on top.
fn edges(
    text: &mut String,
    drawing: &Drawing<'_>,
    picture: &Picture<'_>,
    geometry: &Geometry,
    critical: &Critical,
) {
    let routes = routes(picture, geometry);
    let stroke = |edge: &Edge| match edge.tie {
        _ if critical.has_edge(edge) => CRITICAL,
        Tie::Lane => LANE,
        Tie::Dep => DEP,
        Tie::Message(_) if drawing.is_between_hosts(picture, edge) => BETWEEN_HOSTS,
        Tie::Message(_) => MESSAGE,
    };
    for Stroke { class, .. } in STROKES {
        for (edge, route) in picture.edges.iter().zip(&routes) {
            let own = stroke(edge);
            if own.class == class {
                let ends = format!(" data-from=\"{}\" data-to=\"{}\"", edge.from, edge.to);
                let _ = writeln!(text, "{}", path(&own, &ends, route));
            }
        }
    }
}

fn path(Stroke { class, colour, width, dashes }: &Stroke, ends: &str, route: &str) -> String {
    let dashes = if dashes.is_empty() { String::new() } else { format!(" stroke-dasharray=\"{dashes}\"") };
    format!(
        "<path class=\"{class}\"{ends} d=\"{route}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"{width}\"{dashes} \
         marker-end=\"url(#end-{class})\"/>"
    )
}

fn node(text: &mut String, picture: &Picture<'_>, geometry: &Geometry, at: usize, is_critical: bool) {
    let ((plan, id), place) = (picture.first(at), geometry.places[at]);
    let (class, outline) = match is_critical {
        true => ("node critical", "stroke=\"#d62728\" stroke-width=\"2.6\""),
        false => ("node", "stroke=\"#555555\" stroke-width=\"0.8\""),
    };
    let fill = match picture.folded[place.slice] {
        true => "#eceef1",
        false => colour(plan.nodes[id].lane as usize),
    };
    let _ = writeln!(
        text,
        "<g class=\"{class}\" data-node=\"{at}\"><title>{}</title>\
         <rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{BOX}\" rx=\"5\" fill=\"{fill}\" {outline}/>",
        escaped(&title(plan, &picture.boxes[at].nodes)),
        place.x,
        place.y,
        place.width,
    );
    for (i, line) in geometry.labels[at].iter().enumerate().filter(|(_, line)| !line.is_empty()) {
        let weight = if i == 0 { " font-weight=\"bold\"" } else { "" };
        let (x, y) = (place.x + 7, place.y + 14 + i * 13);
        let _ = writeln!(text, "<text x=\"{x}\" y=\"{y}\"{weight} fill=\"#111111\">{}</text>", escaped(line));
    }
    text.push_str("</g>\n");
}

/// The nodes of a box in words.
fn title(plan: &Plan, nodes: &[usize]) -> String {
    let name = |id: &usize| format!("rank {} node {id}: {}", plan.rank, words::node(plan, &plan.nodes[*id]));
    let mut names: Vec<String> = nodes.iter().take(NAMED).map(name).collect();
    if nodes.len() > NAMED {
        names.push(format!("and {} more", nodes.len() - NAMED));
    }
    names.join("\n")
}

fn legend(text: &mut String, geometry: &Geometry, with_critical: bool) {
    let y = geometry.bottom + 22;
    let entries = [
        (true, "lane order", LANE),
        (true, "dependency", DEP),
        (true, "message", MESSAGE),
        (!geometry.frames.is_empty(), "between hosts", BETWEEN_HOSTS),
        (with_critical, "critical path of one tile", CRITICAL),
    ];
    for (i, (_, name, stroke)) in entries.iter().filter(|(is_shown, ..)| *is_shown).enumerate() {
        let x = 18 + i * 142;
        let line = path(stroke, "", &format!("M{x} {y}h36"));
        let _ = writeln!(text, "{line}<text x=\"{}\" y=\"{}\">{name}</text>", x + 44, y + 4);
    }
    let notes = [
        "A band is a rank, a colour one of its lanes, a column a step. The picture is the loop body: every lane runs it once per tile.",
        "in, out, scratch: buffers, by chunk. *: a rank's own contribution, not yet reduced. !: the last contribution is in.",
        if with_critical { UNTIED } else { "" },
    ];
    for (i, note) in notes.iter().enumerate().filter(|(_, note)| !note.is_empty()) {
        let _ = writeln!(
            text,
            "<text class=\"quiet\" x=\"18\" y=\"{}\" fill=\"#555555\" font-size=\"10\">{note}</text>",
            y + 28 + i * 17
        );
    }
}

/// What is red without a red edge before it.
pub(super) const UNTIED: &str = "A red box without a red edge into it began when its channel had room, its processor was free, or at once.";

/// Text of an XML document, less what no such text can hold.
pub(super) fn escaped(words: &str) -> String {
    let words = words
        .replace(|c: char| (c.is_control() && c != '\n') || matches!(c, '\u{fffe}' | '\u{ffff}'), "\u{fffd}");
    words.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
