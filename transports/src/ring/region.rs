//! [`Region`]: the memory of one direction, as atomics and spans at the places that [`Layout`] gives.
//!
//! All address arithmetic of rings is here. What may be done to which word when is the protocol's business (see the
//! module above); what is here keeps every access inside the mapping and every word accessed only as an atomic, and takes the
//! machine's memory for what is about to be used.

use std::marker::PhantomData;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::Arc;

use hcomm_ops::RawSpan;

use super::layout::{HEADER, INLINE_BYTES, LINE};
use super::{Layout, NoRoom};
use crate::demand;
use crate::mapping::Mapping;
use crate::sync::{AtomicU32, AtomicU64};

const LENGTH_AT: usize = 8;
const CREDIT_AT: usize = 16;
const INLINE_AT: usize = 24;
/// In a port's line, behind the cursor.
const OPENED_AT: usize = 4;

/// One direction's headers, cursors, returns and bodies.
#[derive(Clone, Debug)]
pub(crate) struct Region {
    start: NonNull<u8>,
    layout: Layout,
    offset: usize,
    mapping: Arc<Mapping>,
}

// SAFETY: it is an address inside a mapping that it owns a share of, reached through atomics and spans.
unsafe impl Send for Region {}

impl Region {
    /// The region that begins at `offset`, a multiple of 64, of a mapping.
    pub(crate) fn new(mapping: &Arc<Mapping>, offset: usize, layout: Layout) -> Region {
        assert!(offset.is_multiple_of(LINE), "a region begins on a line");
        let start = mapping.at(offset, layout.total);
        Region { start, layout, offset, mapping: Arc::clone(mapping) }
    }

    pub(crate) fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Finds memory for what every port needs.
    pub(crate) fn take_front(&self) -> Result<(), NoRoom> {
        self.take(self.layout.front())
    }

    /// Finds memory for the headers of a port.
    pub(crate) fn take_headers(&self, port: u16) -> Result<(), NoRoom> {
        self.take(self.layout.headers(port))
    }

    /// Finds memory for a body that started here.
    pub(crate) fn take_body(&self, index: u32) -> Result<(), NoRoom> {
        let slot_bytes = self.layout.config.slot_bytes;
        let start = self.layout.bodies_at + index as usize * slot_bytes;
        self.take(start..start + slot_bytes)
    }

    fn take(&self, range: Range<usize>) -> Result<(), NoRoom> {
        demand::take(&self.mapping, self.offset + range.start..self.offset + range.end)
    }

    /// The header of a slot, counted through all ports; the porch behind the last of them.
    #[inline]
    pub(crate) fn header(&self, slot: usize) -> Header<'_> {
        assert!(slot * HEADER < self.layout.cursors_at, "a slot's number is at most their number");
        // SAFETY: headers come first in a region, side by side, and `new` checked that all of it lies in the mapping.
        Header { start: unsafe { self.start.add(slot * HEADER) }, _region: PhantomData }
    }

    /// How many messages of a port have been released.
    #[inline]
    pub(crate) fn cursor(&self, port: usize) -> &AtomicU32 {
        debug_assert!(port < usize::from(self.layout.config.ports));
        self.u32_at(self.layout.cursors_at + port * LINE)
    }

    /// Whether the sender has opened a port.
    pub(crate) fn opened(&self, port: usize) -> &AtomicU32 {
        debug_assert!(port < usize::from(self.layout.config.ports));
        self.u32_at(self.layout.cursors_at + port * LINE + OPENED_AT)
    }

    /// How many bodies have been returned.
    #[inline]
    pub(crate) fn returned(&self) -> &AtomicU32 {
        self.u32_at(self.layout.returns_at)
    }

    /// Which body was the return number `index` (modulo their number).
    #[inline]
    pub(crate) fn return_entry(&self, index: u32) -> &AtomicU32 {
        debug_assert!(index < self.layout.bodies());
        self.u32_at(self.layout.returns_at + LINE + index as usize * size_of::<u32>())
    }

    /// A body that started here.
    #[inline]
    pub(crate) fn body(&self, index: u32) -> RawSpan {
        assert!(index < self.layout.home, "a body's number is below their number");
        let slot_bytes = self.layout.config.slot_bytes;
        self.span(self.layout.bodies_at + index as usize * slot_bytes, slot_bytes)
    }

    #[inline]
    fn u32_at(&self, offset: usize) -> &AtomicU32 {
        debug_assert!(offset.is_multiple_of(4) && offset + 4 <= self.layout.total);
        // SAFETY: `new` checked that `total` bytes from `start` lie in the mapping; the callers' offsets follow from the layout,
        // are below `total` and aligned. The bytes are zero at first and only ever accessed as this atomic.
        unsafe { self.start.add(offset).cast().as_ref() }
    }

    #[inline]
    fn span(&self, offset: usize, bytes: usize) -> RawSpan {
        debug_assert!(offset + bytes <= self.layout.total);
        // SAFETY: the range lies in the mapping, which the wire keeps alive while it shows spans of it; who reads or
        // writes them when is the protocol's business.
        unsafe { RawSpan::new(self.start.add(offset), bytes) }
    }
}

/// The lines in which a message is announced, and lies where it is short.
#[derive(Clone, Copy)]
pub(crate) struct Header<'a> {
    start: NonNull<u8>,
    _region: PhantomData<&'a Region>,
}

impl<'a> Header<'a> {
    /// Whose message it is; written last.
    #[inline]
    pub(crate) fn flag(self) -> &'a AtomicU64 {
        self.word(0)
    }

    /// How long it is and where it lies.
    #[inline]
    pub(crate) fn length(self) -> &'a AtomicU64 {
        self.word(LENGTH_AT)
    }

    /// How many messages of this port its sender had released.
    #[inline]
    pub(crate) fn credit(self) -> &'a AtomicU32 {
        // SAFETY: as in `word`.
        unsafe { self.start.add(CREDIT_AT).cast().as_ref() }
    }

    /// The payload in the header itself.
    #[inline]
    pub(crate) fn inline(self) -> RawSpan {
        // SAFETY: the rest of the header, which lies in the mapping; who reads or writes it when is the protocol's business.
        unsafe { RawSpan::new(self.start.add(INLINE_AT), INLINE_BYTES) }
    }

    /// The state of a lent message.
    #[inline]
    pub(crate) fn lent_state(self) -> &'a AtomicU64 {
        self.word(INLINE_AT)
    }

    /// Where a lent message lies: its address, or its offset in the sender's heap.
    #[inline]
    pub(crate) fn lent_at(self) -> &'a AtomicU64 {
        self.word(INLINE_AT + 8)
    }

    #[inline]
    fn word(self, offset: usize) -> &'a AtomicU64 {
        debug_assert!(offset.is_multiple_of(8) && offset + 8 <= HEADER);
        // SAFETY: within the header at `start`, aligned, and the header lies in the region's mapping. The bytes are zero at first
        // and only ever accessed as this atomic, or, behind `INLINE_AT`, as bytes while the slot is not lent.
        unsafe { self.start.add(offset).cast().as_ref() }
    }
}

/// The span of a lent message.
///
/// # Safety
/// The address must have been published by the other end of an in-process wire with this length, and the message must have
/// been claimed: the lender keeps the bytes valid until the claim ends.
#[inline]
pub(crate) unsafe fn lent_span(address: u64, bytes: usize) -> RawSpan {
    let start = NonNull::new(address as *mut u8).unwrap_or(NonNull::dangling());
    // SAFETY: the caller's promise.
    unsafe { RawSpan::new(start, bytes) }
}
