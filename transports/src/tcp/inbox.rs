//! [`Inbox`]: the receiving half of a TCP wire, without the socket: says where the next bytes of the stream go, and turns
//! what has come into messages per port.
//!
//! The peer may send `depth` messages of a port before the first is released, and there is a slot for each of them, so every frame
//! can be taken off the socket at once: a port that nobody reads never stands in the way of another.
//! All that the peer says is checked here or in `frame`; whatever breaks a rule ends the wire.

use std::collections::VecDeque;

use hcomm_ops::RawSpan;

use super::frame::{Credit, Frame, Header, MAX_CREDITS, Malformed, decode};
use super::pool::Pool;
use super::sys::{Slot, bytes_of};
use crate::wire::{Arrival, Key, WireConfig, Word};

/// Bytes read at once while headers are looked for.
const STAGING_BYTES: usize = 16 * 1024;
/// Bytes read beyond the end of a payload that goes straight to its place: they are copied, so it is few.
const LOOKAHEAD_BYTES: usize = 2048;

/// What has arrived, and where what arrives next goes.
#[derive(Debug)]
pub(super) struct Inbox {
    config: WireConfig,
    ports: Vec<InPort>,
    pool: Pool,
    staging: Slot,
    /// The bytes of `staging` that have come and were not looked at.
    pending: std::ops::Range<usize>,
    /// The port whose last message has not come in full.
    landing: Option<u16>,
    /// Ports with releases that the peer has not heard of, perhaps since told with a message.
    untold: Vec<u16>,
    /// Whether half of a port waits to be told.
    is_urgent: bool,
    /// Whether the peer waits for the acknowledgement of what has come.
    is_nudged: bool,
}

#[derive(Debug, Default)]
struct InPort {
    /// Come (the last perhaps in part) and not released, in order.
    messages: VecDeque<Message>,
    /// Offered for the next messages, in order.
    posts: VecDeque<Post>,
    /// How many of `messages` lie in slots.
    in_slots: u32,
    begun: u32,
    released: u32,
    /// The cursor that the peer was told last.
    told: u32,
    is_listed: bool,
}

#[derive(Debug)]
struct Message {
    word: Word,
    bytes: usize,
    here: usize,
    place: Place,
}

#[derive(Debug)]
enum Place {
    Slot(Slot),
    Posted(RawSpan),
}

#[derive(Debug)]
struct Post {
    word: Word,
    span: RawSpan,
}

/// Takes the cursors that come with frames.
pub(super) trait HandleCredit {
    /// The peer has released messages of a port.
    fn handle_credit(&mut self, credit: Credit) -> Result<(), Malformed>;
}

impl Inbox {
    /// An empty one; the first message of each port is number `first`.
    pub(super) fn new(config: WireConfig, first: u32) -> Self {
        let port = || InPort { begun: first, released: first, told: first, ..InPort::default() };
        Inbox {
            config,
            ports: (0..config.ports).map(|_| port()).collect(),
            pool: Pool::new(config.slot_bytes),
            staging: Slot::new(STAGING_BYTES),
            pending: 0..0,
            landing: None,
            untold: Vec::with_capacity(usize::from(config.ports)),
            is_urgent: false,
            is_nudged: false,
        }
    }

    /// Where the next bytes of the stream go, in order.
    pub(super) fn spare(&self) -> [RawSpan; 2] {
        let staging = self.staging.span();
        match self.landing.and_then(|port| self.ports[usize::from(port)].messages.back()) {
            Some(message) => [message.rest(), staging.slice(0, LOOKAHEAD_BYTES)],
            None => [staging.slice(self.pending.end, staging.len() - self.pending.end), RawSpan::empty()],
        }
    }

    /// `count` bytes have been put where `spare` said.
    pub(super) fn handle_filled(
        &mut self,
        count: usize,
        credits: &mut impl HandleCredit,
    ) -> Result<(), Malformed> {
        let landed = self.land(count);
        self.pending.end += count - landed;
        while self.landing.is_none() && self.handle_frame(credits)? {}
        self.close_ranks();
        Ok(())
    }

    /// Whether the stream stops between two frames here.
    pub(super) fn is_between_frames(&self) -> bool {
        self.landing.is_none() && self.pending.is_empty()
    }

    /// Looks for the next message of a port.
    pub(super) fn poll(&self, key: Key, bytes: usize) -> Arrival {
        let Some(message) = self.ports.get(usize::from(key.port)).and_then(|port| port.messages.front())
        else {
            return Arrival::NotYet;
        };
        match &message.place {
            _ if message.here < message.bytes => Arrival::NotYet,
            _ if message.word != key.word || message.bytes != bytes => {
                Arrival::Differs { word: message.word, bytes: message.bytes as u64 }
            }
            Place::Slot(slot) => Arrival::Here(slot.span().slice(0, bytes)),
            Place::Posted(_) => Arrival::Landed,
        }
    }

    /// Drops the message at the front of a port.
    pub(super) fn release(&mut self, port: u16) {
        let threshold = (self.config.depth / 2).max(1);
        let inbound = &mut self.ports[usize::from(port)];
        let Some(message) = inbound.take_complete() else { return };
        inbound.released = inbound.released.wrapping_add(1);
        self.is_urgent |= inbound.released.wrapping_sub(inbound.told) >= threshold;
        if !inbound.is_listed {
            inbound.is_listed = true;
            self.untold.push(port);
        }
        if let Place::Slot(slot) = message.place {
            inbound.in_slots -= 1;
            self.pool.put(slot);
        }
    }

    /// Takes an offer for the next message of a port; see `Wire::post`. Refused where a message of the port that was not
    /// posted for is here, because the offer might then be meant for it.
    pub(super) fn post(&mut self, key: Key, span: RawSpan) -> bool {
        let depth = self.config.depth as usize;
        let port = &mut self.ports[usize::from(key.port)];
        let takes = !span.is_empty() && port.in_slots == 0 && port.messages.len() + port.posts.len() < depth;
        if takes {
            port.posts.push_back(Post { word: key.word, span });
        }
        takes
    }

    /// Lets go of the operation's memory; what was landing there goes on in a slot.
    pub(super) fn revoke(&mut self, operation: u32) {
        for port in &mut self.ports {
            port.posts.retain(|post| post.word.operation != operation);
            for message in port.messages.iter_mut().filter(|message| message.word.operation == operation) {
                port.in_slots += u32::from(message.move_to_slot(&mut self.pool));
            }
        }
    }

    /// The cursor to go with a message of `port`; the peer then knows it.
    pub(super) fn tell(&mut self, port: u16) -> u32 {
        let port = &mut self.ports[usize::from(port)];
        port.told = port.released;
        port.released
    }

    /// Whether the peer has asked for an acknowledgement since this was asked last.
    pub(super) fn take_nudge(&mut self) -> bool {
        std::mem::take(&mut self.is_nudged)
    }

    /// Whether the peer should hear of releases at once, because half of a port is free again.
    pub(super) fn is_urgent(&self) -> bool {
        self.is_urgent
    }

    /// The cursors that the peer has not heard of, at most a frame's worth, into `out`. Leaves `out` empty where there are none.
    pub(super) fn poll_credits(&mut self, out: &mut Vec<Credit>) {
        out.clear();
        while out.len() < MAX_CREDITS {
            let Some(port) = self.untold.pop() else {
                self.is_urgent = false;
                return;
            };
            let inbound = &mut self.ports[usize::from(port)];
            inbound.is_listed = false;
            if inbound.told != inbound.released {
                out.push(Credit { port, released: self.tell(port) });
            }
        }
    }

    /// Counts bytes towards the message that is landing; returns how many belonged to it.
    fn land(&mut self, count: usize) -> usize {
        let Some(message) = self.landing.and_then(|port| self.ports[usize::from(port)].messages.back_mut())
        else {
            return 0;
        };
        let landed = count.min(message.bytes - message.here);
        message.here += landed;
        if message.here == message.bytes {
            self.landing = None;
        }
        landed
    }

    /// Handles the frame at the start of `pending`; false where it has not come in full.
    fn handle_frame(&mut self, credits: &mut impl HandleCredit) -> Result<bool, Malformed> {
        let Some(frame) = decode(bytes_of(&self.staging, self.pending.clone()), self.config)? else {
            return Ok(false);
        };
        let taken = frame.decoded_bytes();
        match frame {
            Frame::Credits(entries) => entries.iter().try_for_each(|credit| credits.handle_credit(credit))?,
            Frame::Nudge => self.is_nudged = true,
            Frame::Message(header) => {
                credits.handle_credit(Credit { port: header.port, released: header.released })?;
                self.pending.start += taken;
                self.handle_message(header)?;
                return Ok(true);
            }
        }
        self.pending.start += taken;
        Ok(true)
    }

    /// Finds the message its place and moves there what of it has come.
    fn handle_message(&mut self, header: Header) -> Result<(), Malformed> {
        let port = &mut self.ports[usize::from(header.port)];
        if header.sequence != port.begun {
            let (port, sequence, expected) = (header.port, header.sequence, port.begun);
            return Err(Malformed::Sequence { port, sequence, expected });
        }
        if port.begun.wrapping_sub(port.released) >= self.config.depth {
            return Err(Malformed::Overrun { port: header.port, depth: self.config.depth });
        }
        port.begun = port.begun.wrapping_add(1);
        let mut message = port.place(header, &mut self.pool);
        let here = message.bytes.min(self.pending.len());
        message.rest().copy_from(self.staging.span().slice(self.pending.start, here));
        message.here = here;
        self.pending.start += here;
        self.landing = (here < message.bytes).then_some(header.port);
        port.messages.push_back(message);
        Ok(())
    }

    /// Moves what is left of `pending` to the front of the staging, which so always has room for a whole frame.
    fn close_ranks(&mut self) {
        let left = self.pending.len();
        if self.pending.start > 0 {
            let staging = self.staging.span();
            staging.copy_from(staging.slice(self.pending.start, left));
            self.pending = 0..left;
        }
    }
}

impl InPort {
    fn take_complete(&mut self) -> Option<Message> {
        let is_complete = self.messages.front().is_some_and(|message| message.here == message.bytes);
        if is_complete { self.messages.pop_front() } else { None }
    }

    fn place(&mut self, header: Header, pool: &mut Pool) -> Message {
        let (word, bytes) = (header.word, header.bytes as usize);
        let post = self.posts.pop_front().filter(|post| post.word == word && post.span.len() == bytes);
        let place = match post {
            Some(post) => Place::Posted(post.span),
            None => {
                self.in_slots += 1;
                Place::Slot(pool.take(bytes))
            }
        };
        Message { word, bytes, here: 0, place }
    }
}

impl Message {
    fn span(&self) -> RawSpan {
        match &self.place {
            Place::Slot(slot) => slot.span().slice(0, self.bytes),
            Place::Posted(span) => *span,
        }
    }

    /// Where its next bytes go.
    fn rest(&self) -> RawSpan {
        self.span().slice(self.here, self.bytes - self.here)
    }

    /// Takes a message that is still landing in posted memory away from there; whether it did.
    fn move_to_slot(&mut self, pool: &mut Pool) -> bool {
        let Place::Posted(span) = self.place else { return false };
        if self.here == self.bytes {
            return false;
        }
        let slot = pool.take(self.bytes);
        slot.span().copy_from(span.slice(0, self.here));
        self.place = Place::Slot(slot);
        true
    }
}
