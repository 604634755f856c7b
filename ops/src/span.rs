//! [`RawSpan`]: the one type through which bytes are touched.
//!
//! A span is an address and a length. It is made by code that can promise its validity (an `unsafe fn`) and
//! then travels freely through engine and transports, which contain no other way to reach memory.

use std::ptr::NonNull;

/// `len` bytes at an address, readable and writable for as long as the maker promised.
///
/// Other processes or threads may read or write the same bytes (slots of shared memory); who may do so when is
/// the business of the transport's protocol. No reference is ever formed to the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RawSpan {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: a span is an address; the promise made in `RawSpan::new` covers use from any thread.
unsafe impl Send for RawSpan {}
// SAFETY: as above; sharing an address reads no memory.
unsafe impl Sync for RawSpan {}

impl RawSpan {
    /// A span of `len` bytes at `start`.
    ///
    /// # Safety
    /// The bytes must stay valid for reads and writes, from any thread, until the last copy of the span has been
    /// used; nobody may hold a Rust reference to them while hcomm uses them.
    pub const unsafe fn new(start: NonNull<u8>, len: usize) -> Self {
        RawSpan { start, len }
    }

    /// A span of no bytes.
    pub const fn empty() -> Self {
        RawSpan { start: NonNull::dangling(), len: 0 }
    }

    /// Its first byte's address.
    pub const fn as_ptr(self) -> *mut u8 {
        self.start.as_ptr()
    }

    /// Bytes.
    pub const fn len(self) -> usize {
        self.len
    }

    /// Whether it has no bytes.
    pub const fn is_empty(self) -> bool {
        self.len == 0
    }

    /// The `len` bytes from `offset`, or `None` where they do not lie within this span.
    #[inline]
    pub fn checked_slice(self, offset: usize, len: usize) -> Option<RawSpan> {
        if offset > self.len || len > self.len - offset {
            return None;
        }
        // SAFETY: offset <= self.len, so the address stays inside the span (or one past its end).
        let start = unsafe { NonNull::new_unchecked(self.start.as_ptr().add(offset)) };
        Some(RawSpan { start, len })
    }

    /// The `len` bytes from `offset`.
    ///
    /// # Panics
    /// Where they do not lie within this span: a local invariant of the caller.
    #[inline]
    pub fn slice(self, offset: usize, len: usize) -> RawSpan {
        self.checked_slice(offset, len).expect("a slice lies within its span")
    }

    /// Copies all bytes of `source` to the start of this span. The two may be the same bytes, and may overlap.
    ///
    /// # Panics
    /// Where `source` is longer than this span: a local invariant of the caller.
    #[inline]
    pub fn copy_from(self, source: RawSpan) {
        assert!(source.len <= self.len, "copy of {} bytes into a span of {}", source.len, self.len);
        // SAFETY: both spans are valid for their lengths by the promise made in `new`; `copy` allows overlap.
        unsafe { std::ptr::copy(source.as_ptr(), self.as_ptr(), source.len) };
    }

    /// Copies the bytes out.
    pub fn to_vec(self) -> Vec<u8> {
        let mut bytes = vec![0_u8; self.len];
        // SAFETY: the span is valid for `len` bytes, and `bytes` is a distinct allocation of as many.
        unsafe { std::ptr::copy_nonoverlapping(self.as_ptr(), bytes.as_mut_ptr(), self.len) };
        bytes
    }

    /// Copies `bytes` to the start of this span.
    ///
    /// # Panics
    /// Where `bytes` is longer than this span.
    pub fn write(self, bytes: &[u8]) {
        assert!(bytes.len() <= self.len, "write of {} bytes into a span of {}", bytes.len(), self.len);
        // SAFETY: the span is valid for at least `bytes.len()` bytes; no Rust reference to it exists.
        unsafe { std::ptr::copy(bytes.as_ptr(), self.as_ptr(), bytes.len()) };
    }

    /// Whether the two share a byte.
    pub fn overlaps(self, other: RawSpan) -> bool {
        let (a, b) = (self.as_ptr() as usize, other.as_ptr() as usize);
        self.len > 0 && other.len > 0 && a < b + other.len && b < a + self.len
    }
}
