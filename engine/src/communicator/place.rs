//! Where the ranks of a communicator are, and what chooses their plans: what follows from the rendezvous alike on all ranks, and how crowded
//! this rank's machine is.

use hcomm_ops::Rank;
use hcomm_planner::choose::LinkKind;
use hcomm_planner::{Basis, PinError, Planner, Topology};
use hcomm_transports::rendezvous::{Roster, Route};
use hcomm_transports::shm;

use super::CreateError;
use super::agreed::Agreed;
use crate::settings::{Settings, TransportChoice};
use crate::tuning::{self, Spread};

/// What chooses and compiles the plans: equal on all ranks.
pub(super) fn planner(
    topology: Topology,
    settings: &Settings,
    agreed: &Agreed,
    (local, spread): (LinkKind, Spread),
) -> Result<Planner, PinError> {
    let basis = Basis {
        inherited: agreed.inherited_pins(),
        is_split: agreed.is_split,
        communicator: agreed.name.clone(),
        ..tuning::basis(settings, &agreed.tuned, local, spread)
    };
    Planner::with(topology, &basis)
}

/// By rank: a number for its host. Ranks that talk over TCP in any case are on hosts of their own.
pub(super) fn hosts_of(roster: &Roster, transport: TransportChoice) -> Vec<usize> {
    let members = &roster.members;
    let first_near = |rank: usize| {
        let near = |other: &usize| members[*other].host.shares_machine(&members[rank].host);
        (0..rank).find(near).unwrap_or(rank)
    };
    match transport {
        TransportChoice::Tcp => (0..members.len()).collect(),
        TransportChoice::Shm => vec![0; members.len()],
        TransportChoice::Auto => (0..members.len()).map(first_near).collect(),
    }
}

/// That this host's ranks may come to need more shared memory than there is now, before they have taken any of it. The first of them says it.
pub(super) fn shortage_ahead(
    settings: &Settings,
    hosts: &[usize],
    roster: &Roster,
    rank: Rank,
) -> Option<String> {
    let sharing = |other: &Rank| *other == rank || roster.routes[*other] == Some(Route::Shm);
    let near: Vec<Rank> = (0..hosts.len()).filter(sharing).collect();
    if near.len() < 2 || near.first() != Some(&rank) {
        return None;
    }
    let config = Spread::of_hosts(hosts).wire(settings);
    let inbox = shm::segment_bytes(config, near.len()).ok()?;
    shm::Room::left().why_too_little(inbox as u64, near.len())
}

/// Whether the ranks of this rank's machine, whatever joins them, are more than the processors that they may use together: each of
/// ranks bound to processors of their own may use only one. A quota of this process's control group counts too.
pub(super) fn is_crowded(roster: &Roster, rank: Rank) -> bool {
    let near = roster.neighbours(rank).len();
    let usable = roster.processors(rank).unwrap_or_else(usable_cores);
    near > usable.min(quota().unwrap_or(usize::MAX))
}

/// The processors of whose time a control group leaves this process no more, where it may run on more.
pub(super) fn quota() -> Option<usize> {
    let allowed = rustix::thread::sched_getaffinity(None).map_or(0, |set| set.count() as usize);
    Some(usable_cores()).filter(|usable| *usable < allowed)
}

/// A topology that knows its most crowded machine: by what all ranks have been told, and rank 0's limit for all machines.
pub(super) fn crowded(topology: Topology, roster: &Roster, quota: Option<usize>) -> Topology {
    roster.machines().into_iter().fold(topology, |topology, machine| {
        let processors = machine.processors.unwrap_or(machine.ranks).min(quota.unwrap_or(usize::MAX));
        topology.with_crowd(machine.ranks, processors)
    })
}

/// The processors that this process may use, or the time of how many.
pub(super) fn usable_cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Bytes of the longest topology.
const MOST_TOPOLOGY_BYTES: u64 = 64 << 20;

/// The topology: from the file that the settings name, or from the hosts that are known.
pub(super) fn topology_of(settings: &Settings, hosts: &[usize]) -> Result<Topology, CreateError> {
    let Some(path) = &settings.topology else { return Ok(Topology::from_host_of(hosts)) };
    let failed = |reason: String| CreateError::Topology { path: path.display().to_string(), reason };
    let text =
        crate::file::read_text(path, MOST_TOPOLOGY_BYTES).map_err(|error| failed(error.to_string()))?;
    let topology = Topology::parse(&text).map_err(|error| failed(error.to_string()))?;
    match topology.world() == hosts.len() {
        true => Ok(topology),
        false => Err(failed(format!("it has {} ranks; the world has {}", topology.world(), hosts.len()))),
    }
}
