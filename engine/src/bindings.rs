//! [`Buffers`]: the ways in which a call's buffers are given: in place, apart, one of them, none, or joined from several.

use hcomm_ops::buffer::{Claim, Landing};
use hcomm_ops::{DType, Rank, RawSpan, StableBuffer};
use hcomm_planner::Collective;

use crate::error::Refused;
use crate::memory::Memory;

/// What a binding needs to know of the call.
#[derive(Clone, Copy, Debug)]
pub struct Binding {
    /// The collective: says where in the output an in-place input lies.
    pub collective: Collective,
    /// The calling rank.
    pub rank: Rank,
    /// Ranks there are.
    pub world: usize,
    /// The special rank.
    pub root: Rank,
}

/// The bytes of a call's buffers.
#[derive(Debug, Default)]
pub struct Spans {
    /// The input, where there is one.
    pub input: Option<RawSpan>,
    /// The output, where there is one.
    pub output: Option<RawSpan>,
    /// Further segments that are both input and output.
    pub more: Vec<RawSpan>,
}

impl Spans {
    /// Bytes of the input.
    #[inline]
    pub fn input_bytes(&self) -> u64 {
        self.bytes(self.input)
    }

    /// Bytes of the output.
    #[inline]
    pub fn output_bytes(&self) -> u64 {
        self.bytes(self.output)
    }

    /// Enters them into an operation's memory.
    #[inline]
    pub(crate) fn enter(&self, memory: &mut Memory) {
        if self.more.is_empty() {
            memory.input.set(self.input.unwrap_or(RawSpan::empty()));
            memory.output.set(self.output.unwrap_or(RawSpan::empty()));
            return;
        }
        memory.input.set_all(self.input.into_iter().chain(self.more.iter().copied()));
        memory.output.set_all(self.output.into_iter().chain(self.more.iter().copied()));
    }

    #[inline]
    fn bytes(&self, first: Option<RawSpan>) -> u64 {
        first.iter().chain(&self.more).map(|span| span.len() as u64).sum()
    }
}

/// The buffers of one call, given away until the operation ends.
pub trait Buffers: Send {
    /// What the caller gets back.
    type Returned;

    /// The element type; `None` where there is no buffer.
    ///
    /// # Errors
    /// Where the buffers' types differ.
    fn dtype(&self) -> Result<Option<DType>, Refused>;

    /// The bytes.
    ///
    /// # Errors
    /// Where buffers overlap without being in place.
    fn spans(&mut self, binding: Binding) -> Result<Spans, Refused>;

    /// Claims on buffers that several operations may hold.
    fn claims(&self) -> Vec<Claim> {
        Vec::new()
    }

    /// What is still to be done with the outputs once the operation has ended well; asked for once for every call.
    #[inline]
    fn landing(&mut self, binding: Binding) -> Option<Landing> {
        let _ = binding;
        None
    }

    /// Gives them back.
    fn into_returned(self) -> Self::Returned;
}

/// One buffer that is input and output. Where one of the two is a block of the other (all_gather, gather,
/// reduce_scatter, scatter), the buffer is the larger one and the other is this rank's own block of it.
#[derive(Debug)]
pub struct InPlace<B>(pub B);

/// Input and output apart.
#[derive(Debug)]
pub struct Apart<I, O>(pub I, pub O);

/// Only an input, such as a non-root's in gather.
#[derive(Debug)]
pub struct InputOnly<I>(pub I);

/// Only an output, such as a non-root's in broadcast.
#[derive(Debug)]
pub struct OutputOnly<O>(pub O);

/// No buffer, as in barrier.
#[derive(Debug)]
pub struct Nothing;

/// Several in-place buffers as one: their bytes are counted through in order.
#[derive(Debug)]
pub struct Joined<B>(pub Vec<B>);

impl<B: StableBuffer> Buffers for InPlace<B> {
    type Returned = B;

    #[inline]
    fn dtype(&self) -> Result<Option<DType>, Refused> {
        Ok(Some(self.0.dtype()))
    }

    #[inline]
    fn spans(&mut self, binding: Binding) -> Result<Spans, Refused> {
        let (whole, size) = (self.0.span(), self.0.dtype().size_bytes());
        let (input, output) = match binding.collective {
            Collective::Gather | Collective::Scatter if binding.rank != binding.root => (whole, whole),
            Collective::AllGather | Collective::Gather => (own_block(whole, size, binding), whole),
            Collective::ReduceScatter | Collective::Scatter => (whole, own_block(whole, size, binding)),
            _ => (whole, whole),
        };
        Ok(Spans { input: Some(input), output: Some(output), more: Vec::new() })
    }

    fn claims(&self) -> Vec<Claim> {
        self.0.claim().into_iter().collect()
    }

    #[inline]
    fn landing(&mut self, binding: Binding) -> Option<Landing> {
        landing_of(&mut self.0, binding)
    }

    fn into_returned(self) -> B {
        self.0
    }
}

impl<I: StableBuffer, O: StableBuffer> Buffers for Apart<I, O> {
    type Returned = (I, O);

    #[inline]
    fn dtype(&self) -> Result<Option<DType>, Refused> {
        let (input, output) = (self.0.dtype(), self.1.dtype());
        if input != output {
            return Err(Refused::DTypesDiffer { input, output });
        }
        Ok(Some(input))
    }

    #[inline]
    fn spans(&mut self, _: Binding) -> Result<Spans, Refused> {
        let (input, output) = (self.0.span(), self.1.span());
        if input.overlaps(output) {
            return Err(Refused::Overlap);
        }
        Ok(Spans { input: Some(input), output: Some(output), more: Vec::new() })
    }

    fn claims(&self) -> Vec<Claim> {
        self.0.claim().into_iter().chain(self.1.claim()).collect()
    }

    #[inline]
    fn landing(&mut self, binding: Binding) -> Option<Landing> {
        landing_of(&mut self.1, binding)
    }

    fn into_returned(self) -> (I, O) {
        (self.0, self.1)
    }
}

impl<I: StableBuffer> Buffers for InputOnly<I> {
    type Returned = I;

    #[inline]
    fn dtype(&self) -> Result<Option<DType>, Refused> {
        Ok(Some(self.0.dtype()))
    }

    #[inline]
    fn spans(&mut self, _: Binding) -> Result<Spans, Refused> {
        Ok(Spans { input: Some(self.0.span()), ..Spans::default() })
    }

    fn claims(&self) -> Vec<Claim> {
        self.0.claim().into_iter().collect()
    }

    fn into_returned(self) -> I {
        self.0
    }
}

impl<O: StableBuffer> Buffers for OutputOnly<O> {
    type Returned = O;

    #[inline]
    fn dtype(&self) -> Result<Option<DType>, Refused> {
        Ok(Some(self.0.dtype()))
    }

    #[inline]
    fn spans(&mut self, _: Binding) -> Result<Spans, Refused> {
        Ok(Spans { output: Some(self.0.span()), ..Spans::default() })
    }

    fn claims(&self) -> Vec<Claim> {
        self.0.claim().into_iter().collect()
    }

    #[inline]
    fn landing(&mut self, binding: Binding) -> Option<Landing> {
        landing_of(&mut self.0, binding)
    }

    fn into_returned(self) -> O {
        self.0
    }
}

impl Buffers for Nothing {
    type Returned = ();

    fn dtype(&self) -> Result<Option<DType>, Refused> {
        Ok(None)
    }

    fn spans(&mut self, _: Binding) -> Result<Spans, Refused> {
        Ok(Spans::default())
    }

    fn into_returned(self) {}
}

impl<B: StableBuffer> Buffers for Joined<B> {
    type Returned = Vec<B>;

    fn dtype(&self) -> Result<Option<DType>, Refused> {
        let Some(first) = self.0.first().map(StableBuffer::dtype) else { return Ok(None) };
        match self.0.iter().map(StableBuffer::dtype).find(|d| *d != first) {
            Some(other) => Err(Refused::DTypesDiffer { input: first, output: other }),
            None => Ok(Some(first)),
        }
    }

    fn spans(&mut self, binding: Binding) -> Result<Spans, Refused> {
        let more: Vec<RawSpan> = self.0.iter_mut().map(StableBuffer::span).collect();
        let is_read = binding.collective == Collective::Broadcast && binding.rank == binding.root;
        if !is_read && do_any_overlap(&more) {
            return Err(Refused::Overlap);
        }
        Ok(Spans { more, ..Spans::default() })
    }

    fn claims(&self) -> Vec<Claim> {
        self.0.iter().filter_map(StableBuffer::claim).collect()
    }

    #[inline]
    fn landing(&mut self, binding: Binding) -> Option<Landing> {
        let all: Vec<Landing> = self.0.iter_mut().filter_map(|buffer| landing_of(buffer, binding)).collect();
        if all.is_empty() {
            return None;
        }
        Some(Box::new(move || all.into_iter().for_each(|landing| landing())))
    }

    fn into_returned(self) -> Vec<B> {
        self.0
    }
}

/// Whether a byte is in two of them.
fn do_any_overlap(spans: &[RawSpan]) -> bool {
    let mut sorted: Vec<RawSpan> = spans.iter().copied().filter(|span| !span.is_empty()).collect();
    sorted.sort_unstable_by_key(|span| span.as_ptr());
    sorted.windows(2).any(|pair| pair[0].overlaps(pair[1]))
}

/// This rank's block of a buffer of `world` equal blocks; what does not divide is caught by the size check.
fn own_block(whole: RawSpan, size: usize, binding: Binding) -> RawSpan {
    let block = whole.len() / size / binding.world * size;
    whole.slice(binding.rank * block, block)
}

/// What is to be done with an output once the call has ended well; nothing where the call writes none at this rank.
#[inline]
fn landing_of(output: &mut impl StableBuffer, binding: Binding) -> Option<Landing> {
    let landing = output.landing()?;
    let only_at_root = matches!(binding.collective, Collective::Reduce | Collective::Gather);
    let is_written = !only_at_root || binding.rank == binding.root;
    is_written.then_some(landing)
}
