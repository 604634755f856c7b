//! Carries a program out on symbols, every block as far as it goes: gives each gpu's nodes in an order that its waits allow, where their
//! spans lie, and which contributions they fold. `freeze` makes plans of it, and `verify` has the last word.

use std::collections::{HashSet, VecDeque};

use hcomm_ops::Rank;

use super::MAX_GPU_STEPS;
use super::gate::Gate;
use super::program::{Program, Spot, Step};
use super::wiring::Wiring;
use super::words::Side;
use crate::import::slices::{Buffer, Draft, Operand, Operands, Ordered, Origin, Storage, Target, Value};
use crate::import::{ImportError, within};
use crate::plan::Overlay;

/// Carries out a program that `check` has passed, called as `overlay` says.
pub(super) fn run(
    program: &Program,
    wiring: &Wiring,
    overlay: Overlay,
) -> Result<Vec<Ordered<Spot>>, ImportError> {
    let mut run = Run::new(program, wiring, overlay);
    for gpu in 0..program.outline.world {
        run.copy_first(gpu)?;
    }
    while let Some((gpu, block)) = run.queue.pop_front() {
        run.gpus[gpu].blocks[block].queued = false;
        run.advance(gpu, block)?;
    }
    if let Some(stuck) = run.stuck() {
        return Err(stuck);
    }
    let ordered = |gpu: Gpu| Ordered { drafts: gpu.drafts, storage: gpu.storage, kinds: Default::default() };
    Ok(run.gpus.into_iter().map(ordered).collect())
}

struct Run<'p> {
    program: &'p Program,
    wiring: &'p Wiring,
    gpus: Vec<Gpu>,
    /// Messages under way, by channel.
    messages: Vec<VecDeque<Vec<Value>>>,
    /// How many messages of a channel have been received.
    received: Vec<usize>,
    queue: VecDeque<(Rank, usize)>,
}

struct Gpu {
    storage: Storage,
    drafts: Vec<Draft<Spot>>,
    blocks: Vec<Block>,
    /// Steps that others wait for.
    waited: HashSet<(usize, usize)>,
}

struct Block {
    /// The step that it has come to.
    at: usize,
    queued: bool,
    /// What its next node has to wait for.
    pending: Gate,
    last: Option<usize>,
    /// What stands for each finished step that others wait for.
    gates: std::collections::HashMap<usize, Gate>,
    /// Blocks of this gpu that wait for it somewhere.
    waiters: Vec<usize>,
}

/// The lane of what is copied before the first step; block b has lane b + 1.
const FIRST_LANE: usize = 0;

/// What a step waits for.
struct Wait {
    other: Spot,
    why: &'static str,
}

impl<'p> Run<'p> {
    fn new(program: &'p Program, wiring: &'p Wiring, overlay: Overlay) -> Self {
        let gpus = (0..program.outline.world).map(|rank| Gpu::new(program, rank, overlay)).collect();
        let blocks = program.gpus.iter().enumerate();
        let queue = blocks.flat_map(|(rank, gpu)| (0..gpu.blocks.len()).map(move |block| (rank, block)));
        let channels = wiring.fifos().len();
        let (messages, received) = (vec![VecDeque::new(); channels], vec![0; channels]);
        Run { program, wiring, gpus, messages, received, queue: queue.collect() }
    }

    /// Copies that come before the steps: what the file lists, and input chunks that are going to be written.
    fn copy_first(&mut self, rank: Rank) -> Result<(), ImportError> {
        let gpu = &mut self.gpus[rank];
        for chunk in gpu.storage.shadows() {
            let spot = Spot::Gpu(rank);
            let (from, value) = gpu.storage.input(chunk);
            let operand = Operand { buffer: Buffer::Input, first: chunk };
            let to = gpu.storage.write(spot, operand, &[value])?;
            gpu.drafts.push(Draft::copy(spot, from, to));
        }
        for (number, (from, to)) in self.program.gpus[rank].copies.iter().enumerate() {
            let spot = Spot::Copy(rank, number);
            let operand = |buffer, first| Operand { buffer, first };
            let (from, values) = gpu.storage.read(spot, operand(Buffer::Input, *from), 1)?;
            let to = gpu.storage.write(spot, operand(Buffer::Output, *to), &values)?;
            gpu.drafts.push(Draft::copy(spot, from, to));
        }
        let steps = self.program.gpus[rank].blocks.iter().map(|block| block.steps.len()).sum::<usize>();
        let what = || format!("steps of gpu {rank}, with copies of the chunks that they overwrite");
        within(what(), (steps + gpu.drafts.len()) as u64, MAX_GPU_STEPS)?;
        let last = gpu.drafts.len().checked_sub(1);
        for block in &mut gpu.blocks {
            block.pending.wait_for(FIRST_LANE, last);
        }
        Ok(())
    }

    /// Carries out a block's steps until it has to wait.
    fn advance(&mut self, gpu: Rank, block: usize) -> Result<(), ImportError> {
        let mut moved = false;
        while let Some(step) = self.next_step(gpu, block) {
            if self.waits(gpu, block, step).is_some() {
                break;
            }
            self.pass(gpu, block, step)?;
            moved = true;
        }
        if moved {
            self.wake(gpu, block);
        }
        Ok(())
    }

    fn next_step(&self, gpu: Rank, block: usize) -> Option<&'p Step> {
        self.program.gpus[gpu].blocks[block].steps.get(self.gpus[gpu].blocks[block].at)
    }

    /// What a block's next step waits for.
    fn waits(&self, gpu: Rank, block: usize, step: &Step) -> Option<Wait> {
        if let Some((other, dep)) = step.dep.filter(|(other, dep)| self.gpus[gpu].blocks[*other].at <= *dep) {
            return Some(Wait { other: Spot::Step(gpu, other, dep), why: "the end of" });
        }
        let fifo = self.wiring.receives_from(gpu, block).filter(|_| step.kind.receives)?;
        let is_missing = self.messages[fifo].is_empty();
        let sender = self.wiring.sender(fifo, self.received[fifo]).filter(|_| is_missing)?;
        Some(Wait { other: sender, why: "the message of" })
    }

    fn pass(&mut self, rank: Rank, block: usize, step: &Step) -> Result<(), ImportError> {
        let gpu = &mut self.gpus[rank];
        let number = gpu.blocks[block].at;
        if let Some((other, dep)) = step.dep {
            let gate = gpu.blocks[other].gates.get(&dep).cloned().unwrap_or_default();
            gpu.blocks[block].pending.add(&gate);
        }
        if !step.kind.is_nop() {
            self.carry_out(Spot::Step(rank, block, number), rank, block, step)?;
        }
        let gpu = &mut self.gpus[rank];
        let is_waited = gpu.waited.contains(&(block, number));
        gpu.blocks[block].finish(block, is_waited);
        Ok(())
    }

    /// Makes a step a node.
    fn carry_out(&mut self, spot: Spot, rank: Rank, block: usize, step: &Step) -> Result<(), ImportError> {
        let gpu = &mut self.gpus[rank];
        let mut operands = Operands::default();
        if let Some(fifo) = self.wiring.receives_from(rank, block).filter(|_| step.kind.receives) {
            self.received[fifo] += 1;
            operands.add(
                Origin::Message { fifo, first: false },
                self.messages[fifo].pop_front().unwrap_or_default(),
            );
        }
        for side in step.kind.reads {
            let (at, values) = gpu.storage.read(spot, step.operand(*side), step.count)?;
            operands.add(Origin::Span { at, first: false }, values);
        }
        let folded = operands.fold(spot, &self.program.outline)?;
        let mut sinks = Vec::new();
        if step.kind.writes {
            sinks.push(Target::Span(gpu.storage.write(spot, step.operand(Side::Dst), &folded.values)?));
        }
        if let Some(fifo) = self.wiring.sends_on(rank, block).filter(|_| step.kind.sends) {
            self.messages[fifo].push_back(folded.values);
            sinks.push(Target::Message(fifo));
        }
        let state = &mut gpu.blocks[block];
        let lane = block + 1;
        let deps = std::mem::take(&mut state.pending).into_nodes(lane);
        state.last = Some(gpu.drafts.len());
        let (sources, finish) = (folded.sources, folded.finish);
        gpu.drafts.push(Draft { spot, lane, sources, sinks, count: step.count, finish, deps });
        Ok(())
    }

    /// Looks again at those who may have waited for a block.
    fn wake(&mut self, gpu: Rank, block: usize) {
        let receiver = self.wiring.sends_on(gpu, block).and_then(|fifo| self.wiring.receiver(fifo));
        let waiters = self.gpus[gpu].blocks[block].waiters.iter().map(|waiter| (gpu, *waiter));
        for (gpu, block) in waiters.chain(receiver).collect::<Vec<_>>() {
            if !std::mem::replace(&mut self.gpus[gpu].blocks[block].queued, true) {
                self.queue.push_back((gpu, block));
            }
        }
    }

    /// A circle of steps that wait for one another, unless all are done.
    fn stuck(&self) -> Option<ImportError> {
        let blocks = self.program.gpus.iter().enumerate();
        let mut blocks = blocks.flat_map(|(gpu, g)| (0..g.blocks.len()).map(move |block| (gpu, block)));
        let mut next = blocks.find(|(gpu, block)| self.next_step(*gpu, *block).is_some());
        next?;
        let mut path: Vec<((Rank, usize), String)> = Vec::new();
        while let Some((gpu, block)) = next {
            if let Some(start) = path.iter().position(|(seen, _)| *seen == (gpu, block)) {
                path.drain(..start);
                break;
            }
            let Some(Wait { other, why }) =
                self.next_step(gpu, block).and_then(|s| self.waits(gpu, block, s))
            else {
                break;
            };
            path.push(((gpu, block), format!("{why} {other}")));
            next = if let Spot::Step(gpu, block, _) = other { Some((gpu, block)) } else { None };
        }
        let at = |(gpu, block): (Rank, usize)| Spot::Step(gpu, block, self.gpus[gpu].blocks[block].at);
        let mut waits = path.iter().map(|(block, why)| format!("{} waits for {why}", at(*block)));
        let first = path.first().map(|(block, _)| at(*block))?;
        let words: Vec<String> = waits.by_ref().take(MAX_SHOWN).collect();
        let more = if path.len() > MAX_SHOWN { "; .." } else { "" };
        Some(ImportError::at(
            first,
            format!("steps wait for one another in a circle: {}{more}", words.join("; ")),
        ))
    }
}

/// Steps of a circle that an error names.
const MAX_SHOWN: usize = 8;

impl Gpu {
    fn new(program: &Program, rank: Rank, overlay: Overlay) -> Gpu {
        let gpu = &program.gpus[rank];
        let mut waiters = vec![Vec::new(); gpu.blocks.len()];
        let mut waited = HashSet::new();
        for (number, block) in gpu.blocks.iter().enumerate() {
            for (other, dep) in block.steps.iter().filter_map(|step| step.dep) {
                waited.insert((other, dep));
                if waiters[other].last() != Some(&number) {
                    waiters[other].push(number);
                }
            }
        }
        let block = |waiters| Block {
            at: 0,
            queued: true,
            pending: Gate::default(),
            last: None,
            gates: Default::default(),
            waiters,
        };
        let blocks = waiters.into_iter().map(block).collect();
        let storage = Storage::new(&program.outline, rank, overlay, gpu.chunks, &gpu.uses());
        Gpu { storage, drafts: Vec::new(), blocks, waited }
    }
}

impl Block {
    /// Goes on to the next step; notes what stands for the one that has finished, if others wait for it.
    fn finish(&mut self, number: usize, is_waited: bool) {
        if is_waited {
            let mut gate = self.pending.clone();
            gate.wait_for(number + 1, self.last);
            self.gates.insert(self.at, gate);
        }
        self.at += 1;
    }
}
