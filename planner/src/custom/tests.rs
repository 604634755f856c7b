//! Programs that are plans, programs that are not, and what is left of them after the passes.

use super::*;
use crate::algorithm::{Algorithm, Call, Variant};
use crate::compile::compile_with;
use crate::plan::{NodeKind, Plan};
use crate::topology::Topology;
use crate::verify::{VerifyError, verify};
use hcomm_ops::{DType, ReduceOp};

/// The ring all_reduce, with one chunk of scratch per rank, used anew in every step.
fn ring(n: usize) -> PlanBuilder {
    let mut plan = PlanBuilder::new("my_ring", Collective::AllReduce, n).parts(n);
    for block in 0..n {
        let at = |step: usize| (block + 1 + step) % n;
        plan.copy(input(at(0), block), scratch(at(1), 0));
        for step in 1..n - 1 {
            plan.reduce(input(at(step), block), scratch(at(step), 0));
            plan.copy(scratch(at(step), 0), scratch(at(step + 1), 0));
        }
        plan.fold([scratch(block, 0), input(block, block)], output(block, block));
    }
    plan.stage();
    for block in 0..n {
        for step in 0..n - 1 {
            plan.copy(output((block + step) % n, block), output((block + step + 1) % n, block));
        }
    }
    plan
}

fn built(plan: &PlanBuilder) -> Vec<Plan> {
    plan.build(&Topology::single_host(plan.world)).unwrap_or_else(|error| panic!("{error}"))
}

fn kinds(plan: &Plan) -> Vec<NodeKind> {
    let mut kinds: Vec<_> = plan.nodes.iter().map(|node| plan.kind_of(node)).collect();
    kinds.sort_unstable();
    kinds
}

#[test]
fn a_ring_is_fused_like_the_one_of_the_list() {
    let topology = Topology::single_host(5);
    let request = crate::Request::new(Collective::AllReduce, DType::F32, ReduceOp::Sum, 100);
    let call = Call::new(&request, 5, &topology);
    assert_eq!(call.variant, Variant::Even);
    let listed = compile_with(Algorithm::named("ring").expect("it is listed"), &call, 3);
    let own = &built(&ring(5))[3];
    assert_eq!(kinds(own), kinds(&listed));
    assert_eq!((own.scratch.len(), own.channels_per_pair, own.parts), (0, 2, 5));
    assert!(!own.buffered);
}

#[test]
fn a_ring_of_64_is_compiled_and_proved() {
    let start = std::time::Instant::now();
    let plans = built(&ring(64));
    println!("{:?}", start.elapsed());
    assert!(plans.iter().all(|plan| plan.nodes.len() == 2 * 64 && plan.scratch.is_empty()));
}
