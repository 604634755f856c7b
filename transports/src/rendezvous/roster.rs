//! [`Roster`]: who takes part, where each is, and how this rank is connected with it.

use std::net::IpAddr;

use hcomm_ops::Rank;

use super::Transports;
use super::context::Context;
use super::host::Host;

/// All ranks, as this one sees them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Roster {
    /// By rank.
    pub members: Vec<Member>,
    /// By rank: how this rank is connected with it. `None` for itself, and for all while the wires' dimensions are being decided.
    pub routes: Vec<Option<Route>>,
}

impl Roster {
    /// The ranks on the machine of `rank`, itself among them, in order.
    pub fn neighbours(&self, rank: Rank) -> Vec<Rank> {
        let host = self.members.get(rank).map(|member| &member.host);
        let is_near = |other: &Rank| {
            *other == rank || host.is_some_and(|host| host.shares_machine(&self.members[*other].host))
        };
        (0..self.members.len()).filter(is_near).collect()
    }
}

/// A rank's place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Where it runs.
    pub host: Host,
    /// Its process, as numbered there.
    pub pid: u32,
    pub(super) doors: Doors,
}

impl Member {
    /// The only rank, whom nobody needs to reach.
    pub(super) fn alone(context: &Context) -> Self {
        let doors = Doors { transports: context.transports, addresses: Vec::new(), port: 0, unix: None };
        Member { host: context.host.clone(), pid: std::process::id(), doors }
    }
}

/// Where a rank can be reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Doors {
    pub(super) transports: Transports,
    /// In the order in which to try; none means "where you reached me before".
    pub(super) addresses: Vec<IpAddr>,
    pub(super) port: u16,
    /// Name of its Unix socket, without a file.
    pub(super) unix: Option<String>,
}

/// How two ranks are connected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Route {
    /// By shared memory.
    Shm,
    /// By TCP.
    Tcp {
        /// Why not by shared memory.
        why_not_shm: String,
    },
}
