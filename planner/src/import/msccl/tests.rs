//! The small files of `tests/data/msccl` become the plans that they should; `fault_tests` has those that are wrong.

use super::*;
use crate::export::json;
use crate::plan::{ByteRange, LaneKind, NodeKind};
use crate::request::Collective;
use crate::verify::verify;

macro_rules! file {
    ($name:literal) => {
        include_str!(concat!("../../../tests/data/msccl/", $name, ".xml"))
    };
}

const RING: &str = file!("all_reduce_ring_3");
const PAIRS: &str = file!("all_reduce_pairs_3");
const COPY: &str = file!("all_gather_copy_3");

/// What a file must become: text, collective, parts, how it may be called, buffered, nodes, channels per pair.
type Expected = (&'static str, Collective, u32, Overlay, bool, usize, u8);

const FILES: [Expected; 11] = [
    (RING, Collective::AllReduce, 3, Overlay::Either, false, 15, 1),
    (PAIRS, Collective::AllReduce, 6, Overlay::InPlace, false, 30, 1),
    (file!("all_to_all_2"), Collective::AllToAll, 2, Overlay::Apart, false, 10, 2),
    (file!("all_to_all_swap_2"), Collective::AllToAll, 1, Overlay::InPlace, true, 4, 1),
    (COPY, Collective::AllGather, 1, Overlay::Either, false, 12, 1),
    (file!("reduce_scatter_ring_3"), Collective::ReduceScatter, 1, Overlay::InPlace, false, 15, 1),
    (file!("reduce_scatter_room_2"), Collective::ReduceScatter, 2, Overlay::Apart, false, 16, 1),
    (file!("broadcast_3"), Collective::Broadcast, 2, Overlay::Either, false, 5, 1),
    (file!("reduce_chain_3"), Collective::Reduce, 1, Overlay::Apart, false, 4, 1),
    (file!("gather_2"), Collective::Gather, 1, Overlay::Either, false, 3, 1),
    (file!("scatter_2"), Collective::Scatter, 1, Overlay::Either, false, 3, 1),
];

#[test]
fn files_become_the_plans_that_they_say() {
    for (text, collective, parts, overlay, buffered, nodes, channels) in FILES {
        let plans = import(text).unwrap_or_else(|error| panic!("{error}\n{text}"));
        let first = &plans[0];
        let found = (first.collective, first.parts, first.overlay, first.buffered, first.channels_per_pair);
        assert_eq!(found, (collective, parts, overlay, buffered, channels), "{}", first.algorithm);
        assert_eq!(plans.iter().map(|plan| plan.nodes.len()).sum::<usize>(), nodes, "{}", first.algorithm);
        assert!(text.contains(&format!("name=\"{}\"", first.algorithm)));
        assert_eq!(verify(&plans, 2).map(|verified| verified.needs_copying), Ok(buffered));
        assert!(plans.iter().all(|plan| plan.id == first.id && plan.id != 0));
        assert_eq!(json::read(&json::write(&plans)).expect("what was written"), plans);
    }
}

#[test]
fn every_type_of_step_is_the_node_that_it_should_be() {
    let kinds = |text| {
        let plans = import(text).expect("a good file");
        let kinds: Vec<NodeKind> = plans[0].nodes.iter().map(|node| plans[0].kind_of(node)).collect();
        (kinds, plans)
    };
    let (ring, plans) = kinds(RING);
    use NodeKind::*;
    assert_eq!(ring, [Send, RecvReduceSend, RecvReduceSend, RecvCopySend, Recv]);
    assert!(matches!(plans[0].lanes[..], [ref lane] if lane.kind == LaneKind::Worker { index: 0 }));
    let words: Vec<String> =
        plans[0].nodes.iter().map(|node| crate::export::words::node(&plans[0], node)).collect();
    assert_eq!(words[1], "recv-reduce-send [from rank 2 ch 0]* + in[2]* -> [to rank 1 ch 0]");
    assert_eq!(words[2], "recv-reduce-send [from rank 2 ch 0] + in[1]* -> out[1], [to rank 1 ch 0] !");
    let (pairs, plans) = kinds(PAIRS);
    assert_eq!(pairs, [Reduce, Reduce, Recv, Recv, Recv, Recv, Send, Send, Send, Send]);
    assert_eq!(plans[0].lanes[1].kind, LaneKind::Shm { peer: 1 });
    let waits = |node: usize| plans[0].deps_of(&plans[0].nodes[node]);
    assert_eq!(waits(0), [2, 4], "the wait of the nop before it, and its own");
    assert_eq!(waits(7), [1]);
    assert_eq!(waits(3), [6], "what it overwrites may still be read by rank 1");
    assert_eq!(plans[0].bytes, ByteRange { min: 48, max: Some(65536) });
    let (scattered, _) = kinds(file!("reduce_scatter_ring_3"));
    assert_eq!(scattered, [Copy, Send, RecvReduce, Send, RecvReduce]);
}

#[test]
fn gather_counts_bytes_by_the_block() {
    let plans = import(file!("gather_2")).expect("a good file");
    assert_eq!(plans[0].bytes, ByteRange { min: 16, max: Some(160) });
}

#[test]
fn ids_hash_all_that_a_file_says() {
    let id = |text: &str| import(text).expect("a good file")[1].id;
    assert_eq!(id(RING), id(RING));
    assert_ne!(id(RING), id(&RING.replace("maxBytes=\"0\"", "maxBytes=\"9\"")));
    assert_ne!(id(RING), id(&RING.replace("name=\"all", "name=\"All")));
    assert_eq!(
        id(PAIRS),
        id(&PAIRS.replace("redop=\"sum\"", "redop=\"max\"")),
        "unknown attributes are ignored"
    );
}
