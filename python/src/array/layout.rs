//! [`Layout`]: shape and strides of an array, and the copies between it and elements side by side (in row-major order).

use std::ops::Range;

use hcomm::ops::RawSpan;

/// Shape and strides.
#[derive(Clone, Debug)]
pub struct Layout {
    /// Elements in all.
    pub count: usize,
    /// Bytes of one.
    pub item_bytes: usize,
    /// By dimension: its extent, and the bytes from one element to the next. Empty where the elements lie side by side.
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
        let mut expected = item_bytes as isize;
        let is_contiguous = count == 0
            || dimensions.iter().rev().all(|(extent, stride)| {
                let fits = *stride == expected;
                expected *= *extent as isize;
                fits
            });
        if is_contiguous {
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
        let mut to = packed.as_ptr();
        self.each_row(|offset, count, stride| {
            for item in 0..count as isize {
                // SAFETY: the caller vouches for all elements; the rows together have `count` of them.
                unsafe {
                    let from = start.offset(offset + item * stride);
                    std::ptr::copy_nonoverlapping(from, to, self.item_bytes);
                    to = to.add(self.item_bytes);
                }
            }
        });
    }

    /// Copies elements that lie side by side in `packed` to where this says, from `start` on.
    ///
    /// # Safety
    /// All elements are writable, and `packed` has them all.
    pub unsafe fn unpack(&self, packed: RawSpan, start: *mut u8) {
        assert_eq!(packed.len(), self.bytes(), "packed elements take as much room as they have bytes");
        let mut from = packed.as_ptr().cast_const();
        self.each_row(|offset, count, stride| {
            for item in 0..count as isize {
                // SAFETY: the caller vouches for all elements; the rows together have `count` of them.
                unsafe {
                    let to = start.offset(offset + item * stride);
                    std::ptr::copy_nonoverlapping(from, to, self.item_bytes);
                    from = from.add(self.item_bytes);
                }
            }
        });
    }

    /// Calls `row` for each row of the innermost dimension, in row-major order: the bytes to its first element, its elements, and the
    /// bytes from one to the next.
    fn each_row(&self, mut row: impl FnMut(isize, usize, isize)) {
        let Some(((count, stride), outer)) = self.dimensions.split_last() else {
            return row(0, self.count, self.item_bytes as isize);
        };
        let mut indices = vec![0_usize; outer.len()];
        let mut offset = 0;
        loop {
            row(offset, *count, *stride);
            let mut at = outer.len();
            loop {
                if at == 0 {
                    return;
                }
                at -= 1;
                let (extent, stride) = outer[at];
                indices[at] += 1;
                offset += stride;
                if indices[at] < extent {
                    break;
                }
                offset -= stride * extent as isize;
                indices[at] = 0;
            }
        }
    }
}
