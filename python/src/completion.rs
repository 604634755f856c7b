//! Ends of operations told to Python: on threads of their own, since whoever drives the communicator must not wait for the interpreter. There is
//! one thread for each callback that is on its way, so that one which blocks holds up no other; usually one does it all.

use std::mem::{ManuallyDrop, forget as leak, take};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, unbounded};
use pyo3::prelude::*;

/// A Python callable, on its way to be called.
pub type Callback = Py<PyAny>;

/// Callbacks on their way, and the threads that call them.
pub struct Completer {
    /// Nothing: the thread that takes it ends.
    queue: (Sender<Option<Callback>>, Receiver<Option<Callback>>),
    /// Callbacks that have been posted and not returned.
    pending: AtomicUsize,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

/// How long callbacks are waited for.
const PATIENCE: Duration = Duration::from_secs(10);

/// Threads at most; callbacks beyond wait for one to return.
const MOST_THREADS: usize = 64;

static COMPLETER: Mutex<Option<Arc<Completer>>> = Mutex::new(None);

thread_local! {
    static IS_OWN: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

/// Whether this is a thread that calls callbacks.
pub fn is_own_thread() -> bool {
    IS_OWN.get()
}

/// Where to post what is to be called; needs the interpreter's lock.
pub fn completer(_: Python<'_>) -> Arc<Completer> {
    let mut completer = COMPLETER.lock().unwrap_or_else(PoisonError::into_inner);
    completer.get_or_insert_with(|| Arc::new(Completer::new())).clone()
}

impl Completer {
    fn new() -> Self {
        Completer { queue: unbounded(), pending: AtomicUsize::new(0), threads: Mutex::default() }
    }

    /// Has it called soon. Needs no lock of the interpreter's.
    pub fn post(self: &Arc<Self>, callback: Callback) {
        let pending = self.pending.fetch_add(1, Ordering::AcqRel) + 1;
        let mut threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        if pending > threads.len() && threads.len() < MOST_THREADS {
            let own = self.clone();
            let spawned =
                std::thread::Builder::new().name("hcomm-callbacks".to_owned()).spawn(move || own.run());
            // Without another thread it waits for one that there is.
            threads.extend(spawned.ok());
        }
        drop(threads);
        // Both ends are here.
        let _ = self.queue.0.send(Some(callback));
    }

    fn run(&self) {
        IS_OWN.set(true);
        while let Ok(Some(callback)) = self.queue.1.recv() {
            call(callback);
            self.pending.fetch_sub(1, Ordering::AcqRel);
        }
    }

    /// Waits until all have returned; whether they have.
    fn drain(&self, until: Instant) -> bool {
        while self.pending.load(Ordering::Acquire) > 0 {
            if Instant::now() >= until {
                return false;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        true
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

/// Waits until the callbacks of all operations that have ended so far have run, for at most ten seconds, and says whether they have. On a
/// thread that runs them there is nothing to wait for.
#[pyfunction]
pub fn flush_callbacks(py: Python<'_>) -> bool {
    let completer = COMPLETER.lock().unwrap_or_else(PoisonError::into_inner).clone();
    match completer.filter(|_| !IS_OWN.get()) {
        Some(completer) => py.detach(|| completer.drain(Instant::now() + PATIENCE)),
        None => true,
    }
}

/// The same, and ends the threads. Operations that still run lose their callbacks: to be called when all communicators are closed.
#[pyfunction]
pub fn finish_callbacks(py: Python<'_>) {
    let is_flushed = flush_callbacks(py);
    let Some(completer) = take(&mut *COMPLETER.lock().unwrap_or_else(PoisonError::into_inner)) else {
        return;
    };
    if !is_flushed {
        let seconds = PATIENCE.as_secs();
        hcomm::say(&format!("hcomm: a callback has not returned within {seconds} s; ending without it"));
        return;
    }
    let threads = take(&mut *completer.threads.lock().unwrap_or_else(PoisonError::into_inner));
    py.detach(move || {
        for _ in &threads {
            let _ = completer.queue.0.send(None);
        }
        // A panic there has been told by the panic hook.
        threads.into_iter().for_each(|thread| drop(thread.join()));
    });
}

/// In the child of a fork the threads do not exist.
pub fn forget() {
    let completer = take(&mut *COMPLETER.lock().unwrap_or_else(PoisonError::into_inner));
    if let Some(completer) = completer {
        leak(completer);
    }
}
