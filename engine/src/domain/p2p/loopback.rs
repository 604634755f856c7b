//! [`Loopback`]: messages of this rank to itself. A short one is kept until its receive is posted, as another rank would keep it; a longer one waits
//! where it is.

use std::time::{Duration, Instant};

use hcomm_ops::{Rank, StableBuffer};

use super::anyone::Anyone;
use super::budget::{Budget, Returns};
use super::matching::Matching;
use super::{Message, Posted, Receive};
use crate::error::Failure;

/// Messages up to this many bytes do not wait for their receives.
const MAX_COPIED: usize = 64 << 10;

/// See the module.
pub(super) struct Loopback {
    rank: Rank,
    matching: Matching<Kept>,
    budget: Budget,
    returns: Returns,
}

/// A message without a receive.
enum Kept {
    /// Its bytes; the send has ended.
    Copied(Message, Vec<u8>),
    /// The send itself, and since when it waits.
    Waiting(Posted, Option<Instant>),
}

impl Loopback {
    pub fn new(rank: Rank) -> Self {
        let matching = Matching::new(rank);
        Loopback { rank, matching, budget: Budget::default(), returns: Returns::default() }
    }

    /// Whether nothing is posted.
    pub fn is_idle(&self) -> bool {
        self.matching.has_no_receives()
            && !self.matching.early().any(|kept| matches!(kept, Kept::Waiting(..)))
    }

    /// Whether a message of this tag waits for a receive.
    pub fn has_early(&self, tag: u32) -> bool {
        self.matching.has_early(tag)
    }

    pub fn send(&mut self, posted: Posted, anyone: &mut Anyone) {
        if let Some(receive) = self.matching.take_receive(posted.tag, anyone) {
            return self.pass(posted, receive);
        }
        let (tag, bytes) = (posted.tag, posted.span.len());
        if bytes > MAX_COPIED || !self.budget.allows(bytes) {
            return self.matching.keep(tag, Kept::Waiting(posted, None));
        }
        self.budget.spend(bytes);
        self.matching.keep(tag, Kept::Copied(self.message(&posted), posted.span.to_vec()));
        posted.operation.complete(Ok(()));
    }

    pub fn receive(&mut self, receive: Receive) {
        match self.matching.take_early(receive.posted.tag) {
            None => self.matching.post(receive),
            Some(Kept::Waiting(posted, _)) => self.pass(posted, receive),
            Some(Kept::Copied(message, mut bytes)) => {
                self.returns.take(bytes.len());
                self.budget.handle_returned(self.returns.taken());
                receive.posted.deliver(message, bytes.span());
            }
        }
    }

    /// From the one buffer into the other.
    fn pass(&self, sent: Posted, receive: Receive) {
        let message = self.message(&sent);
        let fault = message.fault(receive.posted.dtype, receive.posted.span.len() as u64);
        receive.posted.deliver(message, sent.span);
        sent.operation.complete(fault.map_or(Ok(()), Err));
    }

    fn message(&self, sent: &Posted) -> Message {
        let bytes = sent.span.len() as u64;
        Message { from: self.rank, to: self.rank, tag: sent.tag, dtype: sent.dtype, bytes }
    }

    pub fn fail_all(&mut self, failure: &Failure) {
        self.matching.fail_all(failure);
        self.matching.retain_early(|kept| match kept {
            Kept::Copied(..) => true,
            Kept::Waiting(posted, _) => {
                posted.operation.complete(Err(failure.clone()));
                false
            }
        });
    }

    pub fn check_time(&mut self, now: Instant, default: Duration) {
        self.matching.check_time(now, default);
        self.matching.retain_early(|kept| match kept {
            Kept::Copied(..) => true,
            Kept::Waiting(posted, since) => posted.is_in_time(since, now, default, || {
                let call = format!("a send to this rank itself with tag {}", posted.tag);
                (call, "waiting for its receive".to_owned())
            }),
        });
    }
}
