//! `compile`: a request becomes one rank's plan. Choose ► build ► passes ► freeze.

use hcomm_ops::Rank;

use crate::algorithm::{Algorithm, Call};
use crate::check::RequestError;
use crate::choose::{Candidate, Choice, UnknownAlgorithm};
use crate::freeze::{Header, freeze};
use crate::pass;
use crate::plan::{Plan, Proved};
use crate::request::Request;
use crate::topology::Topology;

/// Why there is no plan. The text names what was asked and what would be accepted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// The call itself makes no sense.
    #[error(transparent)]
    Request(#[from] RequestError),
    /// A pinned algorithm that does not exist.
    #[error(transparent)]
    UnknownAlgorithm(#[from] UnknownAlgorithm),
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
    let candidate = select(request, &call, choice)?;
    Ok(compile_with(candidate.algorithm, &candidate.apply(&call), rank))
}

/// Compiles the plans of all ranks, such as `verify` takes. Only the common part of the call counts.
///
/// # Errors
/// As [`compile`].
pub fn compile_all(request: &Request, topology: &Topology, choice: &Choice) -> Result<Vec<Plan>, PlanError> {
    let world = topology.world();
    request.check(world)?;
    let call = Call::new(request, world, topology);
    let candidate = select(request, &call, choice)?;
    let call = candidate.apply(&call);
    Ok((0..world).map(|rank| compile_with(candidate.algorithm, &call, rank)).collect())
}

/// The algorithm, with its parameters, that a call is compiled by.
///
/// # Errors
/// As [`compile`].
pub fn candidate(request: &Request, topology: &Topology, choice: &Choice) -> Result<Candidate, PlanError> {
    request.check(topology.world())?;
    select(request, &Call::new(request, topology.world(), topology), choice)
}

/// Compiles one rank's plan by a given algorithm, which must support the call.
pub(crate) fn compile_with(algorithm: &Algorithm, call: &Call<'_>, rank: Rank) -> Plan {
    let mut graph = algorithm.build(call, rank);
    let placement = pass::run_all(&mut graph, call.topology);
    let mut plan = freeze(&graph, &placement, &Header::of(algorithm, call));
    plan.note_sum();
    plan.proved = Proved { order: algorithm.fold_order(call) };
    plan
}

/// The pinned candidate, or the best one.
pub(crate) fn select(request: &Request, call: &Call<'_>, choice: &Choice) -> Result<Candidate, PlanError> {
    let bytes = request.full_bytes(call.world);
    match &request.algorithm {
        Some(name) => choice.pick_named(name, call, bytes),
        None => choice.pick(call, bytes).ok_or_else(|| {
            let reasons = Candidate::all().filter(|c| c.algorithm.collectives.contains(&call.collective));
            let reasons = reasons.filter_map(|c| Some(format!("'{c}' {}", c.supports(call).err()?)));
            unsupported(call, String::new(), reasons.collect::<Vec<_>>().join(", "))
        }),
    }
}

/// The refusal of a call, with the algorithms that could serve it.
pub(crate) fn unsupported(call: &Call<'_>, by: String, reason: String) -> PlanError {
    let able = Candidate::all().filter(|c| c.supports(call).is_ok()).map(|c| c.algorithm.name);
    let mut able: Vec<_> = able.collect();
    able.dedup();
    let mut alternatives = able.join(", ");
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
        let deterministic = if self.deterministic { ", deterministic" } else { "" };
        write!(f, " of {} in a world of {}{variant}{deterministic}", self.dtype, self.world)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::choose::Costs;
    use crate::request::{Collective, Counts};
    use hcomm_ops::{DType, ReduceOp};

    fn request(collective: Collective, dtype: DType) -> Request {
        let count = if collective == Collective::Barrier { 0 } else { 1000 };
        Request::new(collective, dtype, ReduceOp::Sum, count)
    }

    fn compiled(request: &Request, world: usize) -> Result<Plan, PlanError> {
        let topology = Topology::single_host(world);
        compile(request, 0, &topology, &Choice::new(&topology, Costs::shm()))
    }

    #[test]
    fn every_collective_has_a_plan_in_every_world() {
        for world in 1..10 {
            for collective in Collective::ALL {
                for dtype in [DType::F32, DType::F8E4M3] {
                    let plan = compiled(&request(collective, dtype), world);
                    assert_eq!(plan.map(|p| p.world), Ok(world), "{collective} of {dtype} in {world}");
                }
            }
        }
    }

    #[test]
    fn every_v_variant_has_a_plan_that_takes_unequal_blocks() {
        let (one, all): (std::sync::Arc<[u64]>, std::sync::Arc<[u64]>) = ([1].into(), [1, 0, 7].into());
        let local = |input: &std::sync::Arc<[u64]>, output: &std::sync::Arc<[u64]>| Counts::Local {
            input: input.clone(),
            output: output.clone(),
        };
        let cases = [
            (Collective::AllGather, Counts::Listed(all.clone())),
            (Collective::ReduceScatter, Counts::Listed(all.clone())),
            (Collective::Gather, local(&one, &all)),
            (Collective::Scatter, local(&all, &one)),
            (Collective::AllToAll, local(&all, &all)),
        ];
        for (collective, counts) in cases {
            let plan = compiled(&Request { counts, ..request(collective, DType::F32) }, 3).expect("a plan");
            assert!(!plan.even, "{collective} by {}", plan.algorithm);
        }
    }

    #[test]
    fn the_plan_depends_only_on_what_all_ranks_know() {
        let topology = Topology::single_host(3);
        let choice = Choice::new(&topology, Costs::shm());
        let with = |input: &[u64], rank| {
            let counts = Counts::Local { input: input.into(), output: input.into() };
            let request = Request { counts, ..request(Collective::AllToAll, DType::F32) };
            compile(&request, rank, &topology, &choice).expect("a plan")
        };
        assert_eq!(with(&[0, 0, 0], 0), with(&[9, 1 << 40, 9], 0));
        assert_eq!(with(&[0, 0, 0], 0).id, with(&[7, 7, 7], 1).id);
    }

    #[test]
    fn refusals_name_what_was_asked_and_who_could_do_it() {
        let refused = |request: &Request, world: usize, expected: &[&str]| {
            let text = compiled(request, world).expect_err(expected[0]).to_string();
            expected.iter().for_each(|words| assert!(text.contains(words), "{text:?} lacks {words:?}"));
        };
        let sum = request(Collective::AllReduce, DType::F32);
        refused(&sum.clone().with_algorithm("rung"), 4, &["unknown algorithm 'rung'", "ring, "]);
        refused(
            &sum.with_algorithm("hierarchical"),
            4,
            &["by 'hierarchical'", "at least 2 hosts", "one_shot, two_shot"],
        );
        let gather = request(Collective::AllGather, DType::F32).with_algorithm("recursive_doubling");
        refused(
            &gather,
            6,
            &["all_gather of f32 in a world of 6", "power of two, not 6", "supported by: direct"],
        );
        let small = request(Collective::AllReduce, DType::F8E4M3).with_algorithm("ring");
        refused(&small, 4, &["rounds an element 3 times", "two_shot"]);
        let listed = Counts::Local { input: [1].into(), output: [1, 1].into() };
        let gather = Request { counts: listed, ..request(Collective::Gather, DType::F32) };
        refused(
            &gather.with_algorithm("binomial"),
            2,
            &["needs blocks of equal length", "supported by: direct"],
        );
        refused(&request(Collective::Broadcast, DType::F32).with_root(2), 2, &["root 2"]);
    }

    #[test]
    fn deterministic_is_refused_for_its_true_reason_and_only_where_order_counts() {
        let by = |name: &str, dtype, op| {
            let asked = Request { op, ..request(Collective::AllReduce, dtype) }.deterministic();
            compiled(&asked.with_algorithm(name), 8).map(|_| ()).map_err(|error| error.to_string())
        };
        for (dtype, op) in [
            (DType::I32, ReduceOp::Sum),
            (DType::Bool, ReduceOp::LogicalXor),
            (DType::F32, ReduceOp::Max),
            (DType::F8E4M3, ReduceOp::Min),
        ] {
            assert_eq!(by("ring", dtype, op), Ok(()), "{op} of {dtype}");
        }
        let refused = |name, dtype, words: &str| {
            let text = by(name, dtype, ReduceOp::Sum).expect_err(words);
            assert!(text.contains(words), "{text:?} lacks {words:?}");
        };
        let hops = "it rounds an element to bf16 7 times, and deterministic allows once";
        refused("chain", DType::BF16, hops);
        refused("ring", DType::BF16, "it does not fold in rank order, as deterministic asks");
        refused("ring", DType::F32, "it does not fold in rank order, as deterministic asks");
    }

    #[test]
    fn ids_tell_plans_apart() {
        let mut ids = Vec::new();
        for world in [2, 3, 4] {
            for candidate in Candidate::all() {
                for collective in candidate.algorithm.collectives {
                    let request = request(*collective, DType::F32).with_algorithm(&candidate.to_string());
                    let plans = [request.clone(), request.with_root(usize::from(collective.is_rooted()))];
                    ids.extend(
                        plans.iter().filter_map(|r| compiled(r, world).ok()).map(|plan| (plan.id, plan.root)),
                    );
                }
            }
        }
        ids.sort_unstable();
        ids.dedup();
        let distinct = ids.len();
        ids.dedup_by_key(|(id, _)| *id);
        assert_eq!(ids.len(), distinct);
    }
}
