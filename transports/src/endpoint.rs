//! [`Endpoint`]: all wires of one rank, and the [`Doorbell`] at which the rank sleeps.

use std::time::Duration;

use crate::AnyWire;

/// One rank's end of a communicator's data plane.
pub struct Endpoint {
    /// By peer rank; `None` at the own rank.
    pub wires: Vec<Option<AnyWire>>,
    /// Where this rank sleeps.
    pub doorbell: Doorbell,
}

/// Where whoever drives a communicator sleeps until something happens.
///
/// Sleeper: `arm`, look once more at everything it waits for, then `sleep` (or `disarm` where it found something).
/// Sender: publish, full fence, read the peer's `asleep` word, ring only if it is set. Local threads and the control plane
/// ring through a [`Ringer`].
pub struct Doorbell {}

impl Doorbell {
    /// Says "about to sleep" where senders look, with a full fence after it.
    pub fn arm(&self) {}

    /// Takes it back.
    pub fn disarm(&self) {}

    /// Sleeps until rung, until a socket of `wires` has something to do, or until `timeout`; disarms.
    pub fn sleep(&self, wires: &[Option<AnyWire>], timeout: Duration) {
        let _ = (wires, timeout);
    }

    /// A handle for other threads of this process.
    pub fn ringer(&self) -> Ringer {
        Ringer {}
    }
}

/// Rings a [`Doorbell`] from any thread. Cheap when nobody sleeps: one fence and one load.
#[derive(Clone)]
pub struct Ringer {}

impl Ringer {
    /// Wakes the sleeper, if there is one. What the caller published before is seen by it.
    pub fn ring(&self) {}
}
