//! [`Ending`]: how far a job is on its way to its end. Pure; time is an argument.
//!
//! A rank fails: the others have a moment to find out and say why they fail in turn; then they are told to end (SIGTERM); then they are
//! killed, every `grace` again. When no rank runs, what they have left behind is told at once, and killed in the same way.

use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::outcome::{Failure, Outcome};

/// How long ranks have to find out that another has failed, and to end by themselves.
const MOMENT: Duration = Duration::from_secs(1);

/// What is to be done to the ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// They are told to end.
    Tell,
    /// They are killed.
    Kill,
}

/// See the module.
pub struct Ending {
    grace: Duration,
    outcome: Outcome,
    next: Option<(Instant, Step)>,
    is_told: bool,
    requests: usize,
    ends_helpers: bool,
}

impl Ending {
    /// Nobody has failed.
    pub fn new(grace: Duration) -> Self {
        let outcome = Outcome { failure: None, followers: Vec::new() };
        Ending { grace, outcome, next: None, is_told: false, requests: 0, ends_helpers: false }
    }

    /// Takes ranks that have failed, as they were found. Returns the first of all, when it comes.
    pub fn handle_failures(&mut self, failures: &[Failure], now: Instant) -> Option<Failure> {
        // Of several that failed at once, one that a signal killed is the likelier cause.
        let first = failures.iter().min_by_key(|failure| !failure.exit.is_signal()).copied();
        let is_new = self.outcome.failure.is_none();
        if is_new && let Some(first) = first {
            self.outcome.failure = Some(first);
            self.schedule(now + MOMENT.min(self.grace), Step::Tell);
        }
        // Whoever ends after it was told to has not failed by itself.
        if !self.is_told && self.requests == 0 {
            let others = failures.iter().filter(|failure| Some(**failure) != self.outcome.failure);
            self.outcome.followers.extend(others);
        }
        first.filter(|_| is_new)
    }

    /// Nobody can have what the ranks print.
    pub fn handle_closed_output(&mut self, now: Instant) {
        self.schedule(now, Step::Tell);
    }

    /// A signal asks for the end. Returns what is to be sent: the same, and from the second time on SIGKILL.
    pub fn handle_request(&mut self, signal: Signal) -> Signal {
        self.requests += 1;
        if self.requests > 1 { Signal::KILL } else { signal }
    }

    /// No rank runs any more. Returns whether what they have left is to be told to end: once.
    pub fn begin_helpers(&mut self, now: Instant) -> bool {
        let is_first = !self.ends_helpers;
        if is_first {
            self.ends_helpers = true;
            self.next = Some((now + self.grace, Step::Kill));
        }
        is_first
    }

    /// When there is a step to take.
    pub fn next_at(&self) -> Option<Instant> {
        self.next.map(|(at, _)| at)
    }

    /// The step that it is time for.
    pub fn poll_step(&mut self, now: Instant) -> Option<Step> {
        let (_, step) = self.next.filter(|(at, _)| *at <= now)?;
        self.is_told = true;
        self.next = Some((now + self.grace.max(Duration::from_millis(10)), Step::Kill));
        Some(step)
    }

    /// How all ended.
    pub fn outcome(self) -> Outcome {
        self.outcome
    }

    /// Unless something more urgent is to be done.
    fn schedule(&mut self, at: Instant, step: Step) {
        if self.next.is_none_or(|(sooner, _)| at < sooner) && !self.is_told {
            self.next = Some((at, step));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::outcome::Exit;
    use super::*;

    const GRACE: Duration = Duration::from_secs(5);

    fn failed(rank: usize, exit: Exit) -> Failure {
        Failure { rank, exit }
    }

    #[test]
    fn the_others_have_a_moment_before_they_are_told() {
        let (start, mut ending) = (Instant::now(), Ending::new(GRACE));
        assert_eq!(ending.next_at(), None);
        let (first, next) = (failed(2, Exit::Code(3)), failed(0, Exit::Code(1)));
        assert_eq!(ending.handle_failures(&[first], start), Some(first));
        assert_eq!(ending.poll_step(start), None);
        assert_eq!(ending.handle_failures(&[next], start + MOMENT / 2), None);
        assert_eq!(ending.poll_step(start + MOMENT), Some(Step::Tell));
        assert_eq!(ending.handle_failures(&[failed(1, Exit::Signal(15))], start + MOMENT), None);
        assert_eq!(ending.poll_step(start + MOMENT), None);
        assert_eq!(ending.poll_step(start + MOMENT + GRACE), Some(Step::Kill));
        assert_eq!(ending.poll_step(start + MOMENT + GRACE + GRACE), Some(Step::Kill));
        assert_eq!(ending.outcome(), Outcome { failure: Some(first), followers: vec![next] });
    }

    #[test]
    fn of_several_at_once_the_killed_one_is_the_first() {
        let mut ending = Ending::new(GRACE);
        let (raised, killed) = (failed(0, Exit::Code(1)), failed(1, Exit::Signal(9)));
        assert_eq!(ending.handle_failures(&[raised, killed], Instant::now()), Some(killed));
        assert_eq!(ending.outcome().followers, [raised]);
    }

    #[test]
    fn the_second_request_kills_and_no_rank_fails_after_one() {
        let mut ending = Ending::new(GRACE);
        assert_eq!(ending.handle_request(Signal::INT), Signal::INT);
        ending.handle_failures(&[failed(0, Exit::Code(2)), failed(1, Exit::Code(2))], Instant::now());
        assert_eq!(ending.handle_request(Signal::HUP), Signal::KILL);
        assert_eq!(ending.outcome().followers, []);
    }

    #[test]
    fn helpers_are_told_once_and_killed_in_time() {
        let (start, mut ending) = (Instant::now(), Ending::new(GRACE));
        assert!(ending.begin_helpers(start) && !ending.begin_helpers(start));
        assert_eq!(ending.poll_step(start + GRACE), Some(Step::Kill));
    }
}
