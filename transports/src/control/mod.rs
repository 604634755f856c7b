//! [`Control`]: small messages between ranks beside the data, and news of the ranks themselves.
//!
//! Between processes every pair of ranks has a connection of its own (`mesh`), made by `rendezvous`; between threads a message is a
//! call ([`inproc_mesh`]).
//!
//! Events are handed to the communicator's [`Handler`] on the control thread (in process: on the sender's thread). A handler may
//! set words that the data plane looks at and ring its doorbell; it must not block.

pub mod frame;
mod inproc;
pub(crate) mod mesh;
mod peer;
mod pulse;
pub(crate) mod socket;
mod sys;
#[cfg(test)]
mod tests;
pub(crate) mod watch;

use std::sync::Arc;

use bytes::Bytes;
use hcomm_ops::Rank;

pub use inproc::inproc_mesh;

/// The longest body of a control message.
pub const MAX_BODY_BYTES: usize = 64 * 1024;

/// The longest words of a goodbye.
pub const MAX_WORDS_BYTES: usize = 8 * 1024;

/// What the control plane tells a communicator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A control message of another rank.
    Message {
        /// The sender.
        from: Rank,
        /// What it sent.
        body: Bytes,
    },
    /// A rank has said goodbye: it closed its communicator in order.
    Left {
        /// Which.
        rank: Rank,
        /// The number of collective calls that it had made.
        last: u64,
        /// What it had to say beside that; at most [`MAX_WORDS_BYTES`].
        words: Bytes,
    },
    /// A rank died or vanished without a goodbye.
    Lost {
        /// Which.
        rank: Rank,
        /// A clause that says how it is known, such as "its process ended without closing the communicator".
        cause: String,
    },
}

/// Takes a communicator's events. Those of one peer come in order, and its `Left` or `Lost` is the last of them. None comes once
/// this rank's `leave` has returned.
pub type Handler = Arc<dyn Fn(Event) + Send + Sync>;

/// This rank's end of the control plane.
pub trait Control: Send + Sync {
    /// Sends a message to a rank. Messages from one rank to another keep their order; one to a rank that is gone
    /// is dropped, and so is one longer than [`MAX_BODY_BYTES`].
    fn send(&self, to: Rank, body: Bytes);

    /// What keeps a rank that is not lost from answering, as a clause such as "its process is stopped"; `None` where nothing is known.
    fn condition(&self, rank: Rank) -> Option<String> {
        let _ = rank;
        None
    }

    /// Says goodbye to all ranks, with the number of collective calls made and perhaps more (at most [`MAX_WORDS_BYTES`], the rest is cut),
    /// and waits until the words have left this process or `deadline` has passed. Of two ranks that leave, whenever that is, at least one
    /// has had the other's `Left` when its `leave` returns. Dropping a control without it counts as vanishing.
    fn leave(&self, last: u64, words: Bytes, deadline: std::time::Instant);
}
