//! Statistics for Python: what the engine has kept, and the time that the program has spent waiting.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use hcomm::{CallStatistics, Statistics};
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// Time that the program has spent waiting, by the name of the call.
#[derive(Default)]
pub struct Exposed(Mutex<Vec<(&'static str, Duration)>>);

impl Exposed {
    /// Adds to it.
    pub fn add(&self, name: &'static str, time: Duration) {
        let mut times = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match times.iter_mut().find(|(known, _)| *known == name) {
            Some((_, total)) => *total += time,
            None => times.push((name, time)),
        }
    }

    /// Begins anew.
    pub fn clear(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// By name.
    pub fn times(&self) -> Vec<(&'static str, Duration)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// What the engine has kept: a dict per kind of call, type of elements and algorithm.
pub fn show(py: Python<'_>, kept: &Statistics) -> PyResult<Vec<Py<PyDict>>> {
    kept.calls.iter().map(|call| show_call(py, call)).collect()
}

fn show_call(py: Python<'_>, call: &CallStatistics) -> PyResult<Py<PyDict>> {
    let shown = PyDict::new(py);
    shown.set_item("call", call.kind.name())?;
    shown.set_item("dtype", call.dtype.name())?;
    shown.set_item("algorithm", &call.algorithm)?;
    shown.set_item("calls", call.calls)?;
    shown.set_item("failures", call.failures)?;
    shown.set_item("bytes", call.bytes)?;
    shown.set_item("sent_bytes", call.sent_bytes)?;
    shown.set_item("total_ns", call.total_ns)?;
    shown.set_item("min_ns", call.min_ns)?;
    shown.set_item("median_ns", call.median_ns)?;
    shown.set_item("p99_ns", call.p99_ns)?;
    shown.set_item("max_ns", call.max_ns)?;
    shown.set_item("bus_bytes_per_s", call.bus_gb_per_s * 1e9)?;
    let sizes = PyDict::new(py);
    call.sizes.iter().try_for_each(|size| sizes.set_item(size.from_bytes, size.calls))?;
    shown.set_item("sizes", sizes)?;
    Ok(shown.unbind())
}
