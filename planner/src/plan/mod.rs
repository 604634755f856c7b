//! [`Plan`]: one rank's frozen slice of a compiled call. The executor runs it, `verify` proves it, the exporters draw it.
//!
//! A plan is a loop body. Its nodes move chunks; at run time each chunk is cut into tiles, and every lane runs all its
//! nodes for tile 0, then tile 1, and so on. A node whose own chunks are shorter than the longest skips the later
//! tiles: its trip count is `shape::trip_count` of the largest chunk it moves, on both ends of every message alike.
//!
//! **One shape of node.** A node takes sources (local spans, arrived messages), folds them left to right (one source:
//! a copy), and stores the result in sinks (local spans, outgoing messages). Send, receive, copy, reduce and every fused form
//! are this node with different sources and sinks; [`Plan::kind_of`] gives the familiar name.

mod fit;
mod name;
mod sum;

pub use fit::{ByteRange, Overlay, Proved};
pub(crate) use name::{EXPECTED_NAME, check_name, shown};

use std::ops::Range;

use hcomm_ops::Rank;
use serde::{Deserialize, Serialize};

use crate::request::Collective;
use crate::shape::BufferKind;

/// Channels that a pair of ranks may have in one direction within one plan.
pub const MAX_CHANNELS: usize = 32;

/// Index of a node within its plan.
pub type NodeId = u32;

/// Chunks `first .. first + count` of a buffer. They lie side by side, and a tile of the span is that tile of each chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Span {
    /// The buffer.
    pub buffer: BufferKind,
    /// First chunk.
    pub first: u32,
    /// Chunks, at least 1.
    pub count: u32,
}

/// Which way a channel end points.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// This rank sends on it.
    Out,
    /// This rank receives from it.
    In,
}

/// One end of a FIFO between this rank and a peer. The n-th message sent on (source, destination, index) is the n-th
/// received.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Channel {
    /// The rank at the other end; never this rank.
    pub peer: Rank,
    /// Sending or receiving end.
    pub direction: Direction,
    /// Which of the pair's channels, below [`MAX_CHANNELS`].
    pub index: u8,
}

/// What a node folds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Source {
    /// Local bytes.
    Span {
        /// Where.
        span: Span,
        /// A rank's own contribution that no reduction has read before: average and pre-multiplied sum scale it here.
        first: bool,
    },
    /// The next message of a channel (index into [`Plan::channels`], direction `In`).
    Message {
        /// The channel.
        channel: u32,
        /// The message is a rank's own contribution, as in `Source::Span`.
        first: bool,
    },
}

/// Where a node stores its result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Sink {
    /// Local bytes.
    Span(Span),
    /// A message on a channel (index into [`Plan::channels`], direction `Out`).
    Message {
        /// The channel.
        channel: u32,
    },
}

/// The familiar name of a node, derived from its sources and sinks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum NodeKind {
    /// A local span to one or more peers.
    Send,
    /// One message into local spans.
    Recv,
    /// Local spans folded into local spans.
    Reduce,
    /// One local span into local spans.
    Copy,
    /// Messages (and local spans) folded into local spans.
    RecvReduce,
    /// Messages (and local spans) folded and sent, perhaps kept too.
    RecvReduceSend,
    /// One message sent on, perhaps kept too.
    RecvCopySend,
    /// Local spans folded and sent, perhaps kept too.
    ReduceSend,
    /// One local span copied locally and sent.
    CopySend,
}

/// One node. Its sources, sinks and dependencies are ranges into the plan's flat arrays.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Node {
    /// Into [`Plan::sources`]; at least one.
    pub sources: Range<u32>,
    /// Into [`Plan::sinks`]; at least one.
    pub sinks: Range<u32>,
    /// Into [`Plan::deps`].
    pub deps: Range<u32>,
    /// The span that says how many elements every source and sink has: the first local span among them, or, for a
    /// node that touches none, the span it relays.
    pub extent: Span,
    /// The last contribution is in: an integer average divides here.
    pub finish: bool,
    /// Into [`Plan::lanes`].
    pub lane: u32,
}

/// What carries a lane's nodes out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum LaneKind {
    /// A host processor.
    Worker {
        /// Which of the rank's workers.
        index: u32,
    },
    /// A shared-memory (or in-process) channel end.
    Shm {
        /// The peer.
        peer: Rank,
    },
    /// A socket.
    Socket {
        /// The peer.
        peer: Rank,
    },
    /// A CUDA stream.
    Stream {
        /// GPU number within the topology.
        gpu: u32,
        /// CUDA's priority: lower is more urgent.
        priority: i32,
    },
    /// An RDMA queue pair.
    QueuePair {
        /// NIC number within the topology.
        nic: u32,
        /// The peer.
        peer: Rank,
    },
}

/// An ordered list of nodes carried out by one resource. Every channel end belongs to exactly one lane.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Lane {
    /// The resource.
    pub kind: LaneKind,
    /// Its nodes in the order of issue; node ids of one lane are consecutive.
    pub nodes: Range<NodeId>,
}

/// One rank's slice of a compiled collective.
///
/// A node of a lane is issued when the lane's earlier nodes are issued, its `deps` are done for the same tile, its
/// messages are there and its outgoing channels have room. A node that lends nothing (see [`Plan::lends`]) is done when
/// issued; one that lends is done when its source may be overwritten. A node that skips a tile keeps its place all the
/// same: it is issued in its turn, after its `deps`, and is then done at once (edges that follow from others are left
/// out, skipped nodes included). A message counts as received when its receiving node is issued: a node that passes one on
/// never lends what it received.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// The call.
    pub collective: Collective,
    /// Registry name of the algorithm, or what a file or program calls the plan: 1 to 120 characters that can be shown; followed by `(FIRST,SECOND)` where it is made of two others.
    pub algorithm: String,
    /// Ranks.
    pub world: usize,
    /// Whose slice this is.
    pub rank: Rank,
    /// The special rank, or 0.
    pub root: Rank,
    /// Hash of (algorithm and its parameters, chunks, channels, world): equal on all ranks of one plan. Part of the
    /// call's fingerprint.
    pub id: u64,
    /// Checksum of all the rest of the slice, as it was made: see [`Plan::is_unchanged`].
    #[serde(default)]
    pub sum: u64,
    /// What whoever made the slice knows of its folds; nothing, of a slice from a file by itself.
    #[serde(skip)]
    pub proved: Proved,
    /// Chunks that each block of input and output is split into. In place, input and output chunks coincide as
    /// [`crate::shape::alias`] says.
    pub parts: u32,
    /// For each scratch chunk, the input or output chunk (`count` 1) whose size it has.
    pub scratch: Vec<Span>,
    /// The largest `count` of any span in any rank's slice: a message carries up to this many chunk tiles.
    pub span_chunks: u32,
    /// Right only where every `Send` is done as soon as it is copied: bound to copying paths.
    pub buffered: bool,
    /// Right only where all blocks are equally long.
    pub even: bool,
    /// Whether it is right in place, apart, or both.
    pub overlay: Overlay,
    /// The sizes that it is meant for.
    pub bytes: ByteRange,
    /// The most channels that any pair of ranks has in one direction: every channel's index is below it, in all slices.
    pub channels_per_pair: u8,
    /// The ends this rank holds.
    pub channels: Vec<Channel>,
    /// Where the nodes run.
    pub lanes: Vec<Lane>,
    /// The nodes, lane by lane.
    pub nodes: Vec<Node>,
    /// Sources of all nodes.
    pub sources: Vec<Source>,
    /// Sinks of all nodes.
    pub sinks: Vec<Sink>,
    /// Dependencies of all nodes: nodes of other lanes, or (for a `Send` whose span this node overwrites) of the same.
    pub deps: Vec<NodeId>,
}

impl Plan {
    /// The sources of a node.
    #[inline]
    pub fn sources_of(&self, node: &Node) -> &[Source] {
        &self.sources[node.sources.start as usize..node.sources.end as usize]
    }

    /// The sinks of a node.
    #[inline]
    pub fn sinks_of(&self, node: &Node) -> &[Sink] {
        &self.sinks[node.sinks.start as usize..node.sinks.end as usize]
    }

    /// The nodes that must be done before a node.
    #[inline]
    pub fn deps_of(&self, node: &Node) -> &[NodeId] {
        &self.deps[node.deps.start as usize..node.deps.end as usize]
    }

    /// Whether a node may lend bytes of this rank to a peer, and so may be done later than it is issued: it sends, and
    /// its only source is a local span. What is folded, or passed on from another peer, is built in the messages' own room.
    pub fn lends(&self, node: &Node) -> bool {
        let sends = self.sinks_of(node).iter().any(|sink| matches!(sink, Sink::Message { .. }));
        sends && matches!(self.sources_of(node), [Source::Span { .. }])
    }

    /// The familiar name of a node.
    pub fn kind_of(&self, node: &Node) -> NodeKind {
        let messages_in = self.sources_of(node).iter().any(|s| matches!(s, Source::Message { .. }));
        let messages_out = self.sinks_of(node).iter().any(|s| matches!(s, Sink::Message { .. }));
        let kept = self.sinks_of(node).iter().any(|s| matches!(s, Sink::Span(_)));
        match (messages_in, messages_out, node.sources.len() > 1) {
            (true, true, true) => NodeKind::RecvReduceSend,
            (true, true, false) => NodeKind::RecvCopySend,
            (true, false, true) => NodeKind::RecvReduce,
            (true, false, false) => NodeKind::Recv,
            (false, true, true) => NodeKind::ReduceSend,
            (false, true, false) if kept => NodeKind::CopySend,
            (false, true, false) => NodeKind::Send,
            (false, false, true) => NodeKind::Reduce,
            (false, false, false) => NodeKind::Copy,
        }
    }
}
