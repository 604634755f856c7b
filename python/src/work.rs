//! [`Work`]: one or more operations in flight, as Python holds them.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use hcomm::Error;
use pyo3::prelude::*;

use crate::bound::Given;
use crate::completion::Completer;
use crate::lifetime::Here;
use crate::shared::Shared;
use crate::waiting::wait_in_slices;
use crate::words::limit;
use crate::{completion, errors};

/// Operations in flight that count as one. They go on when this is dropped, and keep their arrays until they end.
#[pyclass(frozen, module = "hcomm._native")]
pub struct Work {
    operations: Here<Vec<Arc<hcomm::Work<Given>>>>,
    shared: Arc<Shared>,
    collective: &'static str,
}

impl Work {
    pub fn new(operation: hcomm::Work<Given>, shared: Arc<Shared>, collective: &'static str) -> Self {
        Work { operations: Here::new(vec![Arc::new(operation)]), shared, collective }
    }

    /// Waits up to `limit`; whether all have ended. The program has waited since `began`, where times are kept.
    fn await_end(&self, py: Python<'_>, limit: Option<Duration>, began: Option<Instant>) -> PyResult<bool> {
        let operations = self.operations.get()?;
        let wait = |limit: Duration| operations.iter().all(|operation| operation.wait_at_most(limit));
        let ended = wait_in_slices(py, limit, wait);
        if let Some(began) = began {
            self.shared.expose(self.collective, began.elapsed());
        }
        match &ended {
            Ok(true) => {
                self.shared.note_end();
                self.shared.overflows.warn(py)?;
            }
            Ok(false) => {}
            Err(_) => self.shared.note_interruption(),
        }
        ended
    }

    fn error(&self) -> PyResult<Option<Error>> {
        Ok(self.operations.get()?.iter().find_map(|operation| operation.error()))
    }

    /// Waits to the end of a call that the program waits for since `began`.
    ///
    /// # Errors
    /// What failed, and what a signal handler raised.
    pub fn finish(&self, py: Python<'_>, began: Option<Instant>) -> PyResult<()> {
        self.await_end(py, None, began)?;
        self.outcome(py)
    }

    /// What came of operations that have ended.
    fn outcome(&self, py: Python<'_>) -> PyResult<()> {
        let Some(error) = self.error()? else { return Ok(()) };
        self.shared.give_way(py, &error)?;
        Err(errors::from_error(py, &error))
    }
}

#[pymethods]
impl Work {
    /// Works of one communicator as one.
    #[staticmethod]
    fn joined(first: &Work, others: Vec<PyRef<'_, Work>>) -> PyResult<Work> {
        let mut operations = first.operations.get()?.clone();
        for other in &others {
            operations.extend(other.operations.get()?.iter().cloned());
        }
        Ok(Work {
            operations: Here::new(operations),
            shared: first.shared.clone(),
            collective: first.collective,
        })
    }

    /// Waits until all has ended, for at most `timeout` seconds; whether it has. Raises what failed.
    #[pyo3(signature = (timeout = None))]
    fn wait(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<bool> {
        let limit = match timeout {
            Some(timeout) => limit(timeout)?,
            None => None,
        };
        if !self.await_end(py, limit, self.shared.now())? {
            return Ok(false);
        }
        self.outcome(py).map(|()| true)
    }

    /// Takes note that the program has waited for it, so many seconds, in a way that hcomm does not see.
    fn expose(&self, seconds: f64) {
        if let (true, Ok(time)) = (self.shared.is_recording(), Duration::try_from_secs_f64(seconds)) {
            self.shared.expose(self.collective, time);
        }
    }

    /// Whether all has ended, well or not.
    fn done(&self) -> PyResult<bool> {
        Ok(self.operations.get()?.iter().all(|operation| operation.is_done()))
    }

    /// What failed; None while it runs and where all went well.
    fn exception(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        let error = self.error()?.map(|error| errors::from_error(py, &error));
        Ok(error.map(|error| error.into_value(py).into_any()))
    }

    /// Has `callback` called, without arguments, when all has ended: on a thread of hcomm's, also where it has ended already.
    fn add_done_callback(&self, py: Python<'_>, callback: Py<PyAny>) -> PyResult<()> {
        let operations = self.operations.get()?;
        let completer = completion::completer(py);
        let left = Arc::new(AtomicUsize::new(operations.len()));
        let callback = Arc::new(Mutex::new(Some(callback)));
        if operations.is_empty() {
            take_and_post(&completer, &callback);
        }
        for operation in operations {
            let (completer, left, callback) = (completer.clone(), left.clone(), callback.clone());
            operation.notify(move || {
                if left.fetch_sub(1, Ordering::AcqRel) == 1 {
                    take_and_post(&completer, &callback);
                }
            });
        }
        Ok(())
    }

    /// Changes its urgency among the operations in flight on this rank; higher goes first, 0 is usual.
    fn set_priority(&self, priority: i32) -> PyResult<()> {
        self.operations.get()?.iter().for_each(|operation| operation.set_priority(priority));
        Ok(())
    }

    /// Of a receive that has ended well: the rank that sent, and the bytes that came.
    fn received(&self) -> PyResult<Option<(usize, u64)>> {
        let first = self.operations.get()?.first().and_then(|operation| operation.received());
        Ok(first.map(|received| (received.rank, received.bytes)))
    }
}

/// Posts the callback, once.
fn take_and_post(completer: &Arc<Completer>, callback: &Mutex<Option<completion::Callback>>) {
    let callback = callback.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(callback) = callback {
        completer.post(callback);
    }
}
