//! Plans for Graphviz: nodes coloured by lane, clustered by rank and lane, with their chunks and bytes; edges for
//! lanes, dependencies and messages; a legend.

use std::fmt::Write;

use super::drawing::{Critical, Drawing};
use super::joined::{Edge, Picture, Tie, colour};
use super::words;
use crate::plan::Plan;
use crate::sizing::Sizing;

/// The red of what is critical.
const CRITICAL: &str = "color=\"#d62728\", penwidth=3";

/// Draws the slices; with their bytes, where a sizing is given.
pub fn dot(plans: &[Plan], sizing: Option<&Sizing>) -> String {
    Drawing { sizing, ..Drawing::new(plans) }.dot()
}

impl Drawing<'_> {
    /// The picture for Graphviz.
    pub fn dot(&self) -> String {
        let picture = Picture::new(self.plans);
        let critical = Critical::of(&picture, self.timeline);
        let label = quoted(&format!("{}\n{}", self.title(), self.subtitle()));
        let mut text = String::from("digraph plan {\n");
        line(
            &mut text,
            1,
            &format!("label={label}; labelloc=t; rankdir=LR; compound=true; fontname=Helvetica;"),
        );
        line(&mut text, 1, "node [shape=box, style=\"filled,rounded\", fontname=Helvetica, fontsize=10];");
        line(&mut text, 1, "edge [fontname=Helvetica, fontsize=8];");
        for (index, plan) in self.plans.iter().enumerate() {
            cluster(&mut text, self, plan, (index, picture.base[index]), &critical);
        }
        for edge in &picture.edges {
            line(&mut text, 1, &arrow(edge, critical.has_edge(edge)));
        }
        legend(&mut text, critical.has_any());
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

fn cluster(
    text: &mut String,
    drawing: &Drawing<'_>,
    plan: &Plan,
    (index, base): (usize, usize),
    critical: &Critical,
) {
    let sizes = drawing.sizes(plan);
    line(text, 1, &format!("subgraph cluster_{index} {{"));
    line(text, 2, &format!("label={}; style=rounded; color=gray40;", quoted(&format!("rank {}", plan.rank))));
    for (number, lane) in plan.lanes.iter().enumerate() {
        line(text, 2, &format!("subgraph cluster_{index}_{number} {{"));
        let label = format!("lane {number}: {}", lane.kind);
        line(text, 3, &format!("label={}; style=dashed; color=gray70; fontsize=9;", quoted(&label)));
        for id in lane.nodes.clone().map(|id| id as usize) {
            let label = quoted(&node_label(plan, id, sizes[id].as_deref()));
            let fill = colour(number);
            let outline = if critical.has_node(base + id) { format!(", {CRITICAL}") } else { String::new() };
            line(text, 3, &format!("n{} [label={label}, fillcolor=\"{fill}\"{outline}];", base + id));
        }
        line(text, 2, "}");
    }
    line(text, 1, "}");
}

/// Number, kind, what it folds into what, and how many bytes in how many tiles.
fn node_label(plan: &Plan, id: usize, size: Option<&str>) -> String {
    let node = &plan.nodes[id];
    let list = |parts: Vec<String>, with: &str| parts.join(with);
    let sources = list(plan.sources_of(node).iter().map(|s| words::source(plan, s)).collect(), " +\n");
    let sinks = list(plan.sinks_of(node).iter().map(|s| words::sink(plan, s)).collect(), ",\n");
    let finish = if node.finish { " !" } else { "" };
    let size = size.map(|size| format!("\n{size}")).unwrap_or_default();
    format!("{id}: {}{finish}\n{sources}\n→ {sinks}{size}", words::kind(plan.kind_of(node)))
}

fn arrow(edge: &Edge, is_critical: bool) -> String {
    let Edge { from, to, tie } = edge;
    let label = match tie {
        Tie::Message(index) => format!(", label=\"ch {index}\""),
        Tie::Lane | Tie::Dep => String::new(),
    };
    format!("n{from} -> n{to} [{}{label}];", if is_critical { CRITICAL } else { style(*tie) })
}

fn style(tie: Tie) -> &'static str {
    match tie {
        Tie::Lane => "color=gray60, arrowsize=0.5",
        Tie::Dep => "color=black",
        Tie::Message(_) => "color=\"#1f5fbf\", style=dashed",
    }
}

fn legend(text: &mut String, with_critical: bool) {
    line(text, 1, "subgraph cluster_legend {");
    line(text, 2, "label=\"legend\"; style=rounded; color=gray40;");
    line(text, 2, "node [shape=plaintext, style=\"\", height=0.1, margin=\"0.05,0.02\"];");
    let notes = "fill: lane\n*: a rank's own contribution, not yet reduced\n!: the last contribution is in\n\
                 the drawing shows the loop body; every lane runs it once per tile";
    line(text, 2, &format!("legend [label={}];", quoted(notes)));
    let critical = with_critical.then_some(("critical path of one tile", CRITICAL));
    let ties = [("lane order", Tie::Lane), ("dependency", Tie::Dep), ("message", Tie::Message(0))];
    for (name, style) in ties.map(|(name, tie)| (name, style(tie))).into_iter().chain(critical) {
        let key = name.replace(' ', "_");
        line(text, 2, &format!("legend_{key} [label={}];", quoted(name)));
        line(text, 2, &format!("legend_{key}_end [label=\"\"];"));
        line(text, 2, &format!("legend_{key} -> legend_{key}_end [{style}];"));
    }
    line(text, 1, "}");
}

fn line(text: &mut String, depth: usize, words: &str) {
    let _ = writeln!(text, "{:width$}{words}", "", width = depth * 2);
}

/// A quoted string of the DOT language; line breaks become its own.
fn quoted(words: &str) -> String {
    let escaped = words.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    format!("\"{escaped}\"")
}
