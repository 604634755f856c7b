//! [`Call`]: a request bound to its plan. Everything that a size and a plan decide is worked out here, once, and kept in
//! the plan cache, so that a repeated call only walks arrays.

use std::ops::Range;
use std::sync::Arc;

use hcomm_ops::{Kernel, ReduceOp};
use hcomm_planner::plan::NodeId;
use hcomm_planner::{BufferKind, Node, Plan, Request, Shape, Sink, Source, Span, shape};

use crate::error::Refused;

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
    /// Where its spans lie, a range of `Call::extents` for each span of its sources, then of its sinks, in order;
    /// `per_span` chunks each.
    pub extents: u32,
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
    /// A fold of one tile, of at most [`FEW`] sources and sinks, each a single chunk.
    SmallFold,
    /// Any other fold.
    Fold,
}

/// Sources, or sinks, for which no list has to be made.
pub const FEW: usize = 4;

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
    },
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
    /// Lanes that have nodes.
    pub running: usize,
    /// Whether equal buffers of an equal call are all it takes to make it again: the plan is the planner's own choice.
    pub is_repeatable: bool,
    /// Tiles that every lane runs: those of the node that has most. The others skip the tiles that they do not have.
    pub trips: u32,
}

impl Call {
    /// Binds `request` to `plan`. A tile of a message (all its chunks) never exceeds `message_bytes`.
    ///
    /// # Errors
    /// Where the reduction does not exist for the data type, or the plan does not fit the counts.
    pub fn bind(request: Request, plan: Arc<Plan>, message_bytes: usize) -> Result<Call, Refused> {
        let kernel =
            Kernel::new(request.dtype, request.op, plan.world).map_err(hcomm_planner::RequestError::from)?;
        let layout = Layout::new(&request, &plan);
        let tile_bytes = shape::tile_bytes(message_bytes as u64, plan.span_chunks, layout.element_bytes);
        let fingerprint = fingerprint(&request, &plan, tile_bytes);
        let scales = matches!(request.op, ReduceOp::Average | ReduceOp::PreMulSum(_));
        let mut call = Call {
            kernel,
            fingerprint,
            scales,
            input_bytes: layout.input.as_ref().map(|shape| shape.elements() * layout.element_bytes),
            output_bytes: layout.output.as_ref().map(|shape| shape.elements() * layout.element_bytes),
            scratch_bytes: layout.scratch.last().map_or(0, |e| e.start + e.bytes),
            tile_bytes,
            nodes: Vec::with_capacity(plan.nodes.len()),
            sources: Vec::with_capacity(plan.sources.len()),
            sinks: Vec::with_capacity(plan.sinks.len()),
            extents: Vec::new(),
            running: plan.lanes.iter().filter(|lane| !lane.nodes.is_empty()).count(),
            is_repeatable: false,
            trips: 0,
            request,
            plan,
        };
        let plan = call.plan.clone();
        for (id, node) in plan.nodes.iter().enumerate() {
            call.bind_node(&plan, node, &layout).map_err(|reason| unfit(&plan, id, reason))?;
        }
        if call.tile_bytes * u64::from(plan.span_chunks) > message_bytes.max(LEAST_SLOT_BYTES) as u64 {
            return Err(unfit(&plan, 0, "an element of every chunk of its messages does not fit a slot"));
        }
        call.trips = call.nodes.iter().map(|node| node.trips).max().unwrap_or(0);
        Ok(call)
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

    fn bind_node(&mut self, plan: &Plan, node: &Node, layout: &Layout) -> Result<(), &'static str> {
        let chunks = |span: Span| (span.first..span.first + span.count).map(move |c| (span.buffer, c));
        let largest = chunks(node.extent).map(|(b, c)| layout.extent(b, c).bytes).max().unwrap_or(0);
        let trips = shape::trip_count(largest, self.tile_bytes) as u32;
        let extents = self.extents.len() as u32;
        let spans = local_spans(plan, node).chain([node.extent]);
        let bound: Vec<Vec<Extent>> =
            spans.map(|span| chunks(span).map(|(b, c)| layout.extent(b, c)).collect()).collect();
        let lengths = |list: &[Extent]| list.iter().map(|e| e.bytes).collect::<Vec<_>>();
        if bound.windows(2).any(|pair| lengths(&pair[0]) != lengths(&pair[1])) {
            return Err("its spans differ in length with these counts");
        }
        let merge = trips == 1 && bound.iter().all(|list| side_by_side(list));
        let per_span = if merge { 1 } else { node.extent.count };
        for list in &bound {
            if merge {
                self.extents.push(joined(list));
            } else {
                self.extents.extend(list);
            }
        }
        let extent = self.extents.len() as u32 - per_span;
        let (sources, sinks) = self.find(plan, node, extents, per_span);
        let mut bound = CallNode {
            trips,
            deps: node.deps.clone(),
            lane: node.lane,
            way: Way::Fold,
            bytes: 0,
            sources,
            sinks,
            finish: node.finish,
            extents,
            per_span,
            extent,
        };
        bound.way = self.way(&bound);
        bound.bytes = self.message_bytes(&bound, 0);
        self.nodes.push(bound);
        Ok(())
    }

    /// Appends a node's sources and sinks, whose spans' chunks begin at `extents`.
    fn find(
        &mut self,
        plan: &Plan,
        node: &Node,
        mut extents: u32,
        per_span: u32,
    ) -> (Range<u32>, Range<u32>) {
        let firsts = (self.sources.len() as u32, self.sinks.len() as u32);
        let end = |channel: u32| {
            (plan.channels[channel as usize].peer as u32, plan.channels[channel as usize].index)
        };
        let mut next = || {
            extents += per_span;
            extents - per_span
        };
        for source in plan.sources_of(node) {
            self.sources.push(match *source {
                Source::Span { span, first } => {
                    CallSource::Span { buffer: span.buffer, extents: next(), first }
                }
                Source::Message { channel, first } => {
                    let (peer, channel) = end(channel);
                    CallSource::Message { peer, channel, first }
                }
            });
        }
        for sink in plan.sinks_of(node) {
            self.sinks.push(match *sink {
                Sink::Span(span) => CallSink::Span { buffer: span.buffer, extents: next() },
                Sink::Message { channel } => {
                    let (peer, channel) = end(channel);
                    CallSink::Message { peer, channel }
                }
            });
        }
        (firsts.0..self.sources.len() as u32, firsts.1..self.sinks.len() as u32)
    }

    fn way(&self, node: &CallNode) -> Way {
        let (sources, sinks) = (self.sources_of(node), self.sinks_of(node));
        let is_unscaled = |first: bool| !(first && self.scales);
        let is_span = matches!(*sources, [CallSource::Span { first, .. }] if is_unscaled(first));
        if is_span && !node.finish && sinks.iter().all(|sink| matches!(sink, CallSink::Message { .. })) {
            return Way::Send;
        }
        let is_small = node.trips == 1 && node.per_span == 1 && sources.len().max(sinks.len()) <= FEW;
        if is_small { Way::SmallFold } else { Way::Fold }
    }
}

/// The usual slot: what stays in the nearer caches with a few of its like.
pub(crate) const USUAL_TILE_BYTES: u64 = 64 << 10;

/// What every slot holds, however small the staging: a point-to-point header, and a 16-byte element of each of up to 256 chunks.
pub(crate) const LEAST_SLOT_BYTES: usize = 4096;

fn unfit(plan: &Plan, node: usize, reason: &'static str) -> Refused {
    Refused::Unfit { algorithm: plan.algorithm.clone(), node, reason }
}

/// Which call it is, in words.
pub fn describe(request: &Request) -> String {
    use hcomm_planner::request::Counts;
    let mut words = vec![request.dtype.to_string()];
    if request.collective.reduces() {
        words.push(request.op.to_string());
    }
    words.push(match &request.counts {
        Counts::Even(count) => count.to_string(),
        Counts::Listed(counts) => format!("counts {counts:?}"),
        Counts::Local { .. } => "own counts".to_owned(),
    });
    if request.collective.is_rooted() {
        words.push(format!("root {}", request.root));
    }
    if request.deterministic {
        words.push("deterministic".to_owned());
    }
    if let Some(algorithm) = &request.algorithm {
        words.push(format!("algorithm {algorithm}"));
    }
    format!("{}({})", request.collective, words.join(", "))
}

/// FNV-1a over what all ranks know of the call, folded to 32 bits. A fixed function: it crosses machines.
pub fn fingerprint(request: &Request, plan: &Plan, tile_bytes: u64) -> u32 {
    use hcomm_planner::request::Counts;
    let mut hash = Fnv::new();
    hash.add(request.collective.name().as_bytes());
    hash.add(request.dtype.name().as_bytes());
    if request.collective.reduces() {
        hash.add(request.op.to_string().as_bytes());
    }
    hash.add(&(request.root as u64).to_le_bytes());
    match &request.counts {
        Counts::Even(count) => hash.add(&count.to_le_bytes()),
        Counts::Listed(counts) => counts.iter().for_each(|c| hash.add(&c.to_le_bytes())),
        Counts::Local { .. } => hash.add(b"local"),
    }
    hash.add(&plan.id.to_le_bytes());
    hash.add(&tile_bytes.to_le_bytes());
    hash.finish()
}

/// 64-bit FNV-1a.
pub(crate) struct Fnv(u64);

impl Fnv {
    pub(crate) fn new() -> Self {
        Fnv(0xcbf2_9ce4_8422_2325)
    }

    pub(crate) fn add(&mut self, bytes: &[u8]) {
        // The length first, so that neighbouring fields cannot trade bytes.
        for byte in (bytes.len() as u32).to_le_bytes().iter().chain(bytes) {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }

    pub(crate) fn finish(&self) -> u32 {
        (self.0 ^ (self.0 >> 32)) as u32
    }
}

/// The byte ranges of all chunks of one rank's buffers.
struct Layout {
    element_bytes: u64,
    input: Option<Shape>,
    output: Option<Shape>,
    scratch: Vec<Extent>,
}

impl Layout {
    fn new(request: &Request, plan: &Plan) -> Self {
        let blocks = request.blocks(plan.rank, plan.world);
        let shape = |blocks: Option<Vec<u64>>| blocks.map(|b| Shape::new(b, plan.parts));
        let mut layout = Layout {
            element_bytes: request.dtype.size_bytes() as u64,
            input: shape(blocks.input),
            output: shape(blocks.output),
            scratch: Vec::new(),
        };
        let mut start = 0;
        for like in &plan.scratch {
            let bytes = layout.extent(like.buffer, like.first).bytes;
            layout.scratch.push(Extent { start, bytes });
            start += bytes;
        }
        layout
    }

    fn extent(&self, buffer: BufferKind, chunk: u32) -> Extent {
        let shape = match buffer {
            BufferKind::Input => &self.input,
            BufferKind::Output => &self.output,
            BufferKind::Scratch => return self.scratch[chunk as usize],
        };
        let Some(shape) = shape else { return Extent { start: 0, bytes: 0 } };
        let range = shape.chunk(chunk);
        Extent {
            start: range.start * self.element_bytes,
            bytes: (range.end - range.start) * self.element_bytes,
        }
    }
}

/// The local spans of a node: of its sources, then of its sinks.
pub(crate) fn local_spans<'a>(plan: &'a Plan, node: &Node) -> impl Iterator<Item = Span> + 'a {
    let sources = plan.sources_of(node).iter().filter_map(|s| match s {
        Source::Span { span, .. } => Some(*span),
        Source::Message { .. } => None,
    });
    let sinks = plan.sinks_of(node).iter().filter_map(|s| match s {
        Sink::Span(span) => Some(*span),
        Sink::Message { .. } => None,
    });
    sources.chain(sinks)
}

fn side_by_side(list: &[Extent]) -> bool {
    list.windows(2).all(|w| w[0].start + w[0].bytes == w[1].start)
}

fn joined(list: &[Extent]) -> Extent {
    Extent { start: list.first().map_or(0, |e| e.start), bytes: list.iter().map(|e| e.bytes).sum() }
}
