//! Communicators, the plan cache, the executor and the futures.
//!
//! A call enters at `communicator`, is bound to its plan (`call`, `cache`), becomes an `execution` in the communicator's `domain`,
//! and comes back as a [`Work`] or a return value. Transports move the bytes, the planner decides which.
#![forbid(unsafe_code)]

pub mod bindings;
mod cache;
pub mod call;
pub mod communicator;
mod domain;
pub mod environment;
pub mod error;
pub mod execution;
mod log;
pub mod memory;
mod operation;
pub mod profile;
#[cfg(debug_assertions)]
mod proof;
pub mod settings;
pub mod work;

pub use communicator::{Communicator, CreateError, Group, Scope, ScopedWork};
pub use error::{Error, Failure, Refused, WorkError};
pub use work::{Predecessor, Ticket, Work};
