//! [`Topology`]: hosts, the ranks, GPUs and NICs on them, and the links between those. Placement and the cost model
//! read it; `file` parses it; `nearest` finds each GPU's NIC.

mod file;
mod nearest;

pub use file::{DeviceFile, HostFile, LinkFile, RankFile, TopologyError, TopologyFile};

use hcomm_ops::Rank;

/// A GPU, NIC or socket.
#[derive(Clone, Debug, PartialEq)]
pub struct Device {
    /// Its name, unique within its host.
    pub name: String,
    /// The host.
    pub host: usize,
    /// The processor socket it hangs off.
    pub socket: u32,
}

/// Where a rank runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The host.
    pub host: usize,
    /// The processor socket.
    pub socket: u32,
    /// The GPU its buffers are on, if any: index into [`Topology::gpus`].
    pub gpu: Option<u32>,
    /// The NIC that its messages to other hosts take, if the topology names NICs: index into [`Topology::nics`].
    pub nic: Option<u32>,
}

/// What two ranks talk over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum LinkClass {
    /// The memory of one host.
    Local,
    /// A network.
    Remote,
}

/// Hosts and what is on them; equal on all ranks.
#[derive(Clone, Debug, PartialEq)]
pub struct Topology {
    /// Names of the hosts.
    hosts: Vec<String>,
    /// Ranks of each host, ascending.
    members: Vec<Vec<Rank>>,
    places: Vec<Place>,
    gpus: Vec<Device>,
    nics: Vec<Device>,
    /// On the machine that has most; 1 where every rank has a processor.
    ranks_per_processor: f64,
}

impl Topology {
    /// `world` ranks on one host, without GPUs.
    pub fn single_host(world: usize) -> Topology {
        Topology::hosts(1, world)
    }

    /// `hosts` hosts of `per_host` ranks each, numbered host by host, without GPUs.
    pub fn hosts(hosts: usize, per_host: usize) -> Topology {
        Topology::from_host_of(&(0..hosts * per_host).map(|rank| rank / per_host).collect::<Vec<_>>())
    }

    /// Ranks on hosts as listed: rank r on host `host_of[r]`. Hosts without ranks are left out.
    pub fn from_host_of(host_of: &[usize]) -> Topology {
        let mut names: Vec<usize> = host_of.to_vec();
        names.sort_unstable();
        names.dedup();
        let index = |host: &usize| names.binary_search(host).expect("every host was listed");
        let places: Vec<_> =
            host_of.iter().map(|host| Place { host: index(host), socket: 0, gpu: None, nic: None }).collect();
        let hosts = names.iter().map(|host| format!("host{host}")).collect();
        Topology::assemble(hosts, places, Vec::new(), Vec::new())
    }

    fn assemble(hosts: Vec<String>, places: Vec<Place>, gpus: Vec<Device>, nics: Vec<Device>) -> Topology {
        let mut members = vec![Vec::new(); hosts.len()];
        for (rank, place) in places.iter().enumerate() {
            members[place.host].push(rank);
        }
        Topology { hosts, members, places, gpus, nics, ranks_per_processor: 1.0 }
    }

    /// The same, where a machine has so many ranks on so many processors, unless another has more ranks for each of its own.
    pub fn with_crowd(self, ranks: usize, processors: usize) -> Topology {
        let ratio = ranks as f64 / processors.max(1) as f64;
        Topology { ranks_per_processor: self.ranks_per_processor.max(ratio), ..self }
    }

    /// Ranks per processor of the machine that has most; 1 where every rank has a processor.
    pub fn ranks_per_processor(&self) -> f64 {
        self.ranks_per_processor
    }

    /// Ranks.
    pub fn world(&self) -> usize {
        self.places.len()
    }

    /// Names of the hosts.
    pub fn host_names(&self) -> &[String] {
        &self.hosts
    }

    /// The GPUs of all hosts; their numbers are those of `LaneKind::Stream`.
    pub fn gpus(&self) -> &[Device] {
        &self.gpus
    }

    /// The NICs of all hosts; their numbers are those of `LaneKind::QueuePair`.
    pub fn nics(&self) -> &[Device] {
        &self.nics
    }

    /// The ranks of a host, ascending.
    pub fn members(&self, host: usize) -> &[Rank] {
        &self.members[host]
    }

    /// Where a rank runs.
    pub fn place(&self, rank: Rank) -> Place {
        self.places[rank]
    }

    /// What two ranks talk over.
    pub fn link(&self, a: Rank, b: Rank) -> LinkClass {
        if self.places[a].host == self.places[b].host { LinkClass::Local } else { LinkClass::Remote }
    }

    /// The number of ranks on every host, where it is the same.
    pub fn uniform_host_size(&self) -> Option<usize> {
        let size = self.members.first()?.len();
        self.members.iter().all(|host| host.len() == size).then_some(size)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_numbered_in_order_and_empty_ones_left_out() {
        let topology = Topology::from_host_of(&[7, 3, 7]);
        assert_eq!(topology.host_names(), ["host3", "host7"]);
        assert_eq!(topology.members(1), [0, 2]);
        assert_eq!(topology.link(0, 2), LinkClass::Local);
        assert_eq!(topology.link(0, 1), LinkClass::Remote);
        assert_eq!(topology.uniform_host_size(), None);
        assert_eq!(Topology::hosts(2, 4).uniform_host_size(), Some(4));
    }

    #[test]
    fn the_most_crowded_machine_counts() {
        let topology = Topology::hosts(2, 4);
        assert_eq!(topology.ranks_per_processor(), 1.0);
        let topology = topology.with_crowd(4, 2).with_crowd(4, 8).with_crowd(4, 0);
        assert_eq!(topology.ranks_per_processor(), 4.0);
    }
}
