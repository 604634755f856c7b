//! Puts one rank's steps into thread blocks, each behind waits for what it must follow in other blocks: one wait per step, and a `nop` for every
//! further one. Which steps touch the same chunk is followed as for built plans, in place and apart.

use rustc_hash::FxHashMap;

use super::blocks::{Block, Blocks};
use super::lower::{Lowered, Step};
use super::{ExportError, within};
use crate::buffers::BlockCounts;
use crate::graph::Hazards;
use crate::plan::Plan;

/// Most steps of a block, `nop`s included.
const MAX_STEPS: usize = 64;

/// Most blocks of a rank.
const MAX_BLOCKS: usize = 64;

/// Most blocks of a rank on channels of one number.
const MAX_CHANNEL_BLOCKS: usize = 32;

/// A step in its block.
#[derive(Clone, Copy, Debug)]
pub(super) struct Placed {
    /// `None` only waits.
    pub step: Option<Step>,
    /// Block and step that must have finished.
    pub dep: Option<(usize, usize)>,
    /// Another block waits for it.
    pub flags: bool,
}

/// One rank's blocks with their steps.
pub(super) type Gpu = Vec<(Block, Vec<Placed>)>;

/// Schedules a rank's steps.
pub(super) fn schedule(lowered: &Lowered<'_>, blocks: Blocks) -> Result<Gpu, ExportError> {
    lowered.check()?;
    let Plan { collective, world, rank, root, parts, .. } = *lowered.plan;
    let buffers = BlockCounts::of(collective, world, rank, root);
    let mut hazards = Hazards::new(collective, rank, parts, buffers);
    lowered.scratch.iter().for_each(|_| hazards.add_scratch());
    let lists = vec![Vec::new(); blocks.list.len()];
    let mut schedule =
        Schedule { rank, blocks, hazards, lists, places: Vec::new(), known: FxHashMap::default() };
    for step in &lowered.steps {
        schedule.place(*step)?;
    }
    schedule.end()
}

struct Schedule {
    rank: usize,
    blocks: Blocks,
    hazards: Hazards,
    lists: Vec<Vec<Placed>>,
    /// Block and place of each step so far.
    places: Vec<(usize, usize)>,
    /// For (waiting block, block waited for): how far the latter is known to have come.
    known: FxHashMap<(usize, usize), usize>,
}

impl Schedule {
    fn place(&mut self, step: Step) -> Result<(), ExportError> {
        let before = self.before(&step);
        let mut block = self.blocks.of(&step);
        self.lists.resize(self.blocks.list.len(), Vec::new());
        let mut waits = self.waits(block, &before);
        if self.blocks.is_local(block) && self.lists[block].len() + waits.len().max(1) > MAX_STEPS {
            block = self.blocks.open_local();
            self.lists.push(Vec::new());
            waits = self.waits(block, &before);
        }
        let last = waits.pop();
        let nops = waits.into_iter().map(|wait| (None, Some(wait)));
        for (step, dep) in nops.chain([(Some(step), last)]).collect::<Vec<_>>() {
            if let Some((other, at)) = dep {
                self.lists[other][at].flags = true;
                self.known.insert((block, other), at);
            }
            self.lists[block].push(Placed { step, dep, flags: false });
        }
        let (rank, steps) = (self.rank, self.lists[block].len());
        within(|| format!("steps in block {block} of rank {rank}"), steps, MAX_STEPS)?;
        self.places.push((block, steps - 1));
        Ok(())
    }

    /// The earlier steps that touch what a step touches, in a way that matters.
    fn before(&mut self, step: &Step) -> Vec<u32> {
        let number = self.places.len() as u32;
        let mut before = Vec::new();
        let mut edge = |earlier, _| before.push(earlier);
        for span in step.src.into_iter().chain(step.dst.filter(|_| step.accumulates)) {
            self.hazards.read(number, span, &mut edge);
        }
        if let Some(span) = step.dst {
            let copied = step.src.filter(|_| step.receives.is_none() && !step.accumulates);
            self.hazards.write(number, span, copied, &mut edge);
        }
        before
    }

    /// What a block has to wait for, the latest step of each other block, as far as it is not known to have finished.
    fn waits(&self, block: usize, before: &[u32]) -> Vec<(usize, usize)> {
        let mut waits: Vec<(usize, usize)> = before.iter().map(|step| self.places[*step as usize]).collect();
        waits.retain(|(other, at)| {
            *other != block && self.known.get(&(block, *other)).is_none_or(|known| known < at)
        });
        waits.sort_unstable_by_key(|(other, at)| (*other, std::cmp::Reverse(*at)));
        waits.dedup_by_key(|(other, _)| *other);
        waits
    }

    fn end(self) -> Result<Gpu, ExportError> {
        let (rank, count) = (self.rank, self.blocks.list.len());
        within(|| format!("blocks of rank {rank}"), count, MAX_BLOCKS)?;
        let on = |channel: u8| self.blocks.list.iter().filter(|block| block.channel() == channel).count();
        for block in &self.blocks.list {
            let channel = block.channel();
            within(
                || format!("blocks of rank {rank} on channel {channel}"),
                on(channel),
                MAX_CHANNEL_BLOCKS,
            )?;
        }
        Ok(self.blocks.list.into_iter().zip(self.lists).collect())
    }
}
