//! From when on a node is ready: its lane has come to it, its deps are done, its messages are there and its channels have room.

use std::cmp::Reverse;

use super::run::Why;
use super::simulate::Simulation;
use super::state::{Cause, Event, NOT_YET, Ns, Ran, RunId};
use crate::verify::joined::Global;

impl Simulation<'_> {
    /// Passes the tiles that a lane's next nodes skip, and notes from when on the node after those is ready, if that is known.
    pub(super) fn look_at(&mut self, lane: usize, now: f64) {
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
    pub(super) fn current(&self, lane: usize) -> Option<(Global, usize)> {
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
        let mut received = self.joined.links[at].received.iter();
        received.try_fold(NOT_YET.cause, |cause, message| {
            let message = self.joined.messages[*message];
            let (at, run) = *self.fifos[message.fifo].arrived.get(message.received_before)?;
            Some(cause.later(Cause { at, why: Why::Message, run: Some(run) }))
        })
    }

    /// From when on there is room for all that a node sends, if that is known.
    fn room_cause(&self, at: Global) -> Option<Cause> {
        let mut sent = self.joined.links[at].sent.iter();
        sent.try_fold(NOT_YET.cause, |cause, message| {
            let message = self.joined.messages[*message];
            let fifo = &self.fifos[message.fifo];
            let Some(nth) = message.sent_before.checked_sub(fifo.unused) else { return Some(cause) };
            let (at, run) = *fifo.freed.get(nth)?;
            Some(cause.later(Cause { at, why: Why::Room, run: Some(run) }))
        })
    }
}
