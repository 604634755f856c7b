//! The work that an algorithm declares, compared with what its plans do.

use super::joined::Joined;
use super::order::{Rules, run};
use super::tests::call;
use crate::algorithm::Call;
use crate::choose::{Candidate, PerLink, Work};
use crate::compile::compile_with;
use crate::plan::{Node, Plan, Sink, Source};
use crate::request::Collective;
use crate::topology::{LinkClass, Topology};

/// What the busiest rank of some plans does.
fn measured(call: &Call<'_>, plans: &[Plan]) -> Work {
    let traffic = |class| traffic(call, plans, class);
    let (local, remote) = (traffic(LinkClass::Local), traffic(LinkClass::Remote));
    let most = |of: &dyn Fn(&Plan, &Node) -> f64| {
        let one = |plan: &Plan| plan.nodes.iter().map(|node| of(plan, node)).sum::<f64>();
        plans.iter().map(one).fold(0.0, f64::max)
    };
    let folded = |plan: &Plan, node: &Node| (node.sources.len() as f64 - 1.0) * part(call, plan, node);
    let copied = |plan: &Plan, node: &Node| match plan.sources_of(node) {
        [Source::Span { .. }] => {
            let kept = plan.sinks_of(node).iter().filter(|sink| matches!(sink, Sink::Span(_))).count();
            kept as f64 * part(call, plan, node)
        }
        _ => 0.0,
    };
    let (steps, folds) = depths(plans);
    Work {
        steps: PerLink { local: steps as f64, remote: 0.0 },
        messages: PerLink { local: local.0, remote: remote.0 },
        sent: PerLink { local: local.1, remote: remote.1 },
        reduced: if call.collective.reduces() { most(&folded) } else { 0.0 },
        copied: if call.collective == Collective::Barrier { 0.0 } else { most(&copied) },
        roundings: if call.collective.reduces() { folds as u32 } else { 0 },
    }
}

/// The part of the full buffer that a node moves.
fn part(call: &Call<'_>, plan: &Plan, node: &Node) -> f64 {
    let blocks = match call.collective {
        Collective::AllReduce | Collective::Broadcast | Collective::Reduce => 1,
        Collective::Barrier => return 0.0,
        _ => call.world,
    };
    f64::from(node.extent.count) / (blocks as f64 * f64::from(plan.parts))
}

/// Messages of the busiest rank, and bytes of the busiest rank or, between hosts, host.
fn traffic(call: &Call<'_>, plans: &[Plan], class: LinkClass) -> (f64, f64) {
    let mut messages = vec![[0.0_f64; 2]; call.world];
    let mut bytes = vec![[0.0_f64; 2]; call.world];
    for plan in plans {
        for node in &plan.nodes {
            let incoming = plan.sources_of(node).iter().filter_map(|source| match source {
                Source::Message { channel, .. } => Some((*channel, 1)),
                Source::Span { .. } => None,
            });
            let outgoing = plan.sinks_of(node).iter().filter_map(|sink| match sink {
                Sink::Message { channel } => Some((*channel, 0)),
                Sink::Span(_) => None,
            });
            for (channel, way) in incoming.chain(outgoing) {
                let peer = plan.channels[channel as usize].peer;
                if call.topology.link(plan.rank, peer) != class {
                    continue;
                }
                messages[plan.rank][way] += 1.0;
                let payer = match class {
                    LinkClass::Local => plan.rank,
                    LinkClass::Remote => call.topology.place(plan.rank).host,
                };
                bytes[payer][way] += part(call, plan, node);
            }
        }
    }
    let most = |list: &[[f64; 2]]| list.iter().flatten().copied().fold(0.0, f64::max);
    (most(&messages), most(&bytes))
}

/// The longest chain of messages, and of folds.
fn depths(plans: &[Plan]) -> (usize, usize) {
    let joined = Joined::new(plans).expect("joined");
    let order = run(&joined, Rules { tiles: 1, depth: usize::MAX / 2, late: false }).expect("an order");
    let mut depth = vec![(0, 0); joined.links.len()];
    for at in order {
        let links = &joined.links[at];
        let (plan, node) = joined.node(at);
        let folds = usize::from(node.sources.len() > 1);
        let mut most = (0, 0);
        if at > joined.lanes[links.lane].start {
            most.0 = depth[at - 1].0;
        }
        for dep in &links.deps {
            most.0 = most.0.max(depth[*dep].0);
            most.1 = most.1.max(depth[*dep].1);
        }
        for m in &links.received {
            let from = depth[joined.messages[*m].sender];
            most.0 = most.0.max(from.0 + 1);
            most.1 = most.1.max(from.1);
        }
        // A lane's order may stand for a dependency.
        if at > joined.lanes[links.lane].start
            && plan.sources_of(node).iter().any(|s| matches!(s, Source::Span { .. }))
        {
            most.1 = most.1.max(depth[at - 1].1);
        }
        depth[at] = (most.0, most.1 + folds);
    }
    (depth.iter().map(|d| d.0).max().unwrap_or(0), depth.iter().map(|d| d.1).max().unwrap_or(0))
}

#[test]
fn declared() {
    let mut topologies: Vec<Topology> = (2..=17).map(Topology::single_host).collect();
    topologies.push(Topology::single_host(80));
    topologies.extend([
        Topology::hosts(2, 2),
        Topology::hosts(3, 3),
        Topology::hosts(4, 2),
        Topology::from_host_of(&[0, 0, 0, 1, 1, 2]),
        Topology::from_host_of(&[0, 1, 0, 1, 0, 1]),
    ]);
    for topology in &topologies {
        for candidate in Candidate::all() {
            for collective in candidate.algorithm.collectives {
                for root in [0, topology.world() / 2] {
                    let call = candidate.apply(&call(*collective, root, topology));
                    if candidate.algorithm.supports(&call).is_err() || (root > 0 && !collective.is_rooted()) {
                        continue;
                    }
                    let plans: Vec<Plan> =
                        (0..call.world).map(|rank| compile_with(candidate.algorithm, &call, rank)).collect();
                    let (said, done) = (candidate.work(&call), measured(&call, &plans));
                    let total = |w: &PerLink| w.local + w.remote;
                    let mut diffs = Vec::new();
                    let mut cmp = |name: &str, a: f64, b: f64| {
                        if (a - b).abs() > 1e-6 * a.max(b) {
                            diffs.push(format!("{name}: said {a:.3} done {b:.3}"));
                        }
                    };
                    cmp("steps", total(&said.steps), total(&done.steps));
                    cmp("ml", said.messages.local, done.messages.local);
                    cmp("mr", said.messages.remote, done.messages.remote);
                    cmp("sl", said.sent.local, done.sent.local);
                    cmp("sr", said.sent.remote, done.sent.remote);
                    cmp("red", said.reduced, done.reduced);
                    cmp("cop", said.copied, done.copied);
                    cmp("round", f64::from(said.roundings), f64::from(done.roundings));
                    if !diffs.is_empty() {
                        println!(
                            "{collective} {candidate} n={} hosts={} root {root}: {}",
                            call.world,
                            topology.host_names().len(),
                            diffs.join(", ")
                        );
                    }
                }
            }
        }
    }
}
