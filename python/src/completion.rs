//! Ends of operations told to Python: by a thread of its own, since whoever drives the communicator must not wait for the interpreter.
//! The thread is there only once somebody asks for it.

use std::mem::{ManuallyDrop, forget as leak, take};
use std::sync::{Mutex, PoisonError};
use std::thread::JoinHandle;

use crossbeam_channel::{Sender, bounded, unbounded};
use pyo3::prelude::*;

/// A Python callable, on its way to be called.
pub type Callback = Py<PyAny>;

/// What the thread is told.
pub enum Message {
    /// To be called.
    Call(Callback),
    /// Everything before it has been called.
    Flush(Sender<()>),
}

/// The thread and the way to it.
struct Completer {
    callbacks: Sender<Message>,
    thread: JoinHandle<()>,
}

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
    let run = move || called.into_iter().for_each(handle);
    let thread = std::thread::Builder::new().name("hcomm-callbacks".to_owned()).spawn(run)?;
    *completer = Some(Completer { callbacks: callbacks.clone(), thread });
    Ok(callbacks)
}

fn handle(message: Message) {
    match message {
        Message::Call(callback) => call(callback),
        // Whoever waited may have gone.
        Message::Flush(done) => drop(done.send(())),
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

/// Waits until all callbacks of operations that have ended have run, and ends the thread. Operations that still run lose theirs: to be
/// called when all communicators are closed.
#[pyfunction]
pub fn finish_callbacks(py: Python<'_>) {
    let completer = take(&mut *COMPLETER.lock().unwrap_or_else(PoisonError::into_inner));
    let Some(Completer { callbacks, thread }) = completer else { return };
    py.detach(move || {
        drop(callbacks);
        // A panic there has been told by the panic hook.
        let _ = thread.join();
    });
}

/// Waits until the callbacks of all operations that have ended so far have run.
#[pyfunction]
pub fn flush_callbacks(py: Python<'_>) {
    let completer = COMPLETER.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(callbacks) = completer.as_ref().map(|completer| completer.callbacks.clone()) else { return };
    drop(completer);
    let (done, flushed) = bounded(1);
    // A thread that has ended has nothing left to run.
    if callbacks.send(Message::Flush(done)).is_ok() {
        py.detach(|| flushed.recv()).unwrap_or_default();
    }
}

/// In the child of a fork the thread does not exist.
pub fn forget() {
    let completer = take(&mut *COMPLETER.lock().unwrap_or_else(PoisonError::into_inner));
    if let Some(completer) = completer {
        leak(completer);
    }
}
