//! Statistics of a communicator's calls, kept while they are switched on: how many of each kind, how long they took, what they moved.
//!
//! `ledger` keeps them, `histogram` is the times of one kind; here is what users see.

mod histogram;
mod ledger;

use hcomm_ops::DType;
use hcomm_planner::Collective;

pub(crate) use self::ledger::{Ledger, Measure, Subject};

/// What a communicator's calls came to since recording was switched on.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Statistics {
    /// One of each kind of call that was made, in the order of the first of each.
    pub calls: Vec<CallStatistics>,
}

/// What a call does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CallKind {
    /// A collective.
    Collective(Collective),
    /// A tagged message sent.
    Send,
    /// A tagged message received.
    Receive,
}

/// All calls of one kind, type and algorithm that have ended. Bytes, sizes and times are of those that ended well.
#[derive(Clone, Debug, PartialEq)]
pub struct CallStatistics {
    /// What they do.
    pub kind: CallKind,
    /// The type of their elements.
    pub dtype: DType,
    /// The algorithm that carried them out; `message` for messages, and `others` where there were more kinds than are told apart.
    pub algorithm: String,
    /// How many ended, well or not.
    pub calls: u64,
    /// How many of those failed.
    pub failures: u64,
    /// Bytes of their full buffers, as `hcomm bench` counts them: those of all blocks where each rank has one. Of a call whose counts only
    /// their ranks know, the longer of this rank's buffers.
    pub bytes: u64,
    /// Bytes that this rank sent to others.
    pub sent_bytes: u64,
    /// Nanoseconds from the call to the end of its operation, in all.
    pub total_ns: u64,
    /// The shortest.
    pub min_ns: u64,
    /// The median, to within 2 %.
    pub median_ns: u64,
    /// What 99 of 100 do not exceed, to within 2 %.
    pub p99_ns: u64,
    /// The longest.
    pub max_ns: u64,
    /// Calls by the time that they took, to within 2 %, ascending: to join the statistics of several communicators.
    pub times: Vec<TimeCount>,
    /// Calls by bytes of the full buffer; only sizes that there were, ascending.
    pub sizes: Vec<SizeCount>,
    /// Bus bandwidth in GB/s, of thousands, as `hcomm bench` counts it; for messages, their bytes over their time. Calls that overlap
    /// share what there is.
    pub bus_gb_per_s: f64,
}

/// Calls of like sizes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SizeCount {
    /// The least of these sizes: 0 (alone), or a power of two; they are less than twice as many.
    pub from_bytes: u64,
    /// How many calls.
    pub calls: u64,
    /// These calls by the time that they took, as in [`CallStatistics::times`].
    pub times: Vec<TimeCount>,
}

/// Calls that took about as long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeCount {
    /// Nanoseconds, to within 2 %.
    pub ns: u64,
    /// How many calls.
    pub calls: u64,
}

impl CallKind {
    /// Its name: the collective's, `send` or `recv`.
    pub fn name(&self) -> &'static str {
        match self {
            CallKind::Collective(collective) => collective.name(),
            CallKind::Send => "send",
            CallKind::Receive => "recv",
        }
    }
}
