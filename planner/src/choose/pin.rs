//! [`Pin`]: an algorithm that somebody wants for some calls, and who that is.

use std::fmt;
use std::sync::Arc;

use super::{AlgorithmName, UnknownAlgorithm};
use crate::compile::PlanError;
use crate::request::Collective;

/// An algorithm for a collective, at some sizes of the full buffer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pin {
    /// The collective.
    pub collective: Collective,
    /// From how many bytes on.
    pub from_bytes: u64,
    /// Below how many bytes; `u64::MAX` where all that are larger are meant.
    pub to_bytes: u64,
    /// By name, as [`AlgorithmName`].
    pub algorithm: Arc<str>,
    /// Who wants it, such as `HCOMM_ALGORITHM`.
    pub source: Arc<str>,
}

impl Pin {
    /// Whether it is meant for a size.
    pub fn covers(&self, bytes: u64) -> bool {
        self.from_bytes <= bytes && (bytes < self.to_bytes || self.to_bytes == u64::MAX)
    }

    /// What it names.
    ///
    /// # Errors
    /// Where there is no such algorithm.
    pub fn name(&self) -> Result<AlgorithmName, UnknownAlgorithm> {
        AlgorithmName::parse(&self.algorithm)
    }
}

impl fmt::Display for Pin {
    /// `all_reduce=ring`, or `all_reduce@4096..1048576=ring`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Pin { collective, from_bytes, to_bytes, algorithm, .. } = self;
        match (*from_bytes, *to_bytes) {
            (0, u64::MAX) => write!(f, "{collective}={algorithm}"),
            (from, u64::MAX) => write!(f, "{collective}@{from}..={algorithm}"),
            (0, to) => write!(f, "{collective}@..{to}={algorithm}"),
            (from, to) => write!(f, "{collective}@{from}..{to}={algorithm}"),
        }
    }
}

/// A pin that this communicator cannot follow. It is to be corrected or removed where it comes from.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{pin} of {}: {cause}", pin.source)]
pub struct PinError {
    /// The pin.
    pub pin: Pin,
    /// Why not, and what could be done instead.
    pub cause: PlanError,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_has_its_beginning_and_not_its_end() {
        let pin = |from_bytes, to_bytes| Pin {
            collective: Collective::AllReduce,
            from_bytes,
            to_bytes,
            algorithm: "ring".into(),
            source: "a test".into(),
        };
        let covered = |from, to| [0, 9, 10, 19, 20, u64::MAX].map(|bytes| pin(from, to).covers(bytes));
        assert_eq!(covered(10, 20), [false, false, true, true, false, false]);
        assert_eq!(covered(0, u64::MAX), [true; 6]);
        assert_eq!(pin(0, u64::MAX).to_string(), "all_reduce=ring");
        assert_eq!(pin(10, 20).to_string(), "all_reduce@10..20=ring");
        assert_eq!(pin(10, u64::MAX).to_string(), "all_reduce@10..=ring");
        assert_eq!(pin(0, 20).to_string(), "all_reduce@..20=ring");
    }
}
