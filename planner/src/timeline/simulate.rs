//! [`Simulation`]: follows the joined plan event by event: which processor takes what is ready, and what its end sets free. From
//! when on a node is ready, `ready` says.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::Model;
use super::error::TimelineError;
use super::path::critical_path;
use super::price::{Job, Prices};
use super::run::{Timeline, Why};
use super::state::{Cause, Cursor, Event, Fifo, NOT_YET, Ns, Pool, Ran, RunId, pools};
use super::ways::Ways;
use crate::verify::joined::{Global, Joined};

/// See the module.
pub(super) struct Simulation<'a> {
    pub(super) joined: &'a Joined<'a>,
    pub(super) jobs: &'a [Job],
    pub(super) tiles: usize,
    pub(super) prices: Prices<'a>,
    pub(super) depth: usize,
    pub(super) runs: Vec<Ran>,
    /// Tiles that each node has ended.
    pub(super) ended: Vec<usize>,
    pub(super) cursors: Vec<Cursor>,
    pub(super) causes: Vec<Cause>,
    pub(super) fifos: Vec<Fifo>,
    pub(super) pools: Vec<Pool>,
    pub(super) pool_of: Vec<usize>,
    pub(super) ways: Ways,
    pub(super) events: BinaryHeap<Reverse<(Ns, Event)>>,
    /// Lanes that may be able to go on.
    pub(super) woken: Vec<usize>,
}

impl<'a> Simulation<'a> {
    pub fn new(
        joined: &'a Joined<'a>,
        jobs: &'a [Job],
        tiles: usize,
        prices: Prices<'a>,
        model: &Model,
    ) -> Self {
        let (nodes, lanes, depth) = (jobs.len(), joined.lanes.len(), model.depth.max(1));
        let (pools, pool_of) = pools(joined, model.workers.max(1));
        Simulation {
            joined,
            jobs,
            tiles,
            prices,
            depth,
            runs: vec![NOT_YET; nodes * tiles],
            ended: vec![0; nodes],
            cursors: vec![Cursor::default(); lanes],
            causes: vec![NOT_YET.cause; lanes],
            fifos: joined.fifos.iter().map(|_| Fifo { unused: depth, ..Fifo::default() }).collect(),
            pools,
            pool_of,
            ways: Ways::new(prices.hosts()),
            events: BinaryHeap::new(),
            woken: (0..lanes).rev().collect(),
        }
    }

    /// Runs to the end of the tiles followed; `trips` are the tiles of the whole call.
    pub fn run(mut self, trips: u64) -> Result<Timeline, TimelineError> {
        self.look_at_woken(0.0);
        while let Some(Reverse((Ns(now), event))) = self.events.pop() {
            match event {
                Event::Ready(lane) => self.wait(lane, now),
                Event::End(lane) => self.end(lane, now),
            }
            self.look_at_woken(now);
        }
        let (ended, all) = (self.ended.iter().sum(), self.runs.len());
        if ended < all {
            return Err(TimelineError::Stuck { ended, all, depth: self.depth });
        }
        Ok(self.timeline(trips))
    }

    fn look_at_woken(&mut self, now: f64) {
        while let Some(lane) = self.woken.pop() {
            self.look_at(lane, now);
        }
    }

    /// A ready node begins, or waits for a processor.
    fn wait(&mut self, lane: usize, now: f64) {
        let pool = self.pool_of[lane];
        let tile = self.cursors[lane].tile;
        self.pools[pool].waiting.push(Reverse((Ns(now), tile, lane)));
        if self.pools[pool].idle > 0 {
            self.begin_next(pool, now, None);
        }
    }

    /// The first node that waits for a processor of the pool begins; `before` is the run that has just left the processor.
    fn begin_next(&mut self, pool: usize, now: f64, before: Option<RunId>) {
        let Some(Reverse((Ns(ready), tile, lane))) = self.pools[pool].waiting.pop() else { return };
        self.pools[pool].idle -= 1;
        let nodes = &self.joined.lanes[lane];
        let at = nodes.start + self.cursors[lane].place;
        let (mut cause, run) = (self.causes[lane], at * self.tiles + tile);
        if ready < now {
            cause = Cause { at: now, why: Why::Processor, run: before };
        }
        let to = now + self.jobs[at].duration_ns(tile);
        self.runs[run] = Ran { from: now, to, cause };
        self.take_messages(at);
        self.events.push(Reverse((Ns(to), Event::End(lane))));
    }

    /// What a node reads and the room that it fills are its own from its start on.
    fn take_messages(&mut self, at: Global) {
        let links = &self.joined.links[at];
        for message in &links.received {
            let fifo = self.joined.messages[*message].fifo;
            self.fifos[fifo].arrived.pop_front();
        }
        for message in &links.sent {
            let fifo = &mut self.fifos[self.joined.messages[*message].fifo];
            match fifo.unused.checked_sub(1) {
                Some(left) => fifo.unused = left,
                None => drop(fifo.freed.pop_front()),
            }
        }
    }

    /// The node that a lane is at has ended: its processor, messages and room are others' now.
    fn end(&mut self, lane: usize, now: f64) {
        let Some((at, tile)) = self.current(lane) else { return };
        let (run, rank) = (at * self.tiles + tile, self.joined.rank(at));
        let bytes = self.jobs[at].bytes(tile);
        let links = &self.joined.links[at];
        for message in links.sent.iter().map(|message| self.joined.messages[*message]) {
            let to = self.joined.rank(message.receiver);
            let arrival = self.ways.arrival_ns(&self.prices, rank, to, bytes, now);
            self.fifos[message.fifo].arrived.push_back((arrival, run));
            self.woken.push(self.joined.links[message.receiver].lane);
        }
        for message in links.received.iter().map(|message| self.joined.messages[*message]) {
            let seen = now + self.prices.latency_ns(rank, self.joined.rank(message.sender));
            self.fifos[message.fifo].freed.push_back((seen, run));
            self.woken.push(self.joined.links[message.sender].lane);
        }
        self.cursors[lane].is_under_way = false;
        self.pass(lane, at);
        self.woken.push(lane);
        let pool = self.pool_of[lane];
        self.pools[pool].idle += 1;
        self.begin_next(pool, now, Some(run));
    }

    /// Moves a lane's cursor on, and wakes the lanes whose nodes depend on the node that it leaves.
    pub(super) fn pass(&mut self, lane: usize, at: Global) {
        self.ended[at] += 1;
        let cursor = &mut self.cursors[lane];
        cursor.place += 1;
        if cursor.place == self.joined.lanes[lane].len() {
            (cursor.tile, cursor.place) = (cursor.tile + 1, 0);
        }
        let links = &self.joined.links;
        self.woken.extend(links[at].dependents.iter().map(|dependent| links[*dependent].lane));
    }

    fn timeline(self, trips: u64) -> Timeline {
        let base = self.joined.base.iter().copied().chain([self.jobs.len()]).collect();
        let path = critical_path(self.joined, &self.runs, self.tiles);
        let total_ns = path.last().map_or(0.0, |step| step.run.to_ns);
        let times = self.runs.iter().map(|run| (run.from, run.to)).collect();
        Timeline { base, times, tiles: self.tiles, trips, total_ns, path, tile_path: Vec::new() }
    }
}
