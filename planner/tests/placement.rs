//! Two hosts of four GPUs and two NICs: where the nodes of a hierarchical all_reduce go, in the plan and in the drawing.

use hcomm_ops::{DType, ReduceOp};
use hcomm_planner::topology::LinkClass;
use hcomm_planner::{
    Choice, Collective, Costs, LaneKind, Node, Plan, Request, Sink, Source, Topology, compile_all, export,
    verify,
};

fn topology() -> Topology {
    Topology::parse(include_str!("data/two-hosts-four-gpus-two-nics.json")).expect("a good file")
}

fn plans(topology: &Topology) -> Vec<Plan> {
    let request = Request::new(Collective::AllReduce, DType::F32, ReduceOp::Sum, 1 << 20);
    let choice = Choice::new(topology, Costs::default());
    compile_all(&request.with_algorithm("hierarchical(direct,ring)"), topology, &choice)
        .expect("a supported call")
}

/// The peers that a node exchanges messages with.
fn peers(plan: &Plan, node: &Node) -> Vec<usize> {
    let incoming = plan.sources_of(node).iter().filter_map(|source| match source {
        Source::Message { channel, .. } => Some(*channel),
        Source::Span { .. } => None,
    });
    let outgoing = plan.sinks_of(node).iter().filter_map(|sink| match sink {
        Sink::Message { channel } => Some(*channel),
        Sink::Span(_) => None,
    });
    incoming.chain(outgoing).map(|channel| plan.channels[channel as usize].peer).collect()
}

/// The number of the GPU and of the NIC on its socket, by the way the file lists them.
fn devices(rank: usize) -> (u32, u32) {
    let (host, local) = (rank / 4, rank % 4);
    ((host * 4 + local) as u32, (host * 2 + local / 2) as u32)
}

#[test]
fn every_reduce_is_on_a_stream_and_every_cross_host_message_on_the_nearest_nic() {
    let topology = topology();
    let plans = plans(&topology);
    let (mut reduces, mut crossing) = (0, 0);
    for plan in &plans {
        let (gpu, nic) = devices(plan.rank);
        for node in &plan.nodes {
            let kind = plan.lanes[node.lane as usize].kind;
            let far: Vec<_> = peers(plan, node)
                .into_iter()
                .filter(|p| topology.link(plan.rank, *p) == LinkClass::Remote)
                .collect();
            if node.sources.len() > 1 {
                assert_eq!(kind, LaneKind::Stream { gpu, priority: 0 }, "rank {}", plan.rank);
                reduces += 1;
            }
            if let [peer] = far[..] {
                assert_eq!(kind, LaneKind::QueuePair { nic, peer }, "rank {}", plan.rank);
                crossing += 1;
            } else {
                assert!(matches!(kind, LaneKind::Stream { .. }), "{kind:?}");
                assert_eq!(far.len(), 0);
            }
        }
    }
    assert_eq!(reduces, 8 * (1 + 1), "per rank: its shard inside the host, one chunk of it across");
    assert_eq!(crossing, 8 * 2 * 2, "per rank: one chunk each way in both phases");
}

#[test]
fn the_plan_is_proved() {
    let plans = plans(&topology());
    let verified = verify(&plans, 2).unwrap_or_else(|error| panic!("{error}"));
    assert!(!verified.needs_copying);
}

#[test]
fn it_is_drawn_so() {
    let plans = plans(&topology());
    let dot = export::dot(&plans, None);
    let mut lane = "";
    let (mut reduces, mut crossing) = (0, 0);
    for line in dot.lines().map(str::trim) {
        if line.starts_with("label=\"lane ") {
            lane = line;
        }
        let Some((_, label)) = line.split_once("[label=\"").filter(|_| line.contains("tooltip=")) else {
            continue;
        };
        let heading = label.split("\\n").next().unwrap_or("");
        if heading.contains(" reduce") || heading.contains("recv-reduce") {
            assert!(lane.contains("stream of gpu"), "{line} is in {lane}");
            reduces += 1;
        }
        if lane.contains("queue pair of nic") {
            crossing += 1;
        }
    }
    assert_eq!(reduces, 16);
    // The legend has no lane of its own, and comes last.
    assert!(crossing >= 32, "{crossing}");
    for rank in 0..8 {
        let (_, nic) = devices(rank);
        let peer = (rank + 4) % 8;
        let is_named = |way: &str| dot.contains(&format!("queue pair of nic {nic} {way} rank {peer}"));
        assert!(["to", "from", "with"].into_iter().any(is_named));
    }
    let svg = export::svg(&plans, None);
    assert!(svg.contains("stream of gpu 7") && svg.contains("queue pair of nic 3"));
    // With the topology, devices have the names that its file gives them.
    let topology = topology();
    let drawing = export::Drawing::new(&plans).with_topology(&topology);
    for (text, kind) in [(drawing.dot(), "dot"), (drawing.svg(), "svg"), (drawing.html(), "html")] {
        let names = topology.gpus().iter().map(|gpu| format!("stream of {}", gpu.name));
        let names = names.chain(topology.nics().iter().map(|nic| format!("queue pair of {}", nic.name)));
        for name in names {
            assert!(text.contains(&name), "{kind}: {name}");
        }
        assert!(!text.contains("of gpu 7") && !text.contains("of nic 3"), "{kind}");
    }
}
