//! [`Endpoint`]: all wires of one rank, and the [`Doorbell`] at which the rank sleeps.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};

use crate::mapping::{Mapping, SharedWord};
use crate::shm::Heap;
use crate::{AnyWire, Wire, bell};

/// One rank's end of a communicator's data plane.
#[derive(Debug)]
pub struct Endpoint {
    /// By peer rank; `None` at the own rank.
    pub wires: Vec<Option<AnyWire>>,
    /// Where this rank sleeps.
    pub doorbell: Doorbell,
    /// The memory that other ranks of the host read where it lies; `None` where no rank can.
    pub heap: Option<Arc<Heap>>,
}

/// Where whoever drives a communicator sleeps until something happens.
///
/// Sleeper: `arm`, look once more at everything it waits for, then `sleep` (or `disarm` where it found something).
/// Sender: publish, light fence, read the peer's `asleep` word, ring only if it is set. Local threads and the control plane
/// ring through a [`Ringer`]. A wake without a cause is possible; a missed one is not.
#[derive(Debug)]
pub struct Doorbell {
    ringer: Ringer,
}

impl Doorbell {
    /// A doorbell that only this process rings, and sockets.
    ///
    /// # Errors
    /// Where the process or the machine is out of file descriptors or memory.
    pub fn new() -> io::Result<Doorbell> {
        let page = Mapping::anonymous(size_of::<u32>())?;
        Doorbell::at(SharedWord::new(&page, 0))
    }

    /// A doorbell whose `asleep` word lies where peers see it.
    pub(crate) fn at(asleep: SharedWord) -> io::Result<Doorbell> {
        let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        bell::set_up(&asleep);
        Ok(Doorbell { ringer: Ringer::of(asleep, event) })
    }

    /// Says "about to sleep" where senders look, with a heavy fence after it.
    pub fn arm(&self) {
        bell::arm(&self.ringer.asleep);
    }

    /// Takes it back.
    pub fn disarm(&self) {
        bell::disarm(&self.ringer.asleep);
    }

    /// Sleeps until rung, until a socket of `wires` has something to do, or until `timeout`; disarms.
    pub fn sleep(&self, wires: &[Option<AnyWire>], timeout: Duration) {
        let mut waits = vec![PollFd::from_borrowed_fd(self.event(), PollFlags::IN)];
        waits.extend(wires.iter().flatten().filter_map(AnyWire::poll_fd).map(watch));
        let wakeups = wires.iter().flatten().filter_map(AnyWire::next_wakeup);
        let limit = Timespec::try_from(wakeups.fold(timeout, Duration::min)).ok();
        // An error (a signal came, or the kernel is short of memory) is a wake without a cause.
        let woken = poll(&mut waits, limit.as_ref()).unwrap_or(1) > 0;
        self.disarm();
        if woken {
            self.drain();
        }
    }

    /// A handle for other threads of this process.
    pub fn ringer(&self) -> Ringer {
        self.ringer.clone()
    }

    /// The eventfd that wakes the sleeper, to be handed to the processes that may ring.
    pub fn event(&self) -> BorrowedFd<'_> {
        self.ringer.event.as_fd()
    }

    /// Takes the rings that have been counted, all of which the caller is about to look after.
    fn drain(&self) {
        let mut count = [0_u8; 8];
        // Nothing to read is the ordinary case after a socket's wake.
        let _ = rustix::io::read(self.event(), &mut count);
    }
}

/// Rings a [`Doorbell`] from any thread. Cheap when nobody sleeps: one light fence and one load.
#[derive(Clone, Debug)]
pub struct Ringer {
    asleep: SharedWord,
    event: Arc<OwnedFd>,
}

impl Ringer {
    /// Wakes the sleeper, if there is one. What the caller published before is seen by it.
    #[inline]
    pub fn ring(&self) {
        if bell::claim(&self.asleep) {
            self.strike();
        }
    }

    /// Rings the sleeper that reads `event` and sets `asleep`.
    pub(crate) fn of(asleep: SharedWord, event: OwnedFd) -> Ringer {
        Ringer { asleep, event: Arc::new(event) }
    }

    #[cold]
    fn strike(&self) {
        // The only failure is a counter that is full: then the sleeper is being woken already.
        let _ = rustix::io::write(&self.event, &1_u64.to_ne_bytes());
    }
}

fn watch((socket, wants_to_write): (BorrowedFd<'_>, bool)) -> PollFd<'_> {
    let mut events = PollFlags::IN;
    events.set(PollFlags::OUT, wants_to_write);
    PollFd::from_borrowed_fd(socket, events)
}
