//! [`join`]: brings the ranks of a communicator together and gives each its wires and its control plane.
//!
//! 1. Everybody connects with rank 0 (`arrive`, `gather`); both sides prove the job token first (`handshake`).
//! 2. When all are there, rank 0 tells everybody where everybody is and what its settings are; they are everybody's. Each rank
//!    derives the dimensions of the wires from them.
//! 3. Every pair connects (`pairs`, `connect`, `lobby`); ranks of one host hand each other memory (`local`).
//! 4. When all pairs are connected, rank 0 lets everybody go. The connections with rank 0 close; those of the pairs stay.
//!
//! All this runs on the thread `hcomm-control`, which afterwards serves the control plane. Connections that do not prove the token
//! disturb nobody (`doorman`). Whatever one rank fails of, all ranks that had arrived are told.

mod arrive;
mod cancel;
mod connect;
mod context;
mod doorman;
mod doors;
mod error;
mod gather;
mod handshake;
mod host;
mod interfaces;
mod lobby;
mod local;
pub mod message;
mod pairs;
mod queue;
mod roster;
mod session;
#[cfg(test)]
mod tests;
mod token;

use std::fmt;
use std::net::TcpListener;
use std::time::Duration;

use bytes::Bytes;
use hcomm_ops::Rank;

pub use self::cancel::{Cancel, Stall};
pub use self::error::JoinError;
pub use self::handshake::PROTOCOL_VERSION;
pub use self::host::Host;
pub use self::interfaces::{BadFilter, InterfaceFilter, addresses_of_host};
pub use self::roster::{Crew, Member, Roster, Route};
pub use self::session::join;
pub use self::token::Token;
use crate::control::{Control, Handler};
use crate::endpoint::Endpoint;
use crate::tcp::TcpOptions;
use crate::wire::WireConfig;

/// One rank's part in a rendezvous.
pub struct Join {
    /// This rank.
    pub rank: Rank,
    /// How many there are.
    pub world: usize,
    /// Where rank 0 listens, as `host:port`; empty where `find` says.
    pub address: String,
    /// For other ranks than 0, where address and token are not known beforehand: asked before every attempt to reach rank 0. The answer is both, or why
    /// they are not known yet.
    pub find: Option<Find>,
    /// For rank 0: the listener, where there is one already; else it is opened at `address`.
    pub listener: Option<TcpListener>,
    /// The secret of the job.
    pub token: Token,
    /// How long all of this may take.
    pub deadline: Duration,
    /// What may carry the data.
    pub transports: Transports,
    /// What rank 0 wants all ranks to use; the others' are ignored.
    pub settings: Bytes,
    /// The network interfaces at which this rank is reached.
    pub interfaces: InterfaceFilter,
    /// The processors that the control thread keeps to; none is any.
    pub cpus: Vec<u32>,
    /// Gives the rendezvous up.
    pub cancel: Cancel,
    /// Is told of ranks that do not come.
    pub stall: Stall,
    /// Takes the events of the control plane, from before `join` returns.
    pub handler: Handler,
    /// Derives the dimensions of the wires, equal on all ranks, from what has been agreed. Called on the control thread.
    pub dimensions: Derive,
}

impl fmt::Debug for Join {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Join { rank, world, address, deadline, transports, .. } = self;
        write!(f, "Join {{ rank {rank} of {world} at {address}, {transports:?}, within {deadline:?} }}")
    }
}

/// Says where rank 0 listens and what the token is.
pub type Find = Box<dyn Fn() -> Result<(String, Token), String> + Send + Sync>;

/// Derives the dimensions of the wires.
pub type Derive = Box<dyn FnOnce(&Agreed, &Roster) -> Dimensions + Send>;

/// What may carry the data between two ranks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Transports {
    /// Shared memory where the two can open each other's Unix socket, else TCP.
    #[default]
    Auto,
    /// Shared memory; ranks on different hosts are an error.
    Shm,
    /// TCP, also within a host.
    Tcp,
}

/// What all ranks know alike.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Agreed {
    /// Rank 0's settings.
    pub settings: Bytes,
    /// The number of ranks.
    pub world: usize,
    /// The version that they speak.
    pub version: u32,
}

/// How wires are to be built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dimensions {
    /// The same on all ranks.
    pub wire: WireConfig,
    /// For those over TCP.
    pub tcp: TcpOptions,
}

/// What a rank has once all have come together.
pub struct Session {
    /// Its wires.
    pub endpoint: Endpoint,
    /// Its control plane.
    pub control: Box<dyn Control>,
    /// What was agreed.
    pub agreed: Agreed,
    /// Who takes part.
    pub roster: Roster,
    /// Where rank 0 listened.
    pub address: String,
    /// What all have proved to know.
    pub token: Token,
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Session {{ {} ranks, routes {:?} }}", self.agreed.world, self.roster.routes)
    }
}
