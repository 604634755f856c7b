//! Deadlines, stall warnings, and the questions to peers before either.

use std::time::{Duration, Instant};

use super::{Core, Entry};
use crate::error::Failure;

/// After this long without its messages an operation's peers are asked what they are doing.
const ASK_AFTER: Duration = Duration::from_millis(500);

impl Core {
    /// Looks at deadlines and stalls.
    pub fn check_time(&mut self, now: Instant) {
        for at in 0..self.running.len() {
            self.check_entry(self.running[at], now);
        }
        self.check_waiting(now);
        self.check_held(now);
        self.p2p.check_time(now, self.limits.deadline, &self.peers);
    }

    fn check_entry(&mut self, key: usize, now: Instant) {
        let entry = &mut self.entries[key];
        let elapsed = now.duration_since(*entry.since.get_or_insert(now));
        let still = entry.stands_still(now);
        if entry.failed.is_some() {
            return;
        }
        if elapsed >= entry.operation.deadline().unwrap_or(self.limits.deadline) {
            let waiting = self.waiting_for(key);
            let call = self.entries[key].execution.call().describe();
            return self.fail(key, Failure::Deadline { call, elapsed, waiting });
        }
        if still >= ASK_AFTER && entry.asked.is_none_or(|at| now.duration_since(at) >= ASK_AFTER) {
            entry.asked = Some(now);
            let number = entry.number;
            for rank in entry.execution.waits_for(&mut self.endpoint.wires) {
                // What is long forgotten is not worth a question.
                let _ = self.peers.ask(rank, number);
            }
        }
        if still >= self.limits.stall_warning && !self.entries[key].warned {
            self.warn_of(key, still);
        }
    }

    fn warn_of(&mut self, key: usize, still: Duration) {
        self.entries[key].warned = true;
        let waiting = self.waiting_for(key);
        let entry = &self.entries[key];
        let (call, number) = (entry.execution.call().describe(), entry.number);
        self.peers
            .warn(&format!("{call} (call {number}) has waited {:.1} s; {waiting}", still.as_secs_f64()));
    }

    /// Deadlines of what is not admitted yet. The time that it waits here counts when it is.
    fn check_waiting(&mut self, now: Instant) {
        let default = self.limits.deadline;
        let late = self.waiting.values_mut().find_map(|submission| {
            let elapsed = now.duration_since(*submission.since.get_or_insert(now));
            let is_late = elapsed >= submission.operation.deadline().unwrap_or(default);
            let execution = submission.execution.as_ref().filter(|_| is_late)?;
            Some((submission.number, execution.call().describe(), elapsed))
        });
        if let Some((number, call, elapsed)) = late {
            let waiting = format!("it was waiting for call {} to be submitted or to end", self.next);
            self.fail_number(number, Failure::Deadline { call, elapsed, waiting });
        }
    }

    /// Which ranks an operation waits for, and what they said they are doing.
    fn waiting_for(&mut self, key: usize) -> String {
        let entry = &mut self.entries[key];
        if !entry.begun {
            return "it was waiting for the operations that it comes after".to_owned();
        }
        let waits = entry.execution.waits_for(&mut self.endpoint.wires);
        let position = entry.execution.position();
        if waits.is_empty() {
            return format!("{position}, nothing is missing from any peer");
        }
        format!("{position}, waiting for {}", self.peers.doing(&waits))
    }
}

impl Entry {
    /// How long it has not moved.
    fn stands_still(&mut self, now: Instant) -> Duration {
        let steps = self.execution.steps();
        match self.still {
            Some((at, since)) if at == steps => now.duration_since(since),
            _ => {
                self.still = Some((steps, now));
                Duration::ZERO
            }
        }
    }
}
