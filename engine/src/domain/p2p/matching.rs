//! [`Matching`]: messages from one rank that have no receive yet, and receives from it that have no message yet. Of a tag there is never both.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use hcomm_ops::Rank;
use rustc_hash::FxHashMap;

use super::Receive;
use super::anyone::Anyone;
use crate::error::Failure;

/// `E` is a message that came before its receive.
pub(super) struct Matching<E> {
    peer: Rank,
    /// In the order in which they were posted.
    receives: VecDeque<Receive>,
    /// By tag, in the order in which they came.
    early: FxHashMap<u32, VecDeque<E>>,
}

impl<E> Matching<E> {
    pub fn new(peer: Rank) -> Self {
        Matching { peer, receives: VecDeque::new(), early: FxHashMap::default() }
    }

    /// Whether a message of this tag waits for a receive.
    pub fn has_early(&self, tag: u32) -> bool {
        !self.early.is_empty() && self.early.contains_key(&tag)
    }

    /// Whether no receive waits for a message.
    pub fn has_no_receives(&self) -> bool {
        self.receives.is_empty()
    }

    /// Whether no message waits for a receive.
    pub fn has_nothing_early(&self) -> bool {
        self.early.is_empty()
    }

    /// The messages that wait.
    pub fn early(&self) -> impl Iterator<Item = &E> {
        self.early.values().flatten()
    }

    /// Keeps a receive until its message comes. There must be none for it now.
    pub fn post(&mut self, receive: Receive) {
        self.receives.push_back(receive);
    }

    /// Keeps a message until its receive is posted. There must be none for it now.
    pub fn keep(&mut self, tag: u32, message: E) {
        self.early.entry(tag).or_default().push_back(message);
    }

    /// The first message of a tag that waits.
    pub fn take_early(&mut self, tag: u32) -> Option<E> {
        let early = self.early.get_mut(&tag)?;
        let message = early.pop_front();
        if early.is_empty() {
            self.early.remove(&tag);
        }
        message
    }

    /// The first receive of a tag, of those posted for this rank or for any.
    pub fn take_receive(&mut self, tag: u32, anyone: &mut Anyone) -> Option<Receive> {
        let own = self.receives.iter().position(|receive| receive.posted.tag == tag);
        let before = own.map(|at| self.receives[at].order);
        match anyone.give(tag, before, self.peer) {
            Some(receive) => Some(receive),
            None => self.receives.remove(own?),
        }
    }

    /// Drops the messages for which `keep` is false.
    pub fn retain_early(&mut self, mut keep: impl FnMut(&mut E) -> bool) {
        self.early.retain(|_, messages| {
            messages.retain_mut(&mut keep);
            !messages.is_empty()
        });
    }

    /// Fails the receives whose deadline has passed.
    pub fn check_time(&mut self, now: Instant, default: Duration) {
        let peer = self.peer;
        self.receives.retain_mut(|receive| receive.is_in_time(peer, now, default));
    }

    /// Fails all receives.
    pub fn fail_all(&mut self, failure: &Failure) {
        for receive in self.receives.drain(..) {
            receive.posted.operation.complete(Err(failure.clone()));
        }
    }
}
