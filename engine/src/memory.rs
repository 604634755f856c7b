//! [`Memory`]: the buffers of one operation as the executor sees them. A buffer is a list of segments (usually one) whose
//! bytes are counted through.

use hcomm_ops::RawSpan;
use hcomm_planner::BufferKind;

/// One buffer: segments side by side.
#[derive(Clone, Debug)]
pub struct Segments {
    /// All of it, where it is one segment.
    whole: RawSpan,
    /// Else each segment with the position of its first byte.
    parts: Vec<(u64, RawSpan)>,
    bytes: u64,
}

impl Default for Segments {
    fn default() -> Self {
        Segments { whole: RawSpan::empty(), parts: Vec::new(), bytes: 0 }
    }
}

impl Segments {
    /// Makes it one segment.
    #[inline]
    pub fn set(&mut self, span: RawSpan) {
        self.parts.clear();
        (self.whole, self.bytes) = (span, span.len() as u64);
    }

    /// Makes it several.
    pub fn set_all(&mut self, spans: impl Iterator<Item = RawSpan>) {
        self.set(RawSpan::empty());
        for span in spans {
            self.parts.push((self.bytes, span));
            self.bytes += span.len() as u64;
        }
    }

    /// Bytes in all.
    #[inline]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The bytes from `start` that lie in one segment, at most `len` of them.
    ///
    /// # Panics
    /// Where `start` is past the end: buffers are checked against the call before it starts.
    #[inline]
    pub fn piece(&self, start: u64, len: usize) -> RawSpan {
        if self.parts.is_empty() {
            let start = start as usize;
            return self.whole.slice(start, len.min(self.whole.len().saturating_sub(start)));
        }
        let at = self.parts.partition_point(|(first, _)| *first <= start).saturating_sub(1);
        let (first, span) = self.parts[at];
        let offset = (start - first) as usize;
        span.slice(offset, len.min(span.len() - offset))
    }
}

/// Input, output and scratch of one operation.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    /// What the rank contributes; empty where it contributes nothing.
    pub input: Segments,
    /// Where the result goes; empty where it gets none.
    pub output: Segments,
    /// The plan's own room.
    pub scratch: Segments,
}

impl Memory {
    /// Whether the input or the output is in several segments.
    #[inline]
    pub fn is_split(&self) -> bool {
        !(self.input.parts.is_empty() && self.output.parts.is_empty())
    }

    /// Bytes of a buffer that is one segment.
    #[inline]
    pub fn slice(&self, kind: BufferKind, start: u64, len: usize) -> RawSpan {
        self.buffer(kind).whole.slice(start as usize, len)
    }

    /// One of the three.
    #[inline]
    pub fn buffer(&self, kind: BufferKind) -> &Segments {
        match kind {
            BufferKind::Input => &self.input,
            BufferKind::Output => &self.output,
            BufferKind::Scratch => &self.scratch,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hcomm_ops::{StableBuffer, buffer::DynBuffer};

    #[test]
    fn pieces_end_where_segments_end() {
        let mut parts = [vec![1_u8, 2, 3], vec![], vec![4, 5]];
        let mut segments = Segments::default();
        segments.set_all(parts.iter_mut().map(StableBuffer::span));
        assert_eq!(segments.bytes(), 5);
        assert_eq!(segments.piece(1, 4).to_vec(), [2, 3]);
        assert_eq!(segments.piece(3, 4).to_vec(), [4, 5]);
        assert_eq!(segments.piece(4, 1).to_vec(), [5]);
        let _ = DynBuffer { bytes: vec![], dtype: hcomm_ops::DType::U8 };
    }
}
