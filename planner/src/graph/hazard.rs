//! [`Hazards`]: who read and wrote each chunk last, so that an operation's edges cost time proportional to the chunks
//! it touches.
//!
//! A plan is right in place and out of place, so an input chunk and the output chunk that may lie on it (its
//! **twin**) count as one place. The exception is a copy of an input chunk onto its own twin: in place it does nothing, and out
//! of place the two are different bytes, so that readers of the input need not wait for it, nor it for them.

use crate::buffers::BlockCounts;
use crate::plan::Span;
use crate::request::Collective;
use crate::shape::{BufferKind, alias};
use hcomm_ops::Rank;

use super::Hazard;

const NONE: u32 = u32::MAX;

/// One chunk's history.
#[derive(Clone, Copy, Debug)]
struct Place {
    written: u32,
    /// The writer copied the twin here.
    by_twin_copy: bool,
    /// Into the list of readers since the last write.
    readers: u32,
    twin: u32,
}

impl Place {
    const NEW: Place = Place { written: NONE, by_twin_copy: false, readers: NONE, twin: NONE };
}

/// The history of every chunk of one rank.
#[derive(Clone, Debug)]
pub(crate) struct Hazards {
    /// Output, then input, then scratch.
    places: Vec<Place>,
    outputs: u32,
    inputs: u32,
    /// Linked lists of readers: (operation, next).
    readers: Vec<(u32, u32)>,
}

impl Hazards {
    /// No history, for a rank's input and output.
    pub fn new(collective: Collective, rank: Rank, parts: u32, blocks: BlockCounts) -> Self {
        let (outputs, inputs) = (blocks.output.unwrap_or(0) * parts, blocks.input.unwrap_or(0) * parts);
        let mut places = vec![Place::NEW; (outputs + inputs) as usize];
        for chunk in 0..inputs {
            let Some(twin) = alias(collective, rank, parts, chunk).filter(|twin| *twin < outputs) else {
                continue;
            };
            places[(outputs + chunk) as usize].twin = twin;
            places[twin as usize].twin = outputs + chunk;
        }
        Hazards { places, outputs, inputs, readers: Vec::new() }
    }

    /// Makes room for one more scratch chunk.
    pub fn add_scratch(&mut self) {
        self.places.push(Place::NEW);
    }

    /// Notes that `op` reads `span`; calls `edge` with each operation it must follow.
    pub fn read(&mut self, op: u32, span: Span, edge: &mut impl FnMut(u32, Hazard)) {
        for at in self.locate(span) {
            let place = self.places[at as usize];
            if place.written != NONE {
                edge(place.written, Hazard::RAW);
            }
            if span.buffer == BufferKind::Input && place.twin != NONE {
                let twin = self.places[place.twin as usize];
                if twin.written != NONE && !twin.by_twin_copy {
                    edge(twin.written, Hazard::RAW);
                }
            }
            self.readers.push((op, place.readers));
            self.places[at as usize].readers = self.readers.len() as u32 - 1;
        }
    }

    /// Notes that `op` overwrites `span`, with a copy of `copied` if that is given.
    pub fn write(&mut self, op: u32, span: Span, copied: Option<Span>, edge: &mut impl FnMut(u32, Hazard)) {
        let sources = copied.map(|source| self.locate(source));
        for (i, at) in self.locate(span).enumerate() {
            let place = self.places[at as usize];
            let source = sources.clone().and_then(|mut s| s.nth(i));
            let is_twin_copy = place.twin != NONE && source == Some(place.twin);
            if place.written != NONE {
                edge(place.written, Hazard::WAW);
            }
            self.after_readers(op, place.readers, edge);
            if place.twin != NONE && !is_twin_copy {
                self.after_readers(op, self.places[place.twin as usize].readers, edge);
                self.places[place.twin as usize].readers = NONE;
            }
            let written = Place { written: op, by_twin_copy: is_twin_copy, readers: NONE, twin: place.twin };
            self.places[at as usize] = written;
        }
    }

    fn after_readers(&self, op: u32, list: u32, edge: &mut impl FnMut(u32, Hazard)) {
        let mut at = list;
        while at != NONE {
            let (reader, next) = self.readers[at as usize];
            if reader != op {
                edge(reader, Hazard::WAR);
            }
            at = next;
        }
    }

    fn locate(&self, span: Span) -> std::ops::Range<u32> {
        let base = match span.buffer {
            BufferKind::Output => 0,
            BufferKind::Input => self.outputs,
            BufferKind::Scratch => self.outputs + self.inputs,
        };
        base + span.first..base + span.first + span.count
    }
}
