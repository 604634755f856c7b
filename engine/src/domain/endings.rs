//! [`Endings`]: which ranks have ended, as the control plane tells it, for whoever waits for them elsewhere than in a call: a rendezvous
//! among them, which has connections of its own and would only miss them at its deadline.

use std::collections::BTreeMap;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use hcomm_ops::Rank;
use hcomm_transports::rendezvous::Cancel;

/// See the module's text.
#[derive(Default)]
pub(crate) struct Endings {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// How each has ended.
    ended: BTreeMap<Rank, String>,
    /// What is given up when one of these ends.
    alarms: Vec<(Vec<Rank>, Cancel)>,
}

/// Takes an alarm away again.
pub(crate) struct Alarm<'a>(&'a Endings, Cancel);

impl Endings {
    /// A rank has ended.
    pub fn note(&self, rank: Rank, how: &str) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.ended.entry(rank).or_insert_with(|| how.to_owned());
        state
            .alarms
            .iter()
            .filter(|(ranks, _)| ranks.contains(&rank))
            .for_each(|(_, cancel)| cancel.cancel());
        self.changed.notify_all();
    }

    /// What is to be given up as soon as one of `ranks` ends, or has ended, until the alarm is dropped.
    pub fn alarm(&self, ranks: &[Rank]) -> Alarm<'_> {
        let cancel = Cancel::default();
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if ranks.iter().any(|rank| state.ended.contains_key(rank)) {
            cancel.cancel();
        }
        state.alarms.push((ranks.to_vec(), cancel.clone()));
        Alarm(self, cancel)
    }

    /// Those of `ranks` that have ended, and how; waits so long for the first, since others may have told of it before.
    pub fn among(&self, ranks: &[Rank], patience: Duration) -> Vec<(Rank, String)> {
        let until = Instant::now() + patience;
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let ended = state.ended.iter().filter(|(rank, _)| ranks.contains(rank));
            let ended: Vec<_> = ended.map(|(rank, how)| (*rank, how.clone())).collect();
            let left = until.saturating_duration_since(Instant::now());
            if !ended.is_empty() || left.is_zero() {
                return ended;
            }
            state = self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl Alarm<'_> {
    /// What is given up.
    pub fn cancel(&self) -> &Cancel {
        &self.1
    }
}

impl Drop for Alarm<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.alarms.retain(|(_, cancel)| !cancel.is_same(&self.1));
    }
}
