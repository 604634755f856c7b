//! [`Storage`]: where one gpu's chunks of the file lie in hcomm's buffers, and what is in them as the steps are carried out.
//!
//! Input and output are themselves; in place, what a file writes to its input goes to the output that lies there. All else is
//! **room**, of which the plan's scratch is made: the file's scratch; input chunks that are written although no output lies there
//! (they are copied to their room first, as hcomm never writes an input); and buffers that the collective gives this rank none of.
//!
//! A chunk's length goes by its part of the block. Room that is used for chunks of several parts is several pieces of scratch, in
//! **layers**: a layer's chunk has one part for good, and a span lies within one layer.

use std::collections::BTreeMap;
use std::fmt::Display;

use hcomm_ops::Rank;

use super::{Buffer, Operand, Outline, Use};
use crate::import::ImportError;
use crate::plan::{Overlay, Span};
use crate::shape::alias;

/// Parts that one chunk of room may be used for.
const MAX_LAYERS: u32 = 256;

/// What a chunk holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Value {
    /// Which part of a block: what its length goes by.
    pub part: u32,
    /// Ranks' contributions that have been folded into it.
    pub contributions: u64,
    /// The first of those ranks.
    pub first_rank: Rank,
}

/// Where a span lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Where {
    Input(u32),
    Output(u32),
    Room { layer: u32, first: u32 },
}

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct Storage {
    program: Facts,
    /// By chunk of the input: whether it stands in room.
    shadowed: Vec<bool>,
    /// Output, input, room.
    values: Vec<Option<Value>>,
    /// By chunk of room: the layer written last.
    layers: Vec<u32>,
    /// The part of each (layer, chunk) in use.
    parts: BTreeMap<(u32, u32), u32>,
}

#[derive(Clone, Copy, Debug)]
struct Facts {
    rank: Rank,
    collective: crate::request::Collective,
    parts: u32,
    overlay: Overlay,
    /// Input and output of the collective.
    buffers: [Option<u32>; 2],
    /// Buffers of the file.
    file: [u32; 3],
}

impl Storage {
    /// The buffers of a rank before the first step: `chunks` are those of the file's own buffers, and `uses` all that reads and
    /// writes them.
    pub fn new(outline: &Outline, rank: Rank, overlay: Overlay, chunks: [u32; 3], uses: &[Use]) -> Storage {
        let (collective, parts, buffers) = (outline.collective, outline.parts, outline.buffers(rank));
        let facts = Facts { rank, collective, parts, overlay, buffers, file: chunks };
        let room: usize = chunks.iter().map(|chunks| *chunks as usize).sum();
        let cells = facts.outputs() as usize + facts.inputs() as usize + room;
        let mut storage = Storage {
            program: facts,
            shadowed: shadowed(&facts, uses),
            values: vec![None; cells],
            layers: vec![0; room],
            parts: BTreeMap::new(),
        };
        for chunk in 0..facts.inputs() {
            let cell = storage.cell(Where::Input(chunk));
            storage.values[cell] = Some(storage.input(chunk).1);
        }
        storage
    }

    /// The input chunks that are to be copied to their room before the first step.
    pub fn shadows(&self) -> Vec<u32> {
        (0..self.program.inputs()).filter(|chunk| self.shadowed.get(*chunk as usize) == Some(&true)).collect()
    }

    /// An input chunk itself, and what it holds.
    pub fn input(&self, chunk: u32) -> (Where, Value) {
        let Facts { parts, rank: first_rank, .. } = self.program;
        (Where::Input(chunk), Value { part: chunk % parts, contributions: 1, first_rank })
    }

    /// Where a step finds what it reads, and what that is.
    pub fn read(
        &self,
        spot: impl Display + Copy,
        operand: Operand,
        count: u32,
    ) -> Result<(Where, Vec<Value>), ImportError> {
        let mut values = Vec::with_capacity(count as usize);
        let mut first = None;
        for offset in 0..count {
            let home = self.home(operand.buffer, operand.first + offset, false);
            let Some(value) = self.values[self.cell(home)] else {
                let (buffer, chunk) = (operand.buffer.name(), operand.first + offset);
                let reason =
                    format!("it reads chunk {chunk} of buffer {buffer}, which nothing has written before");
                return Err(ImportError::at(spot, reason));
            };
            values.push(value);
            let first = *first.get_or_insert(home);
            if home != first.plus(offset) {
                return Err(apart(spot, operand, count));
            }
        }
        Ok((first.unwrap_or(Where::Input(0)), values))
    }

    /// Where a step stores values, which are there from now on.
    pub fn write(
        &mut self,
        spot: impl Display + Copy,
        operand: Operand,
        values: &[Value],
    ) -> Result<Where, ImportError> {
        let count = values.len() as u32;
        let homes = |storage: &Storage, offset| storage.home(operand.buffer, operand.first + offset, true);
        let mut first = homes(self, 0);
        if let Where::Room { first: chunk, .. } = first {
            let layer = self.layer_for(spot, chunk, values)?;
            first = Where::Room { layer, first: chunk };
            for offset in 0..count {
                self.layers[(chunk + offset) as usize] = layer;
            }
        }
        for (offset, value) in (0..).zip(values) {
            let home = homes(self, offset);
            if home != first.plus(offset) {
                return Err(apart(spot, operand, count));
            }
            self.check_part(spot, home, *value)?;
            let cell = self.cell(home);
            self.values[cell] = Some(*value);
        }
        Ok(first)
    }

    /// The scratch that room has become: for each chunk one of the same length, and the number of each (layer, chunk).
    pub fn scratch(&self) -> (Vec<Span>, BTreeMap<(u32, u32), u32>) {
        let like = |part: u32| match self.program.buffers[0] {
            Some(_) => Span::input(part),
            None => Span::output(part),
        };
        let numbers = self.parts.keys().copied().zip(0..).collect();
        (self.parts.values().map(|part| like(*part)).collect(), numbers)
    }

    /// The output chunk that an input chunk lies on, in place.
    pub fn twin(&self, chunk: u32) -> Option<u32> {
        self.program.twin(chunk)
    }

    fn home(&self, buffer: Buffer, chunk: u32, writes: bool) -> Where {
        let facts = &self.program;
        let [inputs, _, scratch] = facts.file;
        let room =
            |base: u32| Where::Room { layer: self.layers[(base + chunk) as usize], first: base + chunk };
        match buffer {
            Buffer::Scratch => room(0),
            Buffer::Input if facts.buffers[0].is_none() || self.shadowed[chunk as usize] => room(scratch),
            Buffer::Input if writes => facts.twin(chunk).map_or(Where::Input(chunk), Where::Output),
            Buffer::Input => Where::Input(chunk),
            Buffer::Output if facts.buffers[1].is_none() => room(scratch + inputs),
            Buffer::Output => Where::Output(chunk),
        }
    }

    fn cell(&self, home: Where) -> usize {
        let facts = &self.program;
        let in_place = facts.overlay == Overlay::InPlace;
        let cell = match home {
            Where::Output(chunk) => chunk,
            Where::Input(chunk) => facts.twin(chunk).filter(|_| in_place).unwrap_or(facts.outputs() + chunk),
            Where::Room { first, .. } => facts.outputs() + facts.inputs() + first,
        };
        cell as usize
    }

    /// An output chunk is only as long as its own part.
    fn check_part(&self, spot: impl Display + Copy, home: Where, value: Value) -> Result<(), ImportError> {
        let Where::Output(chunk) = home else { return Ok(()) };
        let (own, part) = (chunk % self.program.parts, value.part);
        if own == part {
            return Ok(());
        }
        let reason = format!(
            "it puts part {part} of a block where part {own} of one goes; the two may differ in length"
        );
        Err(ImportError::at(spot, reason))
    }

    /// A layer in which chunks of room from `first` on have the values' parts.
    fn layer_for(
        &mut self,
        spot: impl Display + Copy,
        first: u32,
        values: &[Value],
    ) -> Result<u32, ImportError> {
        let current = self.layers[first as usize];
        let fits = |layer: &u32| {
            let mut chunks = (first..).zip(values);
            chunks
                .all(|(chunk, value)| self.parts.get(&(*layer, chunk)).is_none_or(|part| *part == value.part))
        };
        let layer = [current].into_iter().chain(0..MAX_LAYERS).find(fits);
        let Some(layer) = layer else {
            let reason = format!("it uses a chunk for more than {MAX_LAYERS} different parts of a block");
            return Err(ImportError::at(spot, reason));
        };
        self.parts.extend((first..).zip(values).map(|(chunk, value)| ((layer, chunk), value.part)));
        Ok(layer)
    }
}

impl Facts {
    fn inputs(&self) -> u32 {
        self.buffers[0].unwrap_or(0)
    }

    fn outputs(&self) -> u32 {
        self.buffers[1].unwrap_or(0)
    }

    fn twin(&self, chunk: u32) -> Option<u32> {
        alias(self.collective, self.rank, self.parts, chunk).filter(|twin| *twin < self.outputs())
    }
}

impl Where {
    /// The place `offset` chunks on.
    pub fn plus(self, offset: u32) -> Where {
        match self {
            Where::Input(first) => Where::Input(first + offset),
            Where::Output(first) => Where::Output(first + offset),
            Where::Room { layer, first } => Where::Room { layer, first: first + offset },
        }
    }
}

fn apart(spot: impl Display + Copy, operand: Operand, count: u32) -> ImportError {
    let (buffer, first) = (operand.buffer.name(), operand.first);
    let reason = format!(
        "its {count} chunks of buffer {buffer} from {first} on do not lie side by side any more; expected them written together"
    );
    ImportError::at(spot, reason)
}

/// The input chunks that are written where no output lies, and those that a step uses together with such.
fn shadowed(facts: &Facts, uses: &[Use]) -> Vec<bool> {
    let chunks = facts.file[Buffer::Input as usize] as usize;
    let stays: Vec<bool> =
        (0..chunks as u32).map(|c| facts.overlay == Overlay::InPlace && facts.twin(c).is_some()).collect();
    let (mut shadowed, mut joined) = (vec![false; chunks], vec![false; chunks]);
    for Use { operand, count, writes } in uses.iter().filter(|used| used.operand.buffer == Buffer::Input) {
        let range = operand.first as usize..(operand.first + count) as usize;
        joined[range.start..range.end - 1].fill(true);
        if *writes {
            range.for_each(|chunk| shadowed[chunk] |= !stays[chunk]);
        }
    }
    for chunk in 1..chunks {
        shadowed[chunk] |= shadowed[chunk - 1] && joined[chunk - 1] && !stays[chunk];
    }
    for chunk in (1..chunks).rev() {
        shadowed[chunk - 1] |= shadowed[chunk] && joined[chunk - 1] && !stays[chunk - 1];
    }
    shadowed
}
