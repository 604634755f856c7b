//! The words that all exports share: names of spans, lanes, channels and nodes.

use std::fmt;

use crate::plan::{Channel, Direction, LaneKind, Node, NodeKind, Plan, Sink, Source, Span};
use crate::shape::BufferKind;
use crate::topology::{Device, Topology};

/// `in[3]`, `out[0..4]`, `scratch[1]`.
pub(crate) fn span(span: Span) -> String {
    let buffer = match span.buffer {
        BufferKind::Input => "in",
        BufferKind::Output => "out",
        BufferKind::Scratch => "scratch",
    };
    match span.count {
        1 => format!("{buffer}[{}]", span.first),
        _ => format!("{buffer}[{}..{}]", span.first, u64::from(span.first) + u64::from(span.count)),
    }
}

/// `shm to rank 3` for a lane that only sends, `shm from rank 3` for one that only receives; devices by the names that a topology has for them.
pub(crate) fn lane(plan: &Plan, number: usize, topology: Option<&Topology>) -> String {
    let Some(lane) = plan.lanes.get(number) else { return format!("lane {number}") };
    let name = |devices: &[Device], index: u32| devices.get(index as usize).map(|device| device.name.clone());
    let gpu = |index| topology.and_then(|topology| name(topology.gpus(), index));
    let nic = |index| topology.and_then(|topology| name(topology.nics(), index));
    match lane.kind {
        LaneKind::Shm { peer } => format!("shm {} rank {peer}", way(plan, number, peer)),
        LaneKind::Socket { peer } => format!("socket {} rank {peer}", way(plan, number, peer)),
        LaneKind::QueuePair { nic: index, peer } => {
            let nic = nic(index).unwrap_or_else(|| format!("nic {index}"));
            format!("queue pair of {nic} {} rank {peer}", way(plan, number, peer))
        }
        LaneKind::Stream { gpu: index, priority } => {
            let gpu = gpu(index).unwrap_or_else(|| format!("gpu {index}"));
            let priority = if priority == 0 { String::new() } else { format!(", priority {priority}") };
            format!("stream of {gpu}{priority}")
        }
        LaneKind::Worker { .. } => lane.kind.to_string(),
    }
}

/// Which way the messages of a lane go.
fn way(plan: &Plan, number: usize, peer: usize) -> &'static str {
    let is_with = |channel: u32| plan.channels.get(channel as usize).is_some_and(|end| end.peer == peer);
    let nodes = || plan.lanes[number].nodes.clone().filter_map(|id| plan.nodes.get(id as usize));
    let sends = nodes().any(|node| {
        plan.sinks_of(node).iter().any(|sink| matches!(sink, Sink::Message { channel } if is_with(*channel)))
    });
    let receives = nodes().any(|node| {
        let from = |source: &Source| matches!(source, Source::Message { channel, .. } if is_with(*channel));
        plan.sources_of(node).iter().any(from)
    });
    match (sends, receives) {
        (true, false) => "to",
        (false, true) => "from",
        _ => "with",
    }
}

impl Plan {
    /// The name of a lane, such as `shm to rank 3`.
    pub fn lane_name(&self, lane: usize) -> String {
        self::lane(self, lane, None)
    }
}

impl fmt::Display for LaneKind {
    /// `worker 0`, `shm with rank 3`, `stream of gpu 1`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LaneKind::Worker { index } => write!(f, "worker {index}"),
            LaneKind::Shm { peer } => write!(f, "shm with rank {peer}"),
            LaneKind::Socket { peer } => write!(f, "socket with rank {peer}"),
            LaneKind::Stream { gpu, priority: 0 } => write!(f, "stream of gpu {gpu}"),
            LaneKind::Stream { gpu, priority } => write!(f, "stream of gpu {gpu}, priority {priority}"),
            LaneKind::QueuePair { nic, peer } => write!(f, "queue pair of nic {nic} with rank {peer}"),
        }
    }
}

/// `rank 3 ch 1`.
pub(crate) fn channel(channel: &Channel) -> String {
    let way = match channel.direction {
        Direction::Out => "to",
        Direction::In => "from",
    };
    format!("{way} rank {} ch {}", channel.peer, channel.index)
}

/// The name of a kind of node, such as `recv-reduce-send`.
pub(crate) fn kind(kind: NodeKind) -> &'static str {
    match kind {
        NodeKind::Send => "send",
        NodeKind::Recv => "recv",
        NodeKind::Reduce => "reduce",
        NodeKind::Copy => "copy",
        NodeKind::RecvReduce => "recv-reduce",
        NodeKind::RecvReduceSend => "recv-reduce-send",
        NodeKind::RecvCopySend => "recv-copy-send",
        NodeKind::ReduceSend => "reduce-send",
        NodeKind::CopySend => "copy-send",
    }
}

/// What a source is; `*` marks a raw contribution.
pub(crate) fn source(plan: &Plan, source: &Source) -> String {
    let mark = |first: bool| if first { "*" } else { "" };
    match source {
        Source::Span { span: s, first } => format!("{}{}", span(*s), mark(*first)),
        Source::Message { channel: c, first } => {
            format!(
                "[{}]{}",
                plan.channels.get(*c as usize).map_or_else(|| format!("channel {c}"), channel),
                mark(*first)
            )
        }
    }
}

/// What a sink is.
pub(crate) fn sink(plan: &Plan, sink: &Sink) -> String {
    match sink {
        Sink::Span(s) => span(*s),
        Sink::Message { channel: c } => {
            format!("[{}]", plan.channels.get(*c as usize).map_or_else(|| format!("channel {c}"), channel))
        }
    }
}

/// `recv-reduce [from rank 1 ch 0]* + in[0]* -> out[0]`.
pub(crate) fn node(plan: &Plan, node: &Node) -> String {
    let sources: Vec<_> = plan.sources_of(node).iter().map(|s| source(plan, s)).collect();
    let sinks: Vec<_> = plan.sinks_of(node).iter().map(|s| sink(plan, s)).collect();
    let finish = if node.finish { " !" } else { "" };
    format!("{} {} -> {}{finish}", kind(plan.kind_of(node)), sources.join(" + "), sinks.join(", "))
}
