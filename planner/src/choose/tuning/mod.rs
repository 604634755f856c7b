//! [`Tuning`]: what has been measured on a machine, and the algorithms that somebody pinned for it: a tuning file, as the cost model
//! reads it. `file` parses its text, `write` writes it; `defaults` holds what is used without one; `curve` is one candidate's measured times
//! beside the model's.

mod curve;
mod defaults;
mod fault;
#[cfg(feature = "tuning")]
mod file;
#[cfg(feature = "tuning")]
mod size;
#[cfg(not(feature = "tuning"))]
mod unread;
#[cfg(feature = "tuning")]
mod write;

use std::fmt;

pub use curve::Curve;
pub use fault::{LONGEST_BYTES, TuningError};

use super::Prices;
use crate::choose::candidate::Candidate;
use crate::request::Collective;

/// What joins two ranks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LinkKind {
    /// Shared memory of two processes.
    #[default]
    Shm,
    /// The memory of one process.
    Inproc,
    /// Sockets.
    Tcp,
}

impl LinkKind {
    /// Every kind.
    pub const ALL: [LinkKind; 3] = [LinkKind::Shm, LinkKind::Inproc, LinkKind::Tcp];

    /// Its name in tuning files and tables.
    pub const fn name(self) -> &'static str {
        match self {
            LinkKind::Shm => "shm",
            LinkKind::Inproc => "inproc",
            LinkKind::Tcp => "tcp",
        }
    }
}

/// A kind of link, and whether the machines at its ends have more ranks than processors: every hand-over then waits for the
/// system's scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Condition {
    /// The kind.
    pub kind: LinkKind,
    /// More ranks than processors.
    pub is_crowded: bool,
}

impl fmt::Display for Condition {
    /// `shm`, or `shm_crowded`: its name in a tuning file.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{}{}", self.kind.name(), if self.is_crowded { "_crowded" } else { "" }))
    }
}

/// What was measured of one condition.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinkTuning {
    /// The condition.
    pub condition: Condition,
    /// What things cost.
    pub prices: Prices,
    /// Ranks per processor while it was measured, where there were more ranks.
    pub ranks_per_processor: f64,
    /// How far the model is off the measured times, as a fraction of them.
    pub error: Option<FitError>,
}

/// How far off a model is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FitError {
    /// In the middle.
    pub median: f64,
    /// At most.
    pub worst: f64,
}

/// The machine that a file was measured on.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Machine {
    /// Its name.
    pub hostname: String,
    /// What its processors call themselves.
    pub cpu: String,
    /// How many there are.
    pub processors: usize,
    /// The version of its system.
    pub kernel: String,
}

/// How a file came to be.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Made {
    /// The version of hcomm.
    pub hcomm: String,
    /// The day and time, in UTC.
    pub date: String,
    /// How long it took.
    pub seconds: u64,
    /// How many times were measured.
    pub samples: u64,
}

/// Measured times of candidates in one world, as factors on what the model says.
#[derive(Clone, Debug, PartialEq)]
pub struct Measured {
    /// What joined the ranks.
    pub condition: Condition,
    /// How many there were.
    pub world: usize,
    /// The factors, by collective and candidate.
    pub curves: Vec<(Collective, Candidate, Curve)>,
}

/// An algorithm that a file pins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TunedPin {
    /// For which calls.
    pub collective: Collective,
    /// By name, as [`AlgorithmName`](super::AlgorithmName).
    pub algorithm: String,
    /// From how many bytes on.
    pub from_bytes: u64,
    /// Below how many bytes; `u64::MAX` where all that are larger are meant.
    pub to_bytes: u64,
    /// Only in worlds of so many ranks.
    pub world: Option<usize>,
    /// Only in communicators of this name.
    pub communicator: Option<String>,
}

/// See the module.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tuning {
    /// Where it was measured.
    pub machine: Option<Machine>,
    /// When and how.
    pub made: Option<Made>,
    /// Prices, each condition at most once; the usual ones for those that are missing.
    pub links: Vec<LinkTuning>,
    /// Measured times, each condition and world at most once.
    pub measured: Vec<Measured>,
    /// Pins; the first that fits a call counts.
    pub pins: Vec<TunedPin>,
}

impl Tuning {
    /// What was measured of a condition.
    pub fn link(&self, condition: Condition) -> Option<&LinkTuning> {
        self.links.iter().find(|link| link.condition == condition)
    }

    /// What things cost over a kind of link, on machines with so many ranks per processor.
    pub fn prices(&self, kind: LinkKind, ranks_per_processor: f64) -> Prices {
        let condition = Condition { kind, is_crowded: ranks_per_processor > 1.0 };
        let link = self.like(condition).copied().unwrap_or_else(|| defaults::link(condition));
        match condition.is_crowded {
            true => link.prices.times(ranks_per_processor / link.ranks_per_processor),
            false => link.prices,
        }
    }

    /// Whether those prices were measured, rather than the usual ones.
    pub fn has_prices(&self, kind: LinkKind, ranks_per_processor: f64) -> bool {
        self.like(Condition { kind, is_crowded: ranks_per_processor > 1.0 }).is_some()
    }

    /// What was measured of a condition, or of one that is like it: threads talk by the protocol of processes.
    fn like(&self, condition: Condition) -> Option<&LinkTuning> {
        let like = Condition { kind: LinkKind::Shm, ..condition };
        self.link(condition).or_else(|| self.link(like).filter(|_| condition.kind == LinkKind::Inproc))
    }

    /// The measured times that say most about a world: those of the nearest one, if it is at most twice or half as large.
    pub fn measured(&self, condition: Condition, world: usize) -> Option<&Measured> {
        let near = |m: &&Measured| m.world <= 2 * world && world <= 2 * m.world;
        let fitting = self.measured.iter().filter(|m| m.condition == condition).filter(near);
        fitting.min_by_key(|m| (m.world.abs_diff(world), std::cmp::Reverse(m.world)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHM: Condition = Condition { kind: LinkKind::Shm, is_crowded: false };

    #[test]
    fn threads_cost_what_processes_do_unless_measured() {
        let prices = Prices::from_array([1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
        let link = LinkTuning { condition: SHM, prices, ranks_per_processor: 1.0, error: None };
        let tuning = Tuning { links: vec![link], ..Tuning::default() };
        assert_eq!(tuning.prices(LinkKind::Inproc, 1.0), prices);
        assert_eq!(tuning.prices(LinkKind::Shm, 0.5), prices);
        assert_eq!(Tuning::default().prices(LinkKind::Inproc, 1.0), Prices::INPROC);
    }

    #[test]
    fn crowded_prices_grow_with_the_crowd() {
        let condition = Condition { is_crowded: true, ..SHM };
        let prices = Prices::from_array([10.0; 6]);
        let link = LinkTuning { condition, prices, ranks_per_processor: 2.0, error: None };
        let tuning = Tuning { links: vec![link], ..Tuning::default() };
        assert_eq!(tuning.prices(LinkKind::Shm, 4.0), Prices::from_array([20.0; 6]));
        assert_eq!(tuning.prices(LinkKind::Shm, 1.0), Prices::SHM);
    }

    #[test]
    fn the_nearest_measured_world_counts() {
        let measured = |world| Measured { condition: SHM, world, curves: Vec::new() };
        let tuning = Tuning { measured: vec![measured(2), measured(4)], ..Tuning::default() };
        let nearest = |world| tuning.measured(SHM, world).map(|m| m.world);
        assert_eq!([1, 2, 3, 4, 8, 9].map(nearest), [Some(2), Some(2), Some(4), Some(4), Some(4), None]);
        assert_eq!(tuning.measured(Condition { is_crowded: true, ..SHM }, 2), None);
    }
}
