//! [`Model`]: predicts what a candidate takes at a size: amounts by costs, times what was measured beside that.

use super::tuning::{Condition, LinkKind, Measured, Tuning};
use super::{Amounts, Candidate, Costs, Curve, Demand};
use crate::algorithm::Call;
use crate::request::Collective;
use crate::topology::Topology;

/// Lengths of tiles to choose among, where they are shorter than the slots.
const TILES: [u64; 4] = [1 << 20, 256 << 10, 64 << 10, 16 << 10];

/// What the slots hold unless a communicator says otherwise: as much as stays in the nearer caches with a few of its like.
pub const USUAL_SLOT_BYTES: u64 = 128 << 10;

/// See the module. Equal on all ranks.
#[derive(Clone, Debug)]
pub struct Model {
    costs: Costs,
    measured: Option<Measured>,
    slot_bytes: u64,
    /// As in [`Candidate::tile_bytes`], the longest first.
    tiles: Vec<u64>,
}

/// A predicted time, and how it came to be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Prediction {
    /// By the costs alone, in nanoseconds.
    pub model_ns: f64,
    /// Of the measured time on that; 1 where nothing was measured.
    pub factor: f64,
}

impl Prediction {
    /// The predicted time, in nanoseconds.
    pub fn time_ns(&self) -> f64 {
        self.model_ns * self.factor
    }
}

impl Model {
    /// By given costs, with slots of so many bytes. Where the tiles are not free they are as long as the slots.
    pub fn new(costs: Costs, slot_bytes: u64, are_tiles_free: bool) -> Model {
        let shorter = TILES.into_iter().filter(|tile| are_tiles_free && *tile < slot_bytes);
        let tiles = std::iter::once(Candidate::WHOLE_SLOT).chain(shorter).collect();
        Model { costs, measured: None, slot_bytes, tiles }
    }

    /// The same with the costs and measurements of a tuning file; `local` joins the ranks of a host.
    pub fn tuned(self, tuning: &Tuning, local: LinkKind, topology: &Topology) -> Model {
        let crowd = topology.ranks_per_processor();
        let [near, far] = [local, LinkKind::Tcp].map(|kind| tuning.prices(kind, crowd));
        // Measurements are of worlds with one kind of link.
        let kind = match (topology.host_names().len(), topology.uniform_host_size()) {
            (1, _) => Some(local),
            (_, Some(1)) => Some(LinkKind::Tcp),
            _ => None,
        };
        // Where no two ranks share a host, arithmetic is done beside sockets.
        let near = if kind == Some(LinkKind::Tcp) { far } else { near };
        let measured = kind.and_then(|kind| {
            let condition = Condition { kind, is_crowded: crowd > 1.0 };
            tuning.measured(condition, topology.world()).cloned()
        });
        Model { costs: Costs::of(&near, &far), measured, ..self }
    }

    /// What it was made from.
    pub fn costs(&self) -> &Costs {
        &self.costs
    }

    /// The measurements that it heeds.
    pub fn measured(&self) -> Option<&Measured> {
        self.measured.as_ref()
    }

    /// Most bytes of a message.
    pub fn slot_bytes(&self) -> u64 {
        self.slot_bytes
    }

    /// The lengths of tiles that it chooses among.
    pub fn tiles(&self) -> &[u64] {
        &self.tiles
    }

    /// What a candidate that supports the call asks for, ready to be predicted at any size.
    pub fn contender(&self, candidate: Candidate, call: &Call<'_>) -> Contender<'_> {
        self.contender_of(candidate, call.collective, Demand::new(&candidate, call))
    }

    /// The same, where the demand is known.
    pub fn contender_of(
        &self,
        candidate: Candidate,
        collective: Collective,
        demand: Demand,
    ) -> Contender<'_> {
        let whole = candidate.with_tile(Candidate::WHOLE_SLOT);
        let own = self.curve(collective, &candidate);
        let curve = own.or_else(|| self.curve(collective, &whole));
        let tile_bytes = candidate.tile_bytes.min(self.slot_bytes);
        // A tile that was not measured is no better than the one that was.
        let is_known = own.is_some() || curve.is_none();
        let priced_tile_bytes = if is_known { tile_bytes } else { self.slot_bytes };
        Contender { candidate, demand, tile_bytes, priced_tile_bytes, costs: &self.costs, curve }
    }

    fn curve(&self, collective: Collective, candidate: &Candidate) -> Option<&Curve> {
        let curves = self.measured.iter().flat_map(|measured| &measured.curves);
        let mut own = curves.filter(|(of, by, _)| *of == collective && by == candidate);
        own.next().map(|(_, _, curve)| curve)
    }
}

/// A candidate for one class of call, with its prices.
#[derive(Clone, Copy, Debug)]
pub struct Contender<'a> {
    /// The candidate.
    pub candidate: Candidate,
    /// What it asks for.
    pub demand: Demand,
    /// Most bytes of one of its messages.
    tile_bytes: u64,
    /// The same, as its time is predicted.
    priced_tile_bytes: u64,
    costs: &'a Costs,
    curve: Option<&'a Curve>,
}

impl Contender<'_> {
    /// What a full buffer of so many bytes takes.
    pub fn amounts(&self, bytes: u64) -> Amounts {
        self.demand.at(bytes, self.tile_bytes)
    }

    /// How many tiles that buffer is moved in.
    pub fn tiles(&self, bytes: u64) -> u64 {
        self.demand.tiles(bytes, self.tile_bytes)
    }

    /// How long it takes.
    pub fn predict(&self, bytes: u64) -> Prediction {
        let model_ns = self.costs.time_ns(&self.demand.at(bytes, self.priced_tile_bytes));
        Prediction { model_ns, factor: self.curve.map_or(1.0, |curve| curve.at(bytes)) }
    }
}

/// The first of those that take least.
pub fn cheapest<'a, 'c>(
    contenders: impl IntoIterator<Item = &'a Contender<'c>>,
    time_ns: impl Fn(&Contender<'c>) -> f64,
) -> Option<&'a Contender<'c>>
where
    'c: 'a,
{
    let mut least: Option<(&Contender<'_>, f64)> = None;
    for contender in contenders {
        let time = time_ns(contender);
        if least.is_none_or(|(_, best)| time < best) {
            least = Some((contender, time));
        }
    }
    least.map(|(contender, _)| contender)
}
