//! [`Short`]: a call of few nodes with one tile each, laid out so that carrying it out follows no references.

use hcomm_planner::BufferKind;
use hcomm_planner::plan::NodeId;

use super::{Call, CallNode, CallSink, CallSource, Way};

/// Sources, or sinks, that a short node has room for.
pub const FEW: usize = 4;

/// The nodes of a short call, at most 64, so that a word has a bit for each.
#[derive(Debug)]
pub struct Short {
    /// The bits of all nodes.
    pub all: u64,
    /// By node of the plan.
    pub nodes: Vec<ShortNode>,
}

/// One node, with all that it takes to carry it out.
#[derive(Debug)]
pub struct ShortNode {
    /// The bit of the node before it on its lane.
    pub lane_bit: u64,
    /// The bits of the nodes that come before it.
    pub dep_bits: u64,
    /// Bytes of its message, and of every span.
    pub bytes: usize,
    /// Of a [`ShortWay::Fold`], the first message that it waits for.
    pub awaits: Option<ShortEnd>,
    /// How it is carried out.
    pub way: ShortWay,
}

/// How a short node is carried out.
#[derive(Debug)]
pub enum ShortWay {
    /// A local span goes to one peer.
    Send(ShortPlace, ShortEnd),
    /// A message goes into a local span, alone or together with another one.
    Receive {
        /// The message, and whether nothing has been folded into it.
        from: (ShortEnd, bool),
        /// What it is folded with.
        with: Option<ShortOperand>,
        /// Where the result goes: a buffer and the byte where it begins.
        to: (BufferKind, u64),
        /// The last contribution is in.
        finish: bool,
    },
    /// Few sources are folded into few sinks.
    Fold {
        /// The first `source_count` of these, each with whether nothing has been folded into it.
        sources: [(ShortPlace, bool); FEW],
        /// How many there are.
        source_count: usize,
        /// The first `sink_count` of these.
        sinks: [ShortPlace; FEW],
        /// How many there are.
        sink_count: usize,
        /// The last contribution is in.
        finish: bool,
    },
    /// As a node of any other call.
    Long,
}

/// The local source of a received fold.
#[derive(Clone, Copy, Debug)]
pub struct ShortOperand {
    /// Its buffer, and the byte where it begins.
    pub place: (BufferKind, u64),
    /// Whether nothing has been folded into it.
    pub first: bool,
    /// Whether it comes before the message.
    pub leads: bool,
}

/// Where bytes lie.
#[derive(Clone, Copy, Debug)]
pub enum ShortPlace {
    /// In a buffer, from this byte on.
    Local(BufferKind, u64),
    /// In a message.
    Message(ShortEnd),
}

/// This rank's end of a channel.
#[derive(Clone, Copy, Debug)]
pub struct ShortEnd {
    /// The rank at the other end.
    pub peer: u32,
    /// The channel's index.
    pub channel: u8,
}

impl Short {
    /// The short form of a call that has one.
    pub(super) fn of(call: &Call) -> Option<Short> {
        let count = call.nodes.len() as u32;
        if count > u64::BITS || call.nodes.iter().any(|node| node.trips != 1) {
            return None;
        }
        let nodes = (0..count).map(|id| call.short_node(id)).collect();
        Some(Short { all: u64::MAX.checked_shr(u64::BITS - count).unwrap_or(0), nodes })
    }
}

impl Call {
    fn short_node(&self, id: NodeId) -> ShortNode {
        let node = &self.nodes[id as usize];
        let way = self.short_way(node);
        let is_first = self.plan.lanes[node.lane as usize].nodes.start == id;
        ShortNode {
            lane_bit: if is_first { 0 } else { 1 << (id - 1) },
            dep_bits: self.deps_of(node).iter().fold(0, |bits, dep| bits | 1 << dep),
            bytes: node.bytes,
            awaits: match way {
                ShortWay::Receive { .. } => None,
                _ => self.first_message(node),
            },
            way,
        }
    }

    fn first_message(&self, node: &CallNode) -> Option<ShortEnd> {
        self.sources_of(node).iter().find_map(|source| match *source {
            CallSource::Message { peer, channel, .. } => Some(ShortEnd { peer, channel }),
            CallSource::Span { .. } => None,
        })
    }

    fn short_way(&self, node: &CallNode) -> ShortWay {
        let (sources, sinks) = (self.sources_of(node), self.sinks_of(node));
        let answers = |sink: &CallSink| matches!(sink, CallSink::Message { answers: Some(_), .. });
        if node.per_span != 1 || sources.len().max(sinks.len()) > FEW || sinks.iter().any(answers) {
            return ShortWay::Long;
        }
        if node.way == Way::Send {
            return match (self.short_source(&sources[0]), sinks.iter().map(|s| self.short_sink(s)).next()) {
                ((place, _), Some(ShortPlace::Message(end))) if sinks.len() == 1 => {
                    ShortWay::Send(place, end)
                }
                _ => ShortWay::Long,
            };
        }
        if let Some(receive) = self.short_receive(node) {
            return receive;
        }
        let nowhere = ShortPlace::Local(BufferKind::Scratch, 0);
        let (mut from, mut to) = ([(nowhere, false); FEW], [nowhere; FEW]);
        from.iter_mut().zip(sources).for_each(|(place, source)| *place = self.short_source(source));
        to.iter_mut().zip(sinks).for_each(|(place, sink)| *place = self.short_sink(sink));
        ShortWay::Fold {
            sources: from,
            source_count: sources.len(),
            sinks: to,
            sink_count: sinks.len(),
            finish: node.finish,
        }
    }

    /// A fold of one message, and perhaps one local span, into one local span.
    fn short_receive(&self, node: &CallNode) -> Option<ShortWay> {
        let [sink] = self.sinks_of(node) else { return None };
        let ShortPlace::Local(buffer, start) = self.short_sink(sink) else { return None };
        let (mut from, mut with) = (None, None);
        for (at, source) in self.sources_of(node).iter().enumerate() {
            match self.short_source(source) {
                (ShortPlace::Message(end), first) if from.is_none() => from = Some((end, first)),
                (ShortPlace::Local(buffer, start), first) if with.is_none() => {
                    with = Some(ShortOperand { place: (buffer, start), first, leads: at == 0 });
                }
                _ => return None,
            }
        }
        Some(ShortWay::Receive { from: from?, with, to: (buffer, start), finish: node.finish })
    }

    fn short_source(&self, source: &CallSource) -> (ShortPlace, bool) {
        match *source {
            CallSource::Span { buffer, extents, first } => {
                (ShortPlace::Local(buffer, self.extents[extents as usize].start), first)
            }
            CallSource::Message { peer, channel, first } => {
                (ShortPlace::Message(ShortEnd { peer, channel }), first)
            }
        }
    }

    fn short_sink(&self, sink: &CallSink) -> ShortPlace {
        match *sink {
            CallSink::Span { buffer, extents } => {
                ShortPlace::Local(buffer, self.extents[extents as usize].start)
            }
            CallSink::Message { peer, channel, .. } => ShortPlace::Message(ShortEnd { peer, channel }),
        }
    }
}
