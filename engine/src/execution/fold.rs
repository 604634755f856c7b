//! [`Workspace`]: turns a node and a tile into calls of the kernel. Messages lie in one piece; local spans are a chunk's tile
//! each, cut where a buffer's segments end.

use hcomm_ops::{Operand, RawSpan};
use hcomm_planner::plan::NodeId;
use hcomm_planner::{Sink, Source, Span};

use crate::call::{Call, CallNode, Extent};
use crate::memory::Memory;

/// Lists that a fold needs, kept for their allocation.
#[derive(Debug, Default)]
pub(super) struct Workspace {
    /// Messages that have arrived, in the order of the node's sources.
    arrived: Vec<RawSpan>,
    /// Slots reserved, in the order of the node's sinks.
    reserved: Vec<RawSpan>,
    /// A plain send's bytes.
    pieces: Vec<RawSpan>,
    operands: Vec<Operand>,
    sinks: Vec<RawSpan>,
}

/// Where a fold stands within a node's tile.
struct Place<'a> {
    call: &'a Call,
    memory: &'a Memory,
    node: &'a CallNode,
    tile: u32,
    chunk: u32,
    /// Bytes of the chunk's tile that are done.
    done: u64,
    /// Bytes of the message before this place.
    message: usize,
}

impl Workspace {
    pub fn clear(&mut self) {
        self.arrived.clear();
        self.reserved.clear();
    }

    pub fn arrived(&mut self, message: RawSpan) {
        self.arrived.push(message);
    }

    pub fn reserved(&mut self, slot: RawSpan) {
        self.reserved.push(slot);
    }

    /// The bytes that `load_pieces` found.
    pub fn pieces(&self) -> &[RawSpan] {
        &self.pieces
    }

    /// Lists the bytes of a node's first span at a tile.
    pub fn load_pieces(&mut self, call: &Call, memory: &Memory, id: NodeId, tile: u32) {
        let (node, plan_node) = (&call.nodes[id as usize], &call.plan.nodes[id as usize]);
        let buffer = memory.buffer(plan_node.extent.buffer);
        self.pieces.clear();
        for chunk in 0..node.per_span {
            let Extent { mut start, mut bytes } = call.tile_of(node, 0, chunk, tile);
            while bytes > 0 {
                let piece = buffer.piece(start, bytes as usize);
                self.pieces.push(piece);
                start += piece.len() as u64;
                bytes -= piece.len() as u64;
            }
        }
    }

    /// Folds a node's sources into its sinks.
    pub fn fold(&mut self, call: &Call, memory: &Memory, id: NodeId, tile: u32) {
        let node = &call.nodes[id as usize];
        let finish = call.plan.nodes[id as usize].finish;
        let mut place = Place { call, memory, node, tile, chunk: 0, done: 0, message: 0 };
        while place.chunk < node.per_span {
            let bytes = call.tile_of(node, node.length_span(), place.chunk, tile).bytes;
            while place.done < bytes {
                let len = self.load(&place, id, (bytes - place.done) as usize);
                call.kernel.fold(&self.operands, &self.sinks, finish);
                place.done += len as u64;
                place.message += len;
            }
            place.chunk += 1;
            place.done = 0;
        }
    }

    /// Lists operands and sinks at a place, all of the same length, at most `len`. Returns the length.
    fn load(&mut self, place: &Place<'_>, id: NodeId, len: usize) -> usize {
        let plan = &place.call.plan;
        let node = &plan.nodes[id as usize];
        self.operands.clear();
        self.sinks.clear();
        let (mut local, mut message, mut shortest) = (0, 0, len);
        for source in plan.sources_of(node) {
            let (span, first) = match source {
                Source::Span { span, first } => (place.local(*span, &mut local, len), *first),
                Source::Message { first, .. } => {
                    message += 1;
                    (self.arrived[message - 1].slice(place.message, len), *first)
                }
            };
            shortest = shortest.min(span.len());
            self.operands.push(Operand { span, first });
        }
        let mut slot = 0;
        for sink in plan.sinks_of(node) {
            let span = match sink {
                Sink::Span(span) => place.local(*span, &mut local, len),
                Sink::Message { .. } => {
                    slot += 1;
                    self.reserved[slot - 1].slice(place.message, len)
                }
            };
            shortest = shortest.min(span.len());
            self.sinks.push(span);
        }
        self.trim(shortest);
        shortest
    }

    /// Shortens all operands and sinks to `len`.
    fn trim(&mut self, len: usize) {
        self.operands.iter_mut().for_each(|o| o.span = o.span.slice(0, len));
        self.sinks.iter_mut().for_each(|s| *s = s.slice(0, len));
    }
}

impl Place<'_> {
    /// The next local span's bytes at this place, up to the end of a segment.
    fn local(&self, span: Span, index: &mut u32, len: usize) -> RawSpan {
        let extent = self.call.tile_of(self.node, *index, self.chunk, self.tile);
        *index += 1;
        self.memory.buffer(span.buffer).piece(extent.start + self.done, len)
    }
}
