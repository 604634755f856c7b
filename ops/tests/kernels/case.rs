//! One call of a kernel on buffers with poisoned surroundings.

use hcomm_ops::{DType, Kernel, Operand, RawSpan, StableBuffer};

/// How a kernel is called, but for the data.
#[derive(Clone, Debug)]
pub struct Call {
    /// Where each operand starts after an aligned address; their number is the number of operands.
    pub operand_offsets: Vec<usize>,
    /// The same for each sink that is a buffer of its own.
    pub sink_offsets: Vec<usize>,
    /// An operand that is a sink, too.
    pub in_place: Option<usize>,
    /// Where a sink that is written past the caches starts, if there is one and the kernel can.
    pub streamed_offset: Option<usize>,
    /// Bit i: operand i is marked `first`.
    pub first: u32,
    pub finish: bool,
}

const POISON: u8 = 0xa5;
const MARGIN: usize = 128;

/// Runs the call and returns what each sink holds, the one in place last but for the streamed one. Fails where a byte outside of a sink changed.
pub fn run(kernel: &Kernel, call: &Call, contributions: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let len = contributions.first().map_or(0, Vec::len);
    let mut operands: Vec<Framed> =
        call.operand_offsets.iter().map(|offset| Framed::new(len, *offset)).collect();
    let mut sinks: Vec<Framed> = call.sink_offsets.iter().map(|offset| Framed::new(len, *offset)).collect();
    for (operand, bytes) in operands.iter_mut().zip(contributions) {
        operand.span().write(bytes);
    }
    let marked = |(i, operand): (usize, &mut Framed)| Operand {
        span: operand.span(),
        first: call.first >> i & 1 == 1,
    };
    let operand_list: Vec<Operand> = operands.iter_mut().enumerate().map(marked).collect();
    let mut sink_list: Vec<RawSpan> = sinks.iter_mut().map(Framed::span).collect();
    sink_list.extend(call.in_place.map(|i| operand_list[i].span));

    let mut streamed = call.streamed_offset.map(|offset| Framed::new(len, offset));
    let result = streamed.as_mut().map(Framed::span).filter(|result| kernel.can_stream_to(*result));
    match result {
        Some(result) => kernel.fold_streaming(&operand_list, &sink_list, result, call.finish),
        None => kernel.fold(&operand_list, &sink_list, call.finish),
    }
    sink_list.extend(result);

    for (i, operand) in operands.iter_mut().enumerate() {
        operand.check_frame();
        assert!(
            call.in_place == Some(i) || operand.span().to_vec() == contributions[i],
            "operand {i} changed"
        );
    }
    for sink in sinks.iter().chain(&streamed) {
        sink.check_frame();
    }
    sink_list.into_iter().map(RawSpan::to_vec).collect()
}

/// `contributions` folded out of place from aligned buffers.
pub fn fold(kernel: &Kernel, contributions: &[Vec<u8>], first: u32, finish: bool) -> Vec<u8> {
    let call = Call {
        operand_offsets: vec![0; contributions.len()],
        sink_offsets: vec![0],
        in_place: None,
        streamed_offset: None,
        first,
        finish,
    };
    run(kernel, &call, contributions).remove(0)
}

/// The first difference between two results, for a failure's message.
pub fn difference(dtype: DType, expected: &[u8], found: &[u8]) -> String {
    let size = dtype.size_bytes();
    let elements = expected.chunks(size).zip(found.chunks(size)).enumerate();
    match elements.into_iter().find(|(_, (a, b))| a != b) {
        Some((i, (a, b))) => {
            format!("element {i} of {}: expected {a:02x?}, found {b:02x?}", expected.len() / size)
        }
        None => format!("{} bytes against {}", expected.len(), found.len()),
    }
}

/// A buffer with poison before and after the bytes that a kernel may touch.
struct Framed {
    bytes: Vec<u8>,
    start: usize,
    len: usize,
}

impl Framed {
    fn new(len: usize, offset: usize) -> Framed {
        let bytes = vec![POISON; len + 2 * MARGIN + 64 + offset];
        let aligned = bytes.as_ptr().align_offset(64);
        Framed { start: aligned + MARGIN + offset, bytes, len }
    }

    fn span(&mut self) -> RawSpan {
        let (start, len) = (self.start, self.len);
        self.bytes.span().slice(start, len)
    }

    fn check_frame(&self) {
        let (before, after) = (&self.bytes[..self.start], &self.bytes[self.start + self.len..]);
        assert!(before.iter().chain(after).all(|byte| *byte == POISON), "a byte outside of the span changed");
    }
}
