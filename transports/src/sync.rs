//! The atomics that rings and doorbells are written with: the standard library's, or loom's under `--cfg loom`, so that
//! loom explores the very code that runs.

#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering};
#[cfg(not(loom))]
pub(crate) use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
