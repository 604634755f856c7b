//! Carries a program out symbolically, step by step, and deals it to the ranks as sends, receives and folds.
//!
//! It follows what every chunk holds and where that lies. A value in scratch gets a chunk of its own, however often its place is
//! written, so that fusing sees who makes and who uses it. A step over several chunks is cut where what it reads does
//! not lie side by side, or has different numbers of contributions in it, or would make too long a message.

use hcomm_ops::Rank;
use rustc_hash::FxHashMap;

use super::error::{CustomError, StepFault};
use super::values::{Value, Values};
use super::{Place, PlanBuilder, Step};
use crate::graph::{Builder, MAX_SPAN};
use crate::plan::Span;
use crate::shape::{BufferKind, alias};

/// What one rank does, in order.
#[derive(Clone, Debug, Default)]
pub(super) struct Share {
    acts: Vec<(u8, Act)>,
    /// For each chunk of scratch, a chunk of its size and the place whose value it is.
    scratch: Vec<(Span, Option<u32>)>,
}

#[derive(Clone, Debug)]
enum Act {
    Send { peer: Rank, channel: u8, span: Span },
    Receive { peer: Rank, channel: u8, span: Span, contributions: u64 },
    Fold { sources: Vec<Span>, sink: Span },
}

impl Share {
    /// Writes it in the builder's terms.
    pub fn write(&self, b: &mut Builder) {
        for (like, home) in &self.scratch {
            b.scratch_for(*home, *like);
        }
        for (stage, act) in &self.acts {
            b.stage(*stage);
            match act {
                Act::Send { peer, channel, span } => b.send(*peer, *channel, *span),
                Act::Receive { peer, channel, span, contributions } => {
                    b.recv_partial(*peer, *channel, *span, *contributions);
                }
                Act::Fold { sources, sink } => b.reduce(sources, *sink),
            }
        }
    }
}

/// Deals a program to its ranks.
pub(super) fn lower(program: &PlanBuilder) -> Result<Vec<Share>, CustomError> {
    let mut lowering = Lowering {
        program,
        shares: vec![Share::default(); program.world],
        cells: FxHashMap::default(),
        homes: FxHashMap::default(),
        values: Values::new(program.world),
    };
    for (number, step) in program.steps.iter().enumerate() {
        let done = program.check_step(step).and_then(|()| lowering.carry_out(step));
        done.map_err(|fault| CustomError::Step { number, step: step.to_string(), fault })?;
    }
    Ok(lowering.shares)
}

/// A chunk of a place.
type Key = (Rank, BufferKind, &'static str, u32);

/// What a chunk of a place holds, and where.
#[derive(Clone, Copy, Debug)]
struct Cell {
    value: Value,
    buffer: BufferKind,
    chunk: u32,
    /// Which part of a block it is as long as.
    part: u32,
    /// First chunk of the run that was written with it, where it is scratch.
    run: u32,
}

struct Lowering<'a> {
    program: &'a PlanBuilder,
    shares: Vec<Share>,
    cells: FxHashMap<Key, Cell>,
    /// Numbers of the places of scratch.
    homes: FxHashMap<Key, u32>,
    values: Values,
}

/// What a piece of a step reads: chunks side by side at a rank, all of them with equally many contributions.
struct Operand {
    rank: Rank,
    cells: Vec<Cell>,
}

impl Operand {
    fn span(&self) -> Span {
        Span::new(self.cells[0].buffer, self.cells[0].chunk, self.cells.len() as u32)
    }
}

impl Lowering<'_> {
    fn carry_out(&mut self, step: &Step) -> Result<(), StepFault> {
        let places = step.operands();
        let mut read: Vec<Vec<Cell>> = Vec::with_capacity(places.len());
        for place in &places {
            let cells: Result<_, _> = (0..place.count()).map(|i| self.read(*place, i)).collect();
            read.push(cells?);
        }
        for i in 0..step.to.count() {
            self.check_lengths(step, &places, &read, i)?;
        }
        let mut start = 0;
        while start < step.to.count() {
            let mut end = start + 1;
            while end < step.to.count() && end - start < MAX_SPAN as usize && self.goes_on(&read, end) {
                end += 1;
            }
            let operand = |(place, cells): (&Place, &Vec<Cell>)| Operand {
                rank: place.rank,
                cells: cells[start..end].to_vec(),
            };
            let operands: Vec<_> = places.iter().zip(&read).map(operand).collect();
            self.emit(step, start, &operands);
            start = end;
        }
        Ok(())
    }

    fn read(&mut self, place: Place, i: usize) -> Result<Cell, StepFault> {
        let chunk = place.chunk(i) as u32;
        if place.buffer == BufferKind::Input {
            self.check_twin(place.rank, chunk)?;
            let (value, part) = (self.values.raw(place.rank, chunk), self.part(chunk));
            return Ok(Cell { value, buffer: BufferKind::Input, chunk, part, run: 0 });
        }
        let cell = self.cells.get(&(place.rank, place.buffer, place.name, chunk)).copied();
        cell.ok_or_else(|| StepFault::Unwritten { chunk: one(place, i) })
    }

    /// In place, an input chunk is there only as long as nothing else is written to the output chunk that it lies on.
    fn check_twin(&mut self, rank: Rank, chunk: u32) -> Result<(), StepFault> {
        let PlanBuilder { collective, parts, .. } = *self.program;
        let Some(twin) = alias(collective, rank, parts as u32, chunk) else { return Ok(()) };
        let raw = self.values.raw(rank, chunk);
        match self.cells.get(&(rank, BufferKind::Output, "", twin)) {
            Some(cell) if cell.value != raw => Err(StepFault::GoneInPlace {
                input: super::input(rank, chunk as usize).to_string(),
                output: super::output(rank, twin as usize).to_string(),
            }),
            _ => Ok(()),
        }
    }

    fn check_lengths(
        &self,
        step: &Step,
        places: &[Place],
        read: &[Vec<Cell>],
        i: usize,
    ) -> Result<(), StepFault> {
        let part = read[0][i].part;
        let wanted = |place: Place| match place.buffer {
            BufferKind::Scratch => part,
            _ => self.part(place.chunk(i) as u32),
        };
        let sources = places.iter().zip(read).map(|(place, cells)| (*place, cells[i].part));
        let sink = (step.to, wanted(step.to));
        match sources.chain([sink]).find(|(_, other)| *other != part) {
            None => Ok(()),
            Some((place, other)) => Err(StepFault::Lengths {
                a: one(places[0], i),
                part_a: part,
                b: one(place, i),
                part_b: other,
            }),
        }
    }

    /// Whether the chunks before `i` and chunk `i` can be moved as one.
    fn goes_on(&self, read: &[Vec<Cell>], i: usize) -> bool {
        let reduces = self.program.collective.reduces();
        let count = |cell: Cell| self.values.contributions(cell.value);
        read.iter().all(|cells| {
            let (a, b) = (cells[i - 1], cells[i]);
            let side_by_side = (a.buffer, a.run, a.chunk + 1) == (b.buffer, b.run, b.chunk);
            side_by_side && (!reduces || count(a) == count(b))
        })
    }

    /// Writes a piece of a step, beginning at its chunk `start`.
    fn emit(&mut self, step: &Step, start: usize, operands: &[Operand]) {
        let (to, stage) = (step.to, step.stage as u8);
        let sink = self.room(to, start, &operands[0].cells);
        let only = operands.len() == 1;
        let mut sources = Vec::with_capacity(operands.len());
        for operand in operands {
            if operand.rank == to.rank {
                sources.push(operand.span());
                continue;
            }
            let into = if only { sink } else { self.fresh(to.rank, &operand.cells, |_| None) };
            self.pass(operand, to.rank, step, into);
            sources.push(into);
        }
        if !only || operands[0].rank == to.rank {
            self.shares[to.rank].acts.push((stage, Act::Fold { sources, sink }));
        }
        self.store(to, start, sink, operands);
    }

    /// Sends what is at another rank.
    fn pass(&mut self, operand: &Operand, to: Rank, step: &Step, into: Span) {
        let (stage, channel) = (step.stage as u8, step.channel as u8);
        let contributions = match self.program.collective {
            collective if collective.reduces() => self.values.contributions(operand.cells[0].value),
            _ => self.program.world as u64,
        };
        let send = Act::Send { peer: to, channel, span: operand.span() };
        self.shares[operand.rank].acts.push((stage, send));
        let receive = Act::Receive { peer: operand.rank, channel, span: into, contributions };
        self.shares[to].acts.push((stage, receive));
    }

    /// Where the chunks of a place are to be written.
    fn room(&mut self, to: Place, start: usize, like: &[Cell]) -> Span {
        if to.buffer == BufferKind::Output {
            return Span::new(BufferKind::Output, to.chunk(start) as u32, like.len() as u32);
        }
        let mut homes = Vec::with_capacity(like.len());
        for i in start..start + like.len() {
            let next = self.homes.len() as u32;
            let key = (to.rank, to.buffer, to.name, to.chunk(i) as u32);
            homes.push(*self.homes.entry(key).or_insert(next));
        }
        self.fresh(to.rank, like, |i| Some(homes[i]))
    }

    /// Scratch that nothing else uses.
    fn fresh(&mut self, rank: Rank, like: &[Cell], home: impl Fn(usize) -> Option<u32>) -> Span {
        let has_output = self.program.chunks(rank, BufferKind::Output) > 0;
        let buffer = if has_output { BufferKind::Output } else { BufferKind::Input };
        let scratch = &mut self.shares[rank].scratch;
        let first = scratch.len() as u32;
        scratch.extend(like.iter().enumerate().map(|(i, cell)| (Span::new(buffer, cell.part, 1), home(i))));
        Span::new(BufferKind::Scratch, first, like.len() as u32)
    }

    /// Notes what a piece has left in its place.
    fn store(&mut self, to: Place, start: usize, sink: Span, operands: &[Operand]) {
        for (i, chunk) in sink.chunks().enumerate() {
            let values: Vec<Value> = operands.iter().map(|operand| operand.cells[i].value).collect();
            let cell = Cell {
                value: self.values.fold(&values),
                buffer: sink.buffer,
                chunk,
                part: operands[0].cells[i].part,
                run: if sink.buffer == BufferKind::Scratch { sink.first } else { 0 },
            };
            self.cells.insert((to.rank, to.buffer, to.name, to.chunk(start + i) as u32), cell);
        }
    }

    fn part(&self, chunk: u32) -> u32 {
        chunk % self.program.parts as u32
    }
}

/// One chunk of a place, in words.
fn one(place: Place, i: usize) -> String {
    Place { chunks: place.chunk(i).into(), ..place }.to_string()
}
