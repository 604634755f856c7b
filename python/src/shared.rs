//! [`Shared`]: what all handles on a communicator and the works of its calls have in common; and [`Quietly`], the engine's communicator, which lets
//! Python run while it closes.

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use hcomm::{Error, Failure};
use pyo3::prelude::*;

use crate::completion;
use crate::lifetime::Here;
use crate::scratch::Scratch;
use crate::statistics::{Exposed, Overflows};
use crate::waiting::wait_in_slices;

/// What all handles on a communicator share, and the works of its calls.
pub struct Shared {
    /// To be aborted by.
    communicator: Here<Quietly>,
    /// Whether times are kept.
    pub is_recording: AtomicBool,
    /// Time spent waiting.
    pub exposed: Exposed,
    /// Elements that became infinite.
    pub overflows: Overflows,
    /// Waits in a row that a signal ended.
    interruptions: AtomicU32,
    /// Whether a moment has been waited for a peer whose program ends by an error.
    has_given_way: AtomicBool,
    /// Memory for copies.
    scratch: Here<Arc<Scratch>>,
}

impl Shared {
    /// That of a new communicator.
    pub fn of(communicator: &hcomm::Communicator) -> Shared {
        Shared {
            communicator: Quietly::new(communicator.clone()),
            is_recording: AtomicBool::new(false),
            exposed: Exposed::default(),
            overflows: Overflows::default(),
            interruptions: AtomicU32::new(0),
            has_given_way: AtomicBool::new(false),
            scratch: Here::new(Arc::default()),
        }
    }

    /// Memory for copies of arrays.
    ///
    /// # Errors
    /// `ForkError` in a child of the process that made it.
    pub fn scratch(&self) -> PyResult<&Arc<Scratch>> {
        self.scratch.get()
    }

    /// Whether times are kept.
    pub fn is_recording(&self) -> bool {
        self.is_recording.load(Ordering::Relaxed)
    }

    /// The time, where times are kept and it is the program that waits, not a callback.
    pub fn now(&self) -> Option<Instant> {
        (self.is_recording() && !completion::is_own_thread()).then(Instant::now)
    }

    /// Takes note of time that the program has spent waiting.
    pub fn expose(&self, collective: &'static str, time: Duration) {
        self.exposed.add(collective, time);
    }

    /// Where another rank's program ends by an error: waits a moment, once, so that it is the first to report. Launchers take the first
    /// report for the cause, and many count in seconds.
    ///
    /// # Errors
    /// What a signal handler raised.
    pub fn give_way(&self, py: Python<'_>, error: &Error) -> PyResult<()> {
        let is_others = matches!(error, Error::Failed(Failure::PeerLeft { because: Some(_), .. }));
        if !is_others || self.has_given_way.swap(true, Ordering::Relaxed) {
            return Ok(());
        }
        let wait = |limit: Duration| {
            std::thread::sleep(limit);
            false
        };
        wait_in_slices(py, Some(MOMENT), wait).map(drop)
    }

    /// Takes note that a wait has ended by itself.
    pub fn note_end(&self) {
        if self.interruptions.load(Ordering::Relaxed) > 0 {
            self.interruptions.store(0, Ordering::Relaxed);
        }
    }

    /// Takes note that a signal has ended a wait; the second one in a row ends everything.
    pub fn note_interruption(&self) {
        let was_interrupted = self.interruptions.fetch_add(1, Ordering::Relaxed) > 0;
        if let Some(communicator) = self.communicator.get().ok().filter(|_| was_interrupted) {
            communicator.abort("interrupted twice");
        }
    }
}

/// How long the error of a rank that only suffers from another's is held back.
const MOMENT: Duration = Duration::from_millis(1500);

/// A communicator that lets Python run while it closes.
pub struct Quietly(Option<hcomm::Communicator>);

impl Quietly {
    /// One to be closed in this process only.
    pub fn new(communicator: hcomm::Communicator) -> Here<Quietly> {
        Here::new(Quietly(Some(communicator)))
    }
}

impl Deref for Quietly {
    type Target = hcomm::Communicator;

    fn deref(&self) -> &hcomm::Communicator {
        self.0.as_ref().expect("it is there until it is dropped")
    }
}

impl Drop for Quietly {
    fn drop(&mut self) {
        let communicator = self.0.take();
        Python::attach(|py| py.detach(move || drop(communicator)));
    }
}
