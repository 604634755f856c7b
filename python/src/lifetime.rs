//! Forks: threads, sockets and shared memory do not survive one, so that what was made before it is of no use in the child, and must
//! not even be dropped there.

use std::mem::ManuallyDrop;
use std::sync::atomic::{AtomicU32, Ordering};

use pyo3::prelude::*;

use crate::errors;

/// How many forks lie between this process and the one that loaded the module.
static GENERATION: AtomicU32 = AtomicU32::new(0);

/// Something that is of use only in the process that made it; in others it is never dropped.
pub struct Here<T> {
    value: ManuallyDrop<T>,
    generation: u32,
}

impl<T> Here<T> {
    /// Made in this process.
    pub fn new(value: T) -> Self {
        Here { value: ManuallyDrop::new(value), generation: GENERATION.load(Ordering::Relaxed) }
    }

    /// The value.
    ///
    /// # Errors
    /// `ForkError` in a child of the process that made it.
    pub fn get(&self) -> PyResult<&T> {
        if self.is_here() { Ok(&self.value) } else { Err(errors::forked()) }
    }

    fn is_here(&self) -> bool {
        self.generation == GENERATION.load(Ordering::Relaxed)
    }
}

impl<T> Drop for Here<T> {
    fn drop(&mut self) {
        if self.is_here() {
            // SAFETY: dropped once, here; nobody has access to it any more.
            unsafe { ManuallyDrop::drop(&mut self.value) };
        }
    }
}

/// To be called in the child of a fork, before anything else.
#[pyfunction]
pub fn after_fork_in_child() {
    GENERATION.fetch_add(1, Ordering::Relaxed);
    crate::completion::forget();
    crate::busy::forget();
}
