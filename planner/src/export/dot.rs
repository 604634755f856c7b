//! Plans for Graphviz: nodes coloured by lane, in time order from left to right, in a band for each rank; edges for lanes, dependencies and
//! messages; a legend.
//!
//! Every node has its place: the file asks for the layout that keeps to given places, so that `dot -Tsvg` takes a moment for any plan, and draws what
//! the other pictures show. For programs that read the file, clusters say which nodes are of which host, rank and lane.

use std::fmt::Write;

use super::drawing::{Critical, Drawing};
use super::geometry::{BOX, Geometry};
use super::joined::{Edge, Picture, Tie, colour};
use super::svg::UNTIED;
use super::words;
use crate::plan::Plan;
use crate::sizing::Sizing;

/// The red of what is critical.
const CRITICAL: &str = "color=\"#d62728\", penwidth=3";

/// Of messages between hosts.
const BETWEEN_HOSTS: &str = "color=\"#8a3ab9\", style=dashed, penwidth=2";

/// Draws the slices; with their bytes, where a sizing is given.
pub fn dot(plans: &[Plan], sizing: Option<&Sizing>) -> String {
    Drawing { sizing, ..Drawing::new(plans) }.dot()
}

impl Drawing<'_> {
    /// The picture for Graphviz.
    pub fn dot(&self) -> String {
        let picture = Picture::new(self.plans);
        let (geometry, critical) = (Geometry::of(&picture, self), Critical::of(&picture, self.timeline));
        let drawn = Drawn { drawing: self, picture: &picture, geometry: &geometry, critical: &critical };
        let mut text = String::from("digraph plan {\n");
        for words in [
            "layout=neato; inputscale=72; splines=line; outputorder=edgesfirst; notranslate=true; overlap=true;",
            "node [shape=box, style=\"filled,rounded\", fontname=\"DejaVu Sans Mono\", fontsize=9, fixedsize=true, margin=0];",
            "edge [fontname=\"DejaVu Sans Mono\", fontsize=8];",
        ] {
            line(&mut text, 1, words);
        }
        drawn.bands(&mut text);
        drawn.clusters(&mut text);
        for edge in &picture.edges {
            line(&mut text, 1, &drawn.arrow(edge));
        }
        drawn.legend(&mut text);
        text.push_str("}\n");
        text
    }
}

impl Plan {
    /// The slice for Graphviz.
    pub fn to_dot(&self) -> String {
        dot(std::slice::from_ref(self), None)
    }
}

/// What is being written.
struct Drawn<'a> {
    drawing: &'a Drawing<'a>,
    picture: &'a Picture<'a>,
    geometry: &'a Geometry,
    critical: &'a Critical,
}

/// The left edge, top edge, width and height of something.
type Frame = (usize, usize, usize, usize);

impl Drawn<'_> {
    /// Frames of hosts and ranks, and the heading. They are not filled: edges lie below all nodes, so that these can be read.
    fn bands(&self, text: &mut String) {
        let width = self.geometry.width;
        let heading = quoted(&format!("{}\n{}", self.drawing.title(), self.drawing.subtitle()));
        line(
            text,
            1,
            &format!(
                "heading [shape=plaintext, style=\"\", label={heading}, {}];",
                place((8, 8, width - 16, 44))
            ),
        );
        for (number, frame) in self.geometry.frames.iter().enumerate() {
            let at = place((3, frame.top, width - 6, frame.height));
            let label = top_left(&format!("host {}", frame.name));
            line(
                text,
                1,
                &format!(
                    "host_{number} [label={label}, labelloc=t, style=rounded, margin=0.05, color=\"#8a3ab9\", {at}];"
                ),
            );
        }
        for (band, plan) in self.geometry.bands.iter().zip(self.picture.plans) {
            let lanes = band.lanes.iter().map(|(_, name)| name.as_str());
            let names: Vec<&str> = std::iter::once("").chain(lanes).collect();
            let label = top_left(&format!("rank {}{}", plan.rank, names.join("\n")));
            let at = place((8, band.top, width - 16, band.height));
            line(
                text,
                1,
                &format!(
                    "rank_{} [label={label}, labelloc=t, style=rounded, margin=0.05, color=gray70, {at}];",
                    plan.rank
                ),
            );
        }
    }

    fn clusters(&self, text: &mut String) {
        let hosts = self.drawing.hosts();
        for (number, (name, slices)) in hosts.iter().enumerate() {
            line(text, 1, &format!("subgraph cluster_host_{number} {{"));
            line(text, 2, &format!("label={};", quoted(&format!("host {name}"))));
            slices.iter().for_each(|slice| self.cluster(text, *slice));
            line(text, 1, "}");
        }
        if hosts.is_empty() {
            (0..self.picture.plans.len()).for_each(|slice| self.cluster(text, slice));
        }
    }

    fn cluster(&self, text: &mut String, slice: usize) {
        let (plan, base) = (&self.picture.plans[slice], self.picture.base[slice]);
        line(text, 1, &format!("subgraph cluster_{slice} {{"));
        line(text, 2, &format!("label={};", quoted(&format!("rank {}", plan.rank))));
        for (number, lane) in plan.lanes.iter().enumerate() {
            line(text, 2, &format!("subgraph cluster_{slice}_{number} {{"));
            let label = format!("lane {number}: {}", self.drawing.lane(plan, number));
            line(text, 3, &format!("label={};", quoted(&label)));
            lane.nodes
                .clone()
                .for_each(|id| line(text, 3, &self.node(plan, id as usize, base + id as usize)));
            line(text, 2, "}");
        }
        line(text, 1, "}");
    }

    fn node(&self, plan: &Plan, id: usize, at: usize) -> String {
        let (spot, fill) = (self.geometry.places[at], colour(plan.nodes[id].lane as usize));
        let label = quoted(self.geometry.labels[at].join("\n").trim_end());
        let whole = quoted(&words::node(plan, &plan.nodes[id]));
        let outline = if self.critical.has_node(at) { format!(", {CRITICAL}") } else { String::new() };
        let at = format!("n{at}");
        let spot = place((spot.x, spot.y, spot.width, BOX));
        format!("{at} [label={label}, tooltip={whole}, fillcolor=\"{fill}\"{outline}, {spot}];")
    }

    fn arrow(&self, edge: &Edge) -> String {
        let Edge { from, to, tie } = edge;
        let label = match tie {
            Tie::Message(index) => format!(", label=\"ch {index}\""),
            Tie::Lane | Tie::Dep => String::new(),
        };
        let style = match tie {
            _ if self.critical.has_edge(edge) => CRITICAL,
            _ if self.drawing.is_between_hosts(self.picture, edge) => BETWEEN_HOSTS,
            tie => style(*tie),
        };
        format!("n{from} -> n{to} [{style}{label}];")
    }

    fn legend(&self, text: &mut String) {
        let (with_critical, with_hosts) = (self.critical.has_any(), !self.geometry.frames.is_empty());
        let top = self.geometry.bottom + 10;
        let untied = if with_critical { format!("\n{UNTIED}") } else { String::new() };
        let notes = format!(
            "fill: lane; a column is a step. *: a rank's own contribution, not yet reduced. !: the last contribution is in.\n\
             The drawing shows the loop body; every lane runs it once per tile.{untied}"
        );
        let at = place((8, top, self.geometry.width - 16, 48));
        line(text, 1, &format!("legend [shape=plaintext, style=\"\", label={}, {at}];", quoted(&notes)));
        let known = [
            (true, "lane order", style(Tie::Lane)),
            (true, "dependency", style(Tie::Dep)),
            (true, "message", style(Tie::Message(0))),
            (with_hosts, "message between hosts", BETWEEN_HOSTS),
            (with_critical, "critical path of one tile", CRITICAL),
        ];
        for (nth, (_, name, style)) in known.into_iter().filter(|(is_shown, ..)| *is_shown).enumerate() {
            let (key, x) = (name.replace(' ', "_"), 12 + nth * 230);
            let (name, end) = (place((x, top + 52, 160, 16)), place((x + 205, top + 52, 4, 16)));
            let words = quoted(&key.replace('_', " "));
            line(text, 1, &format!("legend_{key} [shape=plaintext, style=\"\", label={words}, {name}];"));
            line(text, 1, &format!("legend_{key}_end [shape=point, label=\"\", {end}];"));
            line(text, 1, &format!("legend_{key} -> legend_{key}_end [{style}];"));
        }
    }
}

/// Where something is, as Graphviz counts: the middle in points, upwards, and the size in inches.
fn place((x, y, width, height): Frame) -> String {
    let (middle_x, middle_y) = (x as f64 + width as f64 / 2.0, y as f64 + height as f64 / 2.0);
    let inches = |points: usize| points as f64 / 72.0;
    format!("pos=\"{middle_x},{}!\", width={:.3}, height={:.3}", -middle_y, inches(width), inches(height))
}

/// A label whose lines begin at the left.
fn top_left(words: &str) -> String {
    let lines: String = words
        .lines()
        .map(|line| format!("  {}\\l", line.replace('\\', "\\\\").replace('"', "\\\"")))
        .collect();
    format!("\"{lines}\"")
}

fn style(tie: Tie) -> &'static str {
    match tie {
        Tie::Lane => "color=gray60, arrowsize=0.5",
        Tie::Dep => "color=black, arrowsize=0.6",
        Tie::Message(_) => "color=\"#1f5fbf\", style=dashed, arrowsize=0.6",
    }
}

fn line(text: &mut String, depth: usize, words: &str) {
    let _ = writeln!(text, "{:width$}{words}", "", width = depth * 2);
}

/// A quoted string of the DOT language; line breaks become its own.
fn quoted(words: &str) -> String {
    let escaped = words.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    format!("\"{escaped}\"")
}
