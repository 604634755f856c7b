//! Debug builds prove each plan once when it enters the plan cache: all ranks' slices are compiled and verified together. Release
//! builds leave that to the planner's tests and to `hcomm plan --verify`.

use std::collections::HashSet;
use std::sync::{LazyLock, Mutex, PoisonError};

use hcomm_ops::Rank;
use hcomm_planner::{Collective, Plan, Planner, Request, compile_all, verify};

use crate::error::Refused;

/// Larger worlds would take too long.
const MAX_WORLD: usize = 64;

/// The least depth that a channel may have: what holds there holds in deeper ones.
const DEPTH: usize = 2;

/// Plans proved by this process, whichever of its communicators asked.
static PROVED: LazyLock<Mutex<HashSet<(u64, Collective, Rank)>>> = LazyLock::new(Mutex::default);

/// Proves the plan that `request` gets, of which `own` is this rank's slice.
///
/// # Errors
/// [`Refused::Unproved`] with the fault found.
pub(crate) fn prove(planner: &Planner, request: &Request, own: &Plan) -> Result<(), Refused> {
    let key = (own.id, own.collective, own.root);
    let is_new = || PROVED.lock().unwrap_or_else(PoisonError::into_inner).insert(key);
    if own.world > MAX_WORLD || !is_new() {
        return Ok(());
    }
    check(&compile_all(request, planner.topology(), planner.choice())?)
}

fn check(plans: &[Plan]) -> Result<(), Refused> {
    match verify(plans, DEPTH) {
        Ok(_) => Ok(()),
        Err(fault) => {
            let algorithm = plans.first().map(|plan| plan.algorithm.clone()).unwrap_or_default();
            Err(Refused::Unproved { algorithm, fault })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hcomm_ops::{DType, ReduceOp};
    use hcomm_planner::Topology;

    fn ring() -> (Planner, Request) {
        let request = Request::new(Collective::AllReduce, DType::F32, ReduceOp::Sum, 100);
        (Planner::new(Topology::single_host(4)), request.with_algorithm("ring"))
    }

    #[test]
    fn a_good_plan_passes() {
        let (planner, request) = ring();
        let own = planner.compile(&request, 0).expect("a ring of 4");
        prove(&planner, &request, &own).expect("it is right");
    }

    #[test]
    fn a_plan_without_its_dependencies_is_refused_with_the_fault() {
        let (planner, request) = ring();
        let mut plans = compile_all(&request, planner.topology(), planner.choice()).expect("a ring of 4");
        for plan in &mut plans {
            plan.deps.clear();
            plan.nodes.iter_mut().for_each(|node| node.deps = 0..0);
        }
        let refused = check(&plans).expect_err("nothing keeps the order");
        assert!(refused.to_string().starts_with("the plan by 'ring' fails its proof: "), "{refused}");
    }
}
