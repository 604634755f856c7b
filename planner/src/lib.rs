//! (Request, Topology, Costs) -> Plan. Pure: no clock, no I/O, no async.
//!
//! A call enters as a [`Request`], an algorithm's builder writes one rank's nodes into a graph, passes fuse and place
//! them, `freeze` turns the graph into a [`Plan`], and `verify` proves the joined plans of all ranks.
#![forbid(unsafe_code)]

pub mod algorithm;
pub mod buffers;
pub mod check;
pub mod choose;
pub mod compile;
pub mod export;
mod freeze;
mod graph;
mod hash;
mod pass;
pub mod plan;
pub mod planner;
pub mod request;
pub mod shape;
pub mod topology;
pub mod verify;

pub use check::RequestError;
pub use choose::{Choice, Costs, explain};
pub use compile::{PlanError, compile, compile_all};
pub use plan::{Channel, Direction, Lane, LaneKind, Node, NodeKind, Plan, Sink, Source, Span};
pub use planner::{PlanKey, Planner};
pub use request::{Collective, Request};
pub use shape::{BufferKind, Shape};
pub use topology::Topology;
pub use verify::{Verified, VerifyError, verify};
