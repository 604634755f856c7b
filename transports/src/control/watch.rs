//! [`Watch`]: notices the end of a peer's process on this host, also where a child that it forked still holds its sockets open.

use std::io;
use std::os::fd::OwnedFd;

use rustix::process::{Pid, PidfdFlags, pidfd_open};
use tokio::io::unix::AsyncFd;

use super::sys::register;

/// A handle of a process of this host, or of none.
#[derive(Debug)]
pub(crate) struct Watch(Option<(u32, AsyncFd<OwnedFd>)>);

impl Watch {
    /// Watches nothing.
    pub(crate) fn nothing() -> Self {
        Watch(None)
    }

    /// Watches the process, if there is one of that number and it is another than this. To be made on the control thread.
    pub(crate) fn process(pid: u32) -> Self {
        if pid == std::process::id() {
            return Watch(None);
        }
        let handle =
            open(pid).inspect_err(|error| tracing::debug!(pid, %error, "a peer's process cannot be watched"));
        Watch(handle.ok().map(|handle| (pid, handle)))
    }

    /// The process's number.
    pub(crate) fn number(&self) -> Option<u32> {
        self.0.as_ref().map(|(number, _)| *number)
    }

    /// Returns once the process has ended; never where there is none to watch. Cancel safe.
    pub(crate) async fn ended(&self) {
        match &self.0 {
            Some((_, handle)) if handle.readable().await.is_ok() => {}
            _ => std::future::pending().await,
        }
    }
}

fn open(pid: u32) -> io::Result<AsyncFd<OwnedFd>> {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw).ok_or(io::ErrorKind::InvalidInput)?;
    register(pidfd_open(pid, PidfdFlags::NONBLOCK)?)
}
