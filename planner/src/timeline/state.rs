//! What a simulation keeps: times that can be ordered, causes, runs, channels, and the processors that lanes share.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use super::run::Why;
use crate::plan::LaneKind;
use crate::verify::joined::Joined;

/// A time that can be ordered: finite, or `NaN` for a run that has not begun.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Ns(pub f64);

impl Eq for Ns {}

impl Ord for Ns {
    fn cmp(&self, other: &Ns) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0)
    }
}

impl PartialOrd for Ns {
    fn partial_cmp(&self, other: &Ns) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

/// Index of a run: node times tiles plus tile.
pub(super) type RunId = usize;

/// What a run waited for last: since when that was over, why, and which run it was.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cause {
    pub at: f64,
    pub why: Why,
    pub run: Option<RunId>,
}

impl Cause {
    /// The later of two; of equally late ones the first.
    pub fn later(self, other: Cause) -> Cause {
        if other.at > self.at { other } else { self }
    }
}

/// One run's times, and why it did not begin sooner.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ran {
    pub from: f64,
    pub to: f64,
    pub cause: Cause,
}

/// A run that waits for nothing and has not begun.
pub(super) const NOT_YET: Ran =
    Ran { from: f64::NAN, to: f64::NAN, cause: Cause { at: 0.0, why: Why::Start, run: None } };

/// Something that happens at a time; of what happens at once, ends come first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Event {
    /// The node that a lane is at ends.
    End(usize),
    /// The node that a lane is at has all it needs but a processor.
    Ready(usize),
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Cursor {
    pub tile: usize,
    pub place: usize,
    /// It is ready, or runs.
    pub is_under_way: bool,
}

/// One channel: arrivals not yet received, and the room that receiving has made.
#[derive(Debug, Default)]
pub(super) struct Fifo {
    pub arrived: VecDeque<(f64, RunId)>,
    /// Slots that no message has used yet.
    pub unused: usize,
    pub freed: VecDeque<(f64, RunId)>,
}

/// The processors that share some lanes.
#[derive(Debug)]
pub(super) struct Pool {
    pub idle: usize,
    /// Lanes whose nodes are ready: since when, for which tile.
    pub waiting: BinaryHeap<Reverse<(Ns, usize, usize)>>,
}

/// The processors of each rank, the streams and the queue pairs; and which of them each lane uses.
pub(super) fn pools(joined: &Joined<'_>, workers: usize) -> (Vec<Pool>, Vec<usize>) {
    let (mut pools, mut pool_of) = (Vec::new(), Vec::new());
    let pool = |idle| Pool { idle, waiting: BinaryHeap::new() };
    for plan in joined.plans {
        let host = pools.len();
        pools.push(pool(workers));
        for lane in &plan.lanes {
            let is_own = matches!(lane.kind, LaneKind::Stream { .. } | LaneKind::QueuePair { .. });
            pool_of.push(if is_own { pools.len() } else { host });
            if is_own {
                pools.push(pool(1));
            }
        }
    }
    (pools, pool_of)
}
