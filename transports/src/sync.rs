//! The atomics that rings and doorbells are written with: the standard library's, or loom's under `--cfg loom`, so that
//! loom explores the very code that runs.

#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
#[cfg(not(loom))]
pub(crate) use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

/// A full fence, cheap because it comes directly after an atomic exchange: on x86 the exchange is one already.
#[inline(always)]
pub(crate) fn fence_after_exchange() {
    #[cfg(all(target_arch = "x86_64", not(loom)))]
    std::sync::atomic::compiler_fence(Ordering::SeqCst);
    #[cfg(not(all(target_arch = "x86_64", not(loom))))]
    fence(Ordering::SeqCst);
}
