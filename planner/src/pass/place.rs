//! Places operations on lanes, from the topology.
//!
//! All operations that send on one channel share a lane, and so do all that receive from one channel; an operation that
//! does both ties the lanes together. Without GPUs a lane that talks to one peer is that peer's shared memory or socket,
//! and any other a worker. With a GPU, everything that touches its memory runs on a stream, and messages to and from
//! other hosts on the queue pair of the nearest NIC.

use hcomm_ops::Rank;
use rustc_hash::FxHashMap;

use super::Placement;
use crate::graph::{End, Graph, Op};
use crate::plan::{Direction, LaneKind};
use crate::topology::{LinkClass, Topology};

/// What carries an operation out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Resource {
    /// The host's processors.
    Host,
    /// A GPU.
    Gpu { gpu: u32 },
    /// A NIC, on behalf of a GPU.
    Nic { nic: u32, peer: Rank },
}

/// The resource that an operation of rank `rank` needs.
pub(super) fn resource(op: &Op, rank: Rank, topology: &Topology) -> Resource {
    let place = topology.place(rank);
    let Some(gpu) = place.gpu else { return Resource::Host };
    let far = |end: &End| topology.link(rank, end.peer) == LinkClass::Remote;
    let remote = op.ends_in().chain(op.ends_out()).find(far);
    match (remote, place.nic) {
        (Some(end), Some(nic)) => Resource::Nic { nic, peer: end.peer },
        (Some(_), None) => Resource::Host,
        (None, _) => Resource::Gpu { gpu },
    }
}

pub(super) fn place(graph: &mut Graph, topology: &Topology, placement: &mut Placement) {
    let mut tied = Tied::default();
    for op in graph.ops.node_weights() {
        tied.tie(op);
    }
    let mut sets: FxHashMap<Set, u32> = FxHashMap::default();
    let mut peers: Vec<Vec<Rank>> = Vec::new();
    let mut resources: Vec<Resource> = Vec::new();
    for at in graph.program() {
        let needs = resource(&graph.ops[at], graph.rank, topology);
        let set = tied.set_of(&graph.ops[at]);
        let lane = *sets.entry(set).or_insert_with(|| {
            peers.push(Vec::new());
            resources.push(needs);
            resources.len() as u32 - 1
        });
        let op = &mut graph.ops[at];
        op.lane = lane;
        for (direction, end) in ends(op) {
            placement.ends.insert((direction, end), lane);
            if peers[lane as usize].last() != Some(&end.peer) {
                peers[lane as usize].push(end.peer);
            }
        }
    }
    let mut workers = 0;
    let kind = |(resource, peers): (&Resource, &Vec<Rank>)| {
        lane_kind(*resource, peers, graph.rank, topology, &mut workers)
    };
    placement.lanes = resources.iter().zip(&peers).map(kind).collect();
}

/// A lane before it has a number.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Set {
    /// Operations without messages.
    Local,
    /// The ends tied to this one.
    Ends(u32),
}

fn lane_kind(
    resource: Resource,
    peers: &[Rank],
    rank: Rank,
    topology: &Topology,
    workers: &mut u32,
) -> LaneKind {
    match (resource, peers) {
        (Resource::Gpu { gpu }, _) => LaneKind::Stream { gpu, priority: 0 },
        (Resource::Nic { nic, peer }, _) => LaneKind::QueuePair { nic, peer },
        (Resource::Host, [first, rest @ ..]) if rest.iter().all(|peer| peer == first) => {
            match topology.link(rank, *first) {
                LinkClass::Local => LaneKind::Shm { peer: *first },
                LinkClass::Remote => LaneKind::Socket { peer: *first },
            }
        }
        (Resource::Host, _) => {
            *workers += 1;
            LaneKind::Worker { index: *workers - 1 }
        }
    }
}

fn ends(op: &Op) -> impl Iterator<Item = (Direction, End)> + '_ {
    let incoming = op.ends_in().map(|end| (Direction::In, end));
    incoming.chain(op.ends_out().map(|end| (Direction::Out, end)))
}

/// Disjoint sets of channel ends.
#[derive(Default)]
struct Tied {
    numbers: FxHashMap<(Direction, End), u32>,
    parents: Vec<u32>,
}

impl Tied {
    /// Puts all ends of an operation into one set.
    fn tie(&mut self, op: &Op) {
        let mut first = None;
        for end in ends(op) {
            let number = self.number(end);
            let root = self.root(number);
            let into = *first.get_or_insert(root);
            self.parents[root as usize] = into;
            first = Some(into);
        }
    }

    fn set_of(&mut self, op: &Op) -> Set {
        match ends(op).next() {
            None => Set::Local,
            Some(end) => {
                let number = self.number(end);
                Set::Ends(self.root(number))
            }
        }
    }

    fn number(&mut self, end: (Direction, End)) -> u32 {
        let next = self.parents.len() as u32;
        let number = *self.numbers.entry(end).or_insert(next);
        if number == next {
            self.parents.push(next);
        }
        number
    }

    fn root(&mut self, mut at: u32) -> u32 {
        while self.parents[at as usize] != at {
            let above = self.parents[self.parents[at as usize] as usize];
            self.parents[at as usize] = above;
            at = above;
        }
        at
    }
}
