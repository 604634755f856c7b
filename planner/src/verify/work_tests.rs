//! The work that an algorithm declares, compared with what its plans do.

use std::collections::HashMap;

use super::joined::Joined;
use super::order::{Rules, run};
use super::tests::call;
use crate::algorithm::Call;
use crate::choose::{Candidate, PerLink, Work};
use crate::compile::compile_with;
use crate::plan::{Node, Plan, Sink, Source};
use crate::request::Collective;
use crate::shape::BufferKind;
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

/// The longest chain of messages, and the most folds that one after another make a value.
fn depths(plans: &[Plan]) -> (usize, usize) {
    let joined = Joined::new(plans).expect("joined");
    let order = run(&joined, Rules { tiles: 1, depth: usize::MAX / 2, late: false }).expect("an order");
    let mut waits = vec![0; joined.links.len()];
    let mut memory: HashMap<(usize, BufferKind, u32), usize> = HashMap::new();
    let mut messages: Vec<Vec<usize>> = vec![Vec::new(); joined.messages.len()];
    let mut most = 0;
    for at in order {
        let links = &joined.links[at];
        let before = (at > joined.lanes[links.lane].start).then(|| waits[at - 1]);
        let deps = links.deps.iter().map(|dep| waits[*dep]);
        let arrived = links.received.iter().map(|m| waits[joined.messages[*m].sender] + 1);
        waits[at] = before.into_iter().chain(deps).chain(arrived).max().unwrap_or(0);

        let (plan, node) = joined.node(at);
        let count = node.extent.count as usize;
        let mut folds = vec![0; count];
        let mut received = links.received.iter();
        for source in plan.sources_of(node) {
            let of: Vec<usize> = match source {
                Source::Span { span, .. } => span
                    .chunks()
                    .map(|c| memory.get(&(plan.rank, span.buffer, c)).copied().unwrap_or(0))
                    .collect(),
                Source::Message { .. } => messages[*received.next().expect("a message")].clone(),
            };
            folds.iter_mut().zip(of).for_each(|(a, b)| *a = b.max(*a));
        }
        let one = usize::from(node.sources.len() > 1);
        folds.iter_mut().for_each(|f| *f += one);
        most = most.max(folds.iter().copied().max().unwrap_or(0));
        let mut sent = links.sent.iter();
        for sink in plan.sinks_of(node) {
            match sink {
                Sink::Span(span) => span.chunks().zip(&folds).for_each(|(c, f)| {
                    memory.insert((plan.rank, span.buffer, c), *f);
                }),
                Sink::Message { .. } => messages[*sent.next().expect("a message")] = folds.clone(),
            }
        }
    }
    (waits.into_iter().max().unwrap_or(0), most)
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
