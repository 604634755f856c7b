//! Communicators, the plan cache, the executor and the futures.
//!
//! A call enters at `communicator`, is bound to its plan (`call`, `cache`), becomes an `execution` in the communicator's `domain`,
//! and comes back as a [`Work`] or a return value. Transports move the bytes, the planner decides which.
#![forbid(unsafe_code)]
#![cfg_attr(loom, allow(dead_code))]
#![deny(clippy::print_stdout, clippy::print_stderr)]

#[cfg(not(loom))]
pub mod bindings;
#[cfg(not(loom))]
mod cache;
#[cfg(not(loom))]
pub mod call;
#[cfg(not(loom))]
pub mod communicator;
#[cfg(not(loom))]
mod contained;
#[cfg(not(loom))]
mod domain;
#[cfg(not(loom))]
pub mod environment;
#[cfg(not(loom))]
pub mod error;
#[cfg(not(loom))]
pub mod execution;
pub mod file;
// Under loom only what loom explores is built.
#[cfg(loom)]
#[path = "domain/handover.rs"]
mod handover;
#[cfg(not(loom))]
mod log;
#[cfg(not(loom))]
pub mod meeting;
#[cfg(not(loom))]
pub mod memory;
#[cfg(not(loom))]
mod operation;
#[cfg(not(loom))]
pub mod profile;
#[cfg(all(debug_assertions, not(loom)))]
mod proof;
mod say;
#[cfg(not(loom))]
pub mod settings;
#[cfg(not(loom))]
pub mod statistics;
#[cfg(not(loom))]
pub mod tuning;
#[cfg(not(loom))]
pub mod work;

#[cfg(not(loom))]
pub use communicator::{Ask, Communicator, CreateError, Group, GroupWork, Link, Scope, ScopedWork};
#[cfg(not(loom))]
pub use error::{Error, Failure, Refused, WorkError};
#[doc(hidden)]
pub use say::say;
#[cfg(not(loom))]
pub use work::{Predecessor, Received, Ticket, Work};
