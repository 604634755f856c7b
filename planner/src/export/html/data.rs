//! [`Data`]: what the page's script is given, as compact JSON: nodes as columns of numbers and words, edges and runs as flat
//! lists.

use serde::Serialize;

use crate::export::drawing::{Critical, Drawing, time_words};
use crate::export::geometry::{self, BOX, Geometry};
use crate::export::joined::{COLOURS, Edge, Picture, Tie};
use crate::export::route::routes;
use crate::export::words;
use crate::plan::{NodeKind, Plan};
use crate::timeline::{Measured, Run, Timeline, Why};

/// See the module. Nodes are counted through all slices.
#[derive(Serialize)]
pub(super) struct Data {
    colours: &'static [&'static str],
    kinds: Vec<&'static str>,
    ranks: Vec<Rank>,
    nodes: Nodes,
    /// Between nodes, three numbers each: from, to, and 0 for the lane's order, 1 for a dependency, 2 + i for a message on channel i.
    edges: Vec<usize>,
    critical_nodes: Vec<usize>,
    /// The first is shown first; the second, where there is one, is the same with all lanes unfolded.
    pictures: Vec<Shown>,
    predicted: Option<Times>,
    measured: Option<Times>,
}

#[derive(Serialize)]
struct Rank {
    rank: usize,
    /// The name of its host, where there are several.
    host: Option<String>,
    /// Names of its lanes.
    lanes: Vec<String>,
}

/// A column per property; a node's number is its place in each.
#[derive(Default, Serialize)]
struct Nodes {
    /// Index into `ranks`.
    slice: Vec<usize>,
    /// The node's number in its own plan.
    id: Vec<usize>,
    lane: Vec<u32>,
    kind: Vec<usize>,
    sources: Vec<String>,
    sinks: Vec<String>,
    /// Bytes and tiles, in words; empty where they are not known.
    size: Vec<String>,
}

/// A picture: its boxes, and what is between and around them.
#[derive(Serialize)]
struct Shown {
    width: usize,
    height: usize,
    /// Height of a box.
    box_height: usize,
    bands: Vec<Band>,
    /// Name, top edge and height of each host's frame.
    frames: Vec<(String, usize, usize)>,
    /// By node, its box; empty where every node is one.
    box_of: Vec<usize>,
    boxes: Boxes,
    /// Between boxes, as those between nodes.
    edges: Vec<usize>,
    /// Path data of the edges, where the script paints them.
    routes: Vec<String>,
    critical_boxes: Vec<usize>,
    critical_edges: Vec<usize>,
    /// Messages between hosts.
    between_edges: Vec<usize>,
}

#[derive(Serialize)]
struct Band {
    top: usize,
    height: usize,
    /// Numbers and names of its lanes.
    lanes: Vec<(Option<usize>, String)>,
}

/// A column per property, as for nodes.
#[derive(Default, Serialize)]
struct Boxes {
    x: Vec<usize>,
    y: Vec<usize>,
    width: Vec<usize>,
    /// The three lines.
    lines: Vec<[String; 3]>,
    /// Index into `colours`; none for one of several nodes.
    colour: Vec<Option<usize>>,
}

/// Runs of all nodes, predicted or measured.
#[derive(Serialize)]
struct Times {
    /// Where they come from.
    note: String,
    total_ns: u64,
    /// Per node, three whole numbers for each run: its tile, its start and its length in nanoseconds; tile and start less those of the
    /// run before.
    runs: Vec<Vec<i64>>,
    /// The critical path, three numbers for each run: node, tile, and why it did not begin sooner (index into `whys`).
    path: Vec<usize>,
    whys: Vec<&'static str>,
}

const KINDS: [NodeKind; 9] = [
    NodeKind::Send,
    NodeKind::Recv,
    NodeKind::Reduce,
    NodeKind::Copy,
    NodeKind::RecvReduce,
    NodeKind::RecvReduceSend,
    NodeKind::RecvCopySend,
    NodeKind::ReduceSend,
    NodeKind::CopySend,
];

const WHYS: [(Why, &str); 6] = [
    (Why::Start, "at once"),
    (Why::Lane, "when its lane came to it"),
    (Why::Dep, "when what it depends on was done"),
    (Why::Message, "when its message was there"),
    (Why::Room, "when its channel had room"),
    (Why::Processor, "when the processor was free"),
];

/// A picture with what is known of it, and whether the script paints it.
pub(super) struct Painting<'a> {
    pub picture: &'a Picture<'a>,
    pub geometry: &'a Geometry,
    pub critical: &'a Critical,
    pub is_painted: bool,
}

impl Data {
    /// The data of pictures of the same slices, of which the last has a box for every node.
    pub fn of(drawing: &Drawing<'_>, paintings: &[Painting<'_>]) -> Data {
        let whole = paintings.last().expect("there is a picture");
        let picture = whole.picture;
        Data {
            colours: &COLOURS,
            kinds: KINDS.map(words::kind).to_vec(),
            ranks: ranks(drawing, picture),
            nodes: nodes(drawing, picture),
            edges: flat(&picture.edges),
            critical_nodes: (0..picture.len()).filter(|at| whole.critical.has_node(*at)).collect(),
            pictures: paintings.iter().map(|painting| Shown::of(drawing, painting)).collect(),
            predicted: drawing.timeline.map(|timeline| predicted(picture, timeline)),
            measured: drawing.measured.map(|measured| times_of(picture, measured)),
        }
    }

    /// As text that may stand inside a script element.
    pub fn json(&self) -> String {
        let text = serde_json::to_string(self).expect("the data hold nothing that JSON cannot");
        text.replace('<', "\\u003c").replace('\u{2028}', "\\u2028").replace('\u{2029}', "\\u2029")
    }
}

impl Shown {
    fn of(drawing: &Drawing<'_>, painting: &Painting<'_>) -> Shown {
        let Painting { picture, geometry, critical, is_painted } = *painting;
        let chosen = |is_chosen: &dyn Fn(&Edge) -> bool| {
            let edges = picture.edges.iter().enumerate();
            edges.filter(|(_, edge)| is_chosen(edge)).map(|(at, _)| at).collect()
        };
        Shown {
            width: geometry.width,
            height: geometry.bottom,
            box_height: BOX,
            bands: geometry.bands.iter().map(Band::of).collect(),
            frames: geometry
                .frames
                .iter()
                .map(|frame| (frame.name.clone(), frame.top, frame.height))
                .collect(),
            box_of: if picture.is_folded() { picture.box_of.clone() } else { Vec::new() },
            boxes: boxes(picture, geometry),
            edges: flat(&picture.edges),
            routes: if is_painted { routes(picture, geometry) } else { Vec::new() },
            critical_boxes: (0..picture.boxes.len()).filter(|at| critical.has_node(*at)).collect(),
            critical_edges: chosen(&|edge| critical.has_edge(edge)),
            between_edges: chosen(&|edge| drawing.is_between_hosts(picture, edge)),
        }
    }
}

impl Band {
    fn of(band: &geometry::Band) -> Band {
        Band { top: band.top, height: band.height, lanes: band.lanes.clone() }
    }
}

fn flat(edges: &[Edge]) -> Vec<usize> {
    let tie = |tie: Tie| match tie {
        Tie::Lane => 0,
        Tie::Dep => 1,
        Tie::Message(index) => 2 + usize::from(index),
    };
    edges.iter().flat_map(|edge| [edge.from, edge.to, tie(edge.tie)]).collect()
}

fn ranks(drawing: &Drawing<'_>, picture: &Picture<'_>) -> Vec<Rank> {
    let hosts = drawing.hosts();
    let host = |slice: usize| {
        hosts.iter().find(|(_, slices)| slices.contains(&slice)).map(|(name, _)| (*name).to_owned())
    };
    let rank = |(slice, plan): (usize, &Plan)| Rank {
        rank: plan.rank,
        host: host(slice),
        lanes: (0..plan.lanes.len()).map(|lane| drawing.lane(plan, lane)).collect(),
    };
    picture.plans.iter().enumerate().map(rank).collect()
}

fn nodes(drawing: &Drawing<'_>, picture: &Picture<'_>) -> Nodes {
    let mut nodes = Nodes::default();
    for (slice, plan) in picture.plans.iter().enumerate() {
        for (id, node) in plan.nodes.iter().enumerate() {
            let kind = plan.kind_of(node);
            let sources = plan.sources_of(node).iter().map(|source| words::source(plan, source));
            let sinks = plan.sinks_of(node).iter().map(|sink| words::sink(plan, sink));
            nodes.slice.push(slice);
            nodes.id.push(id);
            nodes.lane.push(node.lane);
            nodes.kind.push(KINDS.iter().position(|known| *known == kind).unwrap_or(0));
            nodes.sources.push(sources.collect::<Vec<_>>().join(" + "));
            nodes.sinks.push(sinks.collect::<Vec<_>>().join(", "));
        }
        nodes.size.extend(drawing.sizes(plan).into_iter().map(Option::unwrap_or_default));
    }
    nodes
}

fn boxes(picture: &Picture<'_>, geometry: &Geometry) -> Boxes {
    let mut boxes = Boxes { lines: geometry.labels.clone(), ..Boxes::default() };
    for (at, place) in geometry.places.iter().enumerate() {
        let (plan, id) = picture.first(at);
        boxes.x.push(place.x);
        boxes.y.push(place.y);
        boxes.width.push(place.width);
        let lane = plan.nodes[id].lane as usize;
        boxes.colour.push((!picture.folded[place.slice]).then_some(lane % COLOURS.len()));
    }
    boxes
}

fn predicted(picture: &Picture<'_>, timeline: &Timeline) -> Times {
    let number = |run: &Run| picture.number_of(run.rank, run.node);
    let why = |why: Why| WHYS.iter().position(|(known, _)| *known == why).unwrap_or(0);
    let path = timeline.critical_path().iter();
    let path = path.filter_map(|step| Some([number(&step.run)?, step.run.tile as usize, why(step.why)]));
    let cut = match timeline.trips() - timeline.tiles() as u64 {
        0 => String::new(),
        _ => format!(", of whose {} tiles the first {} are shown", timeline.trips(), timeline.tiles()),
    };
    Times {
        note: format!("predicted: {}{cut}", time_words(timeline.total_ns())),
        total_ns: whole(timeline.runs().map(|run| run.to_ns).fold(0.0, f64::max)) as u64,
        runs: by_node(picture, timeline.runs()),
        path: path.flatten().collect(),
        whys: WHYS.map(|(_, words)| words).to_vec(),
    }
}

fn times_of(picture: &Picture<'_>, measured: &Measured) -> Times {
    let cut =
        if measured.is_cut() { format!(", the first {} tiles", measured.tiles()) } else { String::new() };
    let (total, number) = (time_words(measured.total_ns()), measured.operation());
    Times {
        note: format!("measured: {total}, operation {number} of the trace{cut}"),
        total_ns: whole(measured.total_ns()) as u64,
        runs: by_node(picture, measured.runs().iter().copied()),
        path: Vec::new(),
        whys: Vec::new(),
    }
}

fn by_node(picture: &Picture<'_>, runs: impl Iterator<Item = Run>) -> Vec<Vec<i64>> {
    let mut nodes = vec![Vec::new(); picture.len()];
    let mut before = vec![(0, 0); picture.len()];
    for run in runs {
        let Some(at) = picture.number_of(run.rank, run.node) else { continue };
        let (tile, from) = (i64::from(run.tile), whole(run.from_ns));
        nodes[at].extend([tile - before[at].0, from - before[at].1, whole(run.to_ns) - from]);
        before[at] = (tile, from);
    }
    nodes
}

/// Whole nanoseconds.
fn whole(ns: f64) -> i64 {
    ns.round() as i64
}
