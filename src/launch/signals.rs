//! [`Signals`]: signals to this process as something to poll.

use std::fs;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;

use rustix::process::Signal;
use signal_hook::{SigId, consts, low_level};

use super::sys;

/// What a signal that is passed on asks of the ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meaning {
    /// To end; the second time they are killed.
    End,
    /// To stop until they are to go on; this process does the same.
    Stop,
    /// Something of the program's own, or to go on.
    Other,
}

/// The signals that are passed on to the ranks.
const FORWARDED: [(i32, Signal, Meaning); 8] = [
    (consts::SIGINT, Signal::INT, Meaning::End),
    (consts::SIGTERM, Signal::TERM, Meaning::End),
    (consts::SIGHUP, Signal::HUP, Meaning::End),
    (consts::SIGQUIT, Signal::QUIT, Meaning::End),
    (consts::SIGUSR1, Signal::USR1, Meaning::Other),
    (consts::SIGUSR2, Signal::USR2, Meaning::Other),
    (consts::SIGTSTP, Signal::TSTP, Meaning::Stop),
    (consts::SIGCONT, Signal::CONT, Meaning::Other),
];

/// SIGCHLD and the signals to be passed on, each a stream that becomes readable.
pub struct Signals {
    child: Wire,
    forwarded: Vec<(Wire, Signal, Meaning)>,
}

struct Wire {
    stream: UnixStream,
    id: SigId,
}

impl Signals {
    /// Starts listening, also where whoever started this process had signals blocked. A signal that it was started to ignore (as `nohup` does
    /// with SIGHUP, and a shell with SIGINT of what it runs in the background) stays ignored, here and by the ranks.
    pub fn listen() -> io::Result<Self> {
        let ignored = ignored();
        let is_heeded = |number: i32| ignored & 1 << (number - 1) == 0;
        let child = Wire::listen(consts::SIGCHLD)?;
        let heeded = FORWARDED.into_iter().filter(|(number, ..)| is_heeded(*number));
        let forwarded = heeded.map(|(number, signal, meaning)| Ok((Wire::listen(number)?, signal, meaning)));
        let forwarded = forwarded.collect::<io::Result<_>>()?;
        sys::unblock(FORWARDED.map(|(number, ..)| number).into_iter().chain([consts::SIGCHLD]));
        Ok(Signals { child, forwarded })
    }

    /// What to poll for reading.
    pub fn as_fds(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        [&self.child]
            .into_iter()
            .chain(self.forwarded.iter().map(|(wire, ..)| wire))
            .map(|wire| wire.stream.as_fd())
    }

    /// Whether a child may have changed its state since the last call.
    pub fn poll_child(&mut self) -> bool {
        self.child.drain()
    }

    /// A signal that has come since the last call and is to be passed on.
    pub fn poll_forwarded(&mut self) -> Option<(Signal, Meaning)> {
        self.forwarded
            .iter_mut()
            .find_map(|(wire, signal, meaning)| wire.drain().then_some((*signal, *meaning)))
    }
}

/// The signals that this process ignores, one bit each from the lowest for signal 1; none where the system does not say.
fn ignored() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
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
