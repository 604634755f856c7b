//! [`Workspace`]: turns a node and a tile into calls of the kernel. Messages lie in one piece; local spans are a chunk's tile
//! each, cut where a buffer's segments end.

use hcomm_ops::{Operand, RawSpan};
use hcomm_planner::BufferKind;

use crate::call::{Call, CallNode, CallSink, CallSource, Extent};
use crate::memory::Memory;

/// Lists that a fold needs, kept for their allocation.
#[derive(Debug, Default)]
pub(super) struct Workspace {
    /// Messages that have arrived, in the order of the node's sources.
    arrived: Vec<RawSpan>,
    /// Slots reserved, in the order of the node's sinks.
    reserved: Vec<RawSpan>,
    /// Messages in whose place an answer is built: the peer and its channel.
    pub answered: Vec<(u32, u8)>,
    /// A plain send's bytes.
    pieces: Vec<RawSpan>,
    operands: Vec<Operand>,
    sinks: Vec<RawSpan>,
    /// The one sink that is stored past the caches.
    streamed: Option<RawSpan>,
}

/// Where a fold stands within a node's tile.
struct Place<'a> {
    call: &'a Call,
    memory: &'a Memory,
    node: &'a CallNode,
    tile: u32,
    /// Of each span.
    chunk: u32,
    /// Bytes of the chunk's tile that are done.
    done: u64,
    /// Bytes of the message before this place.
    message: usize,
}

impl Workspace {
    #[inline]
    pub fn clear(&mut self) {
        self.arrived.clear();
        self.reserved.clear();
        self.answered.clear();
    }

    #[inline]
    pub fn arrived(&mut self, message: RawSpan) {
        self.arrived.push(message);
    }

    #[inline]
    pub fn reserved(&mut self, slot: RawSpan) {
        self.reserved.push(slot);
    }

    /// Lists the bytes of a plain send's span at a tile, in a list to be put back.
    pub fn take_pieces(&mut self, call: &Call, memory: &Memory, node: &CallNode, tile: u32) -> Vec<RawSpan> {
        let mut pieces = std::mem::take(&mut self.pieces);
        pieces.clear();
        let [CallSource::Span { buffer, extents, .. }] = *call.sources_of(node) else { return pieces };
        let buffer = memory.buffer(buffer);
        for chunk in extents..extents + node.per_span {
            let Extent { mut start, mut bytes } = call.tile_of(node, chunk, tile);
            while bytes > 0 {
                let piece = buffer.piece(start, bytes as usize);
                pieces.push(piece);
                start += piece.len() as u64;
                bytes -= piece.len() as u64;
            }
        }
        pieces
    }

    /// Keeps a list for its allocation.
    pub fn put_back(&mut self, pieces: Vec<RawSpan>) {
        self.pieces = pieces;
    }

    /// Folds a node's sources into its sinks.
    #[inline]
    pub fn fold(&mut self, call: &Call, memory: &Memory, node: &CallNode, tile: u32) {
        let mut place = Place { call, memory, node, tile, chunk: 0, done: 0, message: 0 };
        while place.chunk < node.per_span {
            let bytes = call.tile_of(node, node.extent + place.chunk, tile).bytes;
            while place.done < bytes {
                let len = self.load(&place, (bytes - place.done) as usize);
                match self.streamed {
                    None => call.kernel.fold(&self.operands, &self.sinks, node.finish),
                    Some(result) => {
                        call.kernel.fold_streaming(&self.operands, &self.sinks, result, node.finish)
                    }
                }
                place.done += len as u64;
                place.message += len;
            }
            place.chunk += 1;
            place.done = 0;
        }
    }

    /// Lists operands and sinks at a place, all of the same length, at most `len`. Returns the length.
    #[inline]
    fn load(&mut self, place: &Place<'_>, len: usize) -> usize {
        self.operands.clear();
        self.sinks.clear();
        self.streamed = None;
        let (mut messages, mut shortest) = (self.arrived.iter(), len);
        for source in place.call.sources_of(place.node) {
            let (span, first) = match *source {
                CallSource::Span { buffer, extents, first } => (place.local(buffer, extents, len), first),
                CallSource::Message { first, .. } => (place.of_message(messages.next(), len), first),
            };
            shortest = shortest.min(span.len());
            self.operands.push(Operand { span, first });
        }
        let mut slots = self.reserved.iter();
        for sink in place.call.sinks_of(place.node) {
            let span = match *sink {
                CallSink::Span { buffer, extents } => place.local(buffer, extents, len),
                CallSink::Message { .. } => place.of_message(slots.next(), len),
            };
            shortest = shortest.min(span.len());
            self.sinks.push(span);
        }
        if shortest < len {
            self.trim(shortest);
        }
        if place.call.streams {
            self.pick_streamed(place);
        }
        shortest
    }

    /// Shortens all operands and sinks to `len`.
    #[cold]
    fn trim(&mut self, len: usize) {
        self.operands.iter_mut().for_each(|o| o.span = o.span.slice(0, len));
        self.sinks.iter_mut().for_each(|s| *s = s.slice(0, len));
    }

    /// Takes the output's span out of the sinks, if past the caches is where it goes: a line that was just read is in them already.
    fn pick_streamed(&mut self, place: &Place<'_>) {
        let is_result = |sink: &CallSink| matches!(sink, CallSink::Span { buffer: BufferKind::Output, .. });
        let at = place.call.sinks_of(place.node).iter().position(is_result);
        let fits = |at: &usize| {
            let result = self.sinks[*at];
            place.call.kernel.can_stream_to(result) && !self.operands.iter().any(|o| o.span.overlaps(result))
        };
        self.streamed = at.filter(fits).map(|at| self.sinks.remove(at));
    }
}

impl Place<'_> {
    /// A local span's bytes at this place, up to the end of a segment.
    #[inline]
    fn local(&self, buffer: BufferKind, extents: u32, len: usize) -> RawSpan {
        let extent = self.call.tile_of(self.node, extents + self.chunk, self.tile);
        self.memory.buffer(buffer).piece(extent.start + self.done, len)
    }

    /// A message's bytes at this place.
    #[inline]
    fn of_message(&self, message: Option<&RawSpan>, len: usize) -> RawSpan {
        message.expect("a node folds when all its messages were found").slice(self.message, len)
    }
}
