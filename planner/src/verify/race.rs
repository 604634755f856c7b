//! No two nodes touch a chunk in no given order when one of them writes; and none overwrites what is lent to a peer.
//!
//! Both with input and output apart and with them in place. Only nodes of one tile can meet in a chunk, so one
//! tile is enough. A node is known to be *issued*, or *done*, before another by lanes and edges of its own rank; only
//! where those do not say, the messages of all ranks are followed.

use std::collections::{BTreeMap, HashSet};

use super::error::VerifyError;
use super::joined::{Global, Joined};
use super::places::{Place, Places};
use crate::plan::{Plan, Sink, Source};

pub(super) fn check(joined: &Joined<'_>, order: &[Global]) -> Result<(), VerifyError> {
    let mut turns = vec![0; order.len()];
    order.iter().enumerate().for_each(|(turn, at)| turns[*at] = turn);
    for (rank, plan) in joined.plans.iter().enumerate() {
        let base = joined.base[rank];
        let mine = order.iter().copied().filter(|at| *at >= base && *at < base + plan.nodes.len());
        let before = Before::new(joined, base, plan.nodes.len(), mine);
        for in_place in [false, true] {
            let places = Places::new(plan, in_place);
            Races { joined, plan, base, before: &before, turns: &turns, places, in_place }.check()?;
        }
    }
    Ok(())
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
}

impl Races<'_, '_> {
    fn check(&self) -> Result<(), VerifyError> {
        let mut touches: BTreeMap<Place, Vec<Touch>> = BTreeMap::new();
        for node in 0..self.plan.nodes.len() {
            self.touch(node, &mut touches)?;
        }
        for (place, touching) in &touches {
            for (i, a) in touching.iter().enumerate() {
                for b in touching[i + 1..].iter().filter(|b| b.node != a.node && (a.writes || b.writes)) {
                    self.ordered(*place, *a, *b)?;
                }
            }
        }
        Ok(())
    }

    fn touch(&self, number: usize, touches: &mut BTreeMap<Place, Vec<Touch>>) -> Result<(), VerifyError> {
        let node = &self.plan.nodes[number];
        let read: Vec<Vec<Place>> =
            self.plan.sources_of(node).iter().filter_map(|s| self.source(s)).collect();
        let stored: Vec<Vec<Place>> = self.plan.sinks_of(node).iter().filter_map(|s| self.sink(s)).collect();
        let overlap = |a: &Vec<Place>, b: &Vec<Place>| a.iter().any(|place| b.contains(place));
        let bad_read = stored.iter().any(|s| read.iter().any(|r| r != s && overlap(r, s)));
        let bad_sink =
            stored.iter().enumerate().any(|(i, s)| stored[..i].iter().any(|other| overlap(other, s)));
        if bad_read || bad_sink {
            let at = self.joined.at(self.base + number);
            return Err(VerifyError::SelfOverlap { at, in_place: self.in_place });
        }
        // A copy onto itself writes nothing.
        let is_copy = node.sources.len() == 1;
        let writes = stored.into_iter().filter(|s| !(is_copy && read.first() == Some(s))).flatten();
        for place in writes {
            touches.entry(place).or_default().push(Touch { node: number, writes: true });
        }
        for place in read.into_iter().flatten() {
            touches.entry(place).or_default().push(Touch { node: number, writes: false });
        }
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

    fn ordered(&self, place: Place, a: Touch, b: Touch) -> Result<(), VerifyError> {
        if self.comes_first(a, b) || self.comes_first(b, a) {
            return Ok(());
        }
        let at = |touch: Touch| self.joined.at(self.base + touch.node);
        let (chunk, in_place) = (place.to_string(), self.in_place);
        let lent = |first: Touch, then: Touch| then.writes && self.issued_first(first, then);
        let (first, second) = (at(a), at(b));
        Err(match (lent(a, b), lent(b, a)) {
            (true, _) => VerifyError::OverwrittenInUse { reader: first, writer: second, chunk, in_place },
            (_, true) => VerifyError::OverwrittenInUse { reader: second, writer: first, chunk, in_place },
            _ => VerifyError::Race { first, second, chunk, in_place },
        })
    }

    /// Whether `first` has finished with the place, as far as `then` minds, before `then` is issued.
    fn comes_first(&self, first: Touch, then: Touch) -> bool {
        if !then.writes {
            return self.issued_first(first, then);
        }
        let (a, b) = (first.node, then.node);
        if self.plan.buffered || !self.joined.links[self.base + a].lends {
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

/// What lanes and edges of one rank say: for each node, which others are issued and done before it is issued.
struct Before {
    words: usize,
    issued: Vec<u64>,
    done: Vec<u64>,
}

impl Before {
    fn new(joined: &Joined<'_>, base: Global, nodes: usize, order: impl Iterator<Item = Global>) -> Before {
        let words = nodes.div_ceil(64);
        let mut before = Before { words, issued: vec![0; nodes * words], done: vec![0; nodes * words] };
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

    fn follow(&mut self, at: usize, earlier: usize, is_done: bool) {
        for word in 0..self.words {
            self.issued[at * self.words + word] |= self.issued[earlier * self.words + word];
            self.done[at * self.words + word] |= self.done[earlier * self.words + word];
        }
        self.issued[at * self.words + earlier / 64] |= 1 << (earlier % 64);
        if is_done {
            self.done[at * self.words + earlier / 64] |= 1 << (earlier % 64);
        }
    }

    fn issued(&self, earlier: usize, at: usize) -> bool {
        self.issued[at * self.words + earlier / 64] >> (earlier % 64) & 1 == 1
    }

    fn done(&self, earlier: usize, at: usize) -> bool {
        self.done[at * self.words + earlier / 64] >> (earlier % 64) & 1 == 1
    }
}

impl Joined<'_> {
    /// Whether lanes, edges and messages make `later` be issued after `earlier`, within a tile. What comes before
    /// `earlier` in the order `turns` cannot lead back to it.
    fn reaches(&self, earlier: Global, later: Global, turns: &[usize]) -> bool {
        let mut seen = HashSet::new();
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
