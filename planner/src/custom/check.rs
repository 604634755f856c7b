//! What is refused of a program without carrying it out: numbers that are out of range, places that are not there.

use super::error::{CustomError, StepFault};
use super::{MAX_CHUNKS, MAX_STAGES, Place, PlanBuilder, Step};
use crate::buffers::BlockCounts;
use crate::plan::{MAX_CHANNELS, check_name};
use crate::request::Collective;
use crate::shape::BufferKind;

impl PlanBuilder {
    /// Whether there can be such a plan at all.
    pub(super) fn check_header(&self) -> Result<(), CustomError> {
        let PlanBuilder { collective, world, root, .. } = *self;
        check_name(&self.name).map_err(|shown| CustomError::Name { shown })?;
        if world == 0 {
            return Err(CustomError::EmptyWorld);
        }
        let expected = match collective.is_rooted() {
            true if root >= world => "a rank below the world size",
            false if root != 0 => "0, as it has no root",
            _ => return self.check_parts(),
        };
        Err(CustomError::Root { collective, root, world, expected })
    }

    fn check_parts(&self) -> Result<(), CustomError> {
        let PlanBuilder { collective, world, parts, .. } = *self;
        let of_rank = |rank| self.chunks(rank, BufferKind::Input) + self.chunks(rank, BufferKind::Output);
        let fits = world <= MAX_CHUNKS && parts <= MAX_CHUNKS;
        let chunks = fits.then(|| (0..world).map(of_rank).fold(0_usize, usize::saturating_add));
        match chunks {
            Some(1..=MAX_CHUNKS) => Ok(()),
            _ => Err(CustomError::Parts { collective, parts, world }),
        }
    }

    /// Whether a step makes sense by itself.
    pub(super) fn check_step(&self, step: &Step) -> Result<(), StepFault> {
        if step.channel >= MAX_CHANNELS {
            return Err(StepFault::Channel { channel: step.channel });
        }
        if step.stage >= MAX_STAGES {
            return Err(StepFault::Stage { stage: step.stage });
        }
        step.sources.iter().try_for_each(|place| self.check_place(*place))?;
        self.check_place(step.to)?;
        if step.to.buffer == BufferKind::Input {
            return Err(StepFault::WritesInput { place: step.to.to_string() });
        }
        self.check_shape(step)
    }

    fn check_place(&self, place: Place) -> Result<(), StepFault> {
        let PlanBuilder { collective, world, root, .. } = *self;
        if place.rank >= world {
            return Err(StepFault::Rank { rank: place.rank, world });
        }
        let in_words = || place.to_string();
        if place.count() == 0 {
            return Err(StepFault::NoChunks { place: in_words() });
        }
        let has = match place.buffer {
            BufferKind::Scratch => MAX_CHUNKS,
            buffer => self.chunks(place.rank, buffer),
        };
        if has == 0 {
            return Err(StepFault::NoBuffer { place: in_words(), collective, root });
        }
        match place.chunk(0).checked_add(place.count()) {
            Some(end) if end <= has => Ok(()),
            _ => Err(StepFault::Chunk { place: in_words(), has }),
        }
    }

    fn check_shape(&self, step: &Step) -> Result<(), StepFault> {
        let operands = step.operands();
        let [first, ..] = operands[..] else { return Err(StepFault::NoSource) };
        if step.sources.is_empty() {
            return Err(StepFault::NoSource);
        }
        if let Some(other) = operands.iter().find(|place| place.count() != step.to.count()) {
            return Err(StepFault::Counts { a: other.to_string(), b: step.to.to_string() });
        }
        let onto_itself = operands == [step.to];
        let overlapping = step.sources.iter().find(|place| place.overlaps(step.to) && **place != step.to);
        if let Some(place) = overlapping.or_else(|| onto_itself.then_some(&step.to)) {
            let (source_place, sink_place) = (place.to_string(), step.to.to_string());
            return Err(StepFault::Overlap { source_place, sink_place });
        }
        if operands.len() > 1 && !self.collective.reduces() && self.collective != Collective::Barrier {
            return Err(StepFault::Folds { collective: self.collective });
        }
        let whole = first.buffer == BufferKind::Input && step.to.buffer == BufferKind::Output;
        if self.world == 1 && (!whole || operands.len() > 1) { Err(StepFault::Alone) } else { Ok(()) }
    }

    /// Chunks of a rank's input or output.
    pub(super) fn chunks(&self, rank: usize, buffer: BufferKind) -> usize {
        let blocks = BlockCounts::of(self.collective, self.world, rank, self.root);
        let blocks = if buffer == BufferKind::Input { blocks.input } else { blocks.output };
        blocks.unwrap_or(0) as usize * self.parts
    }
}
