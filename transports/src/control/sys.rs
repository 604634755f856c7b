//! The one unsafe call of the control plane.

use std::io;
use std::os::fd::OwnedFd;

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Waits for a file descriptor to be readable, on the runtime that this thread is in.
pub(super) fn register(file: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: an `OwnedFd` names the same open file from here until it is dropped, which the returned value does after it has
    // taken the file from the poller.
    unsafe { AsyncFd::register_with_interest(file, Interest::READABLE) }.map_err(io::Error::from)
}
