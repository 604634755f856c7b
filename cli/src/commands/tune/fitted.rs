//! From measured cells to a [`Tuning`]: the prices that fit best, and each candidate's times beside the model's.

use hcomm::planner::Choice;
use hcomm::planner::algorithm::Call;
use hcomm::planner::choose::tuning::{Condition, LinkTuning, Measured};
use hcomm::planner::choose::{
    Basis, Candidate, Curve, LinkKind, Model, Prices, Sample, Tuning, USUAL_SLOT_BYTES, fit,
};
use hcomm::planner::topology::LinkClass;
use hcomm::{Collective, Topology};

use super::buffers::request;
use super::results::Cell;
use super::setup::Setup;

/// How much worse a shorter tile counts where nobody measured it.
const UNMEASURED: f64 = 1.02;

/// Prices and curves of everything that was measured.
pub fn tuning(measured: &[(Setup, Vec<Cell>)], sizes: &[u64]) -> Tuning {
    let mut conditions: Vec<Condition> = measured.iter().map(|(setup, _)| setup.condition()).collect();
    conditions.sort_unstable();
    conditions.dedup();
    let own = |condition: &Condition| {
        let condition = *condition;
        measured.iter().filter(move |(setup, _)| setup.condition() == condition)
    };
    let links = conditions.iter().map(|condition| link(*condition, own(condition))).collect();
    let mut tuning = Tuning { links, ..Tuning::default() };
    let curves = |(setup, cells): &(Setup, Vec<Cell>)| Measured {
        condition: setup.condition(),
        world: setup.world,
        curves: curves(setup, cells, sizes, &tuning),
    };
    tuning.measured = measured.iter().map(curves).collect();
    tuning
}

/// The prices under a condition.
fn link<'a>(condition: Condition, measured: impl Iterator<Item = &'a (Setup, Vec<Cell>)>) -> LinkTuning {
    let (mut samples, mut crowd) = (Vec::new(), 1.0_f64);
    let class = if condition.kind == LinkKind::Tcp { LinkClass::Remote } else { LinkClass::Local };
    for (setup, cells) in measured {
        let topology = setup.topology();
        crowd = crowd.max(topology.ranks_per_processor());
        let model = model(setup, &Tuning::default(), &topology);
        for cell in cells {
            samples.extend(cell.times_ns.iter().map(|(candidate, time_ns)| {
                let amounts = contended(&model, cell, *candidate, &topology, |c| c.amounts(cell.bytes));
                Sample { amounts: amounts.to_array(class), time_ns: *time_ns }
            }));
        }
    }
    let usual = Tuning::default().prices(condition.kind, crowd);
    let (prices, error) = fit(&samples, &usual);
    let prices = Prices::from_array(prices.to_array().map(|price| rounded(price, 4)));
    let error = hcomm::planner::choose::tuning::FitError {
        median: rounded(error.median, 3),
        worst: rounded(error.worst, 3),
    };
    LinkTuning { condition, prices, ranks_per_processor: crowd, error: Some(error) }
}

/// Every candidate's factors at all sizes.
fn curves(
    setup: &Setup,
    cells: &[Cell],
    sizes: &[u64],
    tuning: &Tuning,
) -> Vec<(Collective, Candidate, Curve)> {
    let topology = setup.topology();
    let model = model(setup, tuning, &topology);
    let mut curves = Vec::new();
    for collective in Collective::ALL {
        let own: Vec<&Cell> = cells.iter().filter(|cell| cell.collective == collective).collect();
        let mut candidates: Vec<Candidate> = Vec::new();
        for (candidate, _) in own.iter().flat_map(|cell| &cell.times_ns) {
            if !candidates.contains(candidate) {
                candidates.push(*candidate);
            }
        }
        for candidate in candidates {
            let factor = |cell: &&Cell| factor(&model, cell, candidate, &topology);
            let factors = own.iter().map(factor).collect::<Option<Vec<f64>>>();
            // A barrier has one size, the least.
            let points = factors.map(|factors| sizes.iter().copied().zip(factors).collect());
            curves.extend(points.and_then(Curve::new).map(|curve| (collective, candidate, curve)));
        }
    }
    curves
}

/// A candidate's time in a cell as a multiple of the model's; for a tile that nobody measured there, a little more than that of the
/// whole slot.
fn factor(model: &Model, cell: &Cell, candidate: Candidate, topology: &Topology) -> Option<f64> {
    let whole = candidate.with_tile(Candidate::WHOLE_SLOT);
    let predicted =
        |candidate| contended(model, cell, candidate, topology, |c| c.predict(cell.bytes).model_ns);
    let tiles = |candidate| contended(model, cell, candidate, topology, |c| c.tiles(cell.bytes));
    let time = cell.time_ns(&candidate).or_else(|| {
        let is_the_same = tiles(candidate) == tiles(whole);
        cell.time_ns(&whole).map(|time| if is_the_same { time } else { time * UNMEASURED })
    })?;
    Some(rounded(time / predicted(candidate).max(1.0), 3))
}

/// What a model says of a candidate in a cell.
fn contended<R>(
    model: &Model,
    cell: &Cell,
    candidate: Candidate,
    topology: &Topology,
    ask: impl Fn(&hcomm::planner::choose::Contender<'_>) -> R,
) -> R {
    let request = request(cell.collective, cell.bytes, topology.world());
    let call = Call::new(&request, topology.world(), topology);
    ask(&model.contender(candidate, &call))
}

fn model(setup: &Setup, tuning: &Tuning, topology: &Topology) -> Model {
    let model = Model::new(*Choice::new(topology, Default::default()).costs(), USUAL_SLOT_BYTES, true);
    let basis = Basis { tuning: tuning.clone(), ..Basis::default() };
    model.tuned(&basis.tuning, setup.kind, topology)
}

/// To so many digits: more would say what nobody knows.
fn rounded(value: f64, digits: usize) -> f64 {
    format!("{value:.*e}", digits.saturating_sub(1)).parse().unwrap_or(value)
}
