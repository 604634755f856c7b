//! [`Setup`]: the worlds that are measured: how many ranks, joined by what.

use std::thread;

use hcomm::planner::choose::LinkKind;
use hcomm::planner::choose::tuning::Condition;
use hcomm::{Collective, Topology};

/// One world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setup {
    /// What joins the ranks: shared memory or TCP.
    pub kind: LinkKind,
    /// How many there are.
    pub world: usize,
    /// Processors that they share.
    pub processors: usize,
}

/// Worlds that are measured where the machine has processors enough.
const WORLDS: [usize; 3] = [2, 4, 8];

/// The largest world that is measured with two ranks for each processor.
const MOST_CROWDED: usize = 4;

impl Setup {
    /// The setups of this machine, those with few ranks first.
    pub fn all() -> Vec<Setup> {
        Setup::on(thread::available_parallelism().map_or(1, usize::from))
    }

    fn on(processors: usize) -> Vec<Setup> {
        let most = processors.max(MOST_CROWDED.min(2 * processors));
        let worlds = WORLDS.into_iter().filter(|world| *world <= most);
        let kinds = [LinkKind::Shm, LinkKind::Tcp];
        worlds.flat_map(|world| kinds.map(|kind| Setup { kind, world, processors })).collect()
    }

    /// The ranks, as a communicator of them would see them.
    pub fn topology(&self) -> Topology {
        let topology = match self.kind {
            LinkKind::Tcp => Topology::hosts(self.world, 1),
            LinkKind::Shm | LinkKind::Inproc => Topology::single_host(self.world),
        };
        topology.with_crowd(self.world, self.processors)
    }

    /// The condition that it is measured for.
    pub fn condition(&self) -> Condition {
        Condition { kind: self.kind, is_crowded: self.world > self.processors }
    }

    /// For people: `shm, 4 ranks`.
    pub fn name(&self) -> String {
        format!("{}, {} ranks", self.kind.name(), self.world)
    }
}

/// What is measured of a setup: each collective at each size of the full buffer; a barrier has one size.
pub fn cells(sizes: &[u64]) -> Vec<(Collective, u64)> {
    let of = |collective: Collective| match collective {
        Collective::Barrier => vec![(collective, 0)],
        _ => sizes.iter().map(|bytes| (collective, *bytes)).collect(),
    };
    Collective::ALL.into_iter().flat_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_is_not_asked_for_more_than_it_does_sensibly() {
        let worlds = |processors| {
            let mut worlds: Vec<usize> = Setup::on(processors).iter().map(|setup| setup.world).collect();
            worlds.dedup();
            worlds
        };
        assert_eq!(
            [1, 2, 4, 8, 64].map(worlds),
            [vec![2], vec![2, 4], vec![2, 4], vec![2, 4, 8], vec![2, 4, 8]]
        );
        let crowded = Setup::on(2)[3];
        assert_eq!(crowded.name(), "tcp, 4 ranks");
        assert_eq!(
            (crowded.topology().ranks_per_processor(), crowded.topology().host_names().len()),
            (2.0, 4)
        );
        assert!(crowded.condition().is_crowded && !Setup::on(4)[3].condition().is_crowded);
    }

    #[test]
    fn a_barrier_is_measured_once() {
        let cells = cells(&[8, 64]);
        assert_eq!(cells.len(), 2 * 8 + 1);
        assert_eq!(cells.last(), Some(&(Collective::Barrier, 0)));
    }
}
