//! How a launch ended: [`Outcome`], [`Failure`], [`Exit`], [`LaunchError`].

use std::fmt;
use std::io;

use hcomm_ops::Rank;

use super::Launch;

/// How the ranks ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The first rank that failed; `None` where all ended well.
    pub failure: Option<Failure>,
    /// The ranks that failed by themselves after it, before they were told to end: their errors are likely to be about the first.
    pub followers: Vec<Failure>,
}

impl Outcome {
    /// The exit code for a launcher: 0, or that of the first rank that failed (128 + the signal's number where a signal ended it).
    pub fn code(&self) -> u8 {
        self.failure.as_ref().map_or(0, |failure| failure.exit.code())
    }
}

/// A rank that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Which.
    pub rank: Rank,
    /// How.
    pub exit: Exit,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rank {} {}", self.rank, self.exit)
    }
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// By itself, with this code.
    Code(u8),
    /// By this signal.
    Signal(i32),
}

impl Exit {
    /// The code, as shells give it.
    pub fn code(self) -> u8 {
        match self {
            Exit::Code(code) => code,
            Exit::Signal(signal) => 128u8.saturating_add(u8::try_from(signal).unwrap_or(u8::MAX)),
        }
    }

    /// Whether it is the end of a process that did what it should.
    pub fn is_success(self) -> bool {
        self == Exit::Code(0)
    }

    /// Whether a signal ended it.
    pub fn is_signal(self) -> bool {
        matches!(self, Exit::Signal(_))
    }
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Exit::Code(code) => write!(f, "exited with code {code}"),
            Exit::Signal(signal) => match signal_hook::low_level::signal_name(*signal) {
                Some(name) => write!(f, "was killed by signal {signal} ({name})"),
                None => write!(f, "was killed by signal {signal}"),
            },
        }
    }
}

/// The ranks could not be started or looked after. None of them is left running.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    /// No job has so many ranks.
    #[error("cannot launch {ranks} ranks; expected 1 to {}", Launch::MOST_RANKS)]
    RankCount {
        /// The number asked for.
        ranks: usize,
    },
    /// The program cannot be started.
    #[error("cannot start '{program}' as rank {rank}: {cause}")]
    Start {
        /// The program.
        program: String,
        /// The first rank for which it failed.
        rank: Rank,
        /// What the system says.
        cause: io::Error,
    },
    /// No free port was found for the ranks to meet at.
    #[error("no free port found on 127.0.0.1 between {first} and {last}: {cause}")]
    NoPort {
        /// The lowest that was tried.
        first: u16,
        /// The highest that was tried.
        last: u16,
        /// What the system said of the last one.
        cause: io::Error,
    },
    /// What the ranks print cannot be passed on.
    #[error("cannot write what the ranks print: {0}")]
    Output(#[source] io::Error),
    /// A system call failed that should not.
    #[error("cannot look after the ranks: {0}")]
    System(#[source] io::Error),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_and_words() {
        let failure = |exit| Failure { rank: 3, exit };
        let outcome = |exit| Outcome { failure: Some(failure(exit)), followers: Vec::new() };
        assert_eq!(Outcome { failure: None, followers: Vec::new() }.code(), 0);
        assert_eq!(outcome(Exit::Code(7)).code(), 7);
        assert_eq!(outcome(Exit::Signal(9)).code(), 137);
        assert_eq!(failure(Exit::Code(7)).to_string(), "rank 3 exited with code 7");
        assert_eq!(failure(Exit::Signal(9)).to_string(), "rank 3 was killed by signal 9 (SIGKILL)");
    }
}
