//! (Request, Topology, Costs) -> Plan. Pure: no clock, no I/O, no async.
//!
//! A call enters as a [`Request`], an algorithm's builder writes one rank's nodes into a graph, passes fuse and place
//! them, `freeze` turns the graph into a [`Plan`], and `verify` proves the joined plans of all ranks. `timeline` predicts when each
//! node runs, and `export` draws it all.
//!
//! ```
//! # mod hcomm { pub use {hcomm_ops::{DType, ReduceOp}, hcomm_planner::*, hcomm_planner as planner}; }
//! use hcomm::{DType, ReduceOp};
//! use hcomm::planner::{Choice, Collective, Costs, Request, Topology, compile, compile_all, verify};
//!
//! let topology = Topology::single_host(4);
//! let choice = Choice::new(&topology, Costs::shm());
//! let request = Request::new(Collective::AllReduce, DType::F32, ReduceOp::Sum, 1 << 20).with_algorithm("ring");
//! let mine = compile(&request, 2, &topology, &choice)?;
//! println!("{}", mine.to_text());
//!
//! let all = compile_all(&request, &topology, &choice)?;
//! assert_eq!(all[2], mine);
//! let verified = verify(&all, 2)?;
//! assert_eq!(verified.messages, 4 * 2 * 3);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]
// Some of what serves MSCCL's files serves nothing else.
#![cfg_attr(not(feature = "msccl"), allow(dead_code, unused_imports))]
#![deny(clippy::print_stdout, clippy::print_stderr)]

pub mod algorithm;
pub mod bandwidth;
pub mod buffers;
pub mod check;
pub mod choose;
pub mod compile;
pub mod custom;
pub mod export;
mod freeze;
mod graph;
mod hash;
pub mod import;
mod pass;
pub mod plan;
pub mod planner;
pub mod request;
pub mod shape;
mod sizing;
pub mod timeline;
pub mod topology;
pub mod verify;

pub use check::RequestError;
pub use choose::{Basis, Choice, Costs, PinError, explain};
pub use compile::{PlanError, candidate, compile, compile_all};
pub use custom::PlanBuilder;
pub use import::ImportError;
pub use plan::{
    ByteRange, Channel, Direction, Lane, LaneKind, Node, NodeKind, Overlay, Plan, Sink, Source, Span,
};
pub use planner::{PlanKey, Planner};
pub use request::{Collective, Request};
pub use shape::{BufferKind, Shape};
pub use timeline::{Model, Timeline, predict};
pub use topology::Topology;
pub use verify::{Verified, VerifyError, verify};
