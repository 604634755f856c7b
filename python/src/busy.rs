//! Memory that operations in flight use. A later call on the same array comes after the earlier one, as its user means it, where either
//! writes: without that both would read what was there before.

use std::sync::{Mutex, PoisonError};

use hcomm::{Predecessor, Ticket};
use pyo3::prelude::*;

use crate::array::{Array, Layout};

/// Bytes that a call touches: those of an array's elements, and not what lies between them.
#[derive(Clone, Debug)]
pub struct Touched {
    start: usize,
    layout: Layout,
    is_written: bool,
}

struct Busy {
    touched: Touched,
    operation: Ticket,
}

static BUSY: Mutex<Vec<Busy>> = Mutex::new(Vec::new());

impl Touched {
    /// Those of an array; nothing where it has no elements.
    pub fn by(array: &Array, is_written: bool) -> Option<Touched> {
        let start = array.start as usize;
        (array.layout.count > 0).then(|| Touched { start, layout: array.layout.clone(), is_written })
    }

    fn clashes(&self, other: &Touched) -> bool {
        (self.is_written || other.is_written) && self.layout.overlaps(self.start, &other.layout, other.start)
    }
}

/// The operations in flight that use the same memory in a way that matters; needs the interpreter's lock.
pub fn before(_: Python<'_>, touched: &[Touched]) -> Vec<Ticket> {
    let mut busy = BUSY.lock().unwrap_or_else(PoisonError::into_inner);
    busy.retain(|busy| !busy.operation.is_done());
    let clash = |busy: &&Busy| touched.iter().any(|touched| touched.clashes(&busy.touched));
    busy.iter().filter(clash).map(|busy| busy.operation.clone()).collect()
}

/// Takes note of what an operation uses.
pub fn note(_: Python<'_>, touched: Vec<Touched>, operation: &impl Predecessor) {
    let operation = operation.ticket();
    if !operation.is_done() {
        let mut busy = BUSY.lock().unwrap_or_else(PoisonError::into_inner);
        busy.extend(touched.into_iter().map(|touched| Busy { touched, operation: operation.clone() }));
    }
}

/// In the child of a fork nothing is in flight.
pub fn forget() {
    BUSY.lock().unwrap_or_else(PoisonError::into_inner).drain(..).for_each(std::mem::forget);
}
