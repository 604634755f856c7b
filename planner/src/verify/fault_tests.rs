//! Planted faults: each is caught by the check meant for it, which names the nodes.

use super::tests::{call, plans};
use super::*;
use crate::plan::{Node, NodeId, NodeKind, Sink, Source, Span};
use crate::request::Collective;
use crate::shape::BufferKind;
use crate::topology::Topology;

fn built(name: &str, collective: Collective, world: usize) -> Vec<Plan> {
    let topology = Topology::single_host(world);
    plans(name, &call(collective, 0, &topology))
}

fn fault(plans: &[Plan], depth: usize) -> VerifyError {
    verify(plans, depth).expect_err("a planted fault")
}

/// The first node of a slice with the given property.
fn find(plan: &Plan, wanted: impl Fn(&Node) -> bool) -> NodeId {
    plan.nodes.iter().position(wanted).expect("the plan has such a node") as NodeId
}

fn drop_deps(plan: &mut Plan, id: NodeId) {
    plan.nodes[id as usize].deps = 0..0;
}

#[test]
fn a_dropped_dependency() {
    let mut plans = built("ring", Collective::AllReduce, 4);
    let send = find(&plans[1], |n| plans[1].kind_of(n) == NodeKind::Send && !n.deps.is_empty());
    drop_deps(&mut plans[1], send);
    let error = fault(&plans, 2);
    assert!(
        matches!(&error, VerifyError::Race { first, second, .. } if first.rank == 1 && second.node == send),
        "{error}"
    );
}

#[test]
fn a_swapped_receive() {
    let mut plans = built("ring", Collective::AllGather, 4);
    let last = plans[2].nodes.len() - 1;
    // The last two nodes take one message each; the second takes it to its output only.
    let sinks = |plan: &Plan, id: usize| plan.nodes[id].sinks.start as usize;
    let (a, b) = (sinks(&plans[2], last - 1), sinks(&plans[2], last));
    plans[2].sinks.swap(a, b);
    let extent = plans[2].nodes[last].extent;
    plans[2].nodes[last].extent = std::mem::replace(&mut plans[2].nodes[last - 1].extent, extent);
    let error = fault(&plans, 2);
    assert!(matches!(&error, VerifyError::MessageSize { receiver, .. } if receiver.rank == 2), "{error}");
    // Where all blocks are equally long, it shows in the result.
    plans.iter_mut().for_each(|plan| plan.even = true);
    let error = fault(&plans, 2);
    let VerifyError::WrongResult { rank: 2, chain, .. } = &error else { panic!("{error}") };
    assert!(chain.0.len() > 1, "the chain goes back to where the block came from: {error}");
}

#[test]
fn a_fifo_too_shallow() {
    let plans = built("ring", Collective::AllReduce, 4);
    assert!(verify(&plans, 2).is_ok());
    let error = fault(&plans, 1);
    let VerifyError::Deadlock { depth: 1, chain } = &error else { panic!("{error}") };
    assert_eq!(chain.0.len(), 4, "each rank waits for room at the next: {error}");
}

#[test]
fn a_double_counted_chunk() {
    let mut plans = built("ring", Collective::AllReduce, 4);
    let fold = find(&plans[1], |n| n.finish);
    let range = plans[1].nodes[fold as usize].sources.clone();
    let own = plans[1].sources[range.end as usize - 1];
    let start = plans[1].sources.len() as u32;
    plans[1].sources.extend_from_within(range.start as usize..range.end as usize);
    plans[1].sources.push(own);
    plans[1].nodes[fold as usize].sources = start..plans[1].sources.len() as u32;
    let error = fault(&plans, 2);
    let VerifyError::DoubleCount { contributor: 1, chain } = &error else { panic!("{error}") };
    assert_eq!(chain.0[0].0.node, fold);
}

#[test]
fn a_chunk_that_nothing_has_written() {
    let mut plans = built("two_shot", Collective::AllReduce, 3);
    let fold = find(&plans[1], |n| n.finish);
    let range = plans[1].nodes[fold as usize].sources.clone();
    for source in &mut plans[1].sources[range.start as usize..range.end as usize] {
        if let Source::Span { span, .. } = source {
            span.buffer = BufferKind::Output;
        }
    }
    let error = fault(&plans, 2);
    assert!(matches!(&error, VerifyError::ReadsNothing { at, .. } if at.rank == 1), "{error}");
}

/// The last fold of recursive doubling overwrites, in place, what the first node sent to another rank.
#[test]
fn a_span_overwritten_before_its_reader_is_done() {
    let mut plans = built("recursive_doubling", Collective::AllReduce, 4);
    on_one_lane(&mut plans[0]);
    let (send, fold) = (1, 2);
    assert_eq!(plans[0].kind_of(&plans[0].nodes[send]), NodeKind::Send);
    assert!(verify(&plans, 2).is_ok(), "the edge keeps them apart");
    drop_dep_on(&mut plans[0], fold, send);
    let error = fault(&plans, 2);
    let VerifyError::OverwrittenInUse { reader, writer, in_place: true, .. } = &error else {
        panic!("{error}")
    };
    assert_eq!((reader.node as usize, writer.node as usize), (send, fold));
}

#[test]
fn a_span_overwritten_by_a_lane_that_does_not_wait() {
    let mut plans = built("recursive_doubling", Collective::AllReduce, 4);
    let fold = find(&plans[0], |n| n.finish) as usize;
    drop_dep_on(&mut plans[0], fold, 0);
    let error = fault(&plans, 2);
    assert!(matches!(&error, VerifyError::Race { in_place: true, .. }), "{error}");
}

/// A peer that answers only after it has read needs no edge: the message says it.
#[test]
fn an_order_that_messages_keep() {
    let mut plans = built("two_shot", Collective::AllReduce, 3);
    let writes = |n: &Node| plans[0].sinks_of(n) == [Sink::Span(Span::output(1))];
    let overwriting = find(&plans[0], writes);
    assert!(!plans[0].nodes[overwriting as usize].deps.is_empty());
    drop_deps(&mut plans[0], overwriting);
    assert!(verify(&plans, 2).is_ok());
}

/// Puts the send and the last fold of rank 0's three nodes on one lane: nodes 1 and 2.
fn on_one_lane(plan: &mut Plan) {
    assert_eq!(plan.nodes.len(), 3);
    plan.nodes.swap(0, 1);
    let renumbered = |id: &mut NodeId| *id = [1, 0, 2][*id as usize];
    plan.deps.iter_mut().for_each(renumbered);
    plan.lanes.truncate(2);
    plan.lanes[0].nodes = 0..1;
    plan.lanes[1].nodes = 1..3;
    plan.nodes.iter_mut().zip([0, 1, 1]).for_each(|(node, lane)| node.lane = lane);
}

fn drop_dep_on(plan: &mut Plan, node: usize, dep: usize) {
    let left: Vec<_> =
        plan.deps_of(&plan.nodes[node]).iter().copied().filter(|d| *d as usize != dep).collect();
    assert!(left.len() < plan.nodes[node].deps.len(), "there is such a dependency");
    let start = plan.deps.len() as u32;
    plan.deps.extend(left);
    plan.nodes[node].deps = start..plan.deps.len() as u32;
}

#[test]
fn a_plan_that_needs_copying_and_does_not_say_so() {
    let mut plans = built("one_shot", Collective::AllReduce, 2);
    assert!(verify(&plans, 2).expect("it says so").needs_copying);
    plans.iter_mut().for_each(|plan| plan.buffered = false);
    let error = fault(&plans, 2);
    assert!(matches!(&error, VerifyError::NeedsCopying(chain) if chain.0.len() == 2), "{error}");
}

#[test]
fn a_circle() {
    let mut plans = built("two_shot", Collective::AllReduce, 2);
    let send = find(&plans[0], |n| plans[0].kind_of(n) == NodeKind::Send);
    let recv = find(&plans[0], |n| plans[0].kind_of(n) == NodeKind::Recv);
    let at = plans[0].deps.len() as u32;
    plans[0].deps.push(recv);
    plans[0].nodes[send as usize].deps = at..at + 1;
    let error = fault(&plans, 2);
    assert!(matches!(&error, VerifyError::Cycle(chain) if !chain.0.is_empty()), "{error}");
}

#[test]
fn ranks_that_fold_in_different_orders() {
    let mut plans = built("one_shot", Collective::AllReduce, 3);
    let fold = find(&plans[2], |n| n.finish);
    let start = plans[2].nodes[fold as usize].sources.start as usize;
    plans[2].sources.swap(start, start + 2);
    let error = fault(&plans, 2);
    assert!(matches!(&error, VerifyError::OrderDiffers { second_rank: 2, .. }), "{error}");
}

#[test]
fn a_missing_mark() {
    let mut plans = built("ring", Collective::ReduceScatter, 3);
    let fold = find(&plans[0], |n| n.finish);
    plans[0].nodes[fold as usize].finish = false;
    let error = fault(&plans, 2);
    assert!(matches!(&error, VerifyError::WrongMark { at, .. } if at.node == fold), "{error}");
}

#[test]
fn a_mark_where_nothing_is_folded() {
    let spoil: [fn(&mut Plan); 3] = [
        |p| p.nodes[0].finish = true,
        |p| p.sources.iter_mut().for_each(|source| *source = marked(*source)),
        |p| p.nodes.iter_mut().for_each(|node| node.finish = true),
    ];
    for (spoil, collective) in
        spoil.iter().zip([Collective::AllGather, Collective::AllToAll, Collective::Barrier])
    {
        let mut plans =
            built(if collective == Collective::Barrier { "dissemination" } else { "direct" }, collective, 4);
        plans.iter_mut().for_each(spoil);
        let error = fault(&plans, 2).to_string();
        assert!(error.contains(&format!("{collective} reduces nothing")), "{error}");
    }
}

fn marked(source: Source) -> Source {
    match source {
        Source::Span { span, .. } => Source::Span { span, first: true },
        Source::Message { channel, .. } => Source::Message { channel, first: true },
    }
}

#[test]
fn a_message_that_nobody_receives() {
    let mut plans = built("direct", Collective::Gather, 3);
    let recv = find(&plans[0], |n| plans[0].kind_of(n) == NodeKind::Recv);
    let at = plans[0].sources.len() as u32;
    plans[0].sources.push(Source::Span { span: Span::output(0), first: false });
    plans[0].nodes[recv as usize].sources = at..at + 1;
    let error = fault(&plans, 2);
    assert!(matches!(&error, VerifyError::Unmatched { destination: 0, sent: 1, received: 0, .. }), "{error}");
}

#[test]
fn slices_of_different_plans() {
    let mut plans = built("ring", Collective::AllReduce, 3);
    plans[1].id ^= 1;
    assert!(matches!(fault(&plans, 2), VerifyError::Slices(_)));
    plans.pop();
    assert!(matches!(fault(&plans, 2), VerifyError::Slices(_)));
    assert!(matches!(fault(&[], 2), VerifyError::Slices(_)));
}

#[test]
fn a_slice_that_contradicts_itself() {
    let spoil: [fn(&mut Plan); 8] = [
        |p| p.nodes[0].sources = 0..900,
        |p| p.nodes[0].extent.first = 900,
        |p| p.channels[0].peer = p.rank,
        |p| p.lanes[0].nodes.end += 1,
        |p| p.deps.push(900),
        |p| p.sinks[0] = Sink::Span(Span::input(0)),
        |p| p.nodes[1].sources = p.nodes[0].sources.start..p.nodes[1].sources.end,
        |p| p.nodes.iter_mut().for_each(|node| node.deps = 0..p.deps.len() as u32),
    ];
    for (i, spoil) in spoil.iter().enumerate() {
        let mut plans = built("ring", Collective::AllReduce, 3);
        spoil(&mut plans[1]);
        if i == 4 {
            let end = plans[1].deps.len() as u32;
            plans[1].nodes[0].deps = end - 1..end;
        }
        let error = fault(&plans, 2);
        assert!(matches!(&error, VerifyError::Malformed { rank: 1, .. }), "{i}: {error}");
        assert!(!error.to_string().contains('{'), "in words: {error}");
    }
}
