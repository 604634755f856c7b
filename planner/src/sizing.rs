//! [`Sizing`]: how many bytes the chunks of a plan have in a call whose counts are known. Drawings show them, and the timeline is
//! computed from them.

use std::ops::Range;

use crate::algorithm::Call;
use crate::choose::Choice;
use crate::compile::{PlanError, candidate};
use crate::plan::{Plan, Span};
use crate::request::{Counts, Request};
use crate::shape::{BufferKind, Shape, tile_bytes, trip_count};
use crate::topology::Topology;

/// A call's counts and the size of a tile.
#[derive(Clone, Debug)]
pub struct Sizing {
    /// The call, of the collective that is drawn.
    pub request: Request,
    /// Largest tile of a chunk, in bytes.
    pub tile_bytes: u64,
}

impl Sizing {
    /// That of a call by the planner's choice, with the tiles that the choice gives it.
    ///
    /// # Errors
    /// Where the request contradicts itself, or no algorithm supports it.
    pub fn chosen(request: Request, topology: &Topology, choice: &Choice) -> Result<Sizing, PlanError> {
        let candidate = candidate(&request, topology, choice)?;
        let call = candidate.apply(&Call::new(&request, topology.world(), topology));
        let span_chunks = candidate.algorithm.layout(&call).span_chunks;
        let message_bytes = candidate.tile_bytes.min(choice.model().slot_bytes());
        let tile_bytes = tile_bytes(message_bytes, span_chunks, request.dtype.size_bytes() as u64);
        Ok(Sizing { request, tile_bytes })
    }

    /// The sizes of one slice's chunks; `None` where only another rank knows them, or the call is no call of this world.
    pub(crate) fn of<'a>(&self, plan: &'a Plan) -> Option<Sizes<'a>> {
        if matches!(self.request.counts, Counts::Local { .. }) || self.request.check(plan.world).is_err() {
            return None;
        }
        let blocks = self.request.blocks(plan.rank, plan.world);
        let shape = |blocks: Option<Vec<u64>>| blocks.map(|blocks| Shape::new(blocks, plan.parts));
        let element_bytes = self.request.dtype.size_bytes() as u64;
        let tile_elements = (self.tile_bytes / element_bytes).max(1);
        let (input, output) = (shape(blocks.input), shape(blocks.output));
        Some(Sizes { plan, input, output, element_bytes, tile_elements })
    }
}

/// The sizes of one slice's chunks.
pub(crate) struct Sizes<'a> {
    plan: &'a Plan,
    input: Option<Shape>,
    output: Option<Shape>,
    element_bytes: u64,
    tile_elements: u64,
}

impl Sizes<'_> {
    /// What a span holds; `None` where the rank has no such chunks.
    pub fn load(&self, span: Span) -> Option<Load> {
        let Sizes { element_bytes, tile_elements, .. } = *self;
        let mut load = Load { alike: Vec::new(), element_bytes, tile_elements };
        let shape = match span.buffer {
            BufferKind::Input => self.input.as_ref()?,
            BufferKind::Output => self.output.as_ref()?,
            BufferKind::Scratch => {
                self.add_scratch(&mut load, span)?;
                return Some(load);
            }
        };
        if span.first.checked_add(span.count)? > shape.chunks() {
            return None;
        }
        self.add(&mut load, shape, span);
        Some(load)
    }

    /// Chunks of one block have at most two lengths, the longer ones first.
    fn add(&self, load: &mut Load, shape: &Shape, span: Span) {
        let (mut chunk, end) = (u64::from(span.first), u64::from(span.first) + u64::from(span.count));
        while chunk < end {
            let range = shape.chunk(chunk as u32);
            let elements = range.end - range.start;
            let alike = shape.alike(chunk as u32).min(end - chunk);
            load.add(elements, alike);
            chunk += alike;
        }
    }

    fn add_scratch(&self, load: &mut Load, span: Span) -> Option<()> {
        for chunk in span.chunks() {
            let like = self.plan.scratch.get(chunk as usize)?;
            let shape = if like.buffer == BufferKind::Input { &self.input } else { &self.output };
            self.add(load, shape.as_ref().filter(|shape| like.first < shape.chunks())?, *like);
        }
        Some(())
    }
}

/// The chunks of a span, by length.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Load {
    /// (elements, chunks that have so many), side by side.
    alike: Vec<(u64, u64)>,
    element_bytes: u64,
    tile_elements: u64,
}

impl Load {
    fn add(&mut self, elements: u64, chunks: u64) {
        match self.alike.last_mut() {
            Some((last, count)) if *last == elements => *count += chunks,
            _ => self.alike.push((elements, chunks)),
        }
    }

    /// Bytes of all its chunks.
    pub fn bytes(&self) -> u64 {
        let elements = self.alike.iter().map(|(elements, chunks)| elements.saturating_mul(*chunks));
        elements.fold(0, u64::saturating_add).saturating_mul(self.element_bytes)
    }

    /// How many tiles it is cut into.
    pub fn trips(&self) -> u64 {
        let longest = self.alike.iter().map(|(elements, _)| *elements).max().unwrap_or(0);
        trip_count(longest, self.tile_elements)
    }

    /// Bytes of one tile of all its chunks.
    pub fn tile_bytes(&self, tile: u64) -> u64 {
        self.bytes_of(tile..tile.saturating_add(1))
    }

    /// Bytes of some tiles of all its chunks.
    pub fn bytes_of(&self, tiles: Range<u64>) -> u64 {
        let [from, to] = [tiles.start, tiles.end].map(|tile| tile.saturating_mul(self.tile_elements));
        let left = |elements: u64| elements.min(to).saturating_sub(from);
        let elements = self.alike.iter().map(|(elements, chunks)| left(*elements).saturating_mul(*chunks));
        elements.fold(0, u64::saturating_add).saturating_mul(self.element_bytes)
    }

    /// `1.5 KiB in 3 tiles`.
    pub fn words(&self) -> String {
        let tiles = self.trips();
        format!("{} in {tiles} tile{}", byte_words(self.bytes()), if tiles == 1 { "" } else { "s" })
    }
}

/// Bytes for people: `200 B`, `64 KiB`, `1 MB`, `1.5 KiB`: in decimal units where these divide it and binary ones do not.
pub(crate) fn byte_words(bytes: u64) -> String {
    let (unit, name) = match bytes {
        0..1024 => return format!("{bytes} B"),
        1024..0x10_0000 => (1024, "KiB"),
        0x10_0000..0x4000_0000 => (0x10_0000, "MiB"),
        _ => (0x4000_0000, "GiB"),
    };
    let decimal = [(1_000_000_000, "GB"), (1_000_000, "MB"), (1000, "KB")];
    let whole = decimal.into_iter().find(|(unit, _)| bytes.is_multiple_of(*unit));
    if let Some((decimal, name)) = whole.filter(|_| !bytes.is_multiple_of(unit)) {
        return format!("{} {name}", bytes / decimal);
    }
    match bytes % unit {
        0 => format!("{} {name}", bytes / unit),
        _ => format!("{:.1} {name}", bytes as f64 / unit as f64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::Collective;
    use crate::{Choice, Costs, Topology, compile};
    use hcomm_ops::{DType, ReduceOp};

    #[test]
    fn tiles_add_up_to_the_span_and_lengths_are_those_of_the_chunks() {
        let topology = Topology::single_host(3);
        let request =
            Request::new(Collective::AllReduce, DType::F32, ReduceOp::Sum, 1000).with_algorithm("ring");
        let plan = compile(&request, 1, &topology, &Choice::new(&topology, Costs::shm())).expect("a ring");
        let sizing = Sizing { request, tile_bytes: 512 };
        let sizes = sizing.of(&plan).expect("even counts are known");
        let load = sizes.load(Span::new(BufferKind::Input, 0, 3)).expect("three chunks");
        assert_eq!(load.alike, [(334, 1), (333, 2)]);
        assert_eq!((load.bytes(), load.trips()), (4000, 3));
        assert_eq!((0..4).map(|tile| load.tile_bytes(tile)).collect::<Vec<_>>(), [1536, 1536, 928, 0]);
        assert_eq!(load.words(), "4 KB in 3 tiles");
        assert_eq!(sizes.load(Span::new(BufferKind::Input, 1, 3)), None);
        assert_eq!(sizes.load(Span::new(BufferKind::Scratch, 0, 1)), None);
    }

    #[test]
    fn counts_that_others_know_have_no_sizes() {
        let counts = Counts::Local { input: [1, 2].into(), output: [1, 2].into() };
        let request = Request { counts, ..Request::new(Collective::AllToAll, DType::F32, ReduceOp::Sum, 0) };
        let topology = Topology::single_host(2);
        let plan = compile(&request, 0, &topology, &Choice::new(&topology, Costs::shm())).expect("a plan");
        assert!(Sizing { request, tile_bytes: 512 }.of(&plan).is_none());
    }

    #[test]
    fn bytes_are_said_as_they_were_asked_for() {
        let known = [
            (0, "0 B"),
            (1000, "1000 B"),
            (1023, "1023 B"),
            (1024, "1 KiB"),
            (1536, "1.5 KiB"),
            (2000, "2 KB"),
            (64 << 10, "64 KiB"),
            (1_000_000, "1 MB"),
            (1 << 20, "1 MiB"),
            (1_500_000, "1500 KB"),
            (3 << 29, "1.5 GiB"),
            (2_000_000_000, "2 GB"),
            (31_250, "30.5 KiB"),
        ];
        for (bytes, words) in known {
            assert_eq!(byte_words(bytes), words);
        }
    }
}
