//! Waits that let Python run meanwhile and that a signal handler's exception (Ctrl-C) ends.

use std::time::{Duration, Instant};

use crossbeam_channel::{RecvTimeoutError, bounded};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

/// How long a signal may go unseen.
const SLICE: Duration = Duration::from_millis(50);
/// How long what was cancelled may take to end before it is left to itself.
const MOMENT: Duration = Duration::from_secs(1);

/// Waits in slices: `wait` waits for at most so long and says whether it is over. Returns whether it was, before `limit`.
///
/// # Errors
/// What a signal handler raised.
pub fn wait_in_slices(
    py: Python<'_>,
    limit: Option<Duration>,
    wait: impl Fn(Duration) -> bool + Sync,
) -> PyResult<bool> {
    // Most waits are short: no clock is read for them.
    let mut until = None;
    let mut slice = limit.map_or(SLICE, |limit| limit.min(SLICE));
    loop {
        if py.detach(|| wait(slice)) {
            return Ok(true);
        }
        py.check_signals()?;
        if let Some(limit) = limit {
            let until = *until.get_or_insert_with(|| Instant::now().checked_add(limit - slice));
            // A time that no clock reaches is no limit.
            let left = until.map_or(SLICE, |until| until.saturating_duration_since(Instant::now()));
            if left.is_zero() {
                return Ok(false);
            }
            slice = left.min(SLICE);
        }
    }
}

/// Runs something that blocks on a thread of its own, and waits for it.
///
/// # Errors
/// What a signal handler raised; the thread then goes on by itself until it has done.
pub fn run_aside<T: Send + 'static>(py: Python<'_>, run: impl FnOnce() -> T + Send + 'static) -> PyResult<T> {
    run_aside_until(py, run, || ())
}

/// The same; after a signal `cancel` is called, and the thread has a moment to come to its end.
///
/// # Errors
/// What a signal handler raised.
pub fn run_aside_until<T: Send + 'static>(
    py: Python<'_>,
    run: impl FnOnce() -> T + Send + 'static,
    cancel: impl Fn() + Sync,
) -> PyResult<T> {
    let (done, outcome) = bounded(1);
    let work = move || {
        // Nobody waits any more after a signal.
        let _ = done.send(run());
    };
    let thread = std::thread::Builder::new().name("hcomm-call".to_owned()).spawn(work)?;
    loop {
        let received = py.detach(|| outcome.recv_timeout(SLICE));
        match received {
            Ok(value) => {
                let _ = py.detach(|| thread.join());
                return Ok(value);
            }
            Err(RecvTimeoutError::Timeout) => py.check_signals().inspect_err(|_| {
                py.detach(|| {
                    cancel();
                    drop(outcome.recv_timeout(MOMENT));
                });
            })?,
            Err(RecvTimeoutError::Disconnected) => {
                return Err(PyRuntimeError::new_err("hcomm panicked; see standard error"));
            }
        }
    }
}
