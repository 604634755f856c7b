//! Plans for Graphviz: nodes coloured by lane, clustered by rank and lane, with their chunks and bytes; edges for
//! lanes, dependencies and messages; a legend.

use std::fmt::Write;

use super::joined::{Edge, Picture, Tie, colour, title};
use super::words;
use crate::plan::Plan;
use crate::sizing::Sizing;

/// Draws the slices; with their bytes, where a sizing is given.
pub fn dot(plans: &[Plan], sizing: Option<&Sizing>) -> String {
    let picture = Picture::new(plans);
    let mut text = String::from("digraph plan {\n");
    line(
        &mut text,
        1,
        &format!(
            "label={}; labelloc=t; rankdir=LR; compound=true; fontname=Helvetica;",
            quoted(&title(plans))
        ),
    );
    line(&mut text, 1, "node [shape=box, style=\"filled,rounded\", fontname=Helvetica, fontsize=10];");
    line(&mut text, 1, "edge [fontname=Helvetica, fontsize=8];");
    for (index, plan) in plans.iter().enumerate() {
        cluster(&mut text, plan, index, picture.base[index], sizing);
    }
    for edge in &picture.edges {
        line(&mut text, 1, &arrow(edge));
    }
    legend(&mut text);
    text.push_str("}\n");
    text
}

impl Plan {
    /// The slice for Graphviz.
    pub fn to_dot(&self) -> String {
        dot(std::slice::from_ref(self), None)
    }
}

fn cluster(text: &mut String, plan: &Plan, index: usize, base: usize, sizing: Option<&Sizing>) {
    line(text, 1, &format!("subgraph cluster_{index} {{"));
    line(text, 2, &format!("label={}; style=rounded; color=gray40;", quoted(&format!("rank {}", plan.rank))));
    for (number, lane) in plan.lanes.iter().enumerate() {
        line(text, 2, &format!("subgraph cluster_{index}_{number} {{"));
        let label = format!("lane {number}: {}", words::lane(lane.kind));
        line(text, 3, &format!("label={}; style=dashed; color=gray70; fontsize=9;", quoted(&label)));
        for id in lane.nodes.clone() {
            let label = node_label(plan, id as usize, sizing);
            let fill = colour(number);
            line(
                text,
                3,
                &format!("n{} [label={}, fillcolor=\"{fill}\"];", base + id as usize, quoted(&label)),
            );
        }
        line(text, 2, "}");
    }
    line(text, 1, "}");
}

/// Number, kind, what it folds into what, and how many bytes in how many tiles.
fn node_label(plan: &Plan, id: usize, sizing: Option<&Sizing>) -> String {
    let node = &plan.nodes[id];
    let list = |parts: Vec<String>, with: &str| parts.join(with);
    let sources = list(plan.sources_of(node).iter().map(|s| words::source(plan, s)).collect(), " +\n");
    let sinks = list(plan.sinks_of(node).iter().map(|s| words::sink(plan, s)).collect(), ",\n");
    let finish = if node.finish { " !" } else { "" };
    let mut label = format!("{id}: {}{finish}\n{sources}\n-> {sinks}", words::kind(plan.kind_of(node)));
    if let Some(size) = sizing.and_then(|sizing| Some(sizing.of(plan)?.load(node.extent)?.words())) {
        let _ = write!(label, "\n{size}");
    }
    label
}

fn arrow(edge: &Edge) -> String {
    let Edge { from, to, tie } = edge;
    let style = match tie {
        Tie::Lane => "[color=gray60, arrowsize=0.5]".to_owned(),
        Tie::Dep => "[color=black]".to_owned(),
        Tie::Message(index) => {
            format!("[color=\"#1f5fbf\", style=dashed, label=\"ch {index}\", constraint=true]")
        }
    };
    format!("n{from} -> n{to} {style};")
}

fn legend(text: &mut String) {
    line(text, 1, "subgraph cluster_legend {");
    line(text, 2, "label=\"legend\"; style=rounded; color=gray40;");
    line(text, 2, "node [shape=plaintext, style=\"\"];");
    let notes = "fill: lane\n*: a rank's own contribution, not yet reduced\n!: the last contribution is in\n\
                 the drawing shows the loop body; every lane runs it once per tile";
    line(text, 2, &format!("legend [label={}];", quoted(notes)));
    for (name, tie) in [("lane order", Tie::Lane), ("dependency", Tie::Dep), ("message", Tie::Message(0))] {
        let key = name.replace(' ', "_");
        let style = arrow(&Edge { from: 0, to: 1, tie });
        let style = style.split_once('[').map_or("", |(_, style)| style).trim_end_matches("];");
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
