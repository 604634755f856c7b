//! `compile`: a request becomes one rank's plan. Choose ► build ► passes ► freeze.

use hcomm_ops::Rank;

use crate::algorithm::{ALGORITHMS, Algorithm, Call};
use crate::check::RequestError;
use crate::choose::Choice;
use crate::freeze::freeze;
use crate::pass;
use crate::plan::Plan;
use crate::request::Request;
use crate::topology::Topology;

/// Why there is no plan. The text names what was asked and what would be accepted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// The call itself makes no sense.
    #[error(transparent)]
    Request(#[from] RequestError),
    /// A pinned algorithm that does not exist.
    #[error("unknown algorithm '{name}'; expected one of {known}")]
    UnknownAlgorithm {
        /// The name given.
        name: String,
        /// The names there are.
        known: String,
    },
    /// No algorithm, or not the pinned one, can serve the call.
    #[error("{asked} is not supported{by}: {reason}; supported by: {alternatives}")]
    Unsupported {
        /// The call, in words.
        asked: String,
        /// " by 'NAME'", or nothing.
        by: String,
        /// Why.
        reason: String,
        /// The algorithms that can serve it.
        alternatives: String,
    },
    /// A topology of another world.
    #[error("a topology of {given} ranks for a world of {world}; expected {world}")]
    TopologySize {
        /// Ranks of the topology.
        given: usize,
        /// Ranks of the communicator.
        world: usize,
    },
}

/// Compiles rank `rank`'s plan of a call. `choice` must come from the same world and topology on all ranks.
///
/// # Errors
/// [`PlanError`] where the call makes no sense or no algorithm serves it.
pub fn compile(
    request: &Request,
    rank: Rank,
    topology: &Topology,
    choice: &Choice,
) -> Result<Plan, PlanError> {
    let world = topology.world();
    request.check_at(rank, world)?;
    let call = Call::new(request, world, topology);
    let algorithm = select(request, &call, choice)?;
    Ok(compile_with(algorithm, &call, rank))
}

/// Compiles the plans of all ranks, such as `verify` takes. Only the common part of the call counts.
///
/// # Errors
/// As [`compile`].
pub fn compile_all(request: &Request, topology: &Topology, choice: &Choice) -> Result<Vec<Plan>, PlanError> {
    let world = topology.world();
    request.check(world)?;
    let call = Call::new(request, world, topology);
    let algorithm = select(request, &call, choice)?;
    Ok((0..world).map(|rank| compile_with(algorithm, &call, rank)).collect())
}

/// Compiles one rank's plan by a given algorithm, which must support the call.
pub(crate) fn compile_with(algorithm: &Algorithm, call: &Call<'_>, rank: Rank) -> Plan {
    let mut graph = algorithm.build(call, rank);
    let placement = pass::run_all(&mut graph, call.topology);
    freeze(&graph, &placement, algorithm, call)
}

/// The pinned algorithm, or the best one.
pub(crate) fn select(
    request: &Request,
    call: &Call<'_>,
    choice: &Choice,
) -> Result<&'static Algorithm, PlanError> {
    match &request.algorithm {
        Some(name) => pinned(name, call),
        None => choice.pick(call, request.full_bytes(call.world)).ok_or_else(|| {
            let reasons = ALGORITHMS.iter().filter(|a| a.collectives.contains(&call.collective));
            let reasons = reasons.filter_map(|a| Some(format!("'{}' {}", a.name, a.supports(call).err()?)));
            unsupported(call, String::new(), reasons.collect::<Vec<_>>().join(", "))
        }),
    }
}

fn pinned(name: &str, call: &Call<'_>) -> Result<&'static Algorithm, PlanError> {
    let algorithm = Algorithm::named(name).ok_or_else(|| PlanError::UnknownAlgorithm {
        name: name.to_owned(),
        known: ALGORITHMS.iter().map(|a| a.name).collect::<Vec<_>>().join(", "),
    })?;
    match algorithm.supports(call) {
        Ok(()) => Ok(algorithm),
        Err(reason) => Err(unsupported(call, format!(" by '{name}'"), format!("it {reason}"))),
    }
}

fn unsupported(call: &Call<'_>, by: String, reason: String) -> PlanError {
    let able = ALGORITHMS.iter().filter(|a| a.supports(call).is_ok()).map(|a| a.name);
    let mut alternatives = able.collect::<Vec<_>>().join(", ");
    if alternatives.is_empty() {
        alternatives = "(none)".to_owned();
    }
    PlanError::Unsupported { asked: call.to_string(), by, reason, alternatives }
}

impl std::fmt::Display for Call<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.collective)?;
        if self.collective.reduces() {
            write!(f, " ({})", self.op)?;
        }
        let variant = match self.variant {
            crate::algorithm::Variant::Even => "",
            crate::algorithm::Variant::Listed => ", counts per rank",
            crate::algorithm::Variant::Local => ", counts known to their ranks only",
        };
        write!(f, " of {} in a world of {}{variant}", self.dtype, self.world)
    }
}
