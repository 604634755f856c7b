//! Keeps the two threads of a measurement on a processor each.

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Keeps the calling thread on the `index`-th processor that this process may use. Where there are too few, or it is not allowed, the thread is
/// measured where it happens to run.
pub fn pin(index: usize) {
    let Ok(allowed) = sched_getaffinity(None) else { return };
    if let Some(processor) = (0..CpuSet::MAX_CPU).filter(|cpu| allowed.is_set(*cpu)).nth(index) {
        let mut own = CpuSet::new();
        own.set(processor);
        let _ = sched_setaffinity(None, &own);
    }
}
