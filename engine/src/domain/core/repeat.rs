//! Repetition: a call that was made before and has ended is made again, with the execution that it had, while nothing else goes on.
//!
//! What has to be looked at for other calls, and cannot change while nobody else holds the core, is worked out once: whether
//! the core is *calm*, as it is put back.

use std::sync::Arc;

use super::admission::chained;
use super::{Core, MAX_SPARE};
use crate::bindings::Spans;
use crate::call::{Call, Outline};
use crate::execution::{Execution, Progress};
use crate::operation::Operation;

impl Core {
    /// Whether nothing is in flight, nothing has gone wrong, and nothing is recorded.
    #[inline]
    pub fn is_calm(&self) -> bool {
        self.calm
    }

    /// Works out whether the core is calm; to be called as it is put back.
    pub fn note_calm(&mut self) {
        let is_clean = self.broken.is_none() && self.unchecked.is_none() && !self.peers.has_refusals();
        let is_recorded = self.recorder.is_on() || self.ledger.is_on();
        self.calm = is_clean && self.is_idle() && !is_recorded;
    }

    /// The place among those that ended of an execution of a call, which was given buffers of the same lengths. What it needs of
    /// them was checked then; a rank may be given more than it needs, such as an input of broadcast where it is not the root.
    #[inline]
    pub fn find_ended(&self, outline: &Outline, spans: &Spans) -> Option<usize> {
        let given = (spans.input_bytes(), spans.output_bytes());
        self.spare.iter().position(|execution| {
            execution.bound_bytes() == given && execution.call().outline.as_ref() == Some(outline)
        })
    }

    /// The call of one that ended.
    #[inline]
    pub fn ended_call(&self, at: usize) -> &Call {
        self.spare[at].call()
    }

    /// Takes out one that ended.
    pub fn take_ended(&mut self, at: usize) -> Box<Execution> {
        self.spare.remove(at)
    }

    /// Makes one that ended an operation again, and admits it. Returns whether it is its turn; else it is not admitted.
    #[inline]
    pub fn repeat(&mut self, at: usize, number: u64, spans: &Spans) -> bool {
        let execution = &mut self.spare[at];
        execution.repeat(number);
        execution.bind(spans);
        if self.next != number {
            return false;
        }
        self.next = number + 1;
        self.chain = chained(self.chain, execution.call().fingerprint);
        execution.follow(self.chain);
        true
    }

    /// An operation for one that is repeated, with the allocation of an earlier one that nobody holds any more.
    pub fn operation(&mut self) -> Arc<Operation> {
        for operation in &mut self.operations {
            if let Some(free) = Arc::get_mut(operation) {
                free.renew();
                return operation.clone();
            }
        }
        let operation = Arc::<Operation>::default();
        if self.operations.len() < MAX_SPARE {
            self.operations.push(operation.clone());
        }
        operation
    }

    /// Advances one that is repeated.
    #[inline]
    pub fn advance_again(&mut self, at: usize) -> Progress {
        if self.has_sockets {
            self.move_sockets();
        }
        self.spare[at].advance(&mut self.endpoint.wires, &mut ())
    }
}
