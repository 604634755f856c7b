//! Waits for one operation: the waiting thread drives, or sleeps while another does.

use std::time::{Duration, Instant};

use super::drive::NAP;
use super::handover::Turn;
use super::{Domain, Held};
use crate::error::Failure;
use crate::operation::Operation;

/// The first sleep before a waiter looks whether it can drive itself.
const FIRST_NAP: Duration = Duration::from_micros(100);

impl Domain {
    /// Drives, or sleeps while another drives, until the operation is done.
    pub fn wait(&self, operation: &Operation) -> Result<(), Failure> {
        let mut patience = FIRST_NAP;
        loop {
            if let Some(outcome) = operation.outcome() {
                return outcome;
            }
            match self.handover.wait(|| operation.is_done(), patience) {
                Turn::Drive(core) => return self.finish(Held::new(core), operation),
                Turn::Look => {
                    self.ringer.ring();
                    patience = (2 * patience).min(NAP);
                }
            }
        }
    }

    /// The same for no longer than about `limit`; then the operation is the background driver's. Returns whether it is done.
    pub fn wait_at_most(&self, operation: &Operation, limit: Duration) -> bool {
        let Some(end) = Instant::now().checked_add(limit) else {
            let _ = self.wait(operation);
            return true;
        };
        let mut patience = FIRST_NAP;
        while !operation.is_done() {
            let left = end.saturating_duration_since(Instant::now());
            match self.handover.wait(|| operation.is_done(), patience.min(left)) {
                Turn::Drive(core) => {
                    self.finish_before(Held::new(core), operation, end);
                    break;
                }
                Turn::Look if left.is_zero() => break,
                Turn::Look => {
                    self.ringer.ring();
                    patience = (2 * patience).min(NAP);
                }
            }
        }
        let is_done = operation.is_done();
        if !is_done {
            self.leave_to_driver();
        }
        is_done
    }
}
