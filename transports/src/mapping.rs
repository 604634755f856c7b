//! [`Mapping`]: pages of memory, unmapped with their last owner; rings and doorbell words live in them.
//!
//! In-process wires use anonymous pages, which cost nothing until they are touched; shared-memory ones map a segment, and the heaps
//! of both ends, the peer's for reading only.

use std::io;
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;
use std::sync::Arc;

use hcomm_ops::RawSpan;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, mmap_anonymous, munmap};

use crate::sync::AtomicU32;

/// Bytes of the pages by which processors find their way faster.
pub(crate) const LARGE_PAGE: usize = 2 << 20;

/// A mapped range of memory, zero at first; writable unless it was made for reading only.
#[derive(Debug)]
pub(crate) struct Mapping {
    start: NonNull<u8>,
    bytes: usize,
    /// Whether its pages are to be found before they are touched.
    on_demand: bool,
}

impl Mapping {
    /// Fresh pages of this process alone.
    pub(crate) fn anonymous(bytes: usize) -> io::Result<Arc<Mapping>> {
        // SAFETY: a null hint lets the kernel pick a range that nothing else uses.
        let start = unsafe {
            mmap_anonymous(
                std::ptr::null_mut(),
                bytes,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::PRIVATE | MapFlags::NORESERVE,
            )
        }?;
        Ok(Mapping::from_kernel(start.cast(), bytes, false))
    }

    /// The first `bytes` of a file, shared with everybody who maps it. The caller has checked that the file is that
    /// long and sealed against shrinking, so that no access can meet a missing page; where they come `on_demand`, they are to be found
    /// first (`crate::demand`).
    pub(crate) fn of_file(file: BorrowedFd<'_>, bytes: usize, on_demand: bool) -> io::Result<Arc<Mapping>> {
        // SAFETY: a null hint lets the kernel pick a range that nothing else uses.
        let start = unsafe {
            mmap(std::ptr::null_mut(), bytes, ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED, file, 0)
        }?;
        Ok(Mapping::from_kernel(start.cast(), bytes, on_demand))
    }

    /// The same for a file of whole large pages, which then can lie in such; where it is not `writable`, a write would end this process.
    pub(crate) fn of_large_file(
        file: BorrowedFd<'_>,
        bytes: usize,
        writable: bool,
    ) -> io::Result<Arc<Mapping>> {
        let uses = if writable { ProtFlags::READ | ProtFlags::WRITE } else { ProtFlags::READ };
        let around = Mapping::addresses(bytes.checked_add(LARGE_PAGE).ok_or(io::ErrorKind::OutOfMemory)?)?;
        let before = around.start.as_ptr().align_offset(LARGE_PAGE);
        let start = around.at(before, bytes).as_ptr().cast();
        // SAFETY: what is replaced are addresses without memory that belong to `around` and that nothing knows of.
        unsafe { mmap(start, bytes, uses, MapFlags::SHARED | MapFlags::FIXED, file, 0) }?;
        let after = before + bytes;
        for (offset, bytes) in
            [(0, before), (after, around.bytes - after)].into_iter().filter(|(_, b)| *b > 0)
        {
            // SAFETY: the rest of those addresses, in whole pages.
            let _ = unsafe { munmap(around.at(offset, bytes).as_ptr().cast(), bytes) };
        }
        std::mem::forget(around);
        let mapping = Mapping::from_kernel(start.cast(), bytes, false);
        mapping.prefer_large_pages();
        Ok(mapping)
    }

    /// Tries whether this process may have so many addresses.
    pub(crate) fn try_addresses(bytes: usize) -> io::Result<()> {
        Mapping::addresses(bytes).map(drop)
    }

    /// Addresses without memory.
    fn addresses(bytes: usize) -> io::Result<Mapping> {
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        // SAFETY: a null hint lets the kernel pick a range that nothing else uses.
        let start = unsafe { mmap_anonymous(std::ptr::null_mut(), bytes, ProtFlags::empty(), flags) }?;
        let start = NonNull::new(start.cast()).expect("the kernel never maps page zero for a null hint");
        Ok(Mapping { start, bytes, on_demand: false })
    }

    fn from_kernel(start: *mut u8, bytes: usize, on_demand: bool) -> Arc<Mapping> {
        let start = NonNull::new(start).expect("the kernel never maps page zero for a null hint");
        Arc::new(Mapping { start, bytes, on_demand })
    }

    /// Its length.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether its pages are to be found before they are touched.
    pub(crate) fn is_on_demand(&self) -> bool {
        self.on_demand
    }

    /// Asks for large pages, by which processors find their way faster; the kernel need not give them.
    pub(crate) fn prefer_large_pages(&self) {
        // SAFETY: advice that changes nothing of what the bytes are, over a range that is mapped.
        let _ = unsafe { madvise(self.start.as_ptr().cast(), self.bytes, Advice::LinuxHugepage) };
    }

    /// Has the kernel find memory for a range inside the mapping now, all of it or an error and no signal.
    pub(crate) fn populate(&self, offset: usize, bytes: usize) -> io::Result<()> {
        let start = self.at(offset, bytes);
        // SAFETY: the range is mapped and writable; its bytes stay as they are.
        Ok(unsafe { madvise(start.as_ptr().cast(), bytes, Advice::LinuxPopulateWrite) }?)
    }

    /// Where in the mapping a span lies, if all of it does.
    #[inline]
    pub(crate) fn offset_of(&self, span: RawSpan) -> Option<usize> {
        let offset = (span.as_ptr() as usize).checked_sub(self.start.as_ptr() as usize)?;
        (offset <= self.bytes && span.len() <= self.bytes - offset).then_some(offset)
    }

    /// The bytes of a range inside the mapping. Who reads or writes them when is the caller's business, who keeps the mapping for as
    /// long as the span is used.
    ///
    /// # Panics
    /// As [`Mapping::at`].
    #[inline]
    pub(crate) fn span(&self, offset: usize, bytes: usize) -> RawSpan {
        // SAFETY: the range lies in the mapping, which the caller keeps.
        unsafe { RawSpan::new(self.at(offset, bytes), bytes) }
    }

    /// The address of the byte at `offset`, which begins a range of `bytes` inside the mapping.
    ///
    /// # Panics
    /// Where the range does not lie in the mapping: a local invariant of the caller.
    pub(crate) fn at(&self, offset: usize, bytes: usize) -> NonNull<u8> {
        assert!(offset <= self.bytes && bytes <= self.bytes - offset, "a range lies within its mapping");
        // SAFETY: the offset was just checked to lie inside the mapping, or one past its end.
        unsafe { self.start.add(offset) }
    }
}

// SAFETY: the mapping is memory that belongs to the value; it is only reached through atomics and spans.
unsafe impl Send for Mapping {}
// SAFETY: as above; sharing the value reads no memory.
unsafe impl Sync for Mapping {}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the range was mapped by `mmap` with this length; every user of it holds an `Arc` of this value.
        let unmapped = unsafe { munmap(self.start.as_ptr().cast(), self.bytes) };
        debug_assert!(unmapped.is_ok(), "unmapping a whole mapping succeeds");
    }
}

/// A 32-bit word inside a mapping that it keeps alive.
#[derive(Clone, Debug)]
pub(crate) struct SharedWord {
    word: NonNull<AtomicU32>,
    _mapping: Arc<Mapping>,
}

impl SharedWord {
    /// The word at `offset`, a multiple of 4.
    pub(crate) fn new(mapping: &Arc<Mapping>, offset: usize) -> SharedWord {
        assert!(offset.is_multiple_of(size_of::<AtomicU32>()), "a word is aligned");
        let word = mapping.at(offset, size_of::<AtomicU32>()).cast();
        SharedWord { word, _mapping: Arc::clone(mapping) }
    }
}

// SAFETY: it is an address of an atomic in a mapping that it owns a share of.
unsafe impl Send for SharedWord {}
// SAFETY: as above.
unsafe impl Sync for SharedWord {}

impl std::ops::Deref for SharedWord {
    type Target = AtomicU32;

    #[inline]
    fn deref(&self) -> &AtomicU32 {
        // SAFETY: `new` checked range and alignment; the mapping lives as long as `self`, and all bit patterns are valid. All
        // accesses to the word, in every process, are atomic ones.
        unsafe { self.word.as_ref() }
    }
}
