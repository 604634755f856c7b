//! [`Allocated`]: elements in memory that the other ranks of the host can read where they lie, or in ordinary memory where there is none.

use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use hcomm_ops::{DType, Element, RawSpan, StableBuffer};

use super::{Block, Heap, SegmentError};
use crate::mapping::Mapping;

/// A buffer of a fixed number of elements, all zero at first, beginning on a page.
///
/// It holds the memory itself: it may outlive the communicator that it came from, and be given to another, which then takes it for
/// ordinary memory.
pub struct Allocated<T> {
    memory: Memory,
    elements: PhantomData<T>,
}

enum Memory {
    Heap(Block),
    /// Pages of this process alone, and how many of their bytes are the buffer's.
    Plain(Arc<Mapping>, usize),
    Nothing,
}

impl<T: Element> Allocated<T> {
    /// `len` zeros, in the heap where there is one.
    ///
    /// # Errors
    /// Where there is no memory for them: nothing is kept.
    pub fn new(heap: Option<&Arc<Heap>>, len: usize) -> Result<Allocated<T>, SegmentError> {
        let bytes = len.saturating_mul(size_of::<T>());
        let memory = match heap {
            Some(heap) => Memory::Heap(heap.allocate(bytes)?),
            None => Memory::Plain(plain(bytes)?, bytes),
        };
        Ok(Allocated { memory, elements: PhantomData })
    }

    /// Whether other ranks of the host can read it where it lies.
    pub fn is_shared(&self) -> bool {
        matches!(self.memory, Memory::Heap(_))
    }

    fn bytes(&self) -> RawSpan {
        match &self.memory {
            Memory::Heap(block) => block.span(),
            Memory::Plain(pages, bytes) => pages.span(0, *bytes),
            Memory::Nothing => RawSpan::empty(),
        }
    }
}

fn plain(bytes: usize) -> Result<Arc<Mapping>, SegmentError> {
    let pages = Mapping::anonymous(bytes.max(1)).map_err(|source| SegmentError::System {
        bytes,
        action: "map ordinary memory in its place",
        source,
    })?;
    pages.prefer_large_pages();
    Ok(pages)
}

// SAFETY: a block and a mapping stay where they are; the bytes are reached through this value only, but for reads of peers that an
// operation has lent them to, which ends before it gives the buffer back.
unsafe impl<T: Element> StableBuffer for Allocated<T> {
    fn dtype(&self) -> DType {
        T::DTYPE
    }

    fn span(&mut self) -> RawSpan {
        self.bytes()
    }
}

impl<T: Element> Deref for Allocated<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        let bytes = self.bytes();
        if bytes.is_empty() {
            return &[];
        }
        // SAFETY: the memory is this value's, begins on a page, holds that many elements and is zero at first, which is an element of every
        // `DType`. Peers only read it.
        unsafe { std::slice::from_raw_parts(bytes.as_ptr().cast(), bytes.len() / size_of::<T>()) }
    }
}

impl<T: Element> DerefMut for Allocated<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        let bytes = self.bytes();
        if bytes.is_empty() {
            return &mut [];
        }
        // SAFETY: as above, and this value is borrowed exclusively.
        unsafe { std::slice::from_raw_parts_mut(bytes.as_ptr().cast(), bytes.len() / size_of::<T>()) }
    }
}

impl<T: Element> Default for Allocated<T> {
    /// No elements, in no heap.
    fn default() -> Self {
        Allocated { memory: Memory::Nothing, elements: PhantomData }
    }
}

impl<T: Element> fmt::Debug for Allocated<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if self.is_shared() { "shared" } else { "ordinary" };
        write!(f, "Allocated {{ {} elements of {} in {kind} memory }}", self.len(), T::DTYPE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_are_zero_and_stay_where_they_are() {
        let heap = Heap::of_length(4 << 20).unwrap();
        for heap in [Some(&heap), None] {
            let mut buffer = Allocated::<u32>::new(heap, 3000).unwrap();
            assert_eq!(buffer.is_shared(), heap.is_some());
            assert!(buffer.len() == 3000 && buffer.iter().all(|element| *element == 0));
            assert!((buffer.as_ptr() as usize).is_multiple_of(4096));
            buffer[2999] = 7;
            let span = buffer.span();
            let mut moved = Box::new(buffer);
            assert_eq!((moved.span(), moved[2999], moved.dtype()), (span, 7, DType::U32));
        }
    }

    #[test]
    fn too_much_is_an_error() {
        let heap = Heap::of_length(2 << 20).unwrap();
        assert!(Allocated::<u64>::new(Some(&heap), usize::MAX / 2).is_err());
        assert!(Allocated::<u64>::new(None, usize::MAX / 2).is_err());
        assert!(Allocated::<u64>::default().is_empty());
    }
}
