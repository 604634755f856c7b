//! [`Memory`]: the buffers of one operation as the executor sees them. A buffer is a list of segments (usually one) whose
//! bytes are counted through.

use hcomm_ops::RawSpan;
use hcomm_planner::BufferKind;

/// One buffer: segments side by side.
#[derive(Clone, Debug, Default)]
pub struct Segments {
    /// Each segment with the position of its first byte.
    parts: Vec<(u64, RawSpan)>,
    bytes: u64,
}

impl Segments {
    /// The segments in order.
    pub fn new(spans: impl IntoIterator<Item = RawSpan>) -> Self {
        let mut segments = Segments::default();
        segments.extend(spans);
        segments
    }

    /// Replaces the list by one span, keeping its allocation.
    #[inline]
    pub fn set(&mut self, span: RawSpan) {
        if let [only] = &mut self.parts[..] {
            *only = (0, span);
        } else {
            self.clear();
            self.parts.push((0, span));
        }
        self.bytes = span.len() as u64;
    }

    /// Forgets all segments, keeping the allocation.
    pub fn clear(&mut self) {
        self.parts.clear();
        self.bytes = 0;
    }

    /// Appends segments.
    pub fn extend(&mut self, spans: impl IntoIterator<Item = RawSpan>) {
        for span in spans {
            self.parts.push((self.bytes, span));
            self.bytes += span.len() as u64;
        }
    }

    /// Bytes in all.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The bytes from `start` that lie in one segment, at most `len` of them.
    ///
    /// # Panics
    /// Where `start` is past the end: buffers are checked against the call before it starts.
    #[inline]
    pub fn piece(&self, start: u64, len: usize) -> RawSpan {
        let at = match &self.parts[..] {
            [_] => 0,
            parts => parts.partition_point(|(first, _)| *first <= start).saturating_sub(1),
        };
        let Some((first, span)) = self.parts.get(at) else { return RawSpan::empty() };
        let offset = (start - first) as usize;
        span.slice(offset, len.min(span.len() - offset))
    }

    /// The segments.
    pub fn spans(&self) -> impl Iterator<Item = RawSpan> + '_ {
        self.parts.iter().map(|(_, span)| *span)
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
        let segments = Segments::new(parts.iter_mut().map(StableBuffer::span));
        assert_eq!(segments.bytes(), 5);
        assert_eq!(segments.piece(1, 4).to_vec(), [2, 3]);
        assert_eq!(segments.piece(3, 4).to_vec(), [4, 5]);
        assert_eq!(segments.piece(4, 1).to_vec(), [5]);
        let _ = DynBuffer { bytes: vec![], dtype: hcomm_ops::DType::U8 };
    }
}
