//! [`Unfinished`]: what a process sees to its end before it exits, although the function that began it has returned.
//!
//! `exit`, which is what the end of `main` comes to, ends all other threads. A handler of the C library's, which it calls before, waits
//! until nothing is unfinished. A forked child has no such threads: what it inherits is not its own, so the count goes with the process.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The process, in the upper half, and how much it has unfinished, in the lower one.
static COUNT: AtomicU64 = AtomicU64::new(0);

/// The longest that anything may take, in milliseconds.
static AT_MOST_MS: AtomicU64 = AtomicU64::new(0);

/// Between two looks as the process exits.
const LOOK: Duration = Duration::from_millis(1);

/// Something that is unfinished until this is dropped.
#[derive(Debug)]
pub struct Unfinished(());

impl Unfinished {
    /// Something that takes `at_most` so long, for which an exit of the process waits; `None` where the system has no room for the handler.
    pub fn new(at_most: Duration) -> Option<Unfinished> {
        static REGISTERED: OnceLock<bool> = OnceLock::new();
        // SAFETY: the handler is a function of this program, and uses nothing that other handlers may have undone.
        let is_registered = *REGISTERED.get_or_init(|| unsafe { libc::atexit(finish) } == 0);
        is_registered.then(|| {
            let at_most = u64::try_from(at_most.as_millis()).unwrap_or(u64::MAX);
            AT_MOST_MS.fetch_max(at_most, Ordering::Relaxed);
            change(|count| count + 1);
            Unfinished(())
        })
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        change(|count| count.saturating_sub(1));
    }
}

fn change(by: impl Fn(u64) -> u64) {
    let own = u64::from(std::process::id()) << 32;
    let changed = |now| Some(own | by(count_of(now)));
    // It is never refused.
    let _ = COUNT.fetch_update(Ordering::AcqRel, Ordering::Acquire, changed);
}

/// How much of it is this process's.
fn count_of(word: u64) -> u64 {
    if word >> 32 == u64::from(std::process::id()) { word & u64::from(u32::MAX) } else { 0 }
}

/// Waits for what is unfinished.
extern "C" fn finish() {
    let began = Instant::now();
    let at_most = Duration::from_millis(AT_MOST_MS.load(Ordering::Relaxed));
    while count_of(COUNT.load(Ordering::Acquire)) > 0 && began.elapsed() < at_most {
        std::thread::sleep(LOOK);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_exit_waits_for_what_is_unfinished_and_not_for_ever() {
        let long = Unfinished::new(Duration::from_millis(500)).expect("room for a handler");
        let began = Instant::now();
        finish();
        assert!(began.elapsed() >= Duration::from_millis(500), "it did not wait");
        let ends = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(50));
            drop(long);
        });
        finish();
        ends.join().expect("no panic");
        assert_eq!(count_of(COUNT.load(Ordering::Acquire)), 0);
    }

    #[test]
    fn what_another_process_had_unfinished_is_not_counted() {
        let other = u64::from(std::process::id() + 1) << 32;
        assert_eq!(count_of(other | 3), 0);
        assert_eq!(count_of(other), 0);
    }
}
