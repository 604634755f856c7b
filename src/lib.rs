//! Collective communication for training large models: all_reduce, all_gather and the rest between processes and machines, from
//! futures or blocking calls, over shared memory and TCP.
//!
//! Every call is compiled into a [`Plan`]: a graph of chunk-sized send, receive, reduce and copy nodes on lanes. The plan that runs
//! is the plan that is verified, drawn and profiled.
//!
//! ```
//! use hcomm::{Communicator, ReduceOp};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let comm = Communicator::from_env()?; // alone, unless a launcher says otherwise
//! let mut gradients = vec![1.0_f32; 1000];
//! comm.all_reduce(&mut gradients, ReduceOp::Sum)?;
//! assert_eq!(gradients[0], comm.world() as f32);
//! # Ok(())
//! # }
//! ```

#![deny(clippy::print_stdout, clippy::print_stderr)]

pub mod launch;

pub use hcomm_engine::bindings::{
    Apart, Binding, Buffers, InPlace, InputOnly, Joined, Lists, Nothing, OutputOnly, Spans,
};
pub use hcomm_engine::environment::{self, Placement};
pub use hcomm_engine::meeting;
pub use hcomm_engine::settings::{self, Settings};
pub use hcomm_engine::tuning;
pub use hcomm_engine::{
    Ask, Communicator, CreateError, Error, Failure, Group, GroupWork, Link, Predecessor, Received, Refused,
    Scope, ScopedWork, Ticket, Work, WorkError, profile, statistics,
};
#[doc(hidden)]
pub use hcomm_engine::{file, say};
pub use hcomm_ops::buffer::{Borrowed, DynBuffer, Landing, Narrowed, Shared, Takeoff, Widened};
pub use hcomm_ops::{DType, Element, Factor, Rank, ReduceOp, ReduceOp as Op, StableBuffer};
pub use hcomm_planner::request::Counts;
pub use hcomm_planner::{Collective, Plan, PlanBuilder, Planner, Request, Topology, custom};
/// Ends [`Communicator::connect_cancellable`].
#[doc(inline)]
pub use hcomm_transports::rendezvous::Cancel;
/// Made by [`Communicator::allocate`].
#[doc(inline)]
pub use hcomm_transports::shm::Allocated;

/// The words and arithmetic underneath.
pub use hcomm_ops as ops;
/// Compiling, verifying and drawing plans.
pub use hcomm_planner as planner;
/// Moving bytes.
pub use hcomm_transports as transports;

/// The README's examples, compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

/// The guide's examples, compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../docs/rust.md")]
struct Guide;
