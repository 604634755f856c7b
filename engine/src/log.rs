//! [`Log`]: what a communicator says of itself on standard error, as far as `HCOMM_DEBUG` wants it; also sent to `tracing`.

use hcomm_ops::Rank;

/// How much is said.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verbosity {
    /// Nothing.
    Off,
    /// Stalls and losses.
    Warn,
    /// And what each communicator was made of.
    Info,
    /// And every operation.
    Trace,
}

/// A communicator's voice.
#[derive(Clone, Debug)]
pub(crate) struct Log {
    rank: Rank,
    verbosity: Verbosity,
}

impl Log {
    pub fn new(rank: Rank, verbosity: Verbosity) -> Self {
        Log { rank, verbosity }
    }

    /// Something the user should act on.
    pub fn warn(&self, text: &str) {
        tracing::warn!(rank = self.rank, "{text}");
        self.say(Verbosity::Warn, text);
    }

    /// Something worth knowing.
    pub fn info(&self, text: &str) {
        tracing::info!(rank = self.rank, "{text}");
        self.say(Verbosity::Info, text);
    }

    fn say(&self, level: Verbosity, text: &str) {
        if self.verbosity >= level {
            for line in text.lines() {
                eprintln!("hcomm[{}] {line}", self.rank);
            }
        }
    }
}
