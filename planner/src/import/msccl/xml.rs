//! Text into a [`Program`]: elements in their places, attributes within their ranges, numbering without gaps. What the numbers mean together
//! is `check`'s.
//!
//! The reader pulls one element at a time and stops at the first that is wrong or too many, so that a file takes memory in
//! proportion to what of it is kept. Document types are refused, and with them every entity but the five of XML itself.

use quick_xml::Reader;
use quick_xml::events::{BytesStart, Event};

use super::algo;
use super::attributes::{Attributes, Fault, shown};
use super::program::{Block, Gpu, Program, Step};
use super::words::{STEPS, Side};
use super::{MAX_BLOCKS, MAX_COPIES, MAX_FILE_BYTES, MAX_GPU_STEPS, MAX_STEPS};
use crate::import::slices::{Buffer, Operand};
use crate::import::{ImportError, within};

/// Reads a whole file.
pub(super) fn read(text: &str) -> Result<Program, ImportError> {
    within("bytes of the file", text.len() as u64, MAX_FILE_BYTES)?;
    let mut reader = Reader::from_str(text);
    reader.config_mut().expand_empty_elements = true;
    let mut reading = Reading { text, at: 0, level: Level::Before, program: None, steps: 0 };
    loop {
        reading.at = reader.buffer_position() as usize;
        match reader.read_event() {
            Ok(Event::Eof) => return reading.end(),
            Ok(event) => reading.handle(&event)?,
            Err(error) => {
                reading.at = reader.error_position() as usize;
                return Err(reading.error(error.to_string()));
            }
        }
    }
}

/// Which element is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Level {
    Before,
    Algo,
    Gpu,
    Block,
    Step,
    Copy,
    After,
}

impl Level {
    /// The element that is open, and those that may be in it, each with the level that it opens.
    fn element(self) -> (&'static str, &'static [(&'static str, Level)]) {
        match self {
            Level::Before => ("file", &[("algo", Level::Algo)]),
            Level::Algo => ("algo", &[("gpu", Level::Gpu)]),
            Level::Gpu => ("gpu", &[("tb", Level::Block), ("copy", Level::Copy)]),
            Level::Block => ("tb", &[("step", Level::Step)]),
            Level::Step => ("step", &[]),
            Level::Copy => ("copy", &[]),
            Level::After => ("file after algo", &[]),
        }
    }

    /// What is open when this has ended.
    fn outer(self) -> Level {
        match self {
            Level::Step => Level::Block,
            Level::Block | Level::Copy => Level::Gpu,
            Level::Gpu => Level::Algo,
            _ => Level::After,
        }
    }
}

struct Reading<'a> {
    text: &'a str,
    /// Where the current element begins, in bytes.
    at: usize,
    level: Level,
    program: Option<Program>,
    /// Of all gpus.
    steps: u64,
}

impl Reading<'_> {
    fn handle(&mut self, event: &Event<'_>) -> Result<(), ImportError> {
        match event {
            Event::Start(tag) => self.open(tag),
            Event::End(_) => {
                self.level = self.level.outer();
                Ok(())
            }
            Event::Text(text) if text.trim().is_empty() => Ok(()),
            Event::Comment(_) | Event::Decl(_) | Event::PI(_) => Ok(()),
            Event::DocType(_) => {
                Err(self.error("a document type; expected none, as a plan needs no entities"))
            }
            _ => Err(self.error(format!("text in {}; expected elements only", self.level.element().0))),
        }
    }

    fn open(&mut self, tag: &BytesStart<'_>) -> Result<(), ImportError> {
        let (outer, inner) = self.level.element();
        let name = tag.name().as_ref().to_owned();
        let Some((_, level)) = inner.iter().find(|(known, _)| *known == name) else {
            let expected = inner.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(" or ");
            let expected = if expected.is_empty() { "nothing" } else { &expected };
            return Err(self.error(format!("{} in {outer}; expected {expected}", shown(&name))));
        };
        self.level = *level;
        let attributes = Attributes::of(tag).map_err(|reason| self.error(format!("{name}: {reason}")))?;
        self.enter(&attributes).map_err(|fault| match fault {
            Fault::Here(reason) => self.error(format!("{name}: {reason}")),
            Fault::Limit(limit) => limit,
        })
    }

    /// Takes in the element that has just been opened.
    fn enter(&mut self, attributes: &Attributes<'_>) -> Result<(), Fault> {
        let Some(program) = &mut self.program else {
            self.program = Some(algo::read(attributes)?);
            return Ok(());
        };
        if self.level == Level::Gpu {
            attributes.numbered("id", program.gpus.len())?;
            if program.gpus.len() == program.outline.world {
                return Err(Fault::Here(format!("one more than ngpus, {}", program.outline.world)));
            }
            program.gpus.push(gpu(attributes)?);
            return Ok(());
        }
        let Some(gpu) = program.gpus.last_mut() else { return Ok(()) };
        match self.level {
            Level::Block => {
                within("blocks of one gpu", gpu.blocks.len() as u64 + 1, MAX_BLOCKS)?;
                attributes.numbered("id", gpu.blocks.len())?;
                gpu.blocks.push(block(attributes, program.channels)?);
            }
            Level::Copy => {
                within("copies of one gpu", gpu.copies.len() as u64 + 1, MAX_COPIES)?;
                gpu.copies.push((attributes.index("i_off")?, attributes.index("o_off")?));
            }
            _ => {
                self.steps += 1;
                within("steps of all gpus", self.steps, MAX_STEPS)?;
                let steps: usize = gpu.blocks.iter().map(|block| block.steps.len()).sum();
                within("steps of one gpu", steps as u64 + 1, MAX_GPU_STEPS)?;
                let Some(block) = gpu.blocks.last_mut() else { return Ok(()) };
                attributes.numbered("s", block.steps.len())?;
                block.steps.push(step(attributes)?);
            }
        }
        Ok(())
    }

    fn end(self) -> Result<Program, ImportError> {
        let level = self.level;
        match self.program {
            Some(program) if level == Level::After => Ok(program),
            Some(_) => Err(self.error(format!("the file ends within {}", level.element().0))),
            None => Err(self.error("the file has no algo element")),
        }
    }

    fn error(&self, reason: impl Into<String>) -> ImportError {
        let before = self.text.as_bytes().get(..self.at).unwrap_or(self.text.as_bytes());
        let line = 1 + before.iter().filter(|byte| **byte == b'\n').count();
        let reason: String = reason.into().chars().take(LONGEST_REASON).collect();
        ImportError::Syntax { line, reason }
    }
}

/// An error shows no more of a word that never ends.
const LONGEST_REASON: usize = 400;

fn gpu(attributes: &Attributes<'_>) -> Result<Gpu, Fault> {
    let chunks =
        [attributes.index("i_chunks")?, attributes.index("o_chunks")?, attributes.index("s_chunks")?];
    Ok(Gpu { chunks, copies: Vec::new(), blocks: Vec::new() })
}

fn block(attributes: &Attributes<'_>, channels: Option<u32>) -> Result<Block, Fault> {
    let channel = attributes.index("chan")?;
    if let Some(limit) = channels.filter(|limit| channel >= *limit) {
        return Err(Fault::Here(format!("chan is {channel}; expected one below nchannels, {limit}")));
    }
    let peer = |name| Ok::<_, Fault>(usize::try_from(attributes.number(name, -1)?).ok());
    Ok(Block { send: peer("send")?, recv: peer("recv")?, channel, steps: Vec::new() })
}

fn step(attributes: &Attributes<'_>) -> Result<Step, Fault> {
    let kind = attributes.required("type")?;
    let Some(kind) = STEPS.iter().find(|known| known.name == kind) else {
        let names = STEPS.each_ref().map(|kind| kind.name).join(", ");
        return Err(Fault::Here(format!("type is {}; expected one of {names}", shown(kind))));
    };
    let operand = |side, buffer, first| match kind.uses(side) {
        true => operand(attributes, buffer, first),
        false => Ok(Operand { buffer: Buffer::Input, first: 0 }),
    };
    let (src, dst) = (operand(Side::Src, "srcbuf", "srcoff")?, operand(Side::Dst, "dstbuf", "dstoff")?);
    let count = if kind.is_nop() { 0 } else { attributes.index("cnt")? };
    let (block, step) = (attributes.number_or("depid", -1, -1)?, attributes.number_or("deps", -1, -1)?);
    let dep = match (usize::try_from(block), usize::try_from(step)) {
        (Err(_), _) => None,
        (Ok(block), Ok(step)) => Some((block, step)),
        (Ok(block), Err(_)) => {
            return Err(Fault::Here(format!("depid is {block}, but deps is {step}; expected a step")));
        }
    };
    let flags = attributes.number_or("hasdep", 0, 0)? != 0;
    Ok(Step { kind, src, dst, count, dep, flags })
}

fn operand(attributes: &Attributes<'_>, buffer: &str, first: &str) -> Result<Operand, Fault> {
    let name = attributes.required(buffer)?;
    let Some((_, known)) = Buffer::NAMES.iter().find(|(known, _)| *known == name) else {
        return Err(Fault::Here(format!("{buffer} is {}; expected i, o or s", shown(name))));
    };
    Ok(Operand { buffer: *known, first: attributes.index(first)? })
}
