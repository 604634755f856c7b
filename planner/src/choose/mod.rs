//! Which algorithm serves a call, with which tiles: what each one costs, and the tables that a call is looked up in.
//!
//! `candidate` is what there is to choose among; `work` and `amounts` say what it takes, `cost` what that costs, `tuning` what was
//! measured; `model` puts them together. `thresholds` is the result for one `class` of call; `pin` is somebody's own choice; `fit` finds
//! costs from measured times; `explain` shows it all.

mod amounts;
mod basis;
mod candidate;
mod class;
mod cost;
mod explain;
mod fit;
mod model;
mod pin;
mod thresholds;
pub mod tuning;
mod work;

pub use amounts::{Amounts, Demand};
pub use basis::Basis;
pub use candidate::{AlgorithmName, Candidate, UnknownAlgorithm};
pub use cost::{Costs, LinkCost, Prices};
pub use explain::explain;
pub use fit::{Sample, fit};
pub use model::{Contender, Model, Prediction, USUAL_SLOT_BYTES};
pub use pin::{Pin, PinError};
pub use thresholds::{MARGIN, Threshold, Thresholds, Why, compared_at, sizes};
pub use tuning::{Curve, LinkKind, Tuning, TuningError};
pub use work::{PerLink, Work};

use rustc_hash::FxHashMap;

use crate::algorithm::Call;
use crate::compile::{PlanError, unsupported};
use crate::freeze::id_of;
use crate::request::Collective;
use crate::topology::Topology;
use class::Class;
use model::cheapest;
use thresholds::Pinned;

/// For every class of call, which candidate is best from how many bytes on. Computed once per communicator, from what all ranks
/// know; a lookup is a binary search.
#[derive(Clone, Debug)]
pub struct Choice {
    model: Model,
    /// Those that count here, the first that covers a size before the others.
    pins: Vec<Pin>,
    /// Inherited ones that this communicator cannot follow, and why.
    set_aside: Vec<PinError>,
    /// Those of the tuning that are for others, and for whom.
    elsewhere: Vec<(Pin, String)>,
    /// Where costs and measurements come from.
    source: String,
    tables: FxHashMap<Class, Thresholds>,
}

impl Choice {
    /// By given costs alone, for slots of the usual size.
    pub fn new(topology: &Topology, costs: Costs) -> Choice {
        let model = Model::new(costs, USUAL_SLOT_BYTES, true);
        let tables = tables(topology, &model, &[]);
        let source = "given costs".to_owned();
        Choice { model, pins: Vec::new(), set_aside: Vec::new(), elsewhere: Vec::new(), source, tables }
    }

    /// By all that is given.
    ///
    /// # Errors
    /// Where a pin names no algorithm, or one that cannot serve its collective here, unless it is inherited.
    pub fn with(topology: &Topology, basis: &Basis) -> Result<Choice, PinError> {
        let (mut pins, mut set_aside) = (Vec::new(), Vec::new());
        for (pin, is_inherited) in basis.pins_for(topology.world()) {
            match check(&pin, topology, basis.deterministic) {
                Ok(()) => pins.push(pin),
                Err(error) if is_inherited => set_aside.push(error),
                Err(error) => return Err(error),
            }
        }
        let model = basis.model(topology);
        let tables = tables(topology, &model, &pins);
        let elsewhere = basis.pins_elsewhere(topology.world());
        Ok(Choice { model, pins, set_aside, elsewhere, source: basis.source.clone(), tables })
    }

    /// The best candidate for a call of so many bytes (see `Request::full_bytes`); `None` where none supports it.
    pub fn pick(&self, call: &Call<'_>, bytes: Option<u64>) -> Option<Candidate> {
        let candidate = self.thresholds(call)?.at(bytes.unwrap_or(0))?.candidate;
        debug_assert_eq!(
            candidate.supports(call),
            Ok(()),
            "what serves a class serves every root and type of it"
        );
        Some(candidate)
    }

    /// The cheapest of those that a name leaves open.
    ///
    /// # Errors
    /// Where there is no such algorithm, or it cannot serve the call.
    pub fn pick_named(
        &self,
        name: &str,
        call: &Call<'_>,
        bytes: Option<u64>,
    ) -> Result<Candidate, PlanError> {
        let named: Vec<Candidate> = AlgorithmName::parse(name)?.candidates(self.model.tiles()).collect();
        let able = named.iter().copied().filter(|candidate| candidate.supports(call).is_ok());
        self.cheapest(able, call, bytes).ok_or_else(|| refusal(name, named.first(), call))
    }

    /// Most bytes of one message in a call by a plan of that name and id: what a call that gets this plan by itself has, where there
    /// is one.
    pub fn tile_bytes(&self, (name, id): (&str, u64), call: &Call<'_>, bytes: Option<u64>) -> u64 {
        let Ok(name) = AlgorithmName::parse(name) else { return Candidate::WHOLE_SLOT };
        let is_plan = |candidate: &Candidate| {
            candidate.supports(call).is_ok() && id_of(candidate.algorithm, &candidate.apply(call)) == id
        };
        let same = name.candidates(self.model.tiles()).filter(is_plan);
        self.cheapest(same, call, bytes).map_or(Candidate::WHOLE_SLOT, |candidate| candidate.tile_bytes)
    }

    /// Of some candidates that can serve a call, the one that it gets by itself, else the cheapest: the table does not change from one
    /// to another for a few per cent, and neither may who names what it holds.
    fn cheapest(
        &self,
        able: impl Iterator<Item = Candidate>,
        call: &Call<'_>,
        bytes: Option<u64>,
    ) -> Option<Candidate> {
        let able: Vec<Candidate> = able.collect();
        if let Some(usual) = self.pick(call, bytes).filter(|usual| able.contains(usual)) {
            return Some(usual);
        }
        let contenders: Vec<_> = able.into_iter().map(|able| self.model.contender(able, call)).collect();
        let at = compared_at(bytes.unwrap_or(0));
        let cheapest = cheapest(&contenders, |contender| contender.predict(at).time_ns());
        cheapest.map(|contender| contender.candidate)
    }

    /// The table for calls like this one.
    pub fn thresholds(&self, call: &Call<'_>) -> Option<&Thresholds> {
        self.tables.get(&Class::of(call))
    }

    /// What predicts the times.
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// What things cost.
    pub fn costs(&self) -> &Costs {
        self.model.costs()
    }

    /// The pins that count here.
    pub fn pins(&self) -> &[Pin] {
        &self.pins
    }

    /// Inherited pins that this communicator cannot follow.
    pub fn set_aside(&self) -> &[PinError] {
        &self.set_aside
    }

    /// Pins of the tuning that are for other communicators, and for which, in words.
    pub fn elsewhere(&self) -> &[(Pin, String)] {
        &self.elsewhere
    }

    /// Where costs and measurements come from.
    pub fn source(&self) -> &str {
        &self.source
    }
}

/// Whether a pin can be followed at all: by plain calls.
///
/// # Errors
/// Where it names no algorithm, or one that cannot serve its collective.
pub fn check(pin: &Pin, topology: &Topology, deterministic: bool) -> Result<(), PinError> {
    let failed = |cause: PlanError| PinError { pin: pin.clone(), cause };
    let named: Vec<Candidate> =
        pin.name().map_err(|error| failed(error.into()))?.candidates(&[Candidate::WHOLE_SLOT]).collect();
    let call = Class::plain(pin.collective).deterministic(deterministic).example(topology);
    // A world of one moves nothing, by whatever name.
    let is_able = topology.world() == 1 || named.iter().any(|candidate| candidate.supports(&call).is_ok());
    if is_able { Ok(()) } else { Err(failed(refusal(&pin.algorithm, named.first(), &call))) }
}

/// Why none that a name leaves open can serve a call.
fn refusal(name: &str, first: Option<&Candidate>, call: &Call<'_>) -> PlanError {
    let reason = first.and_then(|candidate| candidate.supports(call).err()).unwrap_or_default();
    unsupported(call, format!(" by '{name}'"), format!("it {reason}"))
}

fn tables(topology: &Topology, model: &Model, pins: &[Pin]) -> FxHashMap<Class, Thresholds> {
    Collective::ALL.into_iter().flat_map(|collective| tables_of(collective, topology, model, pins)).collect()
}

/// The tables of all classes of one collective. Classes that the same candidates serve have the same.
fn tables_of(
    collective: Collective,
    topology: &Topology,
    model: &Model,
    pins: &[Pin],
) -> Vec<(Class, Thresholds)> {
    let mut demands: Vec<(Candidate, Option<Demand>)> = Candidate::all()
        .filter(|c| c.algorithm.collectives.contains(&collective))
        .map(|c| (c, None))
        .collect();
    let mut done: Vec<(Vec<bool>, Thresholds)> = Vec::new();
    let mut tables = Vec::new();
    for class in Class::all(collective) {
        let call = class.example(topology);
        let able: Vec<bool> =
            demands.iter().map(|(candidate, _)| candidate.supports(&call).is_ok()).collect();
        let pinned = pinned(pins, &call, model);
        if let Some((_, same)) = done.iter().find(|(others, _)| *others == able && pinned.is_empty()) {
            tables.push((class, same.clone()));
            continue;
        }
        let mut contenders = Vec::new();
        for ((candidate, demand), _) in demands.iter_mut().zip(&able).filter(|(_, is_able)| **is_able) {
            let demand = *demand.get_or_insert_with(|| Demand::new(candidate, &call));
            let tiles = model.tiles().iter().map(|tile| candidate.with_tile(*tile));
            contenders.extend(tiles.map(|candidate| model.contender_of(candidate, collective, demand)));
        }
        let table = Thresholds::new(&contenders, &pinned);
        done.push((able, table.clone()));
        tables.push((class, table));
    }
    tables
}

/// The pins of a collective, with what each of them leaves open that can serve the call.
fn pinned<'a>(pins: &'a [Pin], call: &Call<'_>, model: &'a Model) -> Vec<Pinned<'a>> {
    let own = pins.iter().enumerate().filter(|(_, pin)| pin.collective == call.collective);
    let pinned = own.filter_map(|(index, pin)| {
        let named = pin.name().ok()?.candidates(model.tiles());
        let able = named.filter(|candidate| candidate.supports(call).is_ok());
        let contenders = able.map(|candidate| model.contender(candidate, call)).collect();
        Some(Pinned { index, pin, contenders })
    });
    pinned.collect()
}

#[cfg(test)]
mod tests;
