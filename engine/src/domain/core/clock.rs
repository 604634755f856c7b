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
        for number in self.waiting.keys().copied().collect::<Vec<_>>() {
            self.check_waiting(number, now);
        }
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

    /// An operation that is not admitted has no entry yet: its deadline counts from when it was first seen waiting.
    fn check_waiting(&mut self, number: u64, now: Instant) {
        let Some(submission) = self.waiting.get(&number) else { return };
        let since = self.peers.waiting_since(number, now);
        let deadline = submission.operation.deadline().unwrap_or(self.limits.deadline);
        let elapsed = now.duration_since(since);
        if elapsed >= deadline {
            let call = submission.execution.as_ref().map_or_else(String::new, |e| e.call().describe());
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
