//! [`Spread`]: how the ranks of a communicator lie on hosts, from which follows how long a slot of their wires may be.
//!
//! The staging memory of a rank belongs to the peers that can use it. Those on its host have rooms in its shared memory, whose sum
//! is bounded whatever is called. Those on other hosts have none of their own: a wire over TCP takes memory for the messages that
//! it has, so that only the peers of the plans in use count; there the bound is for one operation at a time with all of them.

use hcomm_planner::Topology;
use hcomm_planner::choose::USUAL_SLOT_BYTES;
use hcomm_transports::{WireConfig, shm};

use super::WIRE_PORTS;
use crate::call::LEAST_SLOT_BYTES;
use crate::execution::WINDOW_CHANNELS;
use crate::settings::Settings;

/// See the module. Equal on all ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spread {
    /// Peers on its own host, of a rank that has most of them.
    pub near: usize,
    /// Peers on other hosts, of a rank that has most of them.
    pub far: usize,
}

impl Spread {
    /// Of ranks on hosts as listed.
    pub fn of_hosts(host_of: &[usize]) -> Spread {
        Spread::of(&Topology::from_host_of(host_of))
    }

    /// Of a topology's ranks.
    pub fn of(topology: &Topology) -> Spread {
        let sizes = (0..topology.host_names().len()).map(|host| topology.members(host).len());
        let (most, least) =
            sizes.fold((0, usize::MAX), |(most, least), size| (most.max(size), least.min(size)));
        Spread { near: most.saturating_sub(1), far: topology.world().saturating_sub(least) }
    }

    /// Ports, depth and slots of every wire, by the agreed settings.
    pub fn wire(self, settings: &Settings) -> WireConfig {
        WireConfig { ports: WIRE_PORTS, depth: settings.depth, slot_bytes: self.slot_bytes(settings) }
    }

    /// Bytes of a slot, by the agreed settings.
    pub fn slot_bytes(self, settings: &Settings) -> usize {
        let wanted = match settings.tile_bytes.0 {
            0 => USUAL_SLOT_BYTES,
            bytes => bytes,
        };
        let budget = settings.buffer_size.0;
        let in_flight = self.far as u64 * u64::from(settings.depth) * u64::from(WINDOW_CHANNELS);
        let wanted = wanted.min(budget / in_flight.max(1)).max(LEAST_SLOT_BYTES as u64);
        let wanted = usize::try_from(wanted).unwrap_or(usize::MAX);
        let config = WireConfig { ports: WIRE_PORTS, depth: settings.depth, slot_bytes: LEAST_SLOT_BYTES };
        shm::slot_bytes_within(budget, config, self.near + 1, (LEAST_SLOT_BYTES, wanted))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_busiest_rank_counts() {
        assert_eq!(Spread::of_hosts(&[0, 0, 0, 1]), Spread { near: 2, far: 3 });
        assert_eq!(Spread::of(&Topology::hosts(32, 8)), Spread { near: 7, far: 248 });
        assert_eq!(Spread::of(&Topology::single_host(1)), Spread { near: 0, far: 0 });
    }

    #[test]
    fn room_belongs_to_the_peers_that_use_it() {
        let settings = Settings::default();
        let slot = |near, far| Spread { near, far }.slot_bytes(&settings);
        assert_eq!((slot(0, 0), slot(1, 0), slot(0, 31)), (128 << 10, 128 << 10, 128 << 10));
        assert!(slot(7, 0) >= 60 << 10, "{}", slot(7, 0));
        assert_eq!(slot(7, 24), slot(7, 0), "other hosts take no room from those of this one");
        assert!(slot(7, 248) >= 16 << 10, "{}", slot(7, 248));
        assert_eq!(slot(1 << 10, 0), LEAST_SLOT_BYTES);
        let short = Settings::from_pairs([("HCOMM_TILE_BYTES", "1000")]).expect("legal");
        assert_eq!(Spread { near: 1, far: 0 }.slot_bytes(&short), LEAST_SLOT_BYTES);
    }

    /// The promise of `HCOMM_BUFFER_SIZE`.
    #[test]
    fn shared_memory_stays_within_what_the_settings_say() {
        for text in ["1MiB", "32MiB", "1GiB"] {
            let settings = Settings::from_pairs([("HCOMM_BUFFER_SIZE", text)]).expect("legal");
            for near in 1..=86 {
                let config = Spread { near, far: 0 }.wire(&settings);
                let inbox = shm::segment_bytes(config, near + 1).expect("possible dimensions") as u64;
                let least = near as u64 * 390 * 1024 + 4096;
                assert!(inbox <= settings.buffer_size.0.max(least), "{text}, {near} peers: {inbox}");
            }
        }
    }
}
