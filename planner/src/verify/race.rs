//! No two nodes touch a chunk in no given order when one of them writes; and none overwrites what is lent to a peer.
//!
//! Both with input and output apart and with them in place, where the plan says it is right so. Only nodes of one tile
//! can meet in a chunk, so one tile is enough. A node is known to be *issued*, or *done*, before another by lanes and edges of its own rank; only
//! where those do not say, the messages of all ranks are followed.

use rustc_hash::FxHashSet;

use super::before::Before;
use super::error::VerifyError;
use super::joined::{Global, Joined};
use super::places::{Place, Places};
use crate::plan::{Plan, Sink, Source};

/// Where `copied`, what is sent is no longer read once its node has been issued.
pub(super) fn check(joined: &Joined<'_>, order: &[Global], copied: bool) -> Result<(), VerifyError> {
    let mut turns = vec![0; order.len()];
    order.iter().enumerate().for_each(|(turn, at)| turns[*at] = turn);
    for (rank, plan) in joined.plans.iter().enumerate() {
        let base = joined.base[rank];
        let mut mine: Vec<Global> = (base..base + plan.nodes.len()).collect();
        mine.sort_unstable_by_key(|at| turns[*at]);
        let before = before(joined, base, plan.nodes.len(), mine.into_iter());
        for in_place in plan.overlay.modes().iter().copied() {
            let places = Places::new(plan, in_place);
            Races { joined, plan, base, before: &before, turns: &turns, places, in_place, copied }.check()?;
        }
    }
    Ok(())
}

/// Whether two of the lists that are stored share a place, or one that is read shares some with one that is stored, but is not all the same.
fn overlap(read: &[Vec<Place>], stored: &[Vec<Place>]) -> bool {
    if stored.is_empty() {
        return false;
    }
    let mut all: Vec<Place> = stored.concat();
    all.sort_unstable();
    if all.windows(2).any(|pair| pair[0] == pair[1]) {
        return true;
    }
    let by_list = |(list, places): (usize, &Vec<Place>)| {
        places.iter().map(move |place| (*place, list)).collect::<Vec<_>>()
    };
    let mut readers: Vec<(Place, usize)> = read.iter().enumerate().flat_map(by_list).collect();
    readers.sort_unstable();
    stored.iter().any(|stored| {
        let same: Vec<bool> = read.iter().map(|read| read == stored).collect();
        let read_by_others = |place: &Place| {
            let first = readers.partition_point(|(other, _)| other < place);
            readers[first..].iter().take_while(|(other, _)| other == place).any(|(_, list)| !same[*list])
        };
        stored.iter().any(read_by_others)
    })
}

/// A node that touches a place.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Touch {
    node: usize,
    writes: bool,
}

struct Races<'r, 'a> {
    joined: &'r Joined<'a>,
    plan: &'r Plan,
    base: Global,
    before: &'r Before,
    /// When each node comes in one order that keeps them all.
    turns: &'r [usize],
    places: Places,
    in_place: bool,
    copied: bool,
}

impl Races<'_, '_> {
    fn check(&self) -> Result<(), VerifyError> {
        let mut touches = Vec::new();
        for node in 0..self.plan.nodes.len() {
            self.touch(node, &mut touches)?;
        }
        // Of one node, what it writes comes before what it reads.
        touches.sort_by_key(|(place, touch)| (*place, self.turns[self.base + touch.node], !touch.writes));
        touches
            .chunk_by(|(a, _), (b, _)| a == b)
            .try_for_each(|touching| self.check_place(touching[0].0, touching))
    }

    /// Who touches a place, in an order of issue: each against the last write before it, and a write against the reads since that. Who is
    /// ordered with those is so with all before them.
    fn check_place(&self, place: Place, touching: &[(Place, Touch)]) -> Result<(), VerifyError> {
        let (mut last_write, mut reads): (Option<Touch>, Vec<Touch>) = (None, Vec::new());
        for (_, touch) in touching {
            let read = if touch.writes { std::mem::take(&mut reads) } else { Vec::new() };
            for earlier in last_write.iter().chain(&read).filter(|earlier| earlier.node != touch.node) {
                self.ordered(place, *earlier, *touch)?;
            }
            match touch.writes {
                true => last_write = Some(*touch),
                false => reads.push(*touch),
            }
        }
        Ok(())
    }

    fn touch(&self, number: usize, touches: &mut Vec<(Place, Touch)>) -> Result<(), VerifyError> {
        let node = &self.plan.nodes[number];
        let read: Vec<Vec<Place>> =
            self.plan.sources_of(node).iter().filter_map(|s| self.source(s)).collect();
        let stored: Vec<Vec<Place>> = self.plan.sinks_of(node).iter().filter_map(|s| self.sink(s)).collect();
        if overlap(&read, &stored) {
            let at = self.joined.at(self.base + number);
            return Err(VerifyError::SelfOverlap { at, in_place: self.in_place });
        }
        // A copy onto itself writes nothing.
        let is_copy = node.sources.len() == 1;
        let writes = stored.into_iter().filter(|s| !(is_copy && read.first() == Some(s))).flatten();
        touches.extend(writes.map(|place| (place, Touch { node: number, writes: true })));
        let read = read.into_iter().flatten();
        touches.extend(read.map(|place| (place, Touch { node: number, writes: false })));
        Ok(())
    }

    fn source(&self, source: &Source) -> Option<Vec<Place>> {
        match source {
            Source::Span { span, .. } => Some(self.places.of(*span).collect()),
            Source::Message { .. } => None,
        }
    }

    fn sink(&self, sink: &Sink) -> Option<Vec<Place>> {
        match sink {
            Sink::Span(span) => Some(self.places.of(*span).collect()),
            Sink::Message { .. } => None,
        }
    }

    /// `first` may be issued before `then`; whether it must have finished with the place by then.
    fn ordered(&self, place: Place, first: Touch, then: Touch) -> Result<(), VerifyError> {
        if self.comes_first(first, then) {
            return Ok(());
        }
        let at = |touch: Touch| self.joined.at(self.base + touch.node);
        let (chunk, in_place) = (place.to_string(), self.in_place);
        if then.writes && self.issued_first(first, then) {
            let (reader, writer) = (at(first), at(then));
            return Err(VerifyError::OverwrittenInUse { reader, writer, chunk, in_place });
        }
        let (first, second) =
            if first.node < then.node { (at(first), at(then)) } else { (at(then), at(first)) };
        Err(VerifyError::Race { first, second, chunk, in_place })
    }

    /// Whether `first` has finished with the place, as far as `then` minds, before `then` is issued.
    fn comes_first(&self, first: Touch, then: Touch) -> bool {
        if !then.writes {
            return self.issued_first(first, then);
        }
        let (a, b) = (first.node, then.node);
        if self.copied || !self.joined.links[self.base + a].lends {
            return self.issued_first(first, then);
        }
        self.before.done(a, b) || self.received_first(first, then)
    }

    fn issued_first(&self, first: Touch, then: Touch) -> bool {
        let (a, b) = (first.node, then.node);
        self.before.issued(a, b) || self.joined.reaches(self.base + a, self.base + b, self.turns)
    }

    /// Whether all that `first` sends has been received before `then` is issued.
    fn received_first(&self, first: Touch, then: Touch) -> bool {
        let sent = &self.joined.links[self.base + first.node].sent;
        let receivers = sent.iter().map(|message| self.joined.messages[*message].receiver);
        let then = self.base + then.node;
        receivers
            .into_iter()
            .all(|receiver| receiver != then && self.joined.reaches(receiver, then, self.turns))
    }
}

/// What lanes and edges say of a rank's nodes, which `order` gives in an order that they allow.
fn before(joined: &Joined<'_>, base: Global, nodes: usize, order: impl Iterator<Item = Global>) -> Before {
    let mut before = Before::new(nodes);
    for at in order {
        let links = &joined.links[at];
        if at > joined.lanes[links.lane].start {
            before.follow(at - base, at - 1 - base, !joined.links[at - 1].lends);
        }
        for dep in &links.deps {
            before.follow(at - base, dep - base, true);
        }
    }
    before
}

impl Joined<'_> {
    /// Whether lanes, edges and messages make `later` be issued after `earlier`, within a tile. What comes before
    /// `earlier` in the order `turns` cannot lead back to it.
    fn reaches(&self, earlier: Global, later: Global, turns: &[usize]) -> bool {
        let mut seen = FxHashSet::default();
        let mut stack = vec![later];
        while let Some(at) = stack.pop() {
            if at == earlier {
                return true;
            }
            if turns[at] < turns[earlier] || !seen.insert(at) {
                continue;
            }
            let links = &self.links[at];
            stack.extend(links.deps.iter().copied());
            stack.extend(links.received.iter().map(|message| self.messages[*message].sender));
            stack.extend((at > self.lanes[links.lane].start).then(|| at - 1));
        }
        false
    }
}
