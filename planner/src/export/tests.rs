//! Drawings are valid in their languages and show what they should; JSON reads back equal.

use hcomm_ops::{DType, ReduceOp};

use super::geometry::{BOX, Geometry};
use super::joined::Picture;
use super::*;
use crate::choose::Candidate;
use crate::plan::Plan;
use crate::request::{Collective, Request};
use crate::timeline::{Model, Timeline, predict};
use crate::topology::Topology;
use crate::{Choice, Costs, compile_all};

fn request(collective: Collective, algorithm: &str) -> Request {
    let count = if collective == Collective::Barrier { 0 } else { 1000 };
    Request::new(collective, DType::F32, ReduceOp::Sum, count).with_algorithm(algorithm)
}

fn every_plan() -> impl Iterator<Item = (Request, Vec<Plan>)> {
    plans_in(Topology::hosts(2, 2))
}

fn plans_in(topology: Topology) -> impl Iterator<Item = (Request, Vec<Plan>)> {
    let choice = Choice::new(&topology, Costs::shm());
    let requests = Candidate::all()
        .flat_map(|by| by.algorithm.collectives.iter().map(move |c| request(*c, &by.to_string())));
    let plans = requests.collect::<Vec<_>>().into_iter().filter_map(move |request| {
        let plans = compile_all(&request, &topology, &choice).ok()?;
        Some((request, plans))
    });
    plans.collect::<Vec<_>>().into_iter()
}

fn timed(plans: &[Plan], sizing: &Sizing) -> Timeline {
    predict(plans, sizing, &Topology::hosts(2, 2), &Model::new(Costs::shm())).expect("a sound plan")
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
    refused(&good.replace("\"root\":0", "\"root\":9"), "root 9 of");
    refused(&good.replace("\"rank\":0", "\"rank\":4"), "rank 4 in a world of 4");
    refused(&json::write(&plans), "4 slices");
}

#[test]
fn every_plan_is_valid_dot() {
    for (request, plans) in every_plan() {
        let sizing = Sizing { request, tile_bytes: 128 };
        let timeline = timed(&plans, &sizing);
        let timed = Drawing::new(&plans).with_sizing(&sizing).with_timeline(&timeline).dot();
        for (text, least) in [(dot(&plans, Some(&sizing)), 3), (plans[0].to_dot(), 3), (timed, 4)] {
            let edges = Dot::parse(&text);
            assert!(edges >= least, "the legend alone has {least}");
        }
    }
}

#[test]
fn the_drawing_of_a_ring_shows_its_messages_and_bytes() {
    let (request, plans) = ring();
    let sizing = Sizing { request, tile_bytes: 512 };
    let text = dot(&plans, Some(&sizing));
    assert_eq!(text.matches("label=\"ch 0\"").count(), 4 * 3);
    assert_eq!(text.matches("label=\"ch 1\"").count(), 4 * 3);
    assert!(text.contains("1000 B in 2 tiles"), "250 floats in tiles of 128");
    assert!(text.contains("label=\"rank 3\""));
}

#[test]
fn the_critical_path_is_marked_in_both_drawings() {
    let (request, plans) = ring();
    let sizing = Sizing { request, tile_bytes: 1 << 20 };
    let timeline = timed(&plans, &sizing);
    let drawing = Drawing::new(&plans).with_sizing(&sizing).with_timeline(&timeline);
    let nodes = timeline.critical_path_of_one_tile().len();
    let (dot, svg) = (drawing.dot(), drawing.svg());
    // Every step of a ring is a message or a dependency, and the legend has one more edge.
    assert_eq!(dot.matches("tooltip=").count(), 32);
    assert_eq!(dot.matches("\", color=\"#d62728\"").count(), nodes);
    assert_eq!(dot.matches("[color=\"#d62728\"").count(), nodes - 1 + 1);
    assert_eq!(svg.matches("class=\"node critical\"").count(), nodes);
    assert_eq!(svg.matches("<path class=\"critical\"").count(), nodes - 1 + 1);
    for text in [&dot, &svg] {
        assert!(text.contains("all_reduce by ring, 4 ranks"), "{text}");
        assert!(text.contains("sum of f32, 4 KB in tiles of up to 1 MiB · predicted "), "{text}");
        assert!(text.contains("critical path of one tile"), "{text}");
    }
    let one = Drawing::new(&plans[1..2]).with_timeline(&timeline).svg();
    let own = timeline.critical_path_of_one_tile().iter().filter(|step| step.run.rank == 1).count();
    assert_eq!(one.matches("class=\"node critical\"").count(), own, "of one slice its own part");
    assert!(!svg_of(&plans).contains("critical"), "without a timeline nothing is");
}

fn ring() -> (Request, Vec<Plan>) {
    let is_ring = |plan: &Plan| plan.algorithm == "ring" && plan.collective == Collective::AllReduce;
    every_plan().find(|(_, plans)| is_ring(&plans[0])).expect("a ring")
}

fn svg_of(plans: &[Plan]) -> String {
    let text = svg(plans, None);
    text.lines().filter(|line| !line.starts_with("<marker")).collect()
}

#[test]
fn every_plan_is_well_formed_svg() {
    for (request, plans) in every_plan() {
        let sizing = Sizing { request, tile_bytes: 128 };
        let timeline = timed(&plans, &sizing);
        let timed = Drawing::new(&plans).with_sizing(&sizing).with_timeline(&timeline).svg();
        let folded = Picture::folded(&plans);
        // Of boxes, and of the lanes of a folded rank.
        let titles = folded.boxes.len() + folded.folded.iter().filter(|folded| **folded).count();
        for text in [svg(&plans, Some(&sizing)), timed] {
            check_xml(&text);
            assert_eq!(text.matches("<title>").count(), titles);
        }
    }
}

#[test]
fn boxes_and_edges_keep_clear_of_boxes() {
    for (request, plans) in every_plan().chain(plans_in(Topology::single_host(7))) {
        let sizing = Sizing { request, tile_bytes: 128 };
        let topology = Topology::from_host_of(&(0..plans.len()).map(|rank| rank % 2).collect::<Vec<_>>());
        for picture in [Picture::new(&plans), Picture::folded(&plans)] {
            let drawing = Drawing::new(&plans).with_sizing(&sizing).with_topology(&topology);
            check_clear(&picture, &drawing);
        }
    }
}

fn check_clear(picture: &Picture<'_>, drawing: &Drawing<'_>) {
    let (plans, geometry) = (picture.plans, Geometry::of(picture, drawing));
    let inside = |(x, y): (f64, f64), at: usize, by: f64| {
        let place = geometry.places[at];
        let (left, top) = (place.x as f64, place.y as f64);
        x > left + by && x < left + place.width as f64 - by && y > top + by && y < top + BOX as f64 - by
    };
    let name = format!("{} by {}", plans[0].collective, plans[0].algorithm);
    for (at, place) in geometry.places.iter().enumerate() {
        let middle = (place.x as f64 + place.width as f64 / 2.0, place.y as f64 + BOX as f64 / 2.0);
        let others = (0..picture.boxes.len()).filter(|other| *other != at);
        assert_eq!(others.filter(|other| inside(middle, *other, -20.0)).count(), 0, "{name}: box {at}");
        let band = &geometry.bands[place.slice];
        assert!(place.y > band.top && place.y + BOX < band.top + band.height, "{name}: box {at}");
        assert!(place.x + place.width < geometry.width, "{name}: box {at}");
        let widest = geometry.labels[at].iter().map(|line| labels::width(line)).max();
        assert!(widest <= Some(place.width - 7), "{name}: the text of box {at} runs past it");
    }
    for (edge, route) in picture.edges.iter().zip(route::routes(picture, &geometry)) {
        let points = points(&route);
        let hit = (0..picture.boxes.len()).find(|at| points.iter().any(|point| inside(*point, *at, 1.0)));
        assert_eq!(hit, None, "{name}: {edge:?} by {route} runs through a box");
    }
}

#[test]
fn ranks_of_a_host_are_framed_and_messages_between_hosts_look_different() {
    let topology = Topology::from_host_of(&[0, 1, 0, 1]);
    let (request, plans) = ring();
    let sizing = Sizing { request, tile_bytes: 512 };
    let drawing = Drawing::new(&plans).with_sizing(&sizing).with_topology(&topology);
    let picture = Picture::new(&plans);
    let geometry = Geometry::of(&picture, &drawing);
    assert_eq!(
        geometry.frames.iter().map(|frame| frame.name.as_str()).collect::<Vec<_>>(),
        ["host0", "host1"]
    );
    for (slice, band) in geometry.bands.iter().enumerate() {
        for (host, frame) in geometry.frames.iter().enumerate() {
            let is_inside = band.top > frame.top && band.top + band.height < frame.top + frame.height;
            assert_eq!(is_inside, slice % 2 == host, "rank {slice} and host {host}");
        }
    }
    // Each neighbour in this ring is on the other host.
    let messages = picture.edges.iter().filter(|edge| matches!(edge.tie, joined::Tie::Message(_))).count();
    let (dot, svg) = (drawing.dot(), drawing.svg());
    assert_eq!(svg.matches("<path class=\"between\"").count(), messages + 1, "and one in the legend");
    assert_eq!(dot.matches("#8a3ab9\", style=dashed, penwidth=2").count(), messages + 1);
    assert!(svg.contains(">host host1</text>") && dot.contains("label=\"host host1\""));
    let local = Topology::single_host(4);
    let one_host = Drawing::new(&plans).with_topology(&local).svg();
    assert!(!one_host.contains("<path class=\"between\"") && !one_host.contains("class=\"host\""));
}

#[test]
fn ranks_of_many_lanes_are_folded() {
    let topology = Topology::single_host(12);
    let request =
        Request::new(Collective::AllToAll, DType::F32, ReduceOp::Sum, 1200).with_algorithm("direct");
    let choice = Choice::new(&topology, Costs::shm());
    let plans = compile_all(&request, &topology, &choice).expect("a plan");
    let (folded, whole) = (Picture::folded(&plans), Picture::new(&plans));
    assert!(folded.is_folded() && !whole.is_folded());
    assert_eq!(folded.boxes.iter().map(|boxed| boxed.nodes.len()).sum::<usize>(), whole.boxes.len());
    assert!(folded.boxes.len() * 3 < whole.boxes.len(), "{} of {}", folded.boxes.len(), whole.boxes.len());
    for boxed in &folded.boxes {
        let plan = &plans[boxed.slice];
        let kinds: Vec<_> = boxed.nodes.iter().map(|id| plan.kind_of(&plan.nodes[*id])).collect();
        assert!(kinds.iter().all(|kind| *kind == kinds[0]));
    }
    assert!(folded.edges.iter().all(|edge| folded.boxes[edge.from].column < folded.boxes[edge.to].column));
    let text = svg(&plans, None);
    assert!(text.contains("lanes, folded") && text.contains("11 ×"), "{text}");
}

#[test]
fn lanes_are_named_by_their_way_and_devices_by_their_names() {
    let (_, plans) = ring();
    let names: Vec<String> = (0..plans[1].lanes.len()).map(|lane| plans[1].lane_name(lane)).collect();
    let (_, direct) = every_plan().find(|(_, plans)| plans[0].algorithm == "direct").expect("there is one");
    let names: Vec<String> =
        names.into_iter().chain((0..direct[1].lanes.len()).map(|lane| direct[1].lane_name(lane))).collect();
    let mut sorted = names.clone();
    sorted.sort_unstable();
    sorted.dedup();
    assert!(names.iter().any(|name| name.contains(" to rank ")), "{names:?}");
    assert!(names.iter().any(|name| name.contains(" from rank ")), "{names:?}");
}

/// Points along a path of M, C and H commands.
fn points(route: &str) -> Vec<(f64, f64)> {
    let (mut at, mut points, mut left) = ((0.0, 0.0), Vec::new(), route);
    while let Some(command) = left.chars().next() {
        let end = left[1..].find(['M', 'C', 'H']).map_or(left.len(), |end| end + 1);
        let numbers: Vec<f64> = left[1..end].split(' ').map(|word| word.parse().expect("a number")).collect();
        let to = |t: f64| match numbers[..] {
            [x, y] => (x, y),
            [x] => (at.0 + (x - at.0) * t, at.1),
            [x1, y1, x2, y2, x, y] => {
                let bend = |a: f64, b: f64, c: f64, d: f64| {
                    let u = 1.0 - t;
                    a * u * u * u + 3.0 * b * u * u * t + 3.0 * c * u * t * t + d * t * t * t
                };
                (bend(at.0, x1, x2, x), bend(at.1, y1, y2, y))
            }
            _ => panic!("{command} with {numbers:?}"),
        };
        points.extend((0..=50).map(|step| to(f64::from(step) / 50.0)));
        at = to(1.0);
        left = &left[end..];
    }
    points
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
