//! Every algorithm at many worlds, and one planted fault for each check.

use hcomm_ops::{DType, ReduceOp};

use super::*;
use crate::algorithm::{ALGORITHMS, Call, Variant};
use crate::compile::compile_with;
use crate::request::Collective;
use crate::topology::Topology;

fn call(collective: Collective, root: usize, topology: &Topology) -> Call<'_> {
    Call {
        collective,
        dtype: DType::I64,
        op: ReduceOp::Sum,
        root,
        variant: Variant::Even,
        world: topology.world(),
        topology,
    }
}

fn plans(name: &str, call: &Call<'_>) -> Vec<Plan> {
    let algorithm = crate::algorithm::Algorithm::named(name).expect("a registered algorithm");
    algorithm.supports(call).expect("a supported call");
    (0..call.world).map(|rank| compile_with(algorithm, call, rank)).collect()
}

/// Verifies everything that the topology supports; returns how many plans that was.
fn verify_all(topology: &Topology) -> usize {
    let mut count = 0;
    for algorithm in ALGORITHMS {
        for collective in algorithm.collectives {
            let world = topology.world();
            let roots = if collective.is_rooted() { vec![0, world / 2, world - 1] } else { vec![0] };
            for root in roots {
                let call = call(*collective, root, topology);
                if algorithm.supports(&call).is_err() {
                    continue;
                }
                let plans = plans(algorithm.name, &call);
                let what = format!("{collective} by {} in a world of {world}, root {root}", algorithm.name);
                let verified = verify(&plans, 2).unwrap_or_else(|error| panic!("{what}: {error}"));
                assert_eq!(verified.needs_copying, plans[0].buffered, "{what} says whether it needs copying");
                let longest = plans.iter().flat_map(|p| &p.nodes).map(|n| n.extent.count).max();
                assert_eq!(longest, Some(plans[0].span_chunks), "{what} says its longest span");
                count += 1;
            }
        }
    }
    count
}

#[test]
fn every_algorithm_at_every_world_up_to_17() {
    let count: usize = (1..=17).map(|world| verify_all(&Topology::single_host(world))).sum();
    assert!(count > 17 * ALGORITHMS.len(), "{count}");
}

#[test]
fn every_algorithm_at_larger_worlds() {
    for world in [24, 32, 64] {
        verify_all(&Topology::single_host(world));
    }
}

#[test]
fn every_algorithm_on_several_hosts() {
    for (hosts, per_host) in [(2, 2), (2, 4), (3, 3), (4, 2), (5, 1)] {
        verify_all(&Topology::hosts(hosts, per_host));
    }
    verify_all(&Topology::from_host_of(&[0, 1, 0, 1, 2, 2]));
    verify_all(&Topology::from_host_of(&[0, 0, 1]));
}
