//! [`Basis`]: all that a communicator's choice is made from. Whoever makes it sees to it that all ranks have the same.

use super::tuning::TunedPin;
use super::{Costs, LinkKind, Model, Pin, Tuning, USUAL_SLOT_BYTES};
use crate::topology::Topology;

/// See the module.
#[derive(Clone, Debug)]
pub struct Basis {
    /// Measured costs, times and pins.
    pub tuning: Tuning,
    /// Where the tuning comes from, for people: the name of a file, or `defaults`.
    pub source: String,
    /// What joins the ranks of a host.
    pub local: LinkKind,
    /// Most bytes of a message.
    pub slot_bytes: u64,
    /// Whether messages may be shorter than that where it pays.
    pub are_tiles_free: bool,
    /// The settings' pins, which go before the tuning's; the first that covers a size goes before the others.
    pub pins: Vec<Pin>,
    /// Pins of the communicator that this one was split from; they go before all others, and are set aside where they cannot be
    /// followed.
    pub inherited: Vec<Pin>,
    /// Whether the settings' and the tuning's pins are inherited as well: a communicator was split.
    pub is_split: bool,
    /// The communicator's name.
    pub communicator: String,
    /// Whether the settings ask for all reductions to be folded in rank order.
    pub deterministic: bool,
}

impl Default for Basis {
    fn default() -> Self {
        Basis {
            tuning: Tuning::default(),
            source: "defaults".to_owned(),
            local: LinkKind::Shm,
            slot_bytes: USUAL_SLOT_BYTES,
            are_tiles_free: true,
            pins: Vec::new(),
            inherited: Vec::new(),
            is_split: false,
            communicator: "world".to_owned(),
            deterministic: false,
        }
    }
}

impl Basis {
    /// The pins that are meant for a communicator of so many ranks, and whether each is inherited.
    pub(super) fn pins_for(&self, world: usize) -> Vec<(Pin, bool)> {
        let inherited = self.inherited.iter().map(|pin| (pin.clone(), true));
        let given = self.pins.iter().map(|pin| (pin.clone(), self.is_split));
        let tuned = self.tuning.pins.iter().filter(|pin| self.is_for(pin, world)).map(|pin| {
            // One that names this world or communicator was not meant for another.
            let is_meant = pin.world.is_some() || pin.communicator.is_some();
            (self.tuned(pin), self.is_split && !is_meant)
        });
        inherited.chain(given).chain(tuned).collect()
    }

    /// The tuning's pins that are not meant for a communicator of so many ranks, and what each is for.
    pub(super) fn pins_elsewhere(&self, world: usize) -> Vec<(Pin, String)> {
        let others = self.tuning.pins.iter().filter(|pin| !self.is_for(pin, world));
        others.map(|pin| (self.tuned(pin), meant_for(pin))).collect()
    }

    fn is_for(&self, pin: &TunedPin, world: usize) -> bool {
        pin.world.is_none_or(|only| only == world)
            && pin.communicator.as_ref().is_none_or(|only| *only == self.communicator)
    }

    fn tuned(&self, pin: &TunedPin) -> Pin {
        Pin {
            collective: pin.collective,
            from_bytes: pin.from_bytes,
            to_bytes: pin.to_bytes,
            algorithm: pin.algorithm.as_str().into(),
            source: self.source.as_str().into(),
        }
    }

    /// What predicts times on a topology.
    pub(super) fn model(&self, topology: &Topology) -> Model {
        let model = Model::new(Costs::default(), self.slot_bytes, self.are_tiles_free);
        model.tuned(&self.tuning, self.local, topology)
    }
}

/// The worlds and communicators that a pin is for, in words.
fn meant_for(pin: &TunedPin) -> String {
    let world = pin.world.map(|world| format!("worlds of {world}"));
    let communicator = pin.communicator.as_ref().map(|name| format!("communicators named '{name}'"));
    [communicator, world].into_iter().flatten().collect::<Vec<_>>().join(" in ")
}
