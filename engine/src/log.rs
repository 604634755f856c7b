//! [`Log`]: what a communicator says of itself on standard error, as far as `HCOMM_DEBUG` wants it; also sent to `tracing`.

use hcomm_ops::Rank;

use crate::say;
use crate::settings::DebugLevel;

/// A communicator's voice.
#[derive(Clone, Debug)]
pub(crate) struct Log {
    rank: Rank,
    level: DebugLevel,
}

impl Log {
    pub fn new(rank: Rank, level: DebugLevel) -> Self {
        Log { rank, level }
    }

    /// Something the user should act on.
    pub fn warn(&self, text: &str) {
        tracing::warn!(rank = self.rank, "{text}");
        self.say(DebugLevel::Warn, text);
    }

    /// Something worth knowing.
    pub fn info(&self, text: &str) {
        tracing::info!(rank = self.rank, "{text}");
        self.say(DebugLevel::Info, text);
    }

    fn say(&self, needed: DebugLevel, text: &str) {
        if self.level >= needed {
            for line in text.lines() {
                say(&format!("hcomm[{}] {line}", self.rank));
            }
        }
    }
}
