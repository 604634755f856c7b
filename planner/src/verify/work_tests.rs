//! The work that an algorithm declares is what its plans do: counted on the joined plans of all ranks, node by node.

use std::collections::HashMap;

use super::joined::{Global, Joined};
use super::order::{Rules, run};
use super::tests::call;
use crate::algorithm::Call;
use crate::choose::{Candidate, PerLink, Work};
use crate::compile::compile_with;
use crate::plan::{Direction, Node, Plan, Sink, Source};
use crate::request::Collective;
use crate::shape::BufferKind;
use crate::topology::{LinkClass, Topology};

#[test]
fn declared_work_is_what_the_plans_do() {
    let mut topologies: Vec<Topology> =
        (2..=10).chain([12, 15, 16, 17, 24, 80]).map(Topology::single_host).collect();
    topologies.extend([(2, 2), (3, 3), (4, 2), (2, 5), (5, 1)].map(|(k, g)| Topology::hosts(k, g)));
    let uneven =
        [vec![0, 0, 0, 1, 1, 2], vec![0, 1, 1, 1, 1, 2, 2], vec![0, 0, 0, 0, 0, 0, 0, 1, 2, 2, 3, 3, 3]];
    topologies.extend(uneven.map(|hosts| Topology::from_host_of(&hosts)));
    topologies.push(Topology::from_host_of(&[0, 1, 0, 1, 0, 1]));
    let compared: usize = topologies.iter().map(compare_all).sum();
    println!("{compared} works compared");
    assert!(compared > 500, "{compared}");
}

fn compare_all(topology: &Topology) -> usize {
    let mut compared = 0;
    for candidate in Candidate::all() {
        for collective in candidate.algorithm.collectives {
            let roots = if collective.is_rooted() { vec![0, topology.world() / 2] } else { vec![0] };
            for root in roots {
                let call = candidate.apply(&call(*collective, root, topology));
                // Large worlds are for those that send many chunks together.
                let is_large =
                    |world: usize| world > 24 && candidate.algorithm.layout(&call).span_chunks == 1;
                if candidate.supports(&call).is_ok() && !is_large(call.world) {
                    compare(&candidate, &call);
                    compared += 1;
                }
            }
        }
    }
    compared
}

fn compare(candidate: &Candidate, call: &Call<'_>) {
    let slice = |rank| compile_with(candidate.algorithm, call, rank);
    let plans: Vec<Plan> = (0..call.world).map(slice).collect();
    let (said, chains) = (candidate.work(call), Chains::of(call, &plans));
    let done = measured(call, &plans, &chains);
    let figures = [
        ("messages inside a host", said.messages.local, done.messages.local),
        ("messages to other hosts", said.messages.remote, done.messages.remote),
        ("bytes inside a host", said.sent.local, done.sent.local),
        ("bytes to other hosts", said.sent.remote, done.sent.remote),
        ("bytes folded", said.reduced, done.reduced),
        ("bytes copied", said.copied, done.copied),
        ("roundings", f64::from(said.roundings), f64::from(done.roundings)),
    ];
    let what = |what: &str| {
        let (by, world, hosts) = (candidate, call.world, call.topology.host_names().len());
        format!("{} by {by}, {world} ranks on {hosts} hosts, root {}: {what}", call.collective, call.root)
    };
    for (figure, said, done) in figures {
        let right = is_near(said, done, if candidate.pair.is_some() { 2.0 } else { 1.0 });
        assert!(right, "{}: {said} declared, {done} done", what(figure));
    }
    let steps = said.steps;
    assert!(steps_are_right(candidate, call, steps, &chains), "{}: {steps:?}, {chains:?}", what("steps"));
}

/// Whether what was declared is at most `times` as much as what was done, and what was done at most that of what was declared.
fn is_near(said: f64, done: f64, times: f64) -> bool {
    let times = times + 1e-9;
    said <= times * done && done <= times * said
}

/// Either the chain with most messages between hosts; or the longest one, said to be between hosts where any of it may be.
fn steps_are_right(candidate: &Candidate, call: &Call<'_>, said: PerLink, chains: &Chains) -> bool {
    let (remote, local) = chains.far;
    let all = said.local + said.remote;
    // Steps of two levels overlap, and pieces of a message wait in a lane for one another, as no sum of both can say.
    let is_loose =
        candidate.pair.is_some() || (candidate.algorithm.name == "swing" && !call.world.is_power_of_two());
    if is_loose {
        return is_near(all, chains.messages as f64, 2.0);
    }
    let is_far = said == PerLink { local: local as f64, remote: remote as f64 };
    is_far || (all == chains.messages as f64 && said.remote >= remote as f64)
}

/// What the busiest rank of some plans does.
fn measured(call: &Call<'_>, plans: &[Plan], chains: &Chains) -> Work {
    let (local, remote) =
        (Traffic::of(call, plans, LinkClass::Local), Traffic::of(call, plans, LinkClass::Remote));
    let busiest = |of: &dyn Fn(&Plan, &Node) -> usize| {
        let all = |plan: &Plan| -> f64 {
            plan.nodes.iter().map(|node| of(plan, node) as f64 * part(call, plan, node)).sum()
        };
        plans.iter().map(all).fold(0.0, f64::max)
    };
    let copies = |plan: &Plan, node: &Node| match plan.sources_of(node) {
        [Source::Span { .. }] => {
            plan.sinks_of(node).iter().filter(|sink| matches!(sink, Sink::Span(_))).count()
        }
        _ => 0,
    };
    let folds = call.collective.reduces();
    Work {
        steps: PerLink::default(),
        messages: PerLink { local: local.messages, remote: remote.messages },
        sent: PerLink { local: local.sent, remote: remote.sent },
        reduced: busiest(&|_, node| node.sources.len() - 1),
        copied: busiest(&copies),
        roundings: if folds { chains.folds as u32 } else { 0 },
    }
}

/// The part of the full buffer that one source of a node has.
fn part(call: &Call<'_>, plan: &Plan, node: &Node) -> f64 {
    let blocks = match call.collective {
        Collective::Barrier => return 0.0,
        Collective::AllReduce | Collective::Broadcast | Collective::Reduce => 1,
        _ => call.world,
    };
    f64::from(node.extent.count) / (blocks as f64 * f64::from(plan.parts))
}

/// What the busiest rank sends or receives over one class of links; bytes between hosts are those of the busiest host.
struct Traffic {
    messages: f64,
    sent: f64,
}

impl Traffic {
    fn of(call: &Call<'_>, plans: &[Plan], class: LinkClass) -> Traffic {
        let (mut messages, mut sent) = (vec![[0.0; 2]; call.world], vec![[0.0; 2]; call.world]);
        for plan in plans {
            let payer = match class {
                LinkClass::Local => plan.rank,
                LinkClass::Remote => call.topology.place(plan.rank).host,
            };
            for node in &plan.nodes {
                for (peer, way) in ends(plan, node) {
                    if call.topology.link(plan.rank, peer) == class {
                        messages[plan.rank][way] += 1.0;
                        sent[payer][way] += part(call, plan, node);
                    }
                }
            }
        }
        let most = |list: Vec<[f64; 2]>| list.into_iter().flatten().fold(0.0, f64::max);
        Traffic { messages: most(messages), sent: most(sent) }
    }
}

/// The peers that a node exchanges messages with, and which way: 0 out, 1 in.
fn ends(plan: &Plan, node: &Node) -> Vec<(usize, usize)> {
    let incoming = plan.sources_of(node).iter().filter_map(|source| match source {
        Source::Message { channel, .. } => Some(*channel),
        Source::Span { .. } => None,
    });
    let outgoing = plan.sinks_of(node).iter().filter_map(|sink| match sink {
        Sink::Message { channel } => Some(*channel),
        Sink::Span(_) => None,
    });
    let end = |channel: u32| {
        let end = plan.channels[channel as usize];
        (end.peer, usize::from(end.direction == Direction::In))
    };
    incoming.chain(outgoing).map(end).collect()
}

/// The longest chains of messages that wait for one another, and the most folds that one value has come through.
#[derive(Debug, Default)]
struct Chains {
    messages: usize,
    /// Of the chain with most messages between hosts: those, and the others.
    far: (usize, usize),
    folds: usize,
}

impl Chains {
    fn of(call: &Call<'_>, plans: &[Plan]) -> Chains {
        let joined = Joined::new(plans).unwrap_or_else(|error| panic!("{error}"));
        let endless = Rules { tiles: 1, depth: usize::MAX / 2, late: false };
        let order = run(&joined, endless).unwrap_or_else(|chain| panic!("{chain:?}"));
        let (mut waits, mut far) = (vec![0; joined.links.len()], vec![(0, 0); joined.links.len()]);
        let mut values = Values::default();
        let mut chains = Chains::default();
        for at in order {
            let links = &joined.links[at];
            let before = (at > joined.lanes[links.lane].start).then(|| at - 1);
            for earlier in before.into_iter().chain(links.deps.iter().copied()) {
                waits[at] = waits[at].max(waits[earlier]);
                far[at] = far[at].max(far[earlier]);
            }
            for message in &links.received {
                let sender = joined.messages[*message].sender;
                let link = call.topology.link(joined.rank(sender), joined.rank(at));
                let remote = usize::from(link == LinkClass::Remote);
                waits[at] = waits[at].max(waits[sender] + 1);
                far[at] = far[at].max((far[sender].0 + remote, far[sender].1 + 1 - remote));
            }
            chains.messages = chains.messages.max(waits[at]);
            chains.far = chains.far.max(far[at]);
            chains.folds = chains.folds.max(values.carry_out(&joined, at));
        }
        chains
    }
}

/// How many folds every chunk and message has come through.
#[derive(Default)]
struct Values {
    memory: HashMap<(usize, BufferKind, u32), usize>,
    messages: HashMap<usize, Vec<usize>>,
}

impl Values {
    /// Carries a node out; the most folds of what it stores.
    fn carry_out(&mut self, joined: &Joined<'_>, at: Global) -> usize {
        let (plan, node) = joined.node(at);
        let (mut received, mut sent) = (joined.links[at].received.iter(), joined.links[at].sent.iter());
        let mut folds = vec![0; node.extent.count as usize];
        for source in plan.sources_of(node) {
            let held: Vec<usize> = match source {
                Source::Span { span, .. } => {
                    let key = |chunk| (plan.rank, span.buffer, chunk);
                    span.chunks().map(|chunk| self.memory.get(&key(chunk)).copied().unwrap_or(0)).collect()
                }
                Source::Message { .. } => received.next().map_or_else(Vec::new, |m| self.messages[m].clone()),
            };
            folds.iter_mut().zip(held).for_each(|(most, one)| *most = one.max(*most));
        }
        folds.iter_mut().for_each(|count| *count += usize::from(node.sources.len() > 1));
        for sink in plan.sinks_of(node) {
            match sink {
                Sink::Span(span) => {
                    let places = span.chunks().map(|chunk| (plan.rank, span.buffer, chunk));
                    self.memory.extend(places.zip(folds.iter().copied()));
                }
                Sink::Message { .. } => {
                    self.messages.extend(sent.next().map(|message| (*message, folds.clone())));
                }
            }
        }
        folds.into_iter().max().unwrap_or(0)
    }
}
