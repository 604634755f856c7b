//! [`Simulation`]: follows the joined plan event by event: what is ready when, which processor takes it, and what its end sets free.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use super::Model;
use super::error::TimelineError;
use super::path::critical_path;
use super::price::{Job, Prices};
use super::run::{Timeline, Why};
use super::ways::Ways;
use crate::plan::LaneKind;
use crate::verify::joined::{Global, Joined};

/// A time that can be ordered: finite, or `NaN` for a run that has not begun.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Ns(pub f64);

impl Eq for Ns {}

impl Ord for Ns {
    fn cmp(&self, other: &Ns) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0)
    }
}

impl PartialOrd for Ns {
    fn partial_cmp(&self, other: &Ns) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

/// Index of a run: node times tiles plus tile.
pub(super) type RunId = usize;

/// What a run waited for last: since when that was over, why, and which run it was.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cause {
    pub at: f64,
    pub why: Why,
    pub run: Option<RunId>,
}

impl Cause {
    /// The later of two; of equally late ones the first.
    fn later(self, other: Cause) -> Cause {
        if other.at > self.at { other } else { self }
    }
}

/// One run's times, and why it did not begin sooner.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ran {
    pub from: f64,
    pub to: f64,
    pub cause: Cause,
}

const NOT_YET: Ran =
    Ran { from: f64::NAN, to: f64::NAN, cause: Cause { at: 0.0, why: Why::Start, run: None } };

/// Something that happens at a time; of what happens at once, ends come first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// The node that a lane is at ends.
    End(usize),
    /// The node that a lane is at has all it needs but a processor.
    Ready(usize),
}

#[derive(Clone, Copy, Debug, Default)]
struct Cursor {
    tile: usize,
    place: usize,
    /// It is ready, or runs.
    is_under_way: bool,
}

/// One channel: arrivals not yet received, and the room that receiving has made.
#[derive(Debug, Default)]
struct Fifo {
    arrived: VecDeque<(f64, RunId)>,
    /// Slots that no message has used yet.
    unused: usize,
    freed: VecDeque<(f64, RunId)>,
}

/// The processors that share some lanes.
#[derive(Debug)]
struct Pool {
    idle: usize,
    /// Lanes whose nodes are ready: since when, for which tile.
    waiting: BinaryHeap<Reverse<(Ns, usize, usize)>>,
}

/// See the module.
pub(super) struct Simulation<'a> {
    joined: &'a Joined<'a>,
    jobs: &'a [Job],
    tiles: usize,
    prices: Prices<'a>,
    depth: usize,
    runs: Vec<Ran>,
    /// Tiles that each node has ended.
    ended: Vec<usize>,
    cursors: Vec<Cursor>,
    causes: Vec<Cause>,
    fifos: Vec<Fifo>,
    pools: Vec<Pool>,
    pool_of: Vec<usize>,
    ways: Ways,
    events: BinaryHeap<Reverse<(Ns, Event)>>,
    /// Lanes that may be able to go on.
    woken: Vec<usize>,
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

    /// Runs to the end; `trips` are the tiles of the whole call.
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

    /// Passes the tiles that a lane's next nodes skip, and notes from when on the node after those is ready, if that is known.
    fn look_at(&mut self, lane: usize, now: f64) {
        while let Some((at, tile)) = self.current(lane) {
            if self.cursors[lane].is_under_way
                || self.joined.links[at].deps.iter().any(|d| self.ended[*d] <= tile)
            {
                return;
            }
            let local = self.local_cause(lane, at, tile);
            if tile as u64 >= self.jobs[at].trips {
                self.runs[at * self.tiles + tile] = Ran { from: f64::NAN, to: local.at, cause: local };
                self.pass(lane, at);
                continue;
            }
            let Some(cause) = self.message_cause(at).and_then(|c| Some(c.later(self.room_cause(at)?))) else {
                return;
            };
            self.causes[lane] = cause.later(local);
            self.cursors[lane].is_under_way = true;
            self.events.push(Reverse((Ns(self.causes[lane].at.max(now)), Event::Ready(lane))));
            return;
        }
    }

    /// The node that a lane is at, and the tile.
    fn current(&self, lane: usize) -> Option<(Global, usize)> {
        let (cursor, nodes) = (self.cursors[lane], &self.joined.lanes[lane]);
        (cursor.tile < self.tiles && !nodes.is_empty()).then(|| (nodes.start + cursor.place, cursor.tile))
    }

    /// The later of the end of the lane's node before and of the deps.
    fn local_cause(&self, lane: usize, at: Global, tile: usize) -> Cause {
        let nodes = &self.joined.lanes[lane];
        let before = match (at == nodes.start, tile) {
            (true, 0) => None,
            (true, _) => Some((nodes.end - 1) * self.tiles + tile - 1),
            (false, _) => Some((at - 1) * self.tiles + tile),
        };
        let since = |run: RunId, why| Cause { at: self.runs[run].to, why, run: Some(run) };
        let deps = self.joined.links[at].deps.iter().map(|dep| since(dep * self.tiles + tile, Why::Dep));
        let lane = before.map_or(NOT_YET.cause, |run| since(run, Why::Lane));
        deps.fold(lane, |cause, dep| if dep.at >= cause.at { dep } else { cause })
    }

    /// When the last of a node's messages arrives, if all have been sent.
    fn message_cause(&self, at: Global) -> Option<Cause> {
        let received = &self.joined.links[at].received;
        received.iter().enumerate().try_fold(NOT_YET.cause, |cause, (i, message)| {
            let fifo = self.fifo_of(*message);
            let nth = received[..i].iter().filter(|m| self.fifo_of(**m) == fifo).count();
            let (at, run) = *self.fifos[fifo].arrived.get(nth)?;
            Some(cause.later(Cause { at, why: Why::Message, run: Some(run) }))
        })
    }

    /// From when on there is room for all that a node sends, if that is known.
    fn room_cause(&self, at: Global) -> Option<Cause> {
        let sent = &self.joined.links[at].sent;
        sent.iter().enumerate().try_fold(NOT_YET.cause, |cause, (i, message)| {
            let fifo = self.fifo_of(*message);
            let nth = sent[..i].iter().filter(|m| self.fifo_of(**m) == fifo).count();
            let Some(nth) = nth.checked_sub(self.fifos[fifo].unused) else { return Some(cause) };
            let (at, run) = *self.fifos[fifo].freed.get(nth)?;
            Some(cause.later(Cause { at, why: Why::Room, run: Some(run) }))
        })
    }

    fn fifo_of(&self, message: usize) -> usize {
        self.joined.messages[message].fifo
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
    fn pass(&mut self, lane: usize, at: Global) {
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
        let followed = path.last().map_or(0.0, |step| step.run.to_ns);
        let left = trips.saturating_sub(self.tiles as u64);
        let total_ns = if left > 0 { followed + self.ns_per_tile() * left as f64 } else { followed };
        let times = self.runs.iter().map(|run| (run.from, run.to)).collect();
        Timeline { base, times, tiles: self.tiles, trips, total_ns, path, tile_path: Vec::new() }
    }

    /// The mean time from the end of a tile to that of the next, away from the start and the end, where fewer lanes are busy.
    fn ns_per_tile(&self) -> f64 {
        let end_of = |tile: usize| {
            let runs = self.runs.iter().skip(tile).step_by(self.tiles);
            runs.map(|run| run.to).fold(0.0, f64::max)
        };
        let (first, last) = (self.tiles / 4, self.tiles * 3 / 4);
        (end_of(last) - end_of(first)) / (last - first).max(1) as f64
    }
}

/// The processors of each rank, the streams and the queue pairs; and which of them each lane uses.
fn pools(joined: &Joined<'_>, workers: usize) -> (Vec<Pool>, Vec<usize>) {
    let (mut pools, mut pool_of) = (Vec::new(), Vec::new());
    let pool = |idle| Pool { idle, waiting: BinaryHeap::new() };
    for plan in joined.plans {
        let host = pools.len();
        pools.push(pool(workers));
        for lane in &plan.lanes {
            let is_own = matches!(lane.kind, LaneKind::Stream { .. } | LaneKind::QueuePair { .. });
            pool_of.push(if is_own { pools.len() } else { host });
            if is_own {
                pools.push(pool(1));
            }
        }
    }
    (pools, pool_of)
}
