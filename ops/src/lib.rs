//! Words and arithmetic: [`Rank`], [`DType`], [`ReduceOp`], [`Bytes`], [`RawSpan`], [`StableBuffer`] and the kernels
//! that fold spans together. Everything that touches a user's bytes is in this crate; planner and engine
//! hold spans but contain no unsafe code.

#![deny(clippy::print_stdout, clippy::print_stderr)]

pub mod buffer;
pub mod bytes;
pub mod cache;
pub mod dtype;
pub mod kernel;
pub mod op;
pub mod quantity;
pub mod span;

pub use buffer::{Element, StableBuffer};
pub use bytes::Bytes;
pub use cache::last_level_cache_bytes;
pub use dtype::DType;
pub use kernel::{Conversion, Kernel, Level, Operand, UnsupportedReduction};
pub use op::{Factor, ReduceOp};
pub use span::RawSpan;

/// A process (or thread) that takes part in a communicator: 0 up to, not including, the world size.
pub type Rank = usize;
