//! `Call::bind`: where every span of a plan lies, and in how many tiles it is moved, for the counts of one call.

use std::ops::Range;
use std::sync::Arc;

use hcomm_ops::{Kernel, ReduceOp, last_level_cache_bytes};
use hcomm_planner::{BufferKind, Collective, Node, Plan, Request, Shape, Sink, Source, Span, shape};

use super::name::fingerprint;
use super::{Call, CallNode, CallSink, CallSource, Extent, LEAST_SLOT_BYTES, Short, Way};
use crate::error::Refused;

/// Bytes from which a result goes back in the place of the message that it answers: those lines are this rank's already.
const ANSWER_BYTES: usize = 16 << 10;

/// Bytes of the longer buffer from which peers of the same host read what lies in the heap there. Below, the copy stays in the caches and
/// costs next to nothing.
const HEAP_BYTES: u64 = 512 << 10;

/// The collectives in which they do: those where a peer folds what it reads and sends nothing back. Where it only copies, the sender's
/// copy into a slot runs beside the peer's out of it, and taking it away gains no time; in an all_reduce the answer comes back in
/// the place of what was sent, which a lent message has none of.
const HEAP_COLLECTIVES: [Collective; 2] = [Collective::ReduceScatter, Collective::Reduce];

/// Results are stored past the caches where a buffer is longer than the last of them, divided by this: an input and an
/// output each on at least two ranks share it.
const STREAM_FACTOR: u64 = 4;

impl Call {
    /// Binds `request` to `plan`. A tile of a message (all its chunks) never exceeds `message_bytes`.
    ///
    /// # Errors
    /// Where the reduction does not exist for the data type, or the plan does not fit the counts.
    pub fn bind(request: Request, plan: Arc<Plan>, message_bytes: usize) -> Result<Call, Refused> {
        let kernel =
            Kernel::new(request.dtype, request.op, plan.world).map_err(hcomm_planner::RequestError::from)?;
        let layout = Layout::new(&request, &plan).map_err(|reason| unfit(&plan, 0, reason))?;
        let tile_bytes = shape::tile_bytes(message_bytes as u64, plan.span_chunks, layout.element_bytes);
        let fingerprint = fingerprint(&request, &plan, tile_bytes);
        let scales = matches!(request.op, ReduceOp::Average | ReduceOp::PreMulSum(_));
        let mut call = Call {
            kernel,
            fingerprint,
            scales,
            lends: false,
            lends_heap: false,
            streams: false,
            input_bytes: layout.input.as_ref().map(|shape| shape.elements() * layout.element_bytes),
            output_bytes: layout.output.as_ref().map(|shape| shape.elements() * layout.element_bytes),
            scratch_bytes: layout.scratch.last().map_or(0, |e| e.start + e.bytes),
            tile_bytes,
            nodes: Vec::with_capacity(plan.nodes.len()),
            sources: Vec::with_capacity(plan.sources.len()),
            sinks: Vec::with_capacity(plan.sinks.len()),
            extents: Vec::new(),
            short: None,
            sent_bytes: 0,
            running: plan.lanes.iter().filter(|lane| !lane.nodes.is_empty()).count(),
            outline: None,
            longest_message: 0,
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
        call.longest_message = call.nodes.iter().map(|node| node.bytes).max().unwrap_or(0);
        call.sent_bytes = call.nodes.iter().fold(0, |sum, node| sum.saturating_add(call.sent_by(node)));
        call.short = Short::of(&call);
        call.choose_memory();
        Ok(call)
    }

    /// Whether results go past the caches, and what may be read where it lies: a matter of how long the buffers are.
    fn choose_memory(&mut self) {
        let longest = self.input_bytes.max(self.output_bytes).unwrap_or(0);
        let copies_only = self.plan.buffered;
        self.streams = longest.saturating_mul(STREAM_FACTOR) > last_level_cache_bytes();
        self.lends = !copies_only && longest >= last_level_cache_bytes();
        let gains = HEAP_COLLECTIVES.contains(&self.request.collective) && longest >= HEAP_BYTES;
        self.lends_heap = !copies_only && gains;
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
            per_span,
            extent,
        };
        bound.way = self.way(&bound);
        bound.bytes = self.message_bytes(&bound, 0);
        if bound.bytes >= ANSWER_BYTES {
            self.pair_answers(&bound);
        }
        self.nodes.push(bound);
        Ok(())
    }

    /// Lets each message that a node sends take the place of one that it has received from the same peer.
    fn pair_answers(&mut self, node: &CallNode) {
        let sources = &self.sources[node.sources.start as usize..node.sources.end as usize];
        let sinks = &mut self.sinks[node.sinks.start as usize..node.sinks.end as usize];
        let mut paired = Vec::new();
        for sink in sinks {
            let CallSink::Message { peer: to, answers, .. } = sink else { continue };
            let received = sources.iter().find_map(|source| match *source {
                CallSource::Message { peer, channel, .. } if peer == *to => Some(channel),
                _ => None,
            });
            if received.is_some() && !paired.contains(to) {
                *answers = received;
                paired.push(*to);
            }
        }
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
                    CallSink::Message { peer, channel, answers: None }
                }
            });
        }
        (firsts.0..self.sources.len() as u32, firsts.1..self.sinks.len() as u32)
    }

    /// Bytes that a node sends, over all tiles and peers.
    fn sent_by(&self, node: &CallNode) -> u64 {
        let chunks = &self.extents[node.extent as usize..(node.extent + node.per_span) as usize];
        let is_message = |sink: &&CallSink| matches!(sink, CallSink::Message { .. });
        let messages = self.sinks_of(node).iter().filter(is_message).count() as u64;
        chunks.iter().fold(0, |sum: u64, chunk| sum.saturating_add(messages.saturating_mul(chunk.bytes)))
    }

    fn way(&self, node: &CallNode) -> Way {
        let (sources, sinks) = (self.sources_of(node), self.sinks_of(node));
        let is_unscaled = |first: bool| !(first && self.scales);
        let is_span = matches!(*sources, [CallSource::Span { first, .. }] if is_unscaled(first));
        if is_span && !node.finish && sinks.iter().all(|sink| matches!(sink, CallSink::Message { .. })) {
            return Way::Send;
        }
        Way::Fold
    }
}

fn unfit(plan: &Plan, node: usize, reason: &'static str) -> Refused {
    Refused::Unfit { algorithm: plan.algorithm.clone(), node, reason }
}

/// The byte ranges of all chunks of one rank's buffers.
struct Layout {
    element_bytes: u64,
    input: Option<Shape>,
    output: Option<Shape>,
    scratch: Vec<Extent>,
}

impl Layout {
    fn new(request: &Request, plan: &Plan) -> Result<Self, &'static str> {
        let blocks = request.blocks(plan.rank, plan.world);
        let shape = |blocks: Option<Vec<u64>>| blocks.map(|b| Shape::new(b, plan.parts));
        let mut layout = Layout {
            element_bytes: request.dtype.size_bytes() as u64,
            input: shape(blocks.input),
            output: shape(blocks.output),
            scratch: Vec::new(),
        };
        let mut start = 0_u64;
        for like in &plan.scratch {
            let bytes = layout.extent(like.buffer, like.first).bytes;
            layout.scratch.push(Extent { start, bytes });
            start = start.checked_add(bytes).ok_or("its scratch has more bytes than can be counted")?;
        }
        Ok(layout)
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
fn local_spans<'a>(plan: &'a Plan, node: &Node) -> impl Iterator<Item = Span> + 'a {
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
