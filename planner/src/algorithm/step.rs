//! [`Step`]: an algorithm as a step of another, on some of the ranks and a piece of the buffers.
//!
//! The outer algorithm makes a topology of the ranks that take part, a call of the step on it, and says in a [`Frame`] where
//! the step's ranks, chunks and channels are; the step's own program is written as it stands.

use hcomm_ops::Rank;

use super::{Algorithm, Call, Layout, Variant, local};
use crate::choose::{PerLink, Work};
use crate::graph::{Builder, Frame, MAX_SPAN};
use crate::hash::Fnv;
use crate::plan::Span;
use crate::request::Collective;
use crate::shape::BufferKind;
use crate::topology::Topology;

/// An algorithm, what it is to do, and how it lies in the whole.
#[derive(Clone, Copy, Debug)]
pub(super) struct Step<'a> {
    pub algorithm: &'static Algorithm,
    pub call: Call<'a>,
    /// Chunks of the whole in one of its blocks: a multiple of its own parts.
    pub block: u32,
    /// Its first channel.
    pub channel: u8,
}

impl<'a> Call<'a> {
    /// The part of this call that the ranks of `topology` do. Blocks, being chunks of the whole, may differ in length.
    pub(super) fn part(&self, collective: Collective, root: Rank, topology: &'a Topology) -> Call<'a> {
        let one_block = matches!(
            collective,
            Collective::AllReduce | Collective::Broadcast | Collective::Reduce | Collective::Barrier
        );
        let variant = if one_block { Variant::Even } else { Variant::Listed };
        let world = topology.world();
        Call {
            collective,
            root,
            variant,
            world,
            topology,
            deterministic: false,
            channels: 1,
            pair: None,
            ..*self
        }
    }
}

impl<'a> Step<'a> {
    /// The named algorithm for a call, over the fewest channels that serve it, made of the first of its pairs.
    ///
    /// # Errors
    /// Why it cannot serve the call.
    pub fn new(name: &str, call: Call<'a>) -> Result<Step<'a>, String> {
        let algorithm = Algorithm::named(name).ok_or_else(|| format!("knows no algorithm '{name}'"))?;
        let call = call.with_pair(algorithm.pairs.first().copied());
        let with = |channels: &u8| call.with_channels(*channels);
        let fewest = algorithm.channels.iter().map(with).find(|call| algorithm.supports(call).is_ok());
        let call = fewest.unwrap_or(with(&algorithm.channels[0]));
        let in_words = |reason| format!("needs {} by '{name}', which {reason}", call.collective);
        algorithm.supports(&call).map_err(in_words)?;
        let block = algorithm.layout(&call).parts;
        Ok(Step { algorithm, call, block, channel: 0 })
    }

    /// The same on channels from `channel` on.
    pub fn on_channel(self, channel: u8) -> Step<'a> {
        Step { channel, ..self }
    }

    /// The same with `block` chunks of the whole in a block.
    pub fn over(self, block: u32) -> Step<'a> {
        Step { block, ..self }
    }

    /// Its own parameters.
    pub fn layout(&self) -> Layout {
        self.algorithm.layout(&self.call)
    }

    /// The first channel that it leaves free.
    pub fn next_channel(&self) -> u8 {
        self.channel + self.layout().channels
    }

    /// Its work, as fractions of its own buffer.
    pub fn work(&self) -> Work {
        let work = self.algorithm.work(&self.call);
        let pieces = f64::from((self.block / self.layout().parts).div_ceil(MAX_SPAN));
        let PerLink { local, remote } = work.messages;
        Work { messages: PerLink { local: local * pieces, remote: remote * pieces }, ..work }
    }

    /// Where its chunks lie, for [`Frame::input`] and [`Frame::output`], its blocks beginning at the given chunks of the whole.
    pub fn chunks(&self, buffer: BufferKind, blocks: impl IntoIterator<Item = u32>) -> Vec<Span> {
        let parts = self.layout().parts;
        let each = self.block / parts;
        let cut = |first: u32| (0..parts).map(move |part| Span::new(buffer, first + part * each, each));
        blocks.into_iter().flat_map(cut).collect()
    }

    /// Whether its messages stay short enough in the whole.
    ///
    /// # Errors
    /// How long they would be.
    pub fn fits(&self) -> Result<(), String> {
        let own = self.layout();
        let longest = own.span_chunks * (self.block / own.parts);
        if own.span_chunks == 1 || longest <= MAX_SPAN {
            return Ok(());
        }
        let (name, limit) = (self.algorithm.name, MAX_SPAN);
        Err(format!("would make '{name}' send messages of {longest} chunks; the limit is {limit}"))
    }

    /// Writes the program of member `me`; the frame's channel is the step's. Where a chunk of the step is longer than a message
    /// may be, the program is written several times, for a piece of every chunk each.
    pub fn build(&self, me: usize, b: &mut Builder, frame: &Frame) {
        let longest = frame.input.iter().chain(&frame.output).map(|chunk| chunk.count).max().unwrap_or(0);
        // A member by itself only copies; that is to make no span longer than the others' messages.
        let most = if self.call.world == 1 { 1 } else { MAX_SPAN };
        for at in (0..longest).step_by(most as usize) {
            let cut = |chunk: &Span| chunk.part(at, (longest - at).min(most));
            let (input, output) =
                (frame.input.iter().map(cut).collect(), frame.output.iter().map(cut).collect());
            b.within(Frame { input, output, channel: self.channel, ..frame.clone() }, |b| {
                match self.call.world {
                    1 => local::build(b),
                    _ => (self.algorithm.build)(&self.call, me, b),
                }
            });
        }
    }
}

/// The fewest chunks that the block of each of some steps can be cut into.
pub(super) fn common_block(steps: &[Step<'_>]) -> u32 {
    let greatest_divisor = |mut a: u32, mut b: u32| {
        while b != 0 {
            (a, b) = (b, a % b);
        }
        a
    };
    steps.iter().map(|step| step.layout().parts).fold(1, |a, b| a / greatest_divisor(a, b) * b)
}

/// The parameters of an algorithm of `parts` chunks per block that is made of these steps.
pub(super) fn layout_of(parts: u32, steps: &[Step<'_>]) -> Layout {
    let mut layout = Layout::of(parts as usize);
    let mut salt = Fnv::new();
    for step in steps.iter().filter(|step| step.call.world > 1) {
        let own = step.layout();
        let longest = (own.span_chunks * (step.block / own.parts)).min(MAX_SPAN);
        layout.channels = layout.channels.max(step.next_channel());
        layout.span_chunks = layout.span_chunks.max(longest);
        layout.buffered |= own.buffered;
        salt.number(own.salt);
        salt.bytes(&[step.call.channels, step.channel]);
    }
    Layout { salt: salt.finish(), ..layout }
}
