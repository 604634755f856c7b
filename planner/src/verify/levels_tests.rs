//! What the matrix of `tests` leaves out: two-level plans made of any pair, over hosts of many shapes, and every root.

use super::tests::{call, check};
use crate::algorithm::{Algorithm, Pair};
use crate::choose::Candidate;
use crate::request::Collective;
use crate::topology::Topology;

const BLOCKS: [Collective; 3] = [Collective::AllGather, Collective::ReduceScatter, Collective::AllToAll];

fn hierarchical(first: &'static str, second: &'static str) -> Candidate {
    let algorithm = Algorithm::named("hierarchical").expect("a registered algorithm");
    Candidate {
        algorithm,
        channels: 1,
        pair: Some(Pair { first, second }),
        tile_bytes: Candidate::WHOLE_SLOT,
    }
}

#[test]
fn two_levels_of_any_two_algorithms_that_serve_the_collective() {
    let names = ["direct", "pairwise", "ring", "bruck", "pat", "recursive_halving", "neighbour_exchange"];
    let mut proved = 0;
    for topology in
        [Topology::hosts(2, 3), Topology::hosts(4, 4), Topology::hosts(6, 2), Topology::hosts(3, 8)]
    {
        for (first, second) in names.iter().flat_map(|first| names.map(|second| (*first, second))) {
            let candidate = hierarchical(first, second);
            for collective in BLOCKS {
                let call = candidate.apply(&call(collective, 0, &topology));
                if candidate.supports(&call).is_ok() {
                    check(&candidate, &call);
                    proved += 1;
                }
            }
        }
    }
    println!("{proved} plans proved");
    assert!(proved > 150, "{proved}");
}

#[test]
fn rails_of_ranks_that_are_not_numbered_host_by_host() {
    let topologies = [
        Topology::from_host_of(&[0, 1, 0, 1, 0, 1, 0, 1]),
        Topology::from_host_of(&[1, 1, 1, 0, 0, 0]),
        Topology::from_host_of(&[0, 0, 1, 2, 2, 1]),
        Topology::from_host_of(&(0..40).map(|rank| rank % 8).collect::<Vec<_>>()),
    ];
    for topology in &topologies {
        for (first, second) in [("direct", "direct"), ("direct", "bruck"), ("bruck", "bruck")] {
            for collective in BLOCKS {
                let candidate = hierarchical(first, second);
                check(&candidate, &candidate.apply(&call(collective, 0, topology)));
            }
        }
    }
}

#[test]
fn messages_to_a_host_of_more_ranks_than_a_message_holds_blocks() {
    for second in ["direct", "bruck"] {
        let topology = Topology::hosts(3, 34);
        let candidate = hierarchical("direct", second);
        check(&candidate, &candidate.apply(&call(Collective::AllToAll, 0, &topology)));
    }
}

#[test]
fn hosts_of_any_sizes_gather_and_scatter_directly() {
    let hosts = [
        vec![0, 0, 0, 1, 1, 2],
        vec![0, 1, 1, 1, 1, 2, 2],
        vec![1, 0, 0, 1, 1],
        vec![0, 0, 0, 0, 0, 0, 0, 1, 2, 2, 3, 3, 3],
        vec![2, 1, 0, 1, 2, 2, 1, 2],
    ];
    let candidate = hierarchical("direct", "direct");
    for topology in hosts.map(|hosts| Topology::from_host_of(&hosts)) {
        for collective in [Collective::AllGather, Collective::ReduceScatter] {
            check(&candidate, &candidate.apply(&call(collective, 0, &topology)));
        }
        let refused = |candidate: Candidate, collective| {
            candidate.supports(&call(collective, 0, &topology)).expect_err("no rails")
        };
        let text = refused(hierarchical("ring", "ring"), Collective::AllReduce);
        assert!(text.starts_with("needs reduce by 'ring', which does "), "{text}");
        assert!(text.ends_with(" (reduce_scatter would do in hosts with equally many ranks)"), "{text}");
        let text = refused(candidate, Collective::AllToAll);
        assert!(text.contains("equally many ranks"), "{text}");
        let text = refused(hierarchical("direct", "ring"), Collective::AllGather);
        assert!(text.contains("'direct' and 'direct'"), "{text}");
    }
}

#[test]
fn an_inner_algorithm_that_neither_scatters_nor_reduces_is_refused_for_both() {
    let topology = Topology::hosts(2, 4);
    let call = call(Collective::AllReduce, 0, &topology);
    let refused = |first| hierarchical(first, "ring").supports(&call).expect_err("nothing for inside");
    assert_eq!(
        refused("one_shot"),
        "needs reduce_scatter by 'one_shot', which does all_reduce, not reduce_scatter; or else it needs reduce by 'one_shot', \
         which does all_reduce, not reduce"
    );
    let text = refused("hierarchical");
    assert!(
        text.starts_with("needs reduce_scatter by 'hierarchical', which needs at least 2 hosts"),
        "{text}"
    );
    assert!(text.contains("; or else it needs reduce by 'hierarchical', which does "), "{text}");
}

#[test]
fn every_root_of_every_rooted_collective() {
    for world in 2..=12 {
        let topology = Topology::single_host(world);
        for candidate in Candidate::all() {
            for collective in candidate.algorithm.collectives.iter().filter(|c| c.is_rooted()) {
                for root in 0..world {
                    let call = candidate.apply(&call(*collective, root, &topology));
                    candidate.supports(&call).expect("every root is served");
                    check(&candidate, &call);
                }
            }
        }
    }
}
