//! [`Plan`]: the plan of a call, of all ranks, to look at.

use hcomm::planner::choose::LinkKind;
use hcomm::planner::export::{self, Drawing, Sizing};
use hcomm::planner::timeline::{Model, predict};
use hcomm::planner::{self, Choice};
use hcomm::tuning::{self, Spread, Tuned};
use hcomm::{Collective, Communicator, DType, Rank, Request, Settings, Topology};
use pyo3::prelude::*;

use crate::errors;
use crate::words::parsed;

/// Ranks up to which all slices are compiled.
const MOST_RANKS: usize = 1024;

/// Nodes of all ranks up to which a plan is proved unasked, in about a second.
const PROVED_NODES: usize = 1 << 18;

/// The plan of a call: one slice per rank, as it is run, drawn and proved.
#[pyclass(frozen, module = "hcomm._native")]
pub struct Plan {
    slices: Vec<hcomm::Plan>,
    sizing: Sizing,
    explanation: String,
    topology: Topology,
    model: Model,
}

#[pymethods]
impl Plan {
    /// The algorithm's name.
    #[getter]
    fn algorithm(&self) -> &str {
        &self.slices[0].algorithm
    }

    /// The collective's name.
    #[getter]
    fn collective(&self) -> String {
        self.sizing.request.collective.to_string()
    }

    /// Ranks.
    #[getter]
    fn world(&self) -> usize {
        self.slices.len()
    }

    /// Nodes of all ranks.
    #[getter]
    fn nodes(&self) -> usize {
        self.slices.iter().map(|slice| slice.nodes.len()).sum()
    }

    /// What tells this plan from others, as hexadecimal digits.
    #[getter]
    fn id(&self) -> String {
        format!("{:016x}", self.slices[0].id)
    }

    /// The graph for Graphviz.
    fn dot(&self, py: Python<'_>) -> String {
        py.detach(|| self.draw(|drawing| drawing.dot()))
    }

    /// The graph as a picture.
    fn svg(&self, py: Python<'_>) -> String {
        py.detach(|| self.draw(|drawing| drawing.svg()))
    }

    /// The graph as a page for the browser, with when each node runs by the cost model.
    fn html(&self, py: Python<'_>) -> String {
        py.detach(|| self.draw(|drawing| drawing.html()))
    }

    /// The plan for programs; `hcomm import` reads it.
    fn json(&self) -> String {
        export::json::write(&self.slices).to_string()
    }

    /// Why this algorithm was chosen, and what the others would take.
    fn explain(&self) -> &str {
        &self.explanation
    }

    /// Proves it: acyclic, no deadlock, no races, every output right. Returns what was proved; raises `PlanError` for a faulty one.
    fn verify(&self, py: Python<'_>) -> PyResult<String> {
        let verified = py.detach(|| planner::verify(&self.slices, self.model.depth));
        let verified = verified.map_err(|fault| errors::plan(py, &fault.to_string()))?;
        Ok(format!(
            "{} nodes and {} messages per tile: acyclic, no deadlock, no races, every output right",
            verified.nodes, verified.messages
        ))
    }

    fn __str__(&self) -> String {
        export::text(&self.slices)
    }

    fn __repr__(&self) -> String {
        let world = self.slices.len();
        format!(
            "<hcomm.Plan {} by {}, {world} ranks>",
            self.sizing.request.collective, self.slices[0].algorithm
        )
    }

    /// What a notebook shows.
    fn _repr_svg_(&self, py: Python<'_>) -> String {
        self.svg(py)
    }
}

impl Plan {
    fn draw(&self, draw: impl Fn(&Drawing<'_>) -> String) -> String {
        let drawing = Drawing::new(&self.slices).with_sizing(&self.sizing);
        // Without predicted times the drawing lacks only them.
        match predict(&self.slices, &self.sizing, &self.topology, &self.model) {
            Ok(timeline) => draw(&drawing.with_timeline(&timeline)),
            Err(_) => draw(&drawing),
        }
    }
}

/// The plan that a call would get in a world of `place`: ranks, and on how many hosts they are.
#[pyfunction]
#[pyo3(signature = (place, collective, count, dtype = "f32", op = "sum", root = 0, algorithm = None))]
#[allow(clippy::too_many_arguments, reason = "Python gives them by name")]
pub fn plan(
    py: Python<'_>,
    place: (usize, usize),
    collective: &str,
    count: u64,
    dtype: &str,
    op: &str,
    root: Rank,
    algorithm: Option<&str>,
) -> PyResult<Plan> {
    let (ranks, hosts) = place;
    check_world(py, ranks)?;
    if ranks == 0 || hosts == 0 || ranks % hosts != 0 {
        return Err(errors::refused(
            py,
            &format!("{ranks} ranks on {hosts} hosts; expected equally many on each"),
        ));
    }
    let topology =
        if hosts == 1 { Topology::single_host(ranks) } else { Topology::hosts(hosts, ranks / hosts) };
    let settings = Settings::from_env().map_err(|error| errors::setting(py, &error.to_string()))?;
    let tuned = Tuned::load(&settings.tuning).map_err(|error| errors::setting(py, &error.to_string()))?;
    let basis = tuning::basis(&settings, &tuned, LinkKind::Shm, Spread::of(&topology));
    let choice = Choice::with(&topology, &basis).map_err(|error| errors::plan(py, &error.to_string()))?;
    let request = request(collective, count, dtype, op, root)?;
    let request = match algorithm {
        Some(name) => request.with_algorithm(name),
        None => request,
    };
    compile(py, request, &topology, &choice, settings.depth as usize)
}

fn check_world(py: Python<'_>, world: usize) -> PyResult<()> {
    if world <= MOST_RANKS {
        return Ok(());
    }
    let text = format!("plans of {world} ranks are too many; expected at most {MOST_RANKS}");
    Err(errors::refused(py, &text))
}

/// A request in words.
///
/// # Errors
/// Where a word is unknown.
pub fn request(collective: &str, count: u64, dtype: &str, op: &str, root: Rank) -> PyResult<Request> {
    let collective: Collective = parsed(collective)?;
    Ok(Request::new(collective, parsed::<DType>(dtype)?, parsed(op)?, count).with_root(root))
}

/// The plan that a communicator's call gets.
///
/// # Errors
/// Where the request contradicts itself, or no algorithm supports it.
pub fn of_call(py: Python<'_>, communicator: &Communicator, request: Request) -> PyResult<Plan> {
    let planner = communicator.planner();
    let request = communicator.as_called(&request);
    compile(py, request, planner.topology(), planner.choice(), communicator.settings().depth as usize)
}

fn compile(
    py: Python<'_>,
    request: Request,
    topology: &Topology,
    choice: &Choice,
    depth: usize,
) -> PyResult<Plan> {
    let world = topology.world();
    request.check(world).map_err(|error| errors::refused(py, &error.to_string()))?;
    check_world(py, world)?;
    let make = || -> Result<Plan, planner::PlanError> {
        Ok(Plan {
            slices: planner::compile_all(&request, topology, choice)?,
            explanation: planner::explain(&request, topology, choice)?,
            sizing: Sizing::chosen(request.clone(), topology, choice)?,
            topology: topology.clone(),
            model: Model { depth, ..Model::new(*choice.costs()) },
        })
    };
    let made = py.detach(make).map_err(|error| errors::plan(py, &error.to_string()))?;
    if made.slices.iter().map(|slice| slice.nodes.len()).sum::<usize>() <= PROVED_NODES {
        made.verify(py)?;
    }
    Ok(made)
}
