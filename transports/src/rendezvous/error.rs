//! [`JoinError`]: why ranks do not come together.

use std::fmt::Write as _;
use std::io;
use std::time::Duration;

use hcomm_ops::Rank;

use super::message::Message;
use crate::files;

/// Why there is no communicator. All ranks that had arrived are told the same.
#[derive(Debug, thiserror::Error)]
pub enum JoinError {
    /// This rank's own numbers do not fit: correct them.
    #[error("rank {rank} is outside a world of {world}; ranks are 0 to world size - 1")]
    Rank {
        /// The rank given.
        rank: Rank,
        /// The world size given.
        world: usize,
    },
    /// Rank 0 cannot listen: choose another address.
    #[error("rank 0 cannot listen at {address:?}: {}", files::explain(source))]
    Listen {
        /// The address given.
        address: String,
        /// Why not.
        source: io::Error,
    },
    /// Rank 0 is not there: is it running, and is the address right?
    #[error("rank 0 did not arrive within {}: {cause}", seconds(*within))]
    NoRankZero {
        /// The deadline.
        within: Duration,
        /// What the last attempt met with, and where.
        cause: String,
    },
    /// Something is at rank 0's address, or at a peer's, that is not of this job.
    #[error("cannot join {peer}: {cause}")]
    Stranger {
        /// Who was to be there.
        peer: String,
        /// What is wrong with it.
        cause: String,
    },
    /// These ranks are not there: look at what became of them.
    #[error("{} did not arrive within {}{notes}", list(ranks), seconds(*within))]
    Missing {
        /// Which, in order.
        ranks: Vec<Rank>,
        /// The deadline.
        within: Duration,
        /// Connections that were refused meanwhile, as a clause, or empty.
        notes: String,
    },
    /// A rank was started with other numbers than rank 0.
    #[error("{reason}")]
    Disagreement {
        /// The ranks and their values.
        reason: String,
    },
    /// A rank arrived and then went.
    #[error("rank {rank} vanished during the rendezvous: {cause}")]
    Vanished {
        /// Which.
        rank: Rank,
        /// How it is known.
        cause: String,
    },
    /// All are there, but two cannot be connected.
    #[error("rank {rank} cannot connect with rank {peer}: {cause}")]
    Pair {
        /// One of them.
        rank: Rank,
        /// The other.
        peer: Rank,
        /// Why not.
        cause: String,
    },
    /// A rank cannot have the memory that it was to share: lower the staging settings, or make room.
    #[error("rank {rank} cannot make its shared memory: {cause}")]
    Memory {
        /// Who.
        rank: Rank,
        /// What was asked for, and what there is.
        cause: String,
    },
    /// A rank may not open as many files as its connections need: raise that limit (`ulimit -n`), or start fewer ranks.
    #[error(
        "rank {rank} needs some {needed} open files for connections with {peers} others, beside the {open} that it has; it may have {limit} at \
         once (ulimit -n, LimitNOFILE)"
    )]
    Files {
        /// Who.
        rank: Rank,
        /// Other ranks.
        peers: usize,
        /// About how many more.
        needed: u64,
        /// How many it has.
        open: u64,
        /// How many it may have.
        limit: u64,
    },
    /// All are there, but not all were connected in time.
    #[error("rank {rank} was not connected with {} within {}", list(peers), seconds(*within))]
    Unconnected {
        /// Who waited.
        rank: Rank,
        /// For whom.
        peers: Vec<Rank>,
        /// The deadline.
        within: Duration,
    },
    /// Somebody called it off here ([`super::Cancel`]): begin anew if that was not meant.
    #[error("rank {rank} was interrupted during the rendezvous")]
    Cancelled {
        /// This rank.
        rank: Rank,
    },
    /// Another rank failed; the text is its error.
    #[error("{reason}")]
    Elsewhere {
        /// The other rank's error.
        reason: String,
    },
    /// The interface filter takes none.
    #[error("no network interface matches {filter:?}; up are {there}")]
    NoInterface {
        /// The filter.
        filter: String,
        /// Names of those that there are.
        there: String,
    },
    /// The system refused something that every process may have.
    #[error("cannot {what}: {}", files::explain(source))]
    System {
        /// What was to be done.
        what: &'static str,
        /// Why not.
        source: io::Error,
    },
}

impl JoinError {
    pub(super) fn system(what: &'static str) -> impl Fn(io::Error) -> JoinError {
        move |source| JoinError::System { what, source }
    }

    /// What the other ranks are told.
    pub(super) fn as_refusal(&self) -> Message {
        let missing = match self {
            JoinError::Missing { ranks, .. } => ranks.iter().map(|&rank| rank as u32).collect(),
            _ => Vec::new(),
        };
        Message::Refused { missing, reason: self.to_string() }
    }

    /// The error that a refusal stands for.
    pub(super) fn from_refusal(missing: &[u32], reason: String, within: Duration) -> JoinError {
        if missing.is_empty() {
            return JoinError::Elsewhere { reason };
        }
        let ranks = missing.iter().map(|&rank| rank as Rank).collect();
        JoinError::Missing { ranks, within, notes: String::new() }
    }
}

/// "rank 3" or "ranks 2, 5".
pub(super) fn list(ranks: &[Rank]) -> String {
    let mut text = String::from(if ranks.len() == 1 { "rank " } else { "ranks " });
    for (at, rank) in ranks.iter().enumerate() {
        let comma = if at == 0 { "" } else { ", " };
        // Writing to a string cannot fail.
        let _ = write!(text, "{comma}{rank}");
    }
    text
}

fn seconds(time: Duration) -> String {
    format!("{} s", (time.as_secs_f64() * 1000.0).round() / 1000.0)
}
