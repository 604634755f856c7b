//! Moves bytes between ranks: in process, through shared memory, over TCP, over a simulated network; and brings the
//! ranks together. A transport never knows why bytes move.

#![cfg_attr(loom, allow(dead_code))]
#![deny(clippy::print_stdout, clippy::print_stderr)]

#[cfg(not(loom))]
mod any;
mod bell;
#[cfg(not(loom))]
pub mod control;
#[cfg(not(loom))]
mod demand;
#[cfg(not(loom))]
pub mod endpoint;
#[cfg(not(loom))]
pub mod exit;
pub mod fence;
#[cfg(not(loom))]
pub mod files;
#[cfg(not(loom))]
mod fork;
#[cfg(not(loom))]
pub mod inproc;
#[cfg(not(loom))]
mod mapping;
#[cfg(not(loom))]
pub mod rendezvous;
pub mod ring;
#[cfg(not(loom))]
pub mod schedule;
#[cfg(not(loom))]
pub mod shm;
#[cfg(not(loom))]
pub mod sim;
mod sync;
#[cfg(not(loom))]
pub mod tcp;
pub mod wire;

#[cfg(not(loom))]
pub use any::AnyWire;
#[cfg(not(loom))]
pub use control::{Control, Event, Handler};
#[cfg(not(loom))]
pub use endpoint::{Doorbell, Endpoint, Ringer};
pub use wire::{Arrival, Key, Lost, Room, Sent, Ticket, Wire, WireConfig, Word};
