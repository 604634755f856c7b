//! [`Outgoing`]: messages to one peer that are not all sent yet: not begun, held back behind others of their tag, announced, streaming.
//!
//! A tag is held back while [`ANNOUNCED_PER_TAG`] of its messages are announced; a grant of one of them lets it go on. Messages of a tag are
//! begun in their order; tags never wait for each other, so that the receiver keeps so many announcements of each tag in use.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use rustc_hash::FxHashMap;

use super::Posted;
use super::budget::Budget;
use crate::error::Failure;

/// Messages of one tag that are announced at the same time.
const ANNOUNCED_PER_TAG: usize = 16;

/// See the module's text.
#[derive(Default)]
pub(super) struct Outgoing {
    pub budget: Budget,
    fresh: VecDeque<Send>,
    held: FxHashMap<u32, VecDeque<Send>>,
    announced: FxHashMap<u32, Send>,
    announced_of: FxHashMap<u32, usize>,
    streaming: VecDeque<(u32, Send)>,
    /// Tags held back that may go on.
    free: VecDeque<u32>,
    next_id: u32,
}

/// A message to be sent.
pub(super) struct Send {
    pub posted: Posted,
    pub since: Option<Instant>,
    /// Bytes of it that are under way, once it streams.
    pub offset: usize,
}

/// How a message begins.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// All at once.
    Eager,
    /// Announced under an id.
    Announce(u32),
}

impl Outgoing {
    pub fn is_empty(&self) -> bool {
        self.fresh.is_empty()
            && self.held.is_empty()
            && self.announced.is_empty()
            && self.streaming.is_empty()
    }

    pub fn post(&mut self, posted: Posted) {
        self.fresh.push_back(Send { posted, since: None, offset: 0 });
    }

    /// The message that is to be begun next, and how. `room`: bytes that go at once.
    pub fn next(&mut self, room: usize) -> Option<(Way, Send)> {
        while let Some(tag) = self.free.front().copied() {
            let first = self.held.get(&tag).and_then(VecDeque::front);
            if let Some(way) = first.and_then(|send| self.way(send, room)) {
                return self.take_held(tag).map(|send| (way, send));
            }
            self.free.pop_front();
        }
        while let Some(send) = self.fresh.pop_front() {
            let tag = send.posted.tag;
            let is_held = !self.held.is_empty() && self.held.contains_key(&tag);
            if let Some(way) = self.way(&send, room).filter(|_| !is_held) {
                return Some((way, send));
            }
            self.held.entry(tag).or_default().push_back(send);
        }
        None
    }

    /// Takes a message back that could not be begun since the port is full.
    pub fn put_back(&mut self, send: Send) {
        // If its tag was held back and may go on, its place is before the others of the tag.
        match self.free.front() {
            Some(tag) if *tag == send.posted.tag => self.held.entry(*tag).or_default().push_front(send),
            _ => self.fresh.push_front(send),
        }
    }

    /// A message has been announced.
    pub fn note_announced(&mut self, id: u32, send: Send) {
        *self.announced_of.entry(send.posted.tag).or_default() += 1;
        self.announced.insert(id, send);
        self.next_id = id.wrapping_add(1);
    }

    /// A message's receive has been posted.
    pub fn handle_granted(&mut self, id: u32) {
        if let Some(send) = self.take_announced(id) {
            self.streaming.push_back((id, send));
        }
    }

    /// An announced message that will not be granted.
    pub fn take_announced(&mut self, id: u32) -> Option<Send> {
        let send = self.announced.remove(&id)?;
        self.let_go_on(send.posted.tag);
        Some(send)
    }

    /// The message whose turn it is to send a part, with its id.
    pub fn streaming(&mut self) -> Option<&mut (u32, Send)> {
        self.streaming.front_mut()
    }

    /// How many messages stream.
    pub fn streams(&self) -> usize {
        self.streaming.len()
    }

    /// The message that had its turn gives it to the next; it is returned where all of it has been sent.
    pub fn turn(&mut self) -> Option<Send> {
        let (id, send) = self.streaming.pop_front()?;
        if send.offset >= send.posted.span.len() {
            return Some(send);
        }
        self.streaming.push_back((id, send));
        None
    }

    /// Fails the messages whose deadline has passed; `in_time` does, and says of which not.
    pub fn check_time(&mut self, now: Instant, default: Duration) {
        let mut in_time = |send: &mut Send| send.is_in_time(now, default);
        self.fresh.retain_mut(&mut in_time);
        self.streaming.retain_mut(|(_, send)| in_time(send));
        self.held.retain(|_, sends| {
            sends.retain_mut(&mut in_time);
            !sends.is_empty()
        });
        let late = self.announced.iter_mut().filter_map(|(id, send)| (!in_time(send)).then_some(*id));
        for id in late.collect::<Vec<_>>() {
            self.take_announced(id);
        }
    }

    /// Fails all.
    pub fn fail_all(&mut self, failure: &Failure) {
        self.free.clear();
        self.announced_of.clear();
        let fresh = self.fresh.drain(..);
        let held = self.held.drain().flat_map(|(_, sends)| sends);
        let announced = self.announced.drain().map(|(_, send)| send);
        let streaming = self.streaming.drain(..).map(|(_, send)| send);
        for send in fresh.chain(held).chain(announced).chain(streaming) {
            send.posted.operation.complete(Err(failure.clone()));
        }
    }

    /// How a message may begin; `None` where it is to be held back.
    fn way(&self, send: &Send, room: usize) -> Option<Way> {
        let bytes = send.posted.span.len();
        if bytes <= room && self.budget.allows(bytes) {
            return Some(Way::Eager);
        }
        let of_tag = self.announced_of.get(&send.posted.tag).copied().unwrap_or(0);
        (of_tag < ANNOUNCED_PER_TAG).then_some(Way::Announce(self.next_id))
    }

    fn take_held(&mut self, tag: u32) -> Option<Send> {
        let sends = self.held.get_mut(&tag)?;
        let send = sends.pop_front();
        if sends.is_empty() {
            self.held.remove(&tag);
        }
        send
    }

    /// One of a tag's messages is not announced any more.
    fn let_go_on(&mut self, tag: u32) {
        if let Some(announced) = self.announced_of.get_mut(&tag) {
            *announced -= 1;
            if *announced == 0 {
                self.announced_of.remove(&tag);
            }
        }
        if self.held.contains_key(&tag) && !self.free.contains(&tag) {
            self.free.push_back(tag);
        }
    }
}

impl Send {
    fn is_in_time(&mut self, now: Instant, default: Duration) -> bool {
        let posted = &self.posted;
        posted.is_in_time(&mut self.since, now, default, || {
            let (peer, tag) = (posted.peer, posted.tag);
            (format!("a send to rank {peer} with tag {tag}"), format!("waiting for rank {peer}"))
        })
    }
}
