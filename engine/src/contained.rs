//! [`contained`]: code of the user's on a thread that drives: wakers, calls at the end of operations, landings, what drops a buffer.
//!
//! Whoever drives moves everybody's operations, so none of that may unwind through it.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// What ran has panicked; it has been reported as an event of `tracing`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Panicked;

/// Runs user code and catches its panic, which is reported with `what` it was.
#[inline]
pub(crate) fn contained<R>(what: &'static str, run: impl FnOnce() -> R) -> Result<R, Panicked> {
    catch_unwind(AssertUnwindSafe(run)).map_err(|payload| report(what, payload))
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
    fn what_panics_is_caught_with_whatever_it_throws() {
        assert_eq!(contained("a test", || 1), Ok(1));
        assert_eq!(contained("a test", || std::panic::panic_any(Bomb)), Err::<(), _>(Panicked));
    }
}
