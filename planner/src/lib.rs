//! (Request, Topology, Tuning) -> Plan. Pure: no clock, no I/O, no async.
//!
//! A call enters as a [`Request`], an algorithm's builder writes one rank's nodes into a graph, passes fuse and place
//! them, `freeze` turns the graph into a [`Plan`], and `verify` proves the joined plans of all ranks.

pub mod plan;
pub mod request;
pub mod shape;

pub use plan::{Channel, Direction, Lane, LaneKind, Node, NodeKind, Plan, Sink, Source, Span};
pub use request::{Collective, Request};
pub use shape::{BufferKind, Shape};
