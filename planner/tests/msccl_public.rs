//! Public MSCCL plans, where they are at hand (../shared/data/msccl): what they become, counted as those who published them count.
#![cfg(feature = "msccl")]

use std::collections::HashMap;
use std::path::Path;

use hcomm_planner::export::{json, to_msccl};
use hcomm_planner::{Collective, Overlay, Plan, Sink, Source, verify};

/// File, collective, ranks, how it may be called, nodes (steps less `nop`s), and nodes on the longest way.
const FILES: [(&str, Collective, usize, Overlay, usize, usize); 9] = [
    ("astrasim-custom_allreduce", Collective::AllReduce, 8, Overlay::InPlace, 224, 28),
    ("azsched-ncv4-ag_hier_4_Simple", Collective::AllGather, 4, Overlay::Apart, 96, 3),
    ("azsched-ncv4-ar_hier_12_Simple", Collective::AllReduce, 4, Overlay::InPlace, 336, 7),
    ("azsched-ncv4-ar_tree_12_LL", Collective::AllReduce, 4, Overlay::InPlace, 192, 8),
    ("azsched-ndv4-a2a2ll", Collective::AllToAll, 8, Overlay::Apart, 240, 2),
    ("azsched-ndv4-ag-1k-512k", Collective::AllGather, 8, Overlay::InPlace, 224, 2),
    ("azsched-ndv4-ap2ll", Collective::AllReduce, 8, Overlay::InPlace, 1344, 11),
    ("azsched-ndv4-r48ll", Collective::AllReduce, 8, Overlay::InPlace, 960, 15),
    ("rccl-msccl-algorithms-alltoall-8n-0-9kb", Collective::AllToAll, 8, Overlay::Apart, 120, 2),
];

#[test]
fn public_files_become_what_their_publishers_count() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/data/msccl");
    if !folder.is_dir() {
        return println!("skipped: no ../shared/data/msccl here");
    }
    for (name, collective, world, overlay, nodes, longest) in FILES {
        let path = folder.join(name).with_extension("xml");
        let text =
            std::fs::read_to_string(&path).unwrap_or_else(|cause| panic!("{}: {cause}", path.display()));
        let plans = Plan::from_msccl(&text).unwrap_or_else(|error| panic!("{name}: {error}"));
        let first = &plans[0];
        assert_eq!((first.collective, first.world, first.overlay), (collective, world, overlay), "{name}");
        assert!(!first.buffered, "{name}");
        assert_eq!(plans.iter().map(|plan| plan.nodes.len()).sum::<usize>(), nodes, "{name}");
        assert_eq!(longest_way(&plans), longest, "{name}");
        assert_eq!(json::read(&json::write(&plans)).expect("what was written"), plans, "{name}");
        let again = to_msccl(&plans).unwrap_or_else(|error| panic!("{name}: {error}"));
        let again = Plan::from_msccl(&again).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(
            verify(&again, 2).map(|proved| proved.messages),
            verify(&plans, 2).map(|proved| proved.messages)
        );
        assert_eq!((again[0].overlay, again[0].bytes), (overlay, first.bytes), "{name}");
    }
}

/// Nodes on the longest way: what a node reads was written, or sent, by the one before.
fn longest_way(plans: &[Plan]) -> usize {
    let mut sent: HashMap<(usize, usize, u8), Vec<(usize, usize)>> = HashMap::new();
    let mut received: HashMap<(usize, usize, u8), Vec<(usize, usize)>> = HashMap::new();
    for plan in plans {
        for (id, node) in plan.nodes.iter().enumerate() {
            for sink in plan.sinks_of(node) {
                let Sink::Message { channel } = sink else { continue };
                let end = plan.channels[*channel as usize];
                sent.entry((plan.rank, end.peer, end.index)).or_default().push((plan.rank, id));
            }
            for source in plan.sources_of(node) {
                let Source::Message { channel, .. } = source else { continue };
                let end = plan.channels[*channel as usize];
                received.entry((end.peer, plan.rank, end.index)).or_default().push((plan.rank, id));
            }
        }
    }
    let mut before: HashMap<(usize, usize), Vec<(usize, usize)>> = HashMap::new();
    for (channel, receivers) in &received {
        for (receiver, sender) in receivers.iter().zip(&sent[channel]) {
            before.entry(*receiver).or_default().push(*sender);
        }
    }
    for plan in plans {
        for (id, node) in plan.nodes.iter().enumerate() {
            let deps = plan.deps_of(node).iter().map(|dep| (plan.rank, *dep as usize));
            before.entry((plan.rank, id)).or_default().extend(deps);
            let lane = &plan.lanes[node.lane as usize];
            if id > lane.nodes.start as usize {
                before.entry((plan.rank, id)).or_default().push((plan.rank, id - 1));
            }
        }
    }
    let mut lengths = HashMap::new();
    let all = plans.iter().flat_map(|plan| (0..plan.nodes.len()).map(|id| (plan.rank, id)));
    all.map(|node| length(node, &before, &mut lengths)).max().unwrap_or(0)
}

fn length(
    node: (usize, usize),
    before: &HashMap<(usize, usize), Vec<(usize, usize)>>,
    lengths: &mut HashMap<(usize, usize), usize>,
) -> usize {
    if let Some(length) = lengths.get(&node) {
        return *length;
    }
    let longest = before[&node].iter().map(|earlier| length(*earlier, before, lengths)).max().unwrap_or(0);
    lengths.insert(node, longest + 1);
    longest + 1
}
