//! A simulated network on a virtual clock, for tests: delay, jitter, bandwidth, slow ranks, partitions, dead ranks.
//!
//! Nothing happens by itself. One thread drives all ranks and calls [`SimNet::advance_to_next_event`] whenever none of them can
//! go on, so a run is a function of its seed. Messages of different ports overtake each other, those of one port never do.

mod link;
mod net;
mod random;
mod wire;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hcomm_ops::Rank;

use crate::{AnyWire, WireConfig};
use net::Net;
pub use wire::SimWire;

/// What a network is like.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SimConfig {
    /// Of every link, unless [`SimNet::set_link`] says otherwise.
    pub link: SimLink,
    /// After how long a rank's death is known to the others.
    pub detection: Duration,
    /// What happens to spans that may be lent.
    pub lending: Lending,
    /// Whether posted spans are taken.
    pub posts: bool,
    /// The sequence number at which all ports start; just below their wrap it tests that.
    pub first: u32,
}

/// What one direction between two ranks is like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SimLink {
    /// The least time from sending to arrival, and from release to credit.
    pub delay: Duration,
    /// The most that chance adds to it, message by message.
    pub jitter: Duration,
    /// Messages follow each other at this rate; `None` for at once.
    pub bytes_per_s: Option<u64>,
}

/// What happens to spans that may be lent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lending {
    /// They are copied: every send is done at once.
    Never,
    /// They are lent, whatever their size: no send is done before its receiver has released it.
    Always,
    /// Chance decides, message by message.
    Sometimes,
}

impl Default for SimConfig {
    fn default() -> Self {
        let link = SimLink {
            delay: Duration::from_micros(5),
            jitter: Duration::from_micros(20),
            bytes_per_s: Some(10_000_000_000),
        };
        let detection = Duration::from_millis(10);
        SimConfig { link, detection, lending: Lending::Sometimes, posts: false, first: 0 }
    }
}

/// The network and its clock.
#[derive(Clone, Debug)]
pub struct SimNet {
    net: Arc<Mutex<Net>>,
}

impl SimNet {
    /// A network of `world` ranks, and each rank's wires by peer.
    pub fn new(
        world: usize,
        wire: WireConfig,
        config: SimConfig,
        seed: u64,
    ) -> (SimNet, Vec<Vec<Option<AnyWire>>>) {
        let sim = SimNet { net: Arc::new(Mutex::new(Net::new(world, wire, config, seed))) };
        let end = |from: Rank, to: Rank| {
            (from != to).then(|| AnyWire::Sim(SimWire::new(Arc::clone(&sim.net), wire, from, to)))
        };
        let wires = (0..world).map(|from| (0..world).map(|to| end(from, to)).collect()).collect();
        (sim, wires)
    }

    /// The time since the network was made.
    pub fn now(&self) -> Duration {
        self.net().now()
    }

    /// When the next event is due, if one is.
    pub fn next_event(&self) -> Option<Duration> {
        self.net().next_event()
    }

    /// Turns the clock to the next event and lets it happen. False where nothing is under way: whoever waits now waits
    /// for ever.
    pub fn advance_to_next_event(&self) -> bool {
        self.net().step()
    }

    /// Turns the clock, letting everything happen on the way.
    pub fn advance_by(&self, time: Duration) {
        let mut net = self.net();
        let until = net.now() + time;
        while net.next_event().is_some_and(|due| due <= until) {
            net.step();
        }
        net.set_clock(until);
    }

    /// Changes one direction between two ranks, for what is sent from now on.
    pub fn set_link(&self, from: Rank, to: Rank, link: SimLink) {
        self.net().set_link(from, to, link);
    }

    /// Adds to the delay of everything that a rank sends or releases from now on.
    pub fn slow(&self, rank: Rank, extra: Duration) {
        self.net().slow(rank, extra);
    }

    /// Cuts the ranks in `these` off from all others: what is under way between them waits for [`SimNet::heal`].
    pub fn partition(&self, these: &[Rank]) {
        self.net().partition(these);
    }

    /// Joins what was cut.
    pub fn heal(&self) {
        self.net().heal();
    }

    /// Stops a rank: nothing that it sends from now on goes anywhere, and after the detection time its peers' wires are lost,
    /// with whatever has not arrived by then.
    pub fn kill(&self, rank: Rank) {
        self.net().kill(rank);
    }

    fn net(&self) -> MutexGuard<'_, Net> {
        lock(&self.net)
    }
}

/// A test that panicked elsewhere says so itself; the network's state is good after every call.
fn lock(net: &Mutex<Net>) -> MutexGuard<'_, Net> {
    net.lock().unwrap_or_else(PoisonError::into_inner)
}
