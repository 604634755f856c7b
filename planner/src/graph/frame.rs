//! [`Frame`]: a smaller world inside the one that a program is written for, so that an algorithm can be a step of another.
//! The [`super::Builder`] translates what is written in it.

use hcomm_ops::Rank;

use crate::plan::Span;
use crate::shape::BufferKind;

/// Who takes part, and where the parts' buffers lie. All in the terms of the world that it lies in; equal on all its
/// members, `input` and `output` apart from the buffer that they name.
#[derive(Clone, Debug, Default)]
pub(crate) struct Frame {
    /// The rank of each member.
    pub ranks: Vec<Rank>,
    /// How many ranks' inputs each member's contribution has in it.
    pub held: Vec<u64>,
    /// Where each chunk of the input lies: a run of one or more chunks, as many for every chunk, which a message can hold.
    /// May be empty where the member has no input.
    pub input: Vec<Span>,
    /// Where each chunk of the output lies.
    pub output: Vec<Span>,
    /// Its first channel.
    pub channel: u8,
}

/// A frame in the terms of the plan, while it is written in.
#[derive(Clone, Debug)]
pub(super) struct Entered {
    pub frame: Frame,
    /// Where each scratch chunk lies.
    pub scratch: Vec<Span>,
    /// By member: its contribution is one rank's input.
    pub raw: Vec<bool>,
    pub team: u32,
    /// The plan's number of each of its own stages.
    pub stages: Vec<u16>,
    /// Chunks that follow one another do so in the plan too, so that longer messages can be.
    joins: bool,
}

impl Frame {
    /// The given ranks, each with one rank's input, from the input to the output chunks.
    pub fn of(ranks: Vec<Rank>, input: Vec<Span>, output: Vec<Span>) -> Frame {
        Frame { held: vec![1; ranks.len()], ranks, input, output, channel: 0 }
    }
}

impl Entered {
    pub fn new(frame: Frame, raw: Vec<bool>, team: u32, stage: u16) -> Entered {
        let follows = |pair: &[Span]| {
            pair[0].buffer == pair[1].buffer && pair[0].first + pair[0].count == pair[1].first
        };
        let joins = frame.input.windows(2).all(follows) && frame.output.windows(2).all(follows);
        Entered { frame, scratch: Vec::new(), raw, team, stages: vec![stage], joins }
    }

    /// The spans of the plan that a span stands for, in order.
    pub fn runs(&self, span: Span) -> Vec<Span> {
        let chunks = match span.buffer {
            BufferKind::Input => &self.frame.input,
            BufferKind::Output => &self.frame.output,
            BufferKind::Scratch => &self.scratch,
        };
        let chunks = &chunks[span.first as usize..(span.first + span.count) as usize];
        match chunks {
            [first, ..] if self.joins => vec![Span { count: first.count * span.count, ..*first }],
            _ => chunks.to_vec(),
        }
    }
}
