//! hcomm: collective communication between processes, machines and accelerators.

pub use hcomm_engine::{environment, settings};
pub use hcomm_ops as ops;

pub mod launch;
