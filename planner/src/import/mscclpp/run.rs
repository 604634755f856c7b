//! Carries a program out on symbols, every block as far as it goes, and so finds an order in which its nodes can be carried out. `verify` has
//! the last word on whether any other order that the nodes' own waits allow gives the same.

use std::collections::{HashMap, VecDeque};

use hcomm_ops::Rank;

use super::clock::{Clock, Moment, Tally};
use super::program::{Act, Op, Program, Spot};
use super::storehouse::{Actor, Storehouse};
use crate::import::slices::{Fifo, Ordered, Outline};
use crate::import::{ImportError, within};
use crate::plan::Overlay;

/// Most operations times blocks: what blocks know of one another takes memory by it.
const MAX_KNOWN: u64 = 1 << 24;

/// Waiting operations that an error names.
const MAX_SHOWN: usize = 8;

/// What has come of a program.
pub(super) struct Done {
    pub outline: Outline,
    pub fifos: Vec<Fifo>,
    pub ordered: Vec<Ordered<Spot>>,
}

/// Carries out a program, called as `overlay` says.
pub(super) fn run(program: &Program, root: Rank, overlay: Overlay) -> Result<Done, ImportError> {
    let mut run = Run::new(program, root, overlay)?;
    while let Some(block) = run.queue.pop_front() {
        run.advance(block)?;
    }
    if let Some(stuck) = run.stuck() {
        return Err(stuck);
    }
    let (outline, fifos, ordered) = run.house.into_ordered();
    Ok(Done { outline, fifos: fifos.list, ordered })
}

/// What a block may wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Awaited {
    Counter(usize),
    Packet(Rank, u32),
}

struct Block<'p> {
    ops: &'p [Op],
    at: usize,
    clock: Clock,
    /// Packets that the next operation reads and that are there.
    there: usize,
}

struct Run<'p> {
    house: Storehouse,
    blocks: Vec<Block<'p>>,
    tallies: Vec<Tally>,
    /// By GPU and barrier: the blocks that have come to it.
    met: HashMap<(Rank, u64), Vec<usize>>,
    waiting: HashMap<Awaited, Vec<usize>>,
    /// Blocks that may go on.
    queue: VecDeque<usize>,
}

impl<'p> Run<'p> {
    fn new(program: &'p Program, root: Rank, overlay: Overlay) -> Result<Run<'p>, ImportError> {
        let lists: Vec<&[Op]> = program.gpus.iter().flat_map(|gpu| &gpu.blocks).map(|b| &b.ops[..]).collect();
        let ops: usize = lists.iter().map(|ops| ops.len()).sum();
        within("operations times threadblocks", (ops * lists.len()) as u64, MAX_KNOWN)?;
        let clock = Clock::new(lists.len());
        Ok(Run {
            house: Storehouse::new(program, root, overlay)?,
            tallies: tallies(program, &lists),
            met: HashMap::new(),
            waiting: HashMap::new(),
            queue: (0..lists.len()).collect(),
            blocks: lists
                .into_iter()
                .map(|ops| Block { ops, at: 0, clock: clock.clone(), there: 0 })
                .collect(),
        })
    }

    /// Carries out a block's operations until it has to wait.
    fn advance(&mut self, block: usize) -> Result<(), ImportError> {
        while let Some(op) = self.next(block) {
            if let Some(awaited) = self.awaits(block, op) {
                self.waiting.entry(awaited).or_default().push(block);
                return Ok(());
            }
            match &op.act {
                Act::Nothing => {}
                Act::Raise(counters) => self.raise(block, counters),
                Act::Take(counters) => self.take(block, counters),
                Act::Meet { barrier, blocks } => {
                    self.meet(block, op.spot.gpu, *barrier, *blocks);
                    return Ok(());
                }
                Act::Move { moves, raises } => {
                    for each in moves {
                        self.carry_out(block, op, each)?;
                    }
                    self.raise(block, raises);
                }
            }
            self.go_on(block);
        }
        Ok(())
    }

    fn go_on(&mut self, block: usize) {
        self.blocks[block].at += 1;
        self.blocks[block].there = 0;
    }

    fn next(&self, block: usize) -> Option<&'p Op> {
        self.blocks[block].ops.get(self.blocks[block].at)
    }

    /// What a block's next operation has to wait for.
    fn awaits(&mut self, block: usize, op: &Op) -> Option<Awaited> {
        match &op.act {
            Act::Take(counters) => self.lacking(counters).map(Awaited::Counter),
            Act::Move { moves, .. } => {
                let (there, (rank, chunk)) = self.house.missing(moves, self.blocks[block].there)?;
                self.blocks[block].there = there;
                Some(Awaited::Packet(rank, chunk))
            }
            _ => None,
        }
    }

    /// The first of some counters that has not as much left as is to be taken from it.
    fn lacking(&self, counters: &[usize]) -> Option<usize> {
        let mut times: HashMap<usize, i64> = HashMap::new();
        counters.iter().copied().find(|counter| {
            let times = times.entry(*counter).or_default();
            *times += 1;
            self.tallies[*counter].left() < *times
        })
    }

    /// What a block knows once its current operation is done.
    fn moment(&self, block: usize) -> Moment {
        let Block { at, clock, .. } = &self.blocks[block];
        Moment { block, ops: *at as u32 + 1, clock: clock.clone() }
    }

    fn raise(&mut self, block: usize, counters: &[usize]) {
        let moment = self.moment(block);
        for counter in counters {
            self.tallies[*counter].raise(moment.clone());
            self.wake(Awaited::Counter(*counter));
        }
    }

    fn take(&mut self, block: usize, counters: &[usize]) {
        for counter in counters {
            for moment in self.tallies[*counter].take(block) {
                self.blocks[block].clock.learn(moment);
            }
        }
    }

    /// Comes to a barrier; the last one of its blocks lets all go on.
    fn meet(&mut self, block: usize, gpu: Rank, barrier: u64, blocks: usize) {
        let met = self.met.entry((gpu, barrier)).or_default();
        met.push(block);
        if met.len() < blocks {
            return;
        }
        let met = std::mem::take(met);
        let moments: Vec<Moment> = met.iter().map(|block| self.moment(*block)).collect();
        for block in met {
            moments.iter().for_each(|moment| self.blocks[block].clock.learn(moment));
            self.go_on(block);
            self.queue.push_back(block);
        }
    }

    fn carry_out(&mut self, block: usize, op: &Op, each: &super::program::Move) -> Result<(), ImportError> {
        for moment in self.house.written(each) {
            self.blocks[block].clock.learn(&moment);
        }
        let Block { at, clock, .. } = &self.blocks[block];
        let actor = Actor { spot: op.spot, block, op: *at as u32, clock, on_gpu: op.kind.uses_switch() };
        for (rank, chunk) in self.house.carry_out(actor, each)? {
            self.wake(Awaited::Packet(rank, chunk));
        }
        Ok(())
    }

    fn wake(&mut self, awaited: Awaited) {
        self.queue.extend(self.waiting.remove(&awaited).into_iter().flatten());
    }

    /// The operations that wait for what never comes.
    fn stuck(&self) -> Option<ImportError> {
        let waiting = (0..self.blocks.len()).filter_map(|block| self.next(block));
        let words = |op: &Op| format!("{} ({}) waits for {}", op.spot, op.kind.name, self.words(op));
        let mut shown = waiting.clone().map(words);
        let first = waiting.clone().next()?.spot;
        let list: Vec<String> = shown.by_ref().take(MAX_SHOWN).collect();
        let more = if shown.next().is_some() { "; .." } else { "" };
        Some(ImportError::at(first, format!("operations wait for ever: {}{more}", list.join("; "))))
    }

    fn words(&self, op: &Op) -> String {
        let missing = match &op.act {
            Act::Move { moves, .. } => self.house.missing(moves, 0),
            Act::Meet { .. } => return "other threadblocks at the barrier".to_owned(),
            _ => None,
        };
        match missing {
            Some((_, (rank, chunk))) => format!("a packet in piece {chunk} of buffer s of gpu {rank}"),
            None => "a signal or release".to_owned(),
        }
    }
}

/// The counters, each with the blocks that raise it.
fn tallies(program: &Program, blocks: &[&[Op]]) -> Vec<Tally> {
    let mut raisers = vec![Vec::new(); program.counters.len()];
    for (block, ops) in blocks.iter().enumerate() {
        for op in ops.iter() {
            if let Act::Raise(counters) | Act::Move { raises: counters, .. } = &op.act {
                counters.iter().for_each(|counter| raisers[*counter].push(block));
            }
        }
    }
    program.counters.iter().zip(&raisers).map(|(counter, raisers)| Tally::new(*counter, raisers)).collect()
}
