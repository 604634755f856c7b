//! [`Call`]: a request bound to its plan. Everything that a size and a plan decide is worked out here, once, and kept in
//! the plan cache, so that a repeated call only walks arrays. `bind` works it out; `name` says which call it is, to people and peers.

mod bind;
mod name;
mod short;

use std::ops::Range;
use std::sync::Arc;

use hcomm_ops::{DType, Kernel, Rank, ReduceOp};
use hcomm_planner::plan::NodeId;
use hcomm_planner::request::Counts;
use hcomm_planner::{BufferKind, Collective, Plan, Request};
use hcomm_transports::{AnyWire, Wire};

use self::name::describe;
pub use self::short::{FEW, Short, ShortEnd, ShortNode, ShortOperand, ShortPlace, ShortWay};

/// The chunks of one span: byte ranges of its buffer, side by side in the message.
#[derive(Clone, Copy, Debug)]
pub struct Extent {
    /// First byte of the first chunk within the buffer.
    pub start: u64,
    /// Bytes of the chunk.
    pub bytes: u64,
}

/// What a size makes of a plan's node: everything that the executor reads of it, in one place.
#[derive(Clone, Debug)]
pub struct CallNode {
    /// Tiles that the node runs.
    pub trips: u32,
    /// Nodes that come before it, a range of the plan's.
    pub deps: Range<u32>,
    /// Its lane.
    pub lane: u32,
    /// Sources, a range of [`Call::sources`].
    pub sources: Range<u32>,
    /// Sinks, a range of [`Call::sinks`].
    pub sinks: Range<u32>,
    /// The last contribution is in.
    pub finish: bool,
    /// What it takes to carry it out.
    pub way: Way,
    /// Bytes of its message at the first tile.
    pub bytes: usize,
    /// Chunks per span (1 where the node runs a single tile and its chunks lie side by side).
    pub per_span: u32,
    /// Chunks of the message itself, a range of `Call::extents` of `per_span` chunks: for byte counts.
    pub extent: u32,
}

/// How a node is carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// One local span goes to peers, with nothing to compute on the way.
    Send,
    /// Sources are folded into sinks.
    Fold,
}

/// A node's source, found.
#[derive(Clone, Copy, Debug)]
pub enum CallSource {
    /// Local bytes: `per_span` chunks from this one of [`Call::extents`].
    Span {
        /// The buffer.
        buffer: BufferKind,
        /// Its first chunk.
        extents: u32,
        /// Nothing has been folded into it.
        first: bool,
    },
    /// The next message of a channel.
    Message {
        /// From whom.
        peer: u32,
        /// The channel's index.
        channel: u8,
        /// Nothing has been folded into it.
        first: bool,
    },
}

/// A node's sink, found.
#[derive(Clone, Copy, Debug)]
pub enum CallSink {
    /// Local bytes: `per_span` chunks from this one of [`Call::extents`].
    Span {
        /// The buffer.
        buffer: BufferKind,
        /// Its first chunk.
        extents: u32,
    },
    /// A message on a channel.
    Message {
        /// To whom.
        peer: u32,
        /// The channel's index.
        channel: u8,
        /// The channel of a long message from the same peer among the node's sources, whose place it may take.
        answers: Option<u8>,
    },
}

/// All that tells a call of even counts, by the planner's own choice, from others, but for the bytes that it is given.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Outline {
    /// What it does.
    pub collective: Collective,
    /// Type of the elements.
    pub dtype: DType,
    /// The reduction.
    pub op: ReduceOp,
    /// The special rank.
    pub root: Rank,
    /// Whether folds keep the order of the ranks.
    pub deterministic: bool,
}

/// A request bound to a plan: sizes, fingerprint and arithmetic of one call on one rank.
#[derive(Debug)]
pub struct Call {
    /// What was asked for.
    pub request: Request,
    /// The plan that carries it out.
    pub plan: Arc<Plan>,
    /// The arithmetic.
    pub kernel: Kernel,
    /// Hash of the call; equal on ranks that make the same call.
    pub fingerprint: u32,
    /// Whether reading a `first` source scales it.
    pub scales: bool,
    /// Whether peers of the same process may read what is sent where it lies. Memory that a peer has read is slow to write
    /// again while caches hold it, so only what is too long for them is lent.
    pub lends: bool,
    /// Whether peers of the same host may read what lies in this rank's heap there: where that is faster than copying it on the way.
    pub lends_heap: bool,
    /// Whether results are so long that they are stored past the caches.
    pub streams: bool,
    /// Bytes of the input; `None` where the rank gives none.
    pub input_bytes: Option<u64>,
    /// Bytes of the output; `None` where the rank gets none.
    pub output_bytes: Option<u64>,
    /// Bytes of scratch.
    pub scratch_bytes: u64,
    /// Bytes of one tile of one chunk; equal on all ranks.
    pub tile_bytes: u64,
    /// By node of the plan.
    pub nodes: Vec<CallNode>,
    /// Sources of all nodes.
    pub sources: Vec<CallSource>,
    /// Sinks of all nodes.
    pub sinks: Vec<CallSink>,
    /// Chunks' byte ranges, referred to by `nodes`.
    pub extents: Vec<Extent>,
    /// Its short form, where its nodes are few and have one tile each.
    pub short: Option<Short>,
    /// Bytes that this rank sends to others.
    pub sent_bytes: u64,
    /// Lanes that have nodes.
    pub running: usize,
    /// What it takes to make it again, where the plan is the planner's own choice and the counts are even.
    pub outline: Option<Outline>,
    /// Bytes of the longest message, or span, of one tile.
    pub longest_message: usize,
    /// Tiles that every lane runs: those of the node that has most. The others skip the tiles that they do not have.
    pub trips: u32,
}

impl Call {
    /// Notes that the planner's own choice made the plan.
    pub fn make_repeatable(&mut self) {
        let Request { collective, dtype, op, root, deterministic, .. } = self.request;
        let outline = Outline { collective, dtype, op, root, deterministic };
        let is_even = matches!(self.request.counts, Counts::Even(_));
        self.outline = (is_even && self.request.algorithm.is_none()).then_some(outline);
    }

    /// Whether what goes over a wire may be read by the peer where it lies.
    #[inline]
    pub fn may_lend(&self, wire: &AnyWire) -> bool {
        (self.lends || self.lends_heap) && if wire.lends_heap() { self.lends_heap } else { self.lends }
    }

    /// The call in words, such as `all_reduce(f32, sum, 1024)`.
    pub fn describe(&self) -> String {
        describe(&self.request)
    }

    /// The call and its plan in words, so that calls whose fingerprints differ read differently.
    pub fn identify(&self) -> String {
        let Call { plan, tile_bytes, .. } = self;
        format!(
            "{} by {}, plan {:016x}, tiles of {tile_bytes} bytes",
            self.describe(),
            plan.algorithm,
            plan.id
        )
    }

    /// The nodes that must be done before a node.
    #[inline]
    pub fn deps_of(&self, node: &CallNode) -> &[NodeId] {
        &self.plan.deps[node.deps.start as usize..node.deps.end as usize]
    }

    /// A node's sources.
    #[inline]
    pub fn sources_of(&self, node: &CallNode) -> &[CallSource] {
        &self.sources[node.sources.start as usize..node.sources.end as usize]
    }

    /// A node's sinks.
    #[inline]
    pub fn sinks_of(&self, node: &CallNode) -> &[CallSink] {
        &self.sinks[node.sinks.start as usize..node.sinks.end as usize]
    }

    /// The byte range at a tile of a chunk, which is one of [`Call::extents`] and belongs to a span of the node.
    #[inline]
    pub fn tile_of(&self, node: &CallNode, chunk: u32, tile: u32) -> Extent {
        self.cut(node, self.extents[chunk as usize], tile)
    }

    /// Bytes of the message that a node moves at a tile.
    #[inline]
    pub fn message_bytes(&self, node: &CallNode, tile: u32) -> usize {
        if node.per_span == 1 {
            return self.tile_of(node, node.extent, tile).bytes as usize;
        }
        let chunks = &self.extents[node.extent as usize..(node.extent + node.per_span) as usize];
        chunks.iter().map(|e| self.cut(node, *e, tile).bytes as usize).sum()
    }

    #[inline]
    fn cut(&self, node: &CallNode, whole: Extent, tile: u32) -> Extent {
        // Chunks that were joined are longer than a tile; the one tile of their node is all of them.
        if node.trips == 1 {
            return whole;
        }
        let skipped = (u64::from(tile) * self.tile_bytes).min(whole.bytes);
        Extent { start: whole.start + skipped, bytes: (whole.bytes - skipped).min(self.tile_bytes) }
    }
}

/// What every slot holds, however small the staging: a point-to-point header, and a 16-byte element of each of up to 256 chunks.
pub(crate) const LEAST_SLOT_BYTES: usize = 4096;
