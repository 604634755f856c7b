//! [`PointToPoint`]: tagged messages between two ranks, on a port of their own so that they never stand in a collective's way.
//!
//! Protocol, per pair and direction. Every message on the port begins with a header (`kind`, `dtype`, `tag`, `total` bytes, `id`, `returned`).
//! - A payload that fits a slot goes at once (`Eager`) while the receiver is known to have room for it. Others are announced (`Announce`);
//!   the receiver grants one (`Grant`) when a receive of its tag is posted and its turn has come, and the sender streams it (`Data`). A
//!   receive that is too small, or of another type, refuses it (`Refuse`).
//! - Eager messages and announcements of one tag are matched with receives of that tag in order.
//! - The port is always drained, whether or not a receive is posted, so that nothing stands in the way of another tag or of answers.
//!   What comes early is kept. How much that can be the sender sees to: `budget` for messages, `outgoing` for announcements.
//! - Messages of a rank to itself take no port; for them the same rules hold.
//! - A receive from any rank takes the first message of its tag that is there, of whichever rank; the ranks are looked at in turn.
//!   Among receives of a tag, from a rank or from any, a message is given to the one that was posted first. Given a message, it goes
//!   on as a receive from that message's sender.
//!
//! `header` is the messages' form, `line` what is between this rank and a peer, `loopback` the same for this rank and itself; both keep what
//! waits in `matching`. `anyone` is the receives that name no rank, `outgoing` the sends.

mod anyone;
mod budget;
mod header;
mod line;
mod loopback;
mod matching;
mod outgoing;

use std::sync::Arc;
use std::time::{Duration, Instant};

use hcomm_ops::{DType, Rank, RawSpan};

use self::anyone::Anyone;
use self::line::Line;
use self::loopback::Loopback;
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
    /// The type of the elements.
    pub dtype: DType,
    /// Shared with the submitter; for a receive it takes the bytes received.
    pub operation: Arc<Operation>,
    /// Operations that must end well before it is sent or received; see `core::held`.
    pub after: Vec<Arc<Operation>>,
}

/// A receive, from the time it is posted.
struct Receive {
    posted: Posted,
    /// Its place among all receives.
    order: u64,
    since: Option<Instant>,
}

/// What a message says of itself.
#[derive(Clone, Copy)]
struct Message {
    from: Rank,
    to: Rank,
    tag: u32,
    dtype: DType,
    bytes: u64,
}

/// See the module's text.
pub(crate) struct PointToPoint {
    rank: Rank,
    /// By rank; this rank's own stays unused.
    lines: Vec<Line>,
    loopback: Loopback,
    anyone: Anyone,
    /// Receives posted.
    posted: u64,
    /// Whether any message was sent, received or seen.
    used: bool,
    /// Why messages have failed.
    loss: Option<Failure>,
}

impl PointToPoint {
    pub fn new(rank: Rank, world: usize) -> Self {
        PointToPoint {
            rank,
            lines: (0..world).map(|peer| Line::new(rank, peer)).collect(),
            loopback: Loopback::new(rank),
            anyone: Anyone::default(),
            posted: 0,
            used: false,
            loss: None,
        }
    }

    /// Whether nothing is posted.
    pub fn is_idle(&self) -> bool {
        !self.used || self.anyone.is_idle() && self.loopback.is_idle() && self.lines.iter().all(Line::is_idle)
    }

    pub fn send(&mut self, posted: Posted) {
        self.used = true;
        match posted.peer {
            peer if peer == self.rank => self.loopback.send(posted, &mut self.anyone),
            peer => self.lines[peer].send(posted),
        }
    }

    pub fn receive(&mut self, posted: Posted) {
        let receive = self.post(posted);
        self.receive_from(receive.posted.peer, receive);
    }

    /// A receive from any rank.
    pub fn receive_any(&mut self, posted: Posted) {
        let receive = self.post(posted);
        let (tag, mut ranks) = (receive.posted.tag, self.anyone.in_turn(self.lines.len()));
        self.anyone.post(receive);
        // An early message of the tag is one that no receive posted before is for.
        let Some(from) = ranks.find(|rank| self.has_early(*rank, tag)) else { return };
        if let Some(receive) = self.anyone.give(tag, None, from) {
            self.receive_from(from, receive);
        }
    }

    fn has_early(&self, rank: Rank, tag: u32) -> bool {
        match rank {
            rank if rank == self.rank => self.loopback.has_early(tag),
            rank => self.lines[rank].has_early(tag),
        }
    }

    fn receive_from(&mut self, peer: Rank, receive: Receive) {
        match peer {
            peer if peer == self.rank => self.loopback.receive(receive),
            peer => self.lines[peer].receive(receive),
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
                let failure = line.blame(wire, peers);
                moved |= failure.is_some();
                self.loss = self.loss.take().or(failure.filter(is_loss));
            }
        }
        if peers.any_gone() {
            let failure = self.anyone.blame(&self.lines, wires, peers);
            moved |= failure.is_some();
            self.loss = self.loss.take().or(failure.filter(is_loss));
        }
        moved
    }

    /// A failure of messages that the communicator has not failed of yet: what was lost with them nobody can make good. A rank that has
    /// said goodbye is no loss; others may go on without it.
    pub fn take_loss(&mut self) -> Option<Failure> {
        self.loss.take()
    }

    /// Looks at deadlines, and whether a peer has begun to send.
    pub fn check_time(&mut self, now: Instant, deadline: Duration, peers: &Peers) {
        self.used = true;
        for line in &mut self.lines {
            line.check_time(now, deadline);
        }
        self.loopback.check_time(now, deadline);
        self.anyone.check_time(now, deadline, peers, self.lines.len());
    }

    /// Ends everything.
    pub fn fail_all(&mut self, failure: &Failure) {
        for line in &mut self.lines {
            line.fail_all(failure);
        }
        self.loopback.fail_all(failure);
        self.anyone.fail_all(failure);
    }

    fn post(&mut self, posted: Posted) -> Receive {
        self.used = true;
        self.posted += 1;
        Receive { posted, order: self.posted, since: None }
    }
}

impl Receive {
    fn is_in_time(&mut self, peer: Rank, now: Instant, default: Duration) -> bool {
        let tag = self.posted.tag;
        self.posted.is_in_time(&mut self.since, now, default, || {
            (format!("a receive from rank {peer} with tag {tag}"), format!("waiting for rank {peer}"))
        })
    }
}

impl Message {
    /// Why a receive of this type and room cannot take it, if so.
    fn fault(self, received: DType, room: u64) -> Option<Failure> {
        let Message { from, to, tag, dtype, bytes } = self;
        if dtype != received {
            return Some(Failure::MessageType { from, to, tag, sent: dtype, received });
        }
        (bytes > room).then_some(Failure::MessageSize { rank: from, tag, bytes, room })
    }
}

/// Whether messages that failed so are lost.
fn is_loss(failure: &Failure) -> bool {
    !matches!(failure, Failure::PeerLeft { .. })
}

impl Posted {
    /// For a receive: whether the message is one for it.
    fn takes(&self, message: Message) -> Result<(), Failure> {
        message.fault(self.dtype, self.span.len() as u64).map_or(Ok(()), Err)
    }

    /// Ends a receive with its message, or with why it cannot take it.
    fn deliver(self, message: Message, payload: RawSpan) {
        let message = Message { bytes: payload.len() as u64, ..message };
        match self.takes(message) {
            Ok(()) => {
                self.span.slice(0, payload.len()).copy_from(payload);
                self.ended(message.from, message.bytes);
            }
            Err(failure) => self.operation.complete(Err(failure)),
        }
    }

    /// A receive that has all of its message.
    fn ended(self, from: Rank, bytes: u64) {
        self.operation.set_received(from, bytes);
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
}
