//! [`Joined`]: the slices of all ranks as one graph, every message matched with its receive.

use hcomm_ops::Rank;
use rustc_hash::FxHashMap;

use super::error::{At, VerifyError};
use crate::buffers::{SizeClass, size_class};
use crate::export::words;
use crate::plan::{Node, NodeId, Plan, Sink, Source, Span};
use crate::shape::BufferKind;

/// A node of any rank.
pub(crate) type Global = usize;

/// One message of the plan, sent once per tile.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Message {
    pub sender: Global,
    pub receiver: Global,
    /// Index into [`Joined::fifos`].
    pub fifo: usize,
    /// How many messages of its channel the sender sends before it, and how many the receiver receives: none but where a node has
    /// several of one channel.
    pub sent_before: usize,
    pub received_before: usize,
}

/// Everything about one node that the checks follow.
#[derive(Clone, Debug, Default)]
pub(crate) struct Links {
    /// Messages, in the order of the node's sources.
    pub received: Vec<usize>,
    /// Messages, in the order of the node's sinks.
    pub sent: Vec<usize>,
    pub deps: Vec<Global>,
    /// Nodes that have this one among their deps.
    pub dependents: Vec<Global>,
    pub lane: usize,
    pub lends: bool,
}

/// One channel as (source, destination, index).
type Key = (Rank, Rank, u8);

/// The whole plan.
#[derive(Debug)]
pub(crate) struct Joined<'a> {
    pub plans: &'a [Plan],
    /// Global number of each rank's first node.
    pub base: Vec<Global>,
    pub links: Vec<Links>,
    /// Nodes of every lane of every rank.
    pub lanes: Vec<std::ops::Range<Global>>,
    /// Whose each lane is.
    rank_of: Vec<Rank>,
    pub messages: Vec<Message>,
    pub fifos: Vec<Key>,
}

impl<'a> Joined<'a> {
    /// Joins slices that `structure` has checked.
    pub fn new(plans: &'a [Plan]) -> Result<Joined<'a>, VerifyError> {
        let mut joined = Joined {
            plans,
            base: Vec::new(),
            links: Vec::new(),
            lanes: Vec::new(),
            rank_of: Vec::new(),
            messages: Vec::new(),
            fifos: Vec::new(),
        };
        for plan in plans {
            joined.add_slice(plan);
        }
        joined.match_messages()?;
        Ok(joined)
    }

    /// The slice and the node of a global number.
    pub fn node(&self, at: Global) -> (&'a Plan, &'a Node) {
        let rank = self.rank(at);
        let plan = &self.plans[rank];
        (plan, &plan.nodes[at - self.base[rank]])
    }

    /// Whose node it is.
    pub fn rank(&self, at: Global) -> Rank {
        self.rank_of[self.links[at].lane]
    }

    /// For errors.
    pub fn at(&self, at: Global) -> At {
        let rank = self.rank(at);
        At::new(&self.plans[rank], (at - self.base[rank]) as NodeId)
    }

    fn add_slice(&mut self, plan: &Plan) {
        let base = self.links.len();
        self.base.push(base);
        let first_lane = self.lanes.len();
        self.lanes
            .extend(plan.lanes.iter().map(|l| base + l.nodes.start as usize..base + l.nodes.end as usize));
        self.rank_of.resize(self.lanes.len(), plan.rank);
        self.links.extend(plan.nodes.iter().map(|node| Links {
            deps: plan.deps_of(node).iter().map(|dep| base + *dep as usize).collect(),
            lane: first_lane + node.lane as usize,
            lends: plan.lends(node),
            ..Links::default()
        }));
        for at in base..self.links.len() {
            for dep in self.links[at].deps.clone() {
                self.links[dep].dependents.push(at);
            }
        }
    }

    fn match_messages(&mut self) -> Result<(), VerifyError> {
        let (sends, receives) = (self.sends(), self.receives());
        let (mut sends, mut receives) = (&sends[..], &receives[..]);
        while let Some(key) = sends.first().into_iter().chain(receives.first()).map(|(key, _)| *key).min() {
            let (sent, received) = (take_key(&mut sends, key), take_key(&mut receives, key));
            if sent.len() != received.len() {
                let (source_rank, destination, index) = key;
                let (sent, received) = (sent.len(), received.len());
                return Err(VerifyError::Unmatched { source_rank, destination, index, sent, received });
            }
            for (nth, (sender, receiver)) in sent.iter().zip(&received).enumerate() {
                self.check_size(nth, *sender, *receiver)?;
                let number = self.messages.len();
                self.links[*sender].sent.push(number);
                self.links[*receiver].received.push(number);
                let (sender, receiver, fifo) = (*sender, *receiver, self.fifos.len());
                // Each end's list is in the order of its nodes.
                let before =
                    |uses: &[Global], node| uses[..nth].iter().rev().take_while(|at| **at == node).count();
                let (sent_before, received_before) = (before(&sent, sender), before(&received, receiver));
                self.messages.push(Message { sender, receiver, fifo, sent_before, received_before });
            }
            self.fifos.push(key);
        }
        self.order_by_position();
        Ok(())
    }

    /// Every use of a channel's sending end, channel by channel, each in the order of the nodes.
    fn sends(&self) -> Vec<(Key, Global)> {
        self.uses(|plan, node| {
            let sent = plan.sinks_of(node).iter().filter_map(|sink| match sink {
                Sink::Message { channel } => Some(plan.channels[*channel as usize]),
                Sink::Span(_) => None,
            });
            sent.map(|end| (plan.rank, end.peer, end.index)).collect()
        })
    }

    /// The same of its receiving end.
    fn receives(&self) -> Vec<(Key, Global)> {
        self.uses(|plan, node| {
            let received = plan.sources_of(node).iter().filter_map(|source| match source {
                Source::Message { channel, .. } => Some(plan.channels[*channel as usize]),
                Source::Span { .. } => None,
            });
            received.map(|end| (end.peer, plan.rank, end.index)).collect()
        })
    }

    fn uses(&self, of: impl Fn(&Plan, &Node) -> Vec<Key>) -> Vec<(Key, Global)> {
        let nodes = (0..self.links.len()).map(|at| (at, self.node(at)));
        let mut uses: Vec<_> = nodes
            .flat_map(|(at, (plan, node))| of(plan, node).into_iter().map(move |key| (key, at)))
            .collect();
        uses.sort_unstable();
        uses
    }

    /// Puts each node's messages in the order of its sources and sinks.
    fn order_by_position(&mut self) {
        for at in 0..self.links.len() {
            if self.links[at].received.len() < 2 && self.links[at].sent.len() < 2 {
                continue;
            }
            let (plan, node) = self.node(at);
            let incoming = plan.sources_of(node).iter().filter_map(|source| match source {
                Source::Message { channel, .. } => Some(*channel),
                Source::Span { .. } => None,
            });
            let outgoing = plan.sinks_of(node).iter().filter_map(|sink| match sink {
                Sink::Message { channel } => Some(*channel),
                Sink::Span(_) => None,
            });
            let key_in =
                |c: u32| (plan.channels[c as usize].peer, plan.rank, plan.channels[c as usize].index);
            let key_out =
                |c: u32| (plan.rank, plan.channels[c as usize].peer, plan.channels[c as usize].index);
            let received = self.in_order(&self.links[at].received, incoming.map(key_in));
            let sent = self.in_order(&self.links[at].sent, outgoing.map(key_out));
            self.links[at].received = received;
            self.links[at].sent = sent;
        }
    }

    /// Messages, listed channel by channel, in the order of the keys.
    fn in_order(&self, messages: &[usize], keys: impl Iterator<Item = Key>) -> Vec<usize> {
        let mut next: FxHashMap<Key, usize> = FxHashMap::default();
        for (place, message) in messages.iter().enumerate() {
            next.entry(self.fifos[self.messages[*message].fifo]).or_insert(place);
        }
        let place = |key: Key| {
            let place = next.get_mut(&key)?;
            *place += 1;
            messages.get(*place - 1).copied()
        };
        keys.filter_map(place).collect()
    }

    fn check_size(&self, nth: usize, sender: Global, receiver: Global) -> Result<(), VerifyError> {
        let classes = |at| {
            let (plan, node) = self.node(at);
            node.extent.chunks().map(move |chunk| class(plan, node.extent.buffer, chunk))
        };
        if classes(sender).eq(classes(receiver)) {
            return Ok(());
        }
        let (sent, expected) = (self.sizes(sender), self.sizes(receiver));
        let (sender, receiver) = (self.at(sender), self.at(receiver));
        let words = |sizes: &[SizeClass]| sizes.iter().map(size_words).collect::<Vec<_>>().join(", ");
        let difference = format!("{} sent, {} expected", words(&sent), words(&expected));
        Err(VerifyError::MessageSize { nth, sender, receiver, difference })
    }

    /// The sizes of the chunks that a node moves.
    fn sizes(&self, at: Global) -> Vec<SizeClass> {
        let (plan, node) = self.node(at);
        sizes(plan, node.extent)
    }

    /// Every source and sink of a node has the sizes that it says it moves.
    pub fn check_extents(&self) -> Result<(), VerifyError> {
        for at in 0..self.links.len() {
            let (plan, node) = self.node(at);
            let expected = sizes(plan, node.extent);
            let sources = plan.sources_of(node).iter().filter_map(|source| match source {
                Source::Span { span, .. } => Some(*span),
                Source::Message { .. } => None,
            });
            let sinks = plan.sinks_of(node).iter().filter_map(|sink| match sink {
                Sink::Span(span) => Some(*span),
                Sink::Message { .. } => None,
            });
            if let Some(odd) = sources.chain(sinks).find(|span| sizes(plan, *span) != expected) {
                let (moved, odd) = (words::span(node.extent), words::span(odd));
                let reason = format!("{} moves {moved} and {odd}, of other sizes", self.at(at));
                return Err(VerifyError::Malformed { rank: plan.rank, reason });
            }
        }
        Ok(())
    }
}

/// Takes the uses of a channel, with which the list begins if it has any.
fn take_key(uses: &mut &[(Key, Global)], key: Key) -> Vec<Global> {
    let count = uses.partition_point(|(other, _)| *other == key);
    let (own, rest) = uses.split_at(count);
    *uses = rest;
    own.iter().map(|(_, at)| *at).collect()
}

fn sizes(plan: &Plan, span: Span) -> Vec<SizeClass> {
    span.chunks().map(|chunk| class(plan, span.buffer, chunk)).collect()
}

fn class(plan: &Plan, buffer: BufferKind, chunk: u32) -> SizeClass {
    let like = match buffer {
        BufferKind::Scratch => plan.scratch[chunk as usize],
        buffer => Span::new(buffer, chunk, 1),
    };
    size_class(plan.collective, plan.rank, plan.parts, like.buffer, like.first, plan.even)
}

fn size_words(size: &SizeClass) -> String {
    format!("part {} of the block from {} to {}", size.part, size.from, size.to)
}
