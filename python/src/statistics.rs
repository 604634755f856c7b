//! Statistics for Python: what the engine has kept, and the time that the program has spent waiting.

use std::ffi::CString;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hcomm::statistics::{CallStatistics, Statistics, TimeCount};
use pyo3::exceptions::PyRuntimeWarning;
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

/// Elements that became infinite as they crossed the wires in a narrower type, by the name of the call. Locked with the interpreter's lock only.
#[derive(Default)]
pub struct Overflows {
    counts: Mutex<Vec<(&'static str, Arc<AtomicU64>)>>,
    is_used: AtomicBool,
}

/// Whether the program has been warned.
static HAS_WARNED: AtomicBool = AtomicBool::new(false);

impl Overflows {
    /// Where a call of this name counts.
    pub fn counter(&self, name: &'static str) -> Arc<AtomicU64> {
        self.is_used.store(true, Ordering::Relaxed);
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, count)) = counts.iter().find(|(known, _)| *known == name) {
            return count.clone();
        }
        let count = Arc::<AtomicU64>::default();
        counts.push((name, count.clone()));
        count
    }

    /// By name.
    pub fn counts(&self) -> Vec<(&'static str, u64)> {
        let counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        counts.iter().map(|(name, count)| (*name, count.load(Ordering::Relaxed))).collect()
    }

    /// Begins anew.
    pub fn clear(&self) {
        let counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        counts.iter().for_each(|(_, count)| count.store(0, Ordering::Relaxed));
    }

    /// Warns the program, once, of what has been counted.
    ///
    /// # Errors
    /// The warning itself, where the program makes errors of warnings.
    pub fn warn(&self, py: Python<'_>) -> PyResult<()> {
        if !self.is_used.load(Ordering::Relaxed) || HAS_WARNED.load(Ordering::Relaxed) {
            return Ok(());
        }
        let Some((name, count)) = self.counts().into_iter().find(|(_, count)| *count > 0) else {
            return Ok(());
        };
        if HAS_WARNED.swap(true, Ordering::Relaxed) {
            return Ok(());
        }
        let text = format!(
            "{count} elements of {name} became infinite: they, or their reduction, are too large for the precision that was set, in which they cross the \
             wires; bf16 has the range of float32. get_profile_stats() counts them as 'overflows'; this is said once"
        );
        let text = CString::new(text).unwrap_or_default();
        PyErr::warn(py, &py.get_type::<PyRuntimeWarning>(), &text, 1)
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
    shown.set_item("max_ns", call.max_ns)?;
    shown.set_item("bus_bytes_per_s", call.bus_gb_per_s * 1e9)?;
    let sizes = PyDict::new(py);
    call.sizes.iter().try_for_each(|size| sizes.set_item(size.from_bytes, show_times(py, &size.times)?))?;
    shown.set_item("sizes", sizes)?;
    shown.set_item("times", show_times(py, &call.times)?)?;
    Ok(shown.unbind())
}

/// Calls by the nanoseconds that they took.
fn show_times<'py>(py: Python<'py>, times: &[TimeCount]) -> PyResult<Bound<'py, PyDict>> {
    let shown = PyDict::new(py);
    times.iter().try_for_each(|time| shown.set_item(time.ns, time.calls))?;
    Ok(shown)
}
