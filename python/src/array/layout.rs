//! [`Layout`]: shape and strides of an array, and the copies between it and elements side by side (in row-major order), which `runs` makes.

use std::ops::Range;

use hcomm::ops::RawSpan;

use super::overlap::{Strided, do_overlap};
use super::runs::{Axis, copy_runs};

/// Shape and strides.
#[derive(Clone, Debug)]
pub struct Layout {
    /// Elements in all.
    pub count: usize,
    /// Bytes of one.
    pub item_bytes: usize,
    /// By dimension: its extent, and the bytes from one element to the next. As few as there can be, and none where the elements lie
    /// side by side.
    dimensions: Vec<(usize, isize)>,
}

impl Layout {
    /// Elements side by side.
    pub fn contiguous(count: usize, item_bytes: usize) -> Self {
        Layout { count, item_bytes, dimensions: Vec::new() }
    }

    /// By shape and strides (bytes); `None` where the number of elements overflows.
    pub fn strided(dimensions: impl IntoIterator<Item = (usize, isize)>, item_bytes: usize) -> Option<Self> {
        let mut dimensions: Vec<_> = dimensions.into_iter().collect();
        let count = dimensions.iter().try_fold(1_usize, |count, (extent, _)| count.checked_mul(*extent))?;
        count.checked_mul(item_bytes)?;
        dimensions.retain(|(extent, _)| *extent != 1);
        let dimensions = joined(dimensions);
        let is_contiguous = match dimensions[..] {
            [] => true,
            [(_, stride)] => stride == item_bytes as isize,
            _ => false,
        };
        if count == 0 || is_contiguous {
            return Some(Layout::contiguous(count, item_bytes));
        }
        Some(Layout { count, item_bytes, dimensions })
    }

    /// Whether the elements lie side by side in row-major order.
    pub fn is_contiguous(&self) -> bool {
        self.dimensions.is_empty()
    }

    /// Bytes of all elements.
    pub fn bytes(&self) -> usize {
        self.count * self.item_bytes
    }

    /// From the first byte of the elements to behind the last, where the one whose indices are 0 lies at `start`; nothing where there are none.
    pub fn addresses(&self, start: usize) -> Option<Range<usize>> {
        if self.count == 0 {
            return None;
        }
        if self.is_contiguous() {
            return Some(start..start + self.bytes());
        }
        let (mut first, mut last) = (start, start);
        for (extent, stride) in &self.dimensions {
            let reach = stride.unsigned_abs() * (extent - 1);
            if *stride < 0 { first -= reach } else { last += reach }
        }
        Some(first..last + self.item_bytes)
    }

    /// Whether elements that lie so from `start` on share bytes with others; that they do where it takes too long to tell.
    pub fn overlaps(&self, start: usize, other: &Layout, other_start: usize) -> bool {
        let (Some(own), Some(theirs)) = (self.addresses(start), other.addresses(other_start)) else {
            return false;
        };
        if own.end <= theirs.start || theirs.end <= own.start {
            return false;
        }
        do_overlap(&self.strided_from(start), &other.strided_from(other_start))
    }

    fn strided_from(&self, start: usize) -> Strided<'_> {
        let item_bytes = if self.is_contiguous() { self.bytes() } else { self.item_bytes };
        Strided { dimensions: &self.dimensions, start, item_bytes }
    }

    /// Whether it is sure that no two elements share bytes.
    pub fn is_disjoint(&self) -> bool {
        let mut dimensions = self.dimensions.clone();
        dimensions.sort_by_key(|(_, stride)| stride.unsigned_abs());
        let mut reach = self.item_bytes;
        dimensions.iter().all(|(extent, stride)| {
            let apart = stride.unsigned_abs() >= reach;
            reach += stride.unsigned_abs() * (extent - 1);
            apart
        })
    }

    /// Copies the elements that lie as this says, from `start` on, side by side into `packed`.
    ///
    /// # Safety
    /// All elements are readable, and `packed` has room for them.
    pub unsafe fn pack(&self, start: *const u8, packed: RawSpan) {
        assert_eq!(packed.len(), self.bytes(), "packed elements take as much room as they have bytes");
        let (axes, run) = self.axes();
        // SAFETY: the caller vouches for all elements, which the axes name once each, and for as many bytes in `packed`.
        unsafe { copy_runs::<true>(&axes, run, start.cast_mut(), packed.as_ptr()) };
    }

    /// Copies elements that lie side by side in `packed` to where this says, from `start` on.
    ///
    /// # Safety
    /// All elements are writable, and `packed` has them all.
    pub unsafe fn unpack(&self, packed: RawSpan, start: *mut u8) {
        assert_eq!(packed.len(), self.bytes(), "packed elements take as much room as they have bytes");
        let (axes, run) = self.axes();
        // SAFETY: as in `pack`, the other way.
        unsafe { copy_runs::<false>(&axes, run, start, packed.as_ptr()) };
    }

    /// The ways in which runs (bytes that lie side by side on either side of a copy) repeat, the outermost first, and the bytes of one.
    fn axes(&self) -> (Vec<Axis>, usize) {
        let mut packed = self.item_bytes;
        let mut axes = Vec::with_capacity(self.dimensions.len());
        for (extent, stride) in self.dimensions.iter().rev() {
            axes.push(Axis { extent: *extent, laid_out: *stride, packed });
            packed *= extent;
        }
        axes.reverse();
        match axes.last() {
            None => (axes, self.bytes()),
            Some(last) if last.laid_out == self.item_bytes as isize => {
                let run = last.extent * self.item_bytes;
                axes.pop();
                (axes, run)
            }
            Some(_) => (axes, self.item_bytes),
        }
    }
}

/// Dimensions with those made one that count through elements as one would.
fn joined(dimensions: Vec<(usize, isize)>) -> Vec<(usize, isize)> {
    let mut joined: Vec<(usize, isize)> = Vec::with_capacity(dimensions.len());
    for (extent, stride) in dimensions {
        match joined.last_mut() {
            Some(outer) if outer.1 == stride.wrapping_mul(extent as isize) => {
                *outer = (outer.0.saturating_mul(extent), stride);
            }
            _ => joined.push((extent, stride)),
        }
    }
    joined
}
