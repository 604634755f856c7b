//! Drawings are valid in their languages and show what they should; JSON reads back equal.

use hcomm_ops::{DType, ReduceOp};

use super::*;
use crate::algorithm::ALGORITHMS;
use crate::plan::Plan;
use crate::request::{Collective, Request};
use crate::topology::Topology;
use crate::{Choice, Costs, compile_all};

fn request(collective: Collective, algorithm: &str) -> Request {
    let count = if collective == Collective::Barrier { 0 } else { 1000 };
    Request::new(collective, DType::F32, ReduceOp::Sum, count).with_algorithm(algorithm)
}

fn every_plan() -> impl Iterator<Item = (Request, Vec<Plan>)> {
    let topology = Topology::hosts(2, 2);
    let choice = Choice::new(&topology, Costs::shm());
    let requests = ALGORITHMS.iter().flat_map(|a| a.collectives.iter().map(|c| request(*c, a.name)));
    let plans = requests.collect::<Vec<_>>().into_iter().filter_map(move |request| {
        let plans = compile_all(&request, &topology, &choice).ok()?;
        Some((request, plans))
    });
    plans.collect::<Vec<_>>().into_iter()
}

#[test]
fn json_reads_back_equal() {
    for (request, plans) in every_plan() {
        assert_eq!(json::read(&json::write(&plans)).expect("what was written"), plans, "{request:?}");
        assert_eq!(Plan::from_json(&plans[1].to_json()).expect("what was written"), plans[1]);
    }
}

#[test]
fn bad_json_is_refused_by_name() {
    let (_, plans) = every_plan().next().expect("there are plans");
    let good = plans[0].to_json();
    let refused = |text: &str, expected: &str| {
        let error = Plan::from_json(text).expect_err(expected).to_string();
        assert!(error.contains(expected), "{error:?} lacks {expected:?}");
    };
    refused("", "plan file: EOF");
    refused(&good.replace("\"version\":3", "\"version\":7"), "version 7; expected version 3");
    refused(&good.replace("\"parts\"", "\"pieces\""), "pieces");
    refused(&good.replace("\"root\":0", "\"root\":9"), "root 9 in a world of 4");
    refused(&good.replace("\"rank\":0", "\"rank\":4"), "rank 4 in a world of 4");
    refused(&json::write(&plans), "4 slices");
}

#[test]
fn every_plan_is_valid_dot() {
    for (request, plans) in every_plan() {
        let sizing = Sizing { request, tile_bytes: 128 };
        for text in [dot(&plans, Some(&sizing)), plans[0].to_dot()] {
            let edges = Dot::parse(&text);
            assert!(edges >= 3, "the legend alone has three");
        }
    }
}

#[test]
fn the_drawing_of_a_ring_shows_its_messages_and_bytes() {
    let (request, plans) = every_plan()
        .find(|(_, p)| p[0].algorithm == "ring" && p[0].collective == Collective::AllReduce)
        .expect("a ring");
    let sizing = Sizing { request, tile_bytes: 512 };
    let text = dot(&plans, Some(&sizing));
    assert_eq!(text.matches("label=\"ch 0\"").count() - 1, 4 * 3, "one is the legend's");
    assert_eq!(text.matches("label=\"ch 1\"").count(), 4 * 3);
    assert!(text.contains("1000 B in 2 tiles"), "250 floats in tiles of 128");
    assert!(text.contains("label=\"rank 3\""));
}

#[test]
fn every_plan_is_well_formed_svg() {
    for (request, plans) in every_plan() {
        let text = svg(&plans, Some(&Sizing { request, tile_bytes: 128 }));
        check_xml(&text);
        let nodes: usize = plans.iter().map(|p| p.nodes.len()).sum();
        assert_eq!(text.matches("<title>").count(), nodes);
    }
}

#[test]
fn text_names_every_node() {
    for (_, plans) in every_plan() {
        let words = text(&plans);
        let nodes: usize = plans.iter().map(|p| p.nodes.len()).sum();
        assert_eq!(words.matches(" -> ").count(), nodes);
    }
}

/// A reader of the part of the DOT language that is written here, which panics at the first error.
struct Dot<'a> {
    left: &'a str,
    edges: usize,
}

impl<'a> Dot<'a> {
    /// Returns the number of edges.
    fn parse(text: &'a str) -> usize {
        let mut dot = Dot { left: text, edges: 0 };
        dot.expect("digraph");
        dot.id();
        dot.block();
        assert_eq!(dot.left.trim(), "", "nothing after the graph");
        dot.edges
    }

    fn block(&mut self) {
        self.expect("{");
        while !self.take("}") {
            self.statement();
            self.take(";");
        }
    }

    fn statement(&mut self) {
        if self.take("subgraph") {
            self.id();
            return self.block();
        }
        self.id();
        if self.take("=") {
            return self.id();
        }
        if self.take("->") {
            self.edges += 1;
            self.id();
        }
        if self.take("[") {
            self.attributes();
        }
    }

    fn attributes(&mut self) {
        while !self.take("]") {
            self.id();
            self.expect("=");
            self.id();
            self.take(",");
        }
    }

    fn id(&mut self) {
        self.left = self.left.trim_start();
        let length = match self.left.strip_prefix('"') {
            Some(rest) => Self::quoted(rest) + 1,
            None => self
                .left
                .find(|c: char| !c.is_ascii_alphanumeric() && !"_.".contains(c))
                .unwrap_or(self.left.len()),
        };
        assert!(length > 0, "an identifier at {:?}", &self.left[..self.left.len().min(40)]);
        self.left = &self.left[length..];
    }

    fn quoted(rest: &str) -> usize {
        let mut escaped = false;
        for (at, c) in rest.char_indices() {
            match c {
                _ if escaped => escaped = false,
                '\\' => escaped = true,
                '"' => return at + 1,
                '\n' => panic!("a string goes on after the line"),
                _ => {}
            }
        }
        panic!("a string does not end")
    }

    fn take(&mut self, token: &str) -> bool {
        self.left = self.left.trim_start();
        self.left.strip_prefix(token).map(|rest| self.left = rest).is_some()
    }

    fn expect(&mut self, token: &str) {
        assert!(self.take(token), "{token:?} at {:?}", &self.left[..self.left.len().min(40)]);
    }
}

/// Tags nest, attributes are quoted, and text has no stray mark-up.
fn check_xml(text: &str) {
    let mut open: Vec<&str> = Vec::new();
    let mut left = text;
    while let Some(start) = left.find('<') {
        assert!(!left[..start].contains('>'), "a stray '>' in {:?}", &left[..start]);
        let end = left[start..].find('>').expect("a tag ends") + start;
        let tag = &left[start + 1..end];
        assert_eq!(tag.matches('"').count() % 2, 0, "quotes of {tag:?}");
        let name = tag.trim_start_matches('/').split([' ', '/']).next().unwrap_or("");
        match (tag.starts_with('/'), tag.ends_with('/')) {
            (true, _) => assert_eq!(open.pop(), Some(name)),
            (false, false) => open.push(name),
            (false, true) => {}
        }
        left = &left[end + 1..];
    }
    assert!(open.is_empty(), "{open:?} stay open");
}
