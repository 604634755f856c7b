//! [`PointToPoint`]: tagged messages between two ranks, on a port of their own so that they never stand in a collective's way.
//!
//! Protocol, per pair and direction. Every message on the port begins with a header (`kind`, `tag`, `total` bytes, `id`).
//! - A payload that fits a slot goes at once (`Eager`). A longer one is announced (`Announce`); the receiver grants it (`Grant`) when
//!   a receive of its tag is posted and its turn has come, and the sender streams it (`Data`). A receive that is too small
//!   refuses it (`Refuse`).
//! - Eager messages and announcements of one tag are matched with receives of that tag in order.
//! - The port is drained whether or not a receive is posted: what comes early is kept, up to some bytes a peer.
//! - A receive from any rank takes the first message of its tag that is there, of whichever rank; the ranks are looked at in turn.
//!   Among receives of a tag, from a rank or from any, a message is given to the one that was posted first. Given a message, it goes
//!   on as a receive from that message's sender.
//!
//! `header` is the messages' form, `line` what is between this rank and a peer, `anyone` the receives that name none.

mod anyone;
mod header;
mod line;

use std::sync::Arc;
use std::time::{Duration, Instant};

use hcomm_ops::{Rank, RawSpan};

use self::anyone::Anyone;
use self::line::Line;
use super::peers::Peers;
use crate::error::Failure;
use crate::execution::{PORTS, Wires};
use crate::operation::Operation;

/// The port, after those of the windows.
pub(crate) const PORT: u16 = PORTS;

/// One side of a message, submitted.
pub(crate) struct Posted {
    /// The other rank; this rank itself where it is not known yet.
    pub peer: Rank,
    /// The tag.
    pub tag: u32,
    /// The bytes, or the room for them.
    pub span: RawSpan,
    /// Shared with the submitter; for a receive it takes the bytes received.
    pub operation: Arc<Operation>,
}

/// A receive, from the time it is posted.
struct Receive {
    posted: Posted,
    /// Its place among all receives.
    order: u64,
    /// The stream that it has been matched with, the bytes that have come, and all of them.
    stream: Option<(u32, usize, usize)>,
    since: Option<Instant>,
}

/// See the module's text.
#[derive(Default)]
pub(crate) struct PointToPoint {
    lines: Vec<Line>,
    anyone: Anyone,
    /// Receives posted.
    posted: u64,
    /// Whether any message was sent, received or seen.
    used: bool,
}

impl PointToPoint {
    pub fn new(world: usize) -> Self {
        PointToPoint { lines: (0..world).map(Line::new).collect(), ..PointToPoint::default() }
    }

    /// Whether nothing is posted.
    pub fn is_idle(&self) -> bool {
        !self.used || self.anyone.is_idle() && self.lines.iter().all(Line::is_idle)
    }

    pub fn send(&mut self, posted: Posted) {
        self.used = true;
        self.lines[posted.peer].send(posted);
    }

    pub fn receive(&mut self, posted: Posted) {
        let peer = posted.peer;
        let receive = self.post(posted);
        self.lines[peer].receive(receive, &mut self.anyone);
    }

    /// A receive from any rank.
    pub fn receive_any(&mut self, posted: Posted) {
        let (tag, world) = (posted.tag, self.lines.len());
        let receive = self.post(posted);
        self.anyone.post(receive);
        // An early message of the tag is one that no receive posted before is for.
        if let Some(from) = self.anyone.in_turn(world).find(|rank| self.lines[*rank].early_of(tag).is_some())
        {
            self.lines[from].match_early(tag, &mut self.anyone);
        }
    }

    /// Moves what can move. Returns whether anything did.
    pub fn advance(&mut self, wires: &mut Wires, peers: &Peers) -> bool {
        if !self.used {
            return false;
        }
        let mut moved = false;
        for peer in self.anyone.in_turn(self.lines.len()) {
            let (Some(wire), line) = (&mut wires[peer], &mut self.lines[peer]) else { continue };
            moved |= line.advance(wire, &mut self.anyone);
            if peers.any_gone() {
                moved |= line.blame(wire, peers);
            }
        }
        if peers.any_gone() {
            moved |= self.anyone.blame(&self.lines, wires, peers);
        }
        moved
    }

    /// Looks at deadlines, and whether a peer has begun to send.
    pub fn check_time(&mut self, now: Instant, deadline: Duration, peers: &Peers) {
        self.used = true;
        for line in &mut self.lines {
            line.check_time(now, deadline);
        }
        self.anyone.check_time(now, deadline, peers, self.lines.len());
    }

    /// Ends everything.
    pub fn fail_all(&mut self, failure: &Failure) {
        for line in &mut self.lines {
            line.fail_all(failure);
        }
        self.anyone.fail_all(failure);
    }

    fn post(&mut self, posted: Posted) -> Receive {
        self.used = true;
        self.posted += 1;
        Receive { posted, order: self.posted, stream: None, since: None }
    }
}

impl Posted {
    fn deliver(self, total: u64, payload: RawSpan) {
        if payload.len() > self.span.len() {
            return self.too_small(total);
        }
        self.span.copy_from(payload);
        self.ended(payload.len() as u64);
    }

    /// A receive that has all of its message.
    fn ended(self, bytes: u64) {
        self.operation.set_received(self.peer, bytes);
        self.operation.complete(Ok(()));
    }

    /// Whether its deadline has not passed; it fails otherwise, with the call and what it waits for in words.
    fn is_in_time(
        &self,
        since: &mut Option<Instant>,
        now: Instant,
        default: Duration,
        words: impl FnOnce() -> (String, String),
    ) -> bool {
        let elapsed = now.duration_since(*since.get_or_insert(now));
        if elapsed < self.operation.deadline().unwrap_or(default) {
            return true;
        }
        let (call, waiting) = words();
        self.operation.complete(Err(Failure::Deadline { call, elapsed, waiting }));
        false
    }

    fn too_small(self, bytes: u64) {
        let failure =
            Failure::MessageSize { rank: self.peer, tag: self.tag, bytes, room: self.span.len() as u64 };
        self.operation.complete(Err(failure));
    }
}
