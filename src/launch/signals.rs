//! [`Signals`]: signals to this process as something to poll.

use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;

use rustix::process::Signal;
use signal_hook::{SigId, consts, low_level};

/// The signals that are passed on to the ranks.
const FORWARDED: [(i32, Signal); 3] =
    [(consts::SIGINT, Signal::INT), (consts::SIGTERM, Signal::TERM), (consts::SIGHUP, Signal::HUP)];

/// SIGCHLD and the signals to be passed on, each a stream that becomes readable.
pub struct Signals {
    child: Wire,
    forwarded: Vec<(Wire, Signal)>,
}

struct Wire {
    stream: UnixStream,
    id: SigId,
}

impl Signals {
    /// Starts listening. A signal that this process was started to ignore (as `nohup` does with SIGHUP) is listened to all the same.
    pub fn listen() -> io::Result<Self> {
        let child = Wire::listen(consts::SIGCHLD)?;
        let forwarded = FORWARDED.into_iter().map(|(number, signal)| Ok((Wire::listen(number)?, signal)));
        Ok(Signals { child, forwarded: forwarded.collect::<io::Result<_>>()? })
    }

    /// What to poll for reading.
    pub fn as_fds(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        [&self.child]
            .into_iter()
            .chain(self.forwarded.iter().map(|(wire, _)| wire))
            .map(|wire| wire.stream.as_fd())
    }

    /// Whether a child may have changed its state since the last call.
    pub fn poll_child(&mut self) -> bool {
        self.child.drain()
    }

    /// A signal that has come since the last call and is to be passed on.
    pub fn poll_forwarded(&mut self) -> Option<Signal> {
        self.forwarded.iter_mut().find_map(|(wire, signal)| wire.drain().then_some(*signal))
    }
}

impl Wire {
    fn listen(number: i32) -> io::Result<Self> {
        let (stream, writer) = UnixStream::pair()?;
        stream.set_nonblocking(true)?;
        Ok(Wire { stream, id: low_level::pipe::register(number, writer)? })
    }

    /// Reads all that is there; returns whether anything was.
    fn drain(&mut self) -> bool {
        let mut bytes = [0; 64];
        let mut seen = false;
        while matches!(self.stream.read(&mut bytes), Ok(1..)) {
            seen = true;
        }
        seen
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        low_level::unregister(self.id);
    }
}
