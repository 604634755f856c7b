//! Moves bytes between ranks: in process, through shared memory, over TCP, over a simulated network; and brings the
//! ranks together. A transport never knows why bytes move.

pub mod control;
pub mod endpoint;
pub mod rendezvous;
pub mod tcp;
pub mod wire;

pub use control::{Control, Event, Handler};
pub use endpoint::{Doorbell, Endpoint, Ringer};
pub use wire::{Arrival, Key, Room, Sent, Ticket, Wire, WireConfig, Word};

/// Any wire: dispatch is by this closed enum.
#[derive(Debug)]
pub enum AnyWire {
    /// Over TCP.
    Tcp(Box<tcp::TcpWire>),
}

impl std::ops::Deref for AnyWire {
    type Target = tcp::TcpWire;
    fn deref(&self) -> &tcp::TcpWire {
        let AnyWire::Tcp(wire) = self;
        wire
    }
}

impl std::ops::DerefMut for AnyWire {
    fn deref_mut(&mut self) -> &mut tcp::TcpWire {
        let AnyWire::Tcp(wire) = self;
        wire
    }
}
