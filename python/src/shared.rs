//! [`Shared`]: what all handles on a communicator and the works of its calls have in common; and [`Quietly`], the engine's communicator, which lets
//! Python run while it closes.

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use pyo3::prelude::*;

use crate::lifetime::Here;
use crate::scratch::Scratch;
use crate::statistics::{Exposed, Overflows};

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

    /// Takes note of time that the program has spent waiting.
    pub fn expose(&self, collective: &'static str, time: Duration) {
        self.exposed.add(collective, time);
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
