//! Ends of operations told to Python: by a thread of its own, since whoever drives the communicator must not wait for the interpreter.
//! The thread is there only once somebody asks for it.

use std::mem::{ManuallyDrop, forget as leak, take};
use std::sync::{Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use crossbeam_channel::{Sender, bounded, unbounded};
use pyo3::prelude::*;

/// A Python callable, on its way to be called.
pub type Callback = Py<PyAny>;

/// What the thread is told.
pub enum Message {
    /// To be called.
    Call(Callback),
    /// To be answered: everything before it has been called.
    Flush(Sender<()>),
    /// Nothing comes any more.
    End,
}

/// The thread and the way to it.
struct Completer {
    callbacks: Sender<Message>,
    thread: JoinHandle<()>,
}

/// How long callbacks are waited for.
const PATIENCE: Duration = Duration::from_secs(10);

static COMPLETER: Mutex<Option<Completer>> = Mutex::new(None);

/// Where to send what is to be called; needs the interpreter's lock.
///
/// # Errors
/// Where the system has no thread left.
pub fn sender(_: Python<'_>) -> PyResult<Sender<Message>> {
    let mut completer = COMPLETER.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(completer) = &*completer {
        return Ok(completer.callbacks.clone());
    }
    let (callbacks, called) = unbounded::<Message>();
    let thread =
        std::thread::Builder::new().name("hcomm-callbacks".to_owned()).spawn(|| run(called.into_iter()))?;
    *completer = Some(Completer { callbacks: callbacks.clone(), thread });
    Ok(callbacks)
}

/// What the thread does.
fn run(messages: impl Iterator<Item = Message>) {
    for message in messages {
        match message {
            Message::Call(callback) => call(callback),
            // Whoever waited may have gone.
            Message::Flush(done) => drop(done.send(())),
            Message::End => return,
        }
    }
}

/// Calls it; once the interpreter ends there is nobody to call.
fn call(callback: Callback) {
    let callback = ManuallyDrop::new(callback);
    Python::try_attach(|py| {
        let callback = ManuallyDrop::into_inner(callback).into_bound(py);
        if let Err(error) = callback.call0() {
            error.write_unraisable(py, Some(&callback));
        }
    });
}

/// Waits until the callbacks of all operations that have ended so far have run, for at most ten seconds, and says whether they have. On the
/// thread that runs them there is nothing to wait for.
#[pyfunction]
pub fn flush_callbacks(py: Python<'_>) -> bool {
    let completer = COMPLETER.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(Completer { callbacks, thread }) = completer.as_ref() else { return true };
    let is_own = thread.thread().id() == std::thread::current().id();
    let (done, flushed) = bounded(1);
    let is_told = !is_own && callbacks.send(Message::Flush(done)).is_ok();
    drop(completer);
    !is_told || py.detach(|| flushed.recv_timeout(PATIENCE)).is_ok()
}

/// The same, and ends the thread. Operations that still run lose their callbacks: to be called when all communicators are closed.
#[pyfunction]
pub fn finish_callbacks(py: Python<'_>) {
    let is_flushed = flush_callbacks(py);
    let completer = take(&mut *COMPLETER.lock().unwrap_or_else(PoisonError::into_inner));
    let Some(Completer { callbacks, thread }) = completer else { return };
    if !is_flushed {
        eprintln!("hcomm: a callback has not returned within {} s; ending without it", PATIENCE.as_secs());
        return;
    }
    py.detach(move || {
        // A thread that has ended already does not hear it.
        let _ = callbacks.send(Message::End);
        // A panic there has been told by the panic hook.
        let _ = thread.join();
    });
}

/// In the child of a fork the thread does not exist.
pub fn forget() {
    let completer = take(&mut *COMPLETER.lock().unwrap_or_else(PoisonError::into_inner));
    if let Some(completer) = completer {
        leak(completer);
    }
}
