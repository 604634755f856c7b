//! [`Buffers`]: the ways in which a call's buffers are given: in place, apart, one of them, none, joined from several, or as lists.

use hcomm_ops::buffer::{Claim, Landing, Takeoff};
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
    /// Both in segments, where one of them is in several; they stand in place of the two above.
    pub segments: Option<Box<SegmentSpans>>,
}

/// The bytes of an input and an output that are in segments.
#[derive(Debug, Default)]
pub struct SegmentSpans {
    /// Those of the input, in order.
    pub input: Vec<RawSpan>,
    /// Those of the output, in order.
    pub output: Vec<RawSpan>,
}

impl Spans {
    /// Spans in segments.
    fn in_segments(input: Vec<RawSpan>, output: Vec<RawSpan>) -> Spans {
        Spans { segments: Some(Box::new(SegmentSpans { input, output })), ..Spans::default() }
    }

    /// Bytes of the input.
    #[inline]
    pub fn input_bytes(&self) -> u64 {
        match &self.segments {
            None => bytes(&self.input),
            Some(segments) => bytes(&segments.input),
        }
    }

    /// Bytes of the output.
    #[inline]
    pub fn output_bytes(&self) -> u64 {
        match &self.segments {
            None => bytes(&self.output),
            Some(segments) => bytes(&segments.output),
        }
    }

    /// Whether input and output share bytes; `None` where there are not both, or they are empty.
    pub fn lie_in_place(&self) -> Option<bool> {
        if self.input_bytes() == 0 || self.output_bytes() == 0 {
            return None;
        }
        Some(match &self.segments {
            None => self.input?.overlaps(self.output?),
            Some(segments) => do_share_bytes(&segments.input, &segments.output),
        })
    }

    /// Enters them into an operation's memory.
    #[inline]
    pub(crate) fn enter(&self, memory: &mut Memory) {
        let Some(segments) = &self.segments else {
            memory.input.set(self.input.unwrap_or(RawSpan::empty()));
            memory.output.set(self.output.unwrap_or(RawSpan::empty()));
            return;
        };
        memory.input.set_all(segments.input.iter().copied());
        memory.output.set_all(segments.output.iter().copied());
    }
}

#[inline]
fn bytes<'a>(spans: impl IntoIterator<Item = &'a RawSpan>) -> u64 {
    spans.into_iter().map(|span| span.len() as u64).sum()
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

    /// What is to be done before the bytes are read, when the operation begins; asked for once for every call.
    #[inline]
    fn takeoff(&mut self) -> Option<Takeoff> {
        None
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

/// Input and output apart, each of as many buffers as it has: their bytes are counted through in order, wherever they lie. So the blocks
/// of a call may be buffers of their own, such as every rank's in all_gather.
#[derive(Debug)]
pub struct Lists<I, O>(pub Vec<I>, pub Vec<O>);

impl<B: StableBuffer> Buffers for InPlace<B> {
    type Returned = B;

    #[inline]
    fn dtype(&self) -> Result<Option<DType>, Refused> {
        Ok(Some(self.0.dtype()))
    }

    #[inline]
    fn spans(&mut self, binding: Binding) -> Result<Spans, Refused> {
        let whole = in_place(&mut self.0, binding)?;
        let size = self.0.dtype().size_bytes();
        let (input, output) = match binding.collective {
            Collective::Gather | Collective::Scatter if binding.rank != binding.root => (whole, whole),
            Collective::AllGather | Collective::Gather => (own_block(whole, size, binding), whole),
            Collective::ReduceScatter | Collective::Scatter => (whole, own_block(whole, size, binding)),
            _ => (whole, whole),
        };
        Ok(Spans { input: Some(input), output: Some(output), segments: None })
    }

    fn claims(&self) -> Vec<Claim> {
        self.0.claim().into_iter().collect()
    }

    #[inline]
    fn landing(&mut self, binding: Binding) -> Option<Landing> {
        landing_of(&mut self.0, binding)
    }

    #[inline]
    fn takeoff(&mut self) -> Option<Takeoff> {
        self.0.takeoff()
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
        let (input, output) = (input(&mut self.0)?, output(&mut self.1)?);
        if input.overlaps(output) {
            return Err(Refused::Overlap);
        }
        Ok(Spans { input: Some(input), output: Some(output), segments: None })
    }

    fn claims(&self) -> Vec<Claim> {
        self.0.claim().into_iter().chain(self.1.claim()).collect()
    }

    #[inline]
    fn landing(&mut self, binding: Binding) -> Option<Landing> {
        landing_of(&mut self.1, binding)
    }

    #[inline]
    fn takeoff(&mut self) -> Option<Takeoff> {
        one_after_the_other([self.0.takeoff(), self.1.takeoff()])
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
        Ok(Spans { input: Some(input(&mut self.0)?), ..Spans::default() })
    }

    fn claims(&self) -> Vec<Claim> {
        self.0.claim().into_iter().collect()
    }

    #[inline]
    fn takeoff(&mut self) -> Option<Takeoff> {
        self.0.takeoff()
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
        Ok(Spans { output: Some(output(&mut self.0)?), ..Spans::default() })
    }

    fn claims(&self) -> Vec<Claim> {
        self.0.claim().into_iter().collect()
    }

    #[inline]
    fn landing(&mut self, binding: Binding) -> Option<Landing> {
        landing_of(&mut self.0, binding)
    }

    #[inline]
    fn takeoff(&mut self) -> Option<Takeoff> {
        self.0.takeoff()
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
        dtype_of(self.0.iter().map(StableBuffer::dtype))
    }

    fn spans(&mut self, binding: Binding) -> Result<Spans, Refused> {
        let all = self.0.iter_mut().map(|buffer| in_place(buffer, binding)).collect::<Result<Vec<_>, _>>()?;
        let is_read = binding.collective == Collective::Broadcast && binding.rank == binding.root;
        if !is_read && do_any_overlap(&all) {
            return Err(Refused::Overlap);
        }
        Ok(Spans::in_segments(all.clone(), all))
    }

    fn claims(&self) -> Vec<Claim> {
        self.0.iter().filter_map(StableBuffer::claim).collect()
    }

    #[inline]
    fn landing(&mut self, binding: Binding) -> Option<Landing> {
        landing_of_all(&mut self.0, binding)
    }

    #[inline]
    fn takeoff(&mut self) -> Option<Takeoff> {
        one_after_the_other(self.0.iter_mut().map(StableBuffer::takeoff))
    }

    fn into_returned(self) -> Vec<B> {
        self.0
    }
}

impl<I: StableBuffer, O: StableBuffer> Buffers for Lists<I, O> {
    type Returned = (Vec<I>, Vec<O>);

    fn dtype(&self) -> Result<Option<DType>, Refused> {
        dtype_of(self.0.iter().map(StableBuffer::dtype).chain(self.1.iter().map(StableBuffer::dtype)))
    }

    fn spans(&mut self, _: Binding) -> Result<Spans, Refused> {
        let spans = Spans::in_segments(inputs(&mut self.0)?, outputs(&mut self.1)?);
        let is_written_twice = spans.segments.as_ref().is_some_and(|all| do_any_overlap(&all.output));
        match is_written_twice || spans.lie_in_place() == Some(true) {
            true => Err(Refused::Overlap),
            false => Ok(spans),
        }
    }

    fn claims(&self) -> Vec<Claim> {
        let inputs = self.0.iter().filter_map(StableBuffer::claim);
        inputs.chain(self.1.iter().filter_map(StableBuffer::claim)).collect()
    }

    fn landing(&mut self, binding: Binding) -> Option<Landing> {
        landing_of_all(&mut self.1, binding)
    }

    #[inline]
    fn takeoff(&mut self) -> Option<Takeoff> {
        let inputs = self.0.iter_mut().map(StableBuffer::takeoff);
        one_after_the_other(inputs.chain(self.1.iter_mut().map(StableBuffer::takeoff)))
    }

    fn into_returned(self) -> (Vec<I>, Vec<O>) {
        (self.0, self.1)
    }
}

/// The type of all of them; `None` where there is none.
fn dtype_of(mut dtypes: impl Iterator<Item = DType>) -> Result<Option<DType>, Refused> {
    let Some(first) = dtypes.next() else { return Ok(None) };
    match dtypes.find(|dtype| *dtype != first) {
        Some(other) => Err(Refused::DTypesDiffer { input: first, output: other }),
        None => Ok(Some(first)),
    }
}

fn inputs(buffers: &mut [impl StableBuffer]) -> Result<Vec<RawSpan>, Refused> {
    buffers.iter_mut().map(input).collect()
}

fn outputs(buffers: &mut [impl StableBuffer]) -> Result<Vec<RawSpan>, Refused> {
    buffers.iter_mut().map(output).collect()
}

/// The bytes of a buffer that a call reads.
#[inline]
fn input(buffer: &mut impl StableBuffer) -> Result<RawSpan, Refused> {
    match buffer.malformed() {
        Some(malformed) => Err(Refused::NoElement(malformed)),
        None => Ok(buffer.span()),
    }
}

/// The bytes of a buffer that a call may write. What they are before that does not matter.
#[inline]
fn output(buffer: &mut impl StableBuffer) -> Result<RawSpan, Refused> {
    match buffer.is_writable() {
        true => Ok(buffer.span()),
        false => Err(Refused::ReadOnly),
    }
}

/// The bytes of a buffer that is input and output. Away from the root some calls only read it, and others only write it.
#[inline]
fn in_place(buffer: &mut impl StableBuffer, binding: Binding) -> Result<RawSpan, Refused> {
    let is_only_written = matches!(binding.collective, Collective::Broadcast | Collective::Scatter)
        && binding.rank != binding.root;
    if writes_in_place(binding) {
        output(buffer)?;
    }
    if is_only_written { Ok(buffer.span()) } else { input(buffer) }
}

/// Whether a call with one buffer for both writes it on this rank; `Reduce` and `Gather` write at their root only.
#[inline]
fn writes_in_place(binding: Binding) -> bool {
    !matches!(binding.collective, Collective::Reduce | Collective::Gather) || binding.rank == binding.root
}

/// Whether a byte is in two of them.
fn do_any_overlap(spans: &[RawSpan]) -> bool {
    let mut sorted: Vec<RawSpan> = spans.iter().copied().filter(|span| !span.is_empty()).collect();
    sorted.sort_unstable_by_key(|span| span.as_ptr());
    sorted.windows(2).any(|pair| pair[0].overlaps(pair[1]))
}

/// Whether a byte is in one of these and in one of those, which may overlap among themselves.
fn do_share_bytes(these: &[RawSpan], those: &[RawSpan]) -> bool {
    let tagged = |spans: &[RawSpan], side: usize| {
        let filled = spans.iter().filter(|span| !span.is_empty());
        filled.map(|span| (span.as_ptr() as usize, span.len(), side)).collect::<Vec<_>>()
    };
    let mut all = [tagged(these, 0), tagged(those, 1)].concat();
    all.sort_unstable();
    // By side: behind the last byte of those that begin before.
    let mut ends = [0; 2];
    all.into_iter().any(|(start, len, side)| {
        ends[side] = ends[side].max(start + len);
        ends[1 - side] > start
    })
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
    writes_in_place(binding).then_some(landing)
}

/// What is to be done with all of them.
fn landing_of_all(outputs: &mut [impl StableBuffer], binding: Binding) -> Option<Landing> {
    one_after_the_other(outputs.iter_mut().map(|output| landing_of(output, binding)))
}

/// All that there is to do, in order.
#[inline]
fn one_after_the_other(
    all: impl IntoIterator<Item = Option<Box<dyn FnOnce() + Send>>>,
) -> Option<Box<dyn FnOnce() + Send>> {
    all.into_iter().flatten().reduce(|first, second| {
        Box::new(move || {
            first();
            second();
        })
    })
}
