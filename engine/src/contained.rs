//! [`contained`]: code of the user's on a thread that drives: wakers, calls at the end of operations, landings, what drops a buffer.
//!
//! Whoever drives moves everybody's operations, so none of that may unwind through it, nor wait there for what only driving ends.

use std::any::Any;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// What ran has panicked; it has been reported as an event of `tracing`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Panicked;

thread_local! {
    /// Whether this thread runs user code while it drives.
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// Runs user code and catches its panic, which is reported with `what` it was.
#[inline]
pub(crate) fn contained<R>(what: &'static str, run: impl FnOnce() -> R) -> Result<R, Panicked> {
    let was_inside = INSIDE.replace(true);
    let result = catch_unwind(AssertUnwindSafe(run));
    INSIDE.set(was_inside);
    result.map_err(|payload| report(what, payload))
}

/// Whether this thread may not wait for an operation or a communicator, since it is the one that drives.
pub(crate) fn is_driving() -> bool {
    INSIDE.get()
}

/// Neither who listens to `tracing` nor a payload's `Drop` may undo what was caught.
#[cold]
fn report(what: &'static str, payload: Box<dyn Any + Send>) -> Panicked {
    let report = || tracing::error!("{what} panicked on a thread that drives a communicator");
    for caught in [catch_unwind(report), catch_unwind(AssertUnwindSafe(|| drop(payload)))] {
        if let Err(another) = caught {
            std::mem::forget(another);
        }
    }
    Panicked
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Bomb;

    impl Drop for Bomb {
        fn drop(&mut self) {
            std::panic::panic_any(Bomb2);
        }
    }

    struct Bomb2;

    impl Drop for Bomb2 {
        fn drop(&mut self) {
            panic!("a payload of a payload");
        }
    }

    #[test]
    fn user_code_knows_that_its_thread_drives() {
        let nested = contained("a test", || {
            let _ = contained("a test", || panic!("a test's own panic"));
            is_driving()
        });
        assert_eq!(nested, Ok(true));
        assert!(!is_driving());
    }

    #[test]
    fn what_panics_is_caught_with_whatever_it_throws() {
        assert_eq!(contained("a test", || 1), Ok(1));
        assert_eq!(contained("a test", || std::panic::panic_any(Bomb)), Err::<(), _>(Panicked));
    }
}
