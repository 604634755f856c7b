//! Runs the joined plan as a simulation of tokens, tile by tile: whether every node is issued in the end. That it is
//! shows that the plan is acyclic (one tile, endless channels) and free of deadlock (depth + 1 tiles, real channels).
//!
//! What a node waits for does not depend on the order in which others go, so one run stands for all.

use std::collections::VecDeque;

use super::error::Chain;
use super::joined::{Global, Joined, Message};

/// What a run assumes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rules {
    pub tiles: usize,
    /// Messages that a channel holds.
    pub depth: usize,
    /// A node that lends is done only when what it sent has been received.
    pub late: bool,
}

/// The order in which the nodes of the first tile were issued, or the shortest circle of nodes that wait.
pub(super) fn run(joined: &Joined<'_>, rules: Rules) -> Result<Vec<Global>, Chain> {
    let mut state = State::new(joined, rules);
    while let Some(lane) = state.queue.pop_front() {
        state.queued[lane] = false;
        while state.issue_next(lane) {}
    }
    match state.stuck() {
        None => Ok(state.order),
        Some(chain) => Err(chain),
    }
}

/// Why a node is not issued.
enum Wait {
    For(Global, &'static str),
}

struct State<'j, 'a> {
    joined: &'j Joined<'a>,
    rules: Rules,
    /// Per lane: tile, and place within the lane.
    cursors: Vec<(usize, usize)>,
    /// Per lane: of its node's dependencies, how many are known to be done; of its messages, how many to be there; and for how many
    /// there is known to be room. Nobody else takes either, so what is known once stays true until the node is issued.
    known: Vec<[usize; 3]>,
    queue: VecDeque<usize>,
    queued: Vec<bool>,
    sent: Vec<usize>,
    received: Vec<usize>,
    /// Per node: tiles issued, tiles done.
    issued: Vec<usize>,
    done: Vec<usize>,
    /// Per message: tiles received.
    taken: Vec<usize>,
    order: Vec<Global>,
    /// Messages of each channel per tile, in order.
    fifo_messages: Vec<Vec<usize>>,
}

impl<'j, 'a> State<'j, 'a> {
    fn new(joined: &'j Joined<'a>, rules: Rules) -> Self {
        let (nodes, lanes, fifos) = (joined.links.len(), joined.lanes.len(), joined.fifos.len());
        let mut fifo_messages = vec![Vec::new(); fifos];
        for (number, message) in joined.messages.iter().enumerate() {
            fifo_messages[message.fifo].push(number);
        }
        State {
            joined,
            rules,
            cursors: vec![(0, 0); lanes],
            known: vec![[0; 3]; lanes],
            queue: (0..lanes).collect(),
            queued: vec![true; lanes],
            sent: vec![0; fifos],
            received: vec![0; fifos],
            issued: vec![0; nodes],
            done: vec![0; nodes],
            taken: vec![0; joined.messages.len()],
            order: Vec::with_capacity(nodes),
            fifo_messages,
        }
    }

    /// The node that a lane is at.
    fn current(&self, lane: usize) -> Option<Global> {
        let (tile, place) = self.cursors[lane];
        let nodes = &self.joined.lanes[lane];
        (tile < self.rules.tiles && !nodes.is_empty()).then(|| nodes.start + place)
    }

    fn issue_next(&mut self, lane: usize) -> bool {
        let Some(at) = self.current(lane) else { return false };
        self.look_again(lane, at);
        if self.waits(at).is_some() {
            return false;
        }
        self.known[lane] = [0; 3];
        if self.cursors[lane].0 == 0 {
            self.order.push(at);
        }
        self.issued[at] += 1;
        self.advance(lane);
        let links = &self.joined.links[at];
        for message in &links.sent {
            self.sent[self.joined.messages[*message].fifo] += 1;
            self.wake(self.joined.links[self.joined.messages[*message].receiver].lane);
        }
        for message in &links.received {
            let message = (*message, self.joined.messages[*message]);
            self.received[message.1.fifo] += 1;
            self.taken[message.0] += 1;
            self.wake(self.joined.links[message.1.sender].lane);
            self.finish(message.1.sender);
        }
        self.finish(at);
        true
    }

    fn advance(&mut self, lane: usize) {
        let (tile, place) = self.cursors[lane];
        let last = place + 1 == self.joined.lanes[lane].len();
        self.cursors[lane] = if last { (tile + 1, 0) } else { (tile, place + 1) };
    }

    /// Notes as done what now is.
    fn finish(&mut self, at: Global) {
        let links = &self.joined.links[at];
        let mut done = self.issued[at];
        if self.rules.late && links.lends {
            let taken = links.sent.iter().map(|message| self.taken[*message]).min();
            done = done.min(taken.unwrap_or(done));
        }
        if done > self.done[at] {
            self.done[at] = done;
            for dependent in &links.dependents {
                self.wake(self.joined.links[*dependent].lane);
            }
        }
    }

    fn wake(&mut self, lane: usize) {
        if !std::mem::replace(&mut self.queued[lane], true) {
            self.queue.push_back(lane);
        }
    }

    /// The first thing that a node waits for before it can be issued for its lane's tile.
    fn waits(&self, at: Global) -> Option<Wait> {
        self.waits_for_dep(at).or_else(|| self.waits_for_message(at)).or_else(|| self.waits_for_room(at))
    }

    fn waits_for_dep(&self, at: Global) -> Option<Wait> {
        let links = &self.joined.links[at];
        let tile = self.cursors[links.lane].0;
        let dep = *links.deps.get(self.known[links.lane][0])?;
        if self.issued[dep] <= tile {
            return Some(Wait::For(dep, "waits for the end of"));
        }
        let lent = self.joined.links[dep].sent.iter().find(|message| self.taken[**message] <= tile)?;
        Some(Wait::For(
            self.joined.messages[*lent].receiver,
            "waits until what it overwrites has been received by",
        ))
    }

    /// Goes on from what is known of the node that a lane is at.
    fn look_again(&mut self, lane: usize, at: Global) {
        let (links, tile) = (&self.joined.links[at], self.cursors[lane].0);
        let [mut done, mut there, mut room] = self.known[lane];
        done += links.deps[done..].iter().take_while(|dep| self.done[**dep] > tile).count();
        there += links.received[there..].iter().take_while(|message| self.is_there(**message)).count();
        room += links.sent[room..].iter().take_while(|message| self.has_room(**message)).count();
        self.known[lane] = [done, there, room];
    }

    fn is_there(&self, message: usize) -> bool {
        let Message { fifo, received_before, .. } = self.joined.messages[message];
        self.sent[fifo] > self.received[fifo] + received_before
    }

    fn has_room(&self, message: usize) -> bool {
        let Message { fifo, sent_before, .. } = self.joined.messages[message];
        self.sent[fifo] + sent_before < self.received[fifo] + self.rules.depth
    }

    fn waits_for_message(&self, at: Global) -> Option<Wait> {
        let links = &self.joined.links[at];
        let missing = *links.received.get(self.known[links.lane][1])?;
        Some(Wait::For(self.joined.messages[missing].sender, "waits for the message of"))
    }

    fn waits_for_room(&self, at: Global) -> Option<Wait> {
        let links = &self.joined.links[at];
        let full = *links.sent.get(self.known[links.lane][2])?;
        let fifo = self.joined.messages[full].fifo;
        let order = &self.fifo_messages[fifo];
        let oldest = order[self.received[fifo] % order.len()];
        Some(Wait::For(self.joined.messages[oldest].receiver, "waits for room, which is made by"))
    }

    /// The shortest circle of waiting nodes, unless all have gone.
    fn stuck(&self) -> Option<Chain> {
        let lanes = (0..self.cursors.len()).filter(|lane| self.current(*lane).is_some());
        let shortest = lanes.map(|lane| self.circle_from(lane)).min_by_key(Vec::len)?;
        Some(Chain(shortest.into_iter().map(|(at, why)| (self.joined.at(at), why)).collect()))
    }

    /// Follows what each node waits for, from a lane's current node, until it closes; gives the closed part.
    fn circle_from(&self, lane: usize) -> Vec<(Global, String)> {
        let mut path: Vec<(Global, String)> = Vec::new();
        let mut next = self.current(lane);
        while let Some(at) = next {
            if let Some(start) = path.iter().position(|(seen, _)| *seen == at) {
                return path.split_off(start);
            }
            let Some(Wait::For(other, why)) = self.waits(at) else { break };
            // What it waits for may itself stand behind the node that its lane is at.
            next = self.current(self.joined.links[other].lane);
            let is_behind = next.is_some_and(|current| current != other);
            path.push((at, format!("{why}{}", if is_behind { " what stands behind" } else { "" })));
        }
        path
    }
}
