//! What can be asked of a communicator about its calls and its links: statistics, switched on while it runs, and what the cost model
//! takes the slowest link for.

use std::time::Duration;

use hcomm_planner::Planner;
use hcomm_planner::choose::{LinkKind, Tuning};
use hcomm_planner::topology::LinkClass;

use super::Communicator;
use crate::statistics::Statistics;

/// A link between ranks, as the cost model sees it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Link {
    /// Bytes per second of one rank's link while nothing else uses it; infinite where a tuning file has bytes cost nothing.
    pub bytes_per_s: f64,
    /// From one rank to the next, for a message of no length.
    pub latency: Duration,
    /// Whether a tuning file says so; these are the usual figures otherwise.
    pub measured: bool,
}

impl Communicator {
    /// Switches the recording of statistics for all handles of this communicator; it is off at first. Switching it on begins
    /// anew; switching it off keeps what there is. Calls that are under way are left out. While it is on a call takes somewhat longer: a
    /// repeated one is looked up again, and each takes two looks at the clock.
    pub fn record_statistics(&self, on: bool) {
        self.inner.domain.record_statistics(on);
    }

    /// What the calls that have ended came to while that was recorded: collectives and tagged messages, but not calls that were
    /// refused.
    pub fn statistics(&self) -> Statistics {
        self.inner.domain.ledger.statistics()
    }

    /// What the planner takes the slowest link between two of these ranks for; in a world of one, what it would be within a host.
    pub fn link(&self) -> Link {
        self.inner.link
    }
}

impl Link {
    /// The slowest, where `local` joins the ranks of a host.
    pub(super) fn slowest(planner: &Planner, tuning: &Tuning, local: LinkKind) -> Link {
        let (topology, costs) = (planner.topology(), planner.choice().costs());
        let is_remote = (1..topology.world()).any(|rank| topology.link(0, rank) == LinkClass::Remote);
        let (cost, kind) = if is_remote { (costs.remote, LinkKind::Tcp) } else { (costs.local, local) };
        Link {
            bytes_per_s: 1e9 / cost.byte_ns,
            latency: Duration::from_nanos(cost.latency_ns.round() as u64),
            measured: tuning.has_prices(kind, topology.ranks_per_processor()),
        }
    }
}
