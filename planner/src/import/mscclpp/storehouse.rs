//! [`Storehouse`]: the memory of all ranks and the nodes that have been made so far. An operation's move becomes a node of its block, and
//! one more for each other rank whose memory it reads or writes.

use hcomm_ops::Rank;

use super::clock::{Clock, Moment};
use super::lanes::{Carries, FIRST_LANE, Fifos, Lanes};
use super::program::{Move, Place, Program, Spot};
use super::{MAX_GPU_NODES, MAX_NODES};
use crate::graph::MAX_SPAN;
use crate::import::slices::{
    Buffer, Draft, Folded, Operand, Operands, Ordered, Origin, Outline, Storage, Target, Use, Value, Where,
};
use crate::import::{ImportError, within};
use crate::plan::Overlay;

/// Who carries out an operation.
#[derive(Clone, Copy, Debug)]
pub(super) struct Actor<'a> {
    pub spot: Spot,
    /// Among the blocks of all ranks.
    pub block: usize,
    /// Which of its operations it is.
    pub op: u32,
    pub clock: &'a Clock,
    /// It goes through a switch.
    pub on_gpu: bool,
}

/// See the module.
pub(super) struct Storehouse {
    pub outline: Outline,
    in_place: bool,
    pub fifos: Fifos,
    ranks: Vec<House>,
    /// Of all ranks.
    nodes: u64,
}

struct House {
    storage: Storage,
    drafts: Vec<Draft<Spot>>,
    lanes: Lanes,
    /// By chunk of scratch: when it was last written as a packet.
    packets: Vec<Option<Moment>>,
}

/// A source or sink of a node, at one rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct At {
    rank: Rank,
    operand: Operand,
}

/// What is read of a source for one node.
struct Read {
    at: At,
    place: Where,
    values: Vec<Value>,
}

impl Storehouse {
    /// The buffers before the first operation.
    pub fn new(program: &Program, root: Rank, overlay: Overlay) -> Result<Storehouse, ImportError> {
        let outline = Outline { root, ..program.outline.clone() };
        let mut house = Storehouse {
            outline,
            in_place: program.in_place,
            fifos: Fifos::default(),
            ranks: Vec::new(),
            nodes: 0,
        };
        let uses = house.uses(program);
        let mut first = 0;
        for (rank, gpu) in program.gpus.iter().enumerate() {
            let storage = Storage::new(&house.outline, rank, overlay, gpu.chunks, &uses[rank]);
            let lanes = Lanes::new(rank, first..first + gpu.blocks.len());
            first += gpu.blocks.len();
            let packets = vec![None; gpu.chunks[Buffer::Scratch as usize] as usize];
            house.ranks.push(House { storage, drafts: Vec::new(), lanes, packets });
            house.copy_first(rank)?;
        }
        Ok(house)
    }

    /// The first chunk of what moves read as packets that is not there yet, and how many come before it; `from` are known to be there.
    pub fn missing(&self, moves: &[Move], from: usize) -> Option<(usize, (Rank, u32))> {
        let chunks = moves.iter().flat_map(|each| packets(&each.sources, each.count));
        let mut chunks = chunks.enumerate().skip(from);
        chunks.find(|(_, (rank, chunk))| self.ranks[*rank].packets[*chunk as usize].is_none())
    }

    /// When a move's packets were written.
    pub fn written(&self, each: &Move) -> Vec<Moment> {
        let chunks = packets(&each.sources, each.count);
        let moments = chunks.filter_map(|(rank, chunk)| self.ranks[rank].packets[chunk as usize].as_ref());
        let mut moments: Vec<&Moment> = moments.collect();
        moments.dedup_by_key(|moment| (moment.block, moment.ops));
        moments.into_iter().cloned().collect()
    }

    /// Carries out a move; gives the packets that it has written.
    pub fn carry_out(&mut self, actor: Actor<'_>, each: &Move) -> Result<Vec<(Rank, u32)>, ImportError> {
        let sources = self.spread(&each.sources);
        let sinks = self.spread(&each.sinks);
        let mut start = 0;
        while start < each.count {
            let mut reads = self.read(actor.spot, &sources, start)?;
            let mut count = 1;
            while start + count < each.count
                && count < MAX_SPAN
                && self.extend(actor.spot, &mut reads, start + count)?
            {
                count += 1;
            }
            self.emit(actor, reads, &sinks, start, count)?;
            start += count;
        }
        let written: Vec<_> = packets(&each.sinks, each.count).collect();
        let moment = Moment { block: actor.block, ops: actor.op + 1, clock: actor.clock.clone() };
        for (rank, chunk) in &written {
            self.ranks[*rank].packets[*chunk as usize] = Some(moment.clone());
        }
        Ok(written)
    }

    /// The nodes of all ranks.
    pub fn into_ordered(self) -> (Outline, Fifos, Vec<Ordered<Spot>>) {
        let ordered =
            |house: House| Ordered { drafts: house.drafts, storage: house.storage, kinds: house.lanes.kinds };
        (self.outline, self.fifos, self.ranks.into_iter().map(ordered).collect())
    }

    /// All that operations read and write of each rank.
    fn uses(&self, program: &Program) -> Vec<Vec<Use>> {
        let mut uses = vec![Vec::new(); program.gpus.len()];
        for each in program.moves() {
            for (places, writes) in [(&each.sources, false), (&each.sinks, true)] {
                for At { rank, operand } in self.spread(places) {
                    uses[rank].push(Use { operand, count: each.count, writes });
                }
            }
        }
        uses
    }

    /// Input chunks that are going to be written although no output lies there.
    fn copy_first(&mut self, rank: Rank) -> Result<(), ImportError> {
        let house = &mut self.ranks[rank];
        let spot = Spot { gpu: rank, block: 0, op: 0, inner: None };
        for chunk in house.storage.shadows() {
            let (from, value) = house.storage.input(chunk);
            let operand = Operand { buffer: Buffer::Input, first: chunk };
            let to = house.storage.write(spot, operand, &[value])?;
            house.lanes.add(FIRST_LANE, 0, house.drafts.len());
            house.drafts.push(Draft::copy(spot, from, to));
        }
        Ok(())
    }

    /// Places rank by rank.
    fn spread(&self, places: &[Place]) -> Vec<At> {
        let at = |place: &Place, rank: Rank| At { rank, operand: self.there(rank, place.operand) };
        places.iter().flat_map(|place| place.ranks.iter().map(move |rank| at(place, *rank))).collect()
    }

    /// In place, what a file calls the input of a rank that gives nothing is its output.
    fn there(&self, rank: Rank, operand: Operand) -> Operand {
        let [input, output] = self.outline.buffers(rank);
        if operand.buffer == Buffer::Input && input.is_none() && output.is_some() && self.in_place {
            return Operand { buffer: Buffer::Output, ..operand };
        }
        operand
    }

    fn read(&self, spot: Spot, sources: &[At], offset: u32) -> Result<Vec<Read>, ImportError> {
        let one = |at: &At| {
            let operand = Operand { first: at.operand.first + offset, ..at.operand };
            let (place, values) = self.ranks[at.rank].storage.read(spot, operand, 1)?;
            Ok(Read { at: *at, place, values })
        };
        sources.iter().map(one).collect()
    }

    /// Adds the next chunk to what is read, if it lies next to it and is of the same kind.
    fn extend(&self, spot: Spot, reads: &mut [Read], offset: u32) -> Result<bool, ImportError> {
        let sources: Vec<At> = reads.iter().map(|read| read.at).collect();
        let next = self.read(spot, &sources, offset)?;
        let goes_on = |(read, next): (&Read, &Read)| {
            let side_by_side = next.place == read.place.plus(read.values.len() as u32);
            let kind = |read: &Read| (read.values[0].contributions, read.values[0].first_rank);
            side_by_side && kind(read) == kind(next)
        };
        if !reads.iter().zip(&next).all(goes_on) {
            return Ok(false);
        }
        reads.iter_mut().zip(next).for_each(|(read, next)| read.values.extend(next.values));
        Ok(true)
    }

    /// Makes the nodes of one piece of a move.
    fn emit(
        &mut self,
        actor: Actor<'_>,
        reads: Vec<Read>,
        sinks: &[At],
        start: u32,
        count: u32,
    ) -> Result<(), ImportError> {
        let only = if let [read] = &reads[..] { Some(read.at) } else { None };
        // A copy onto itself does nothing.
        let sinks: Vec<At> = sinks.iter().copied().filter(|sink| only != Some(*sink)).collect();
        if sinks.is_empty() {
            return Ok(());
        }
        let mut ranks = reads.iter().map(|read| read.at.rank).chain(sinks.iter().map(|sink| sink.rank));
        if ranks.all(|rank| rank != actor.spot.gpu) {
            let reason = "it moves chunks of other gpus only; expected one of its own";
            return Err(ImportError::at(actor.spot, reason));
        }
        let folded = self.fold(actor, reads, count)?;
        let mut targets = Vec::with_capacity(sinks.len());
        for sink in sinks {
            let operand = Operand { first: sink.operand.first + start, ..sink.operand };
            targets.push(match sink.rank == actor.spot.gpu {
                true => {
                    let storage = &mut self.ranks[sink.rank].storage;
                    Target::Span(storage.write(actor.spot, operand, &folded.values)?)
                }
                false => Target::Message(self.deliver(actor, sink.rank, operand, &folded.values)?),
            });
        }
        let node = Node { sources: folded.sources, sinks: targets, count, finish: folded.finish };
        self.add(actor, actor.spot.gpu, Carries::Own(actor.block), node)
    }

    /// What is read, folded. Files leave open how a fold associates; in rank order, all ranks that fold the same round alike.
    fn fold(&mut self, actor: Actor<'_>, mut reads: Vec<Read>, count: u32) -> Result<Folded, ImportError> {
        reads.sort_by_key(|read| read.values[0].first_rank);
        let mut operands = Operands::default();
        for read in reads {
            let origin = if read.at.rank == actor.spot.gpu {
                Origin::Span { at: read.place, first: false }
            } else {
                Origin::Message { fifo: self.fetch(actor, &read, count)?, first: false }
            };
            operands.add(origin, read.values);
        }
        operands.fold(actor.spot, &self.outline)
    }

    /// The owner of what is read sends it.
    fn fetch(&mut self, actor: Actor<'_>, read: &Read, count: u32) -> Result<usize, ImportError> {
        let fifo = self.fifo(actor, read.at.rank, Carries::Read(actor.block))?;
        let sources = vec![Origin::Span { at: read.place, first: false }];
        let node = Node { sources, sinks: vec![Target::Message(fifo)], count, finish: false };
        self.add(actor, read.at.rank, Carries::Read(actor.block), node)?;
        Ok(fifo)
    }

    /// The owner of what is written receives it.
    fn deliver(
        &mut self,
        actor: Actor<'_>,
        rank: Rank,
        operand: Operand,
        values: &[Value],
    ) -> Result<usize, ImportError> {
        let fifo = self.fifo(actor, rank, Carries::Written(actor.block))?;
        let to = self.ranks[rank].storage.write(actor.spot, operand, values)?;
        let sources = vec![Origin::Message { fifo, first: false }];
        let node = Node { sources, sinks: vec![Target::Span(to)], count: values.len() as u32, finish: false };
        self.add(actor, rank, Carries::Written(actor.block), node)?;
        Ok(fifo)
    }

    /// The channel between the actor's lane and the lane of another rank that works for it.
    fn fifo(&mut self, actor: Actor<'_>, rank: Rank, carries: Carries) -> Result<usize, ImportError> {
        let own = actor.spot.gpu;
        let here = (own, self.ranks[own].lanes.number(Carries::Own(actor.block))?);
        let there = (rank, self.ranks[rank].lanes.number(carries)?);
        match carries {
            Carries::Read(_) => self.fifos.number(there, here),
            _ => self.fifos.number(here, there),
        }
    }

    fn add(&mut self, actor: Actor<'_>, rank: Rank, carries: Carries, node: Node) -> Result<(), ImportError> {
        self.nodes += 1;
        within("nodes of all gpus", self.nodes, MAX_NODES)?;
        let house = &mut self.ranks[rank];
        let lane = house.lanes.number(carries)?;
        let number = house.drafts.len();
        within(format!("nodes of gpu {rank}"), number as u64 + 1, MAX_GPU_NODES)?;
        let knows = |block| if block == actor.block { actor.op } else { actor.clock.knows(block) };
        let deps = house.lanes.wait(lane, knows);
        house.lanes.add(lane, actor.op, number);
        if actor.on_gpu {
            house.lanes.put_on_gpu(lane);
        }
        let Node { sources, sinks, count, finish } = node;
        house.drafts.push(Draft { spot: actor.spot, lane, sources, sinks, count, finish, deps });
        Ok(())
    }
}

/// A node before it has a place.
struct Node {
    sources: Vec<Origin>,
    sinks: Vec<Target>,
    count: u32,
    finish: bool,
}

/// The chunks of scratch that places are packets in.
fn packets(places: &[Place], count: u32) -> impl Iterator<Item = (Rank, u32)> {
    let in_scratch = |place: &&Place| place.packets && place.operand.buffer == Buffer::Scratch;
    places.iter().filter(in_scratch).flat_map(move |place| {
        let chunks = place.operand.first..place.operand.first + count;
        place.ranks.iter().flat_map(move |rank| chunks.clone().map(move |chunk| (*rank, chunk)))
    })
}
