//! Admission: which operations may run.
//!
//! Collective n uses window n modulo `WINDOWS`: ports, and with them slots, of its own on every wire; a plan of many
//! channels takes the windows after it too. It is admitted in strict number order, when the operations before it in
//! its windows have ended here. The lowest unfinished number is therefore admitted on every rank and has room on every
//! channel, whatever else runs; priorities only order what is admitted.

use std::sync::Arc;
use std::time::Instant;

use hcomm_ops::buffer::Claim;

use super::{Core, Entry};
use crate::call::Call;
use crate::domain::watch::NO_CALL;
use crate::error::Failure;
use crate::execution::{Execution, windows};
use crate::operation::Operation;

/// An operation on its way into the core.
pub(crate) struct Submission {
    /// Its place in the communicator's order of calls.
    pub number: u64,
    /// The operation; `None` for a call that was refused: its number passes.
    pub execution: Option<Box<Execution>>,
    /// Shared with the submitter.
    pub operation: Arc<Operation>,
    /// Operations that must end well before this one starts.
    pub after: Vec<Arc<Operation>>,
    /// Claims on shared buffers, taken when it starts and given back when it ends.
    pub claims: Vec<Claim>,
    /// When it was first looked at.
    pub since: Option<Instant>,
}

impl Submission {
    /// Ends it before it is admitted; its number still passes.
    pub(super) fn end(&mut self, failure: &Failure) {
        if self.execution.take().is_some() {
            self.operation.complete(Err(failure.clone()));
        }
    }
}

impl Core {
    /// Whether a call would be admitted at once.
    pub fn admits(&self, number: u64, call: &Call) -> bool {
        let is_next = self.next == number && windows(number, &call.plan).all(|window| !self.occupied[window]);
        is_next && self.broken.is_none() && !self.peers.has_refused(number)
    }

    /// Passes the number of an operation that runs outside the table.
    #[inline]
    pub fn pass(&mut self, number: u64, execution: &mut Execution) {
        debug_assert_eq!(self.next, number, "numbers pass in order");
        self.next = number + 1;
        self.chain = chained(self.chain, execution.call().fingerprint);
        execution.follow(self.chain);
    }

    /// Takes an operation in; it is admitted when its number comes.
    pub fn submit(&mut self, submission: Submission) {
        self.follow(&submission.after);
        if self.is_next(&submission) {
            return self.take_up(submission);
        }
        self.waiting.insert(submission.number, submission);
        self.admit();
    }

    /// Puts an operation that has begun outside the table into it.
    pub fn insert(&mut self, number: u64, execution: Box<Execution>, operation: Arc<Operation>) {
        self.enter(Submission::empty(number, &operation), execution);
    }

    /// Admits what the order and the windows allow.
    pub(super) fn admit(&mut self) {
        while let Some(first) = self.waiting.first_key_value()
            && self.is_next(first.1)
        {
            let Some((_, submission)) = self.waiting.pop_first() else { return };
            self.take_up(submission);
        }
    }

    /// Whether it is an operation's turn, and its windows are free.
    fn is_next(&self, submission: &Submission) -> bool {
        let is_free = |execution: &Execution| {
            windows(self.next, &execution.call().plan).all(|window| !self.occupied[window])
        };
        submission.number == self.next && submission.execution.as_deref().is_none_or(is_free)
    }

    /// Admits the next operation, or passes its number.
    fn take_up(&mut self, mut submission: Submission) {
        self.next += 1;
        // A call whose buffers may be in use is looked at when it begins: all ranks may refuse it alike.
        let refusal = match submission.claims.is_empty() {
            true => self.peers.refusal(submission.number),
            false => None,
        };
        let failure = refusal.clone().or_else(|| self.broken().map(Failure::for_later_calls));
        let execution = submission.execution.take();
        let fingerprint = execution.as_ref().map_or(NO_CALL, |execution| execution.call().fingerprint);
        self.chain = chained(self.chain, fingerprint);
        match (execution, failure) {
            (None, _) => {}
            (Some(_), Some(failure)) => {
                submission.operation.complete(Err(failure));
                // The ranks are out of step: one has passed over a call that another has made.
                if let Some(refusal) = refusal {
                    self.break_from(submission.number, &refusal);
                }
            }
            (Some(mut execution), None) => {
                execution.follow(self.chain);
                self.recorder.start(submission.number, execution.call());
                self.enter(submission, execution);
            }
        }
    }

    fn enter(&mut self, submission: Submission, execution: Box<Execution>) {
        windows(submission.number, &execution.call().plan).for_each(|window| self.occupied[window] = true);
        let key = self.entries.insert(Entry {
            number: submission.number,
            execution,
            operation: submission.operation,
            begun: submission.after.is_empty() && submission.claims.is_empty(),
            after: submission.after,
            claims: submission.claims,
            since: submission.since,
            still: None,
            asked: None,
            warned: false,
            suspect: None,
            failed: None,
        });
        self.running.push(key);
    }
}

/// The hash of a call and all calls before it. Ranks whose calls differ anywhere differ in it from there on.
#[inline]
pub(super) fn chained(before: u32, fingerprint: u32) -> u32 {
    (before.rotate_left(7) ^ fingerprint).wrapping_mul(0x9e37_79b1)
}
