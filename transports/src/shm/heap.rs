//! [`Heap`]: the memory of a rank in which the other ranks of its host read long messages where they lie, given out in [`Block`]s.
//!
//! A heap is a file in memory as long as the machine's memory, of which no page exists until a block needs it. Its owner reads and writes
//! it; to peers it hands a descriptor that is open for reading only ([`PeerHeap`]). It lives until the last block, wire and
//! process that uses it is gone. Which range is whose is the owner's business alone (`ranges`): peers are told offsets by
//! the ring.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};

use hcomm_ops::RawSpan;
use rustix::fs::{FallocateFlags, Mode, OFlags, fallocate, fchmod, ftruncate, open};
use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};

use super::ranges::Ranges;
use super::room::Room;
use super::segment::{self, SegmentError, shortage, system};
use crate::demand::PIECE_BYTES;
use crate::mapping::{LARGE_PAGE, Mapping};

/// Blocks begin and end on pages.
const PAGE: usize = 4096;

/// Addresses that all heaps of a host may take in a process; it has 8 times as many.
const ADDRESSES: usize = 1 << 44;

/// See the module.
#[derive(Debug)]
pub struct Heap {
    file: OwnedFd,
    /// The same file, open for reading only.
    shown: OwnedFd,
    mapping: Arc<Mapping>,
    ranges: Mutex<Ranges>,
}

impl Heap {
    /// A heap of this rank, on a host with so many ranks, each of which maps the heaps of all.
    ///
    /// # Errors
    /// Where this process may not have the addresses for that (`ulimit -v`), or files of that length (`ulimit -f`), or the kernel refuses
    /// otherwise: the rank then does without.
    pub fn create(local_ranks: usize) -> Result<Arc<Heap>, SegmentError> {
        let ranks = local_ranks.max(1).next_power_of_two();
        let bytes = memory_bytes().next_power_of_two().min(ADDRESSES / ranks).max(LARGE_PAGE);
        let all = bytes.saturating_mul(local_ranks.max(1));
        Mapping::try_addresses(all).map_err(|source| SegmentError::System {
            bytes: all,
            action: "find addresses for those of all ranks of this host",
            source,
        })?;
        Heap::of_length(bytes)
    }

    /// A heap of `bytes`, rounded up to large pages.
    ///
    /// # Errors
    /// As [`Heap::create`].
    pub fn of_length(bytes: usize) -> Result<Arc<Heap>, SegmentError> {
        let bytes = bytes.next_multiple_of(LARGE_PAGE);
        if let Some(left) = getrlimit(Resource::Fsize).current.filter(|left| *left < bytes as u64) {
            let limit = "for a file by this process's limit on their size (ulimit -f)".to_owned();
            return Err(shortage(bytes, left, limit));
        }
        let file = segment::make_file(bytes)?;
        // Who may not write by the descriptor that it is handed may not open the file anew either.
        fchmod(&file, Mode::RUSR | Mode::WUSR).map_err(|error| system(bytes, "keep it to itself", error))?;
        ftruncate(&file, bytes as u64).map_err(|error| system(bytes, "set its length", error))?;
        segment::seal(&file, bytes)?;
        let path = format!("/proc/self/fd/{}", file.as_raw_fd());
        let shown = open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
            .map_err(|error| system(bytes, "open it for reading only", error))?;
        let mapping = Mapping::of_large_file(file.as_fd(), bytes, true);
        let mapping = mapping.map_err(|source| SegmentError::System { bytes, action: "map it", source })?;
        Ok(Arc::new(Heap { file, shown, mapping, ranges: Mutex::new(Ranges::new(bytes)) }))
    }

    /// Its length: more than is ever used of it.
    pub fn bytes(&self) -> usize {
        self.mapping.bytes()
    }

    /// What another process maps: open for reading only.
    pub fn file(&self) -> BorrowedFd<'_> {
        self.shown.as_fd()
    }

    /// `bytes` zeros in whole pages, every one of them there from the start.
    ///
    /// # Errors
    /// [`SegmentError::Shortage`] where memory, this process's share of it, or the heap does not suffice; the kernel's otherwise.
    pub fn allocate(self: &Arc<Self>, bytes: usize) -> Result<Block, SegmentError> {
        let whole = bytes.checked_next_multiple_of(PAGE).unwrap_or(usize::MAX).max(PAGE);
        let room = Room::left();
        if room.left < whole as u64 {
            return Err(shortage(bytes, room.left, room.limit));
        }
        let align = if whole >= LARGE_PAGE { LARGE_PAGE } else { PAGE };
        let start = self.ranges(|ranges| ranges.take(whole, align).ok_or_else(|| ranges.longest()));
        let start =
            start.map_err(|left| shortage(bytes, left as u64, "in one piece of this rank's heap".into()))?;
        // Whatever becomes of it, dropping the block gives all back.
        let block = Block { heap: Arc::clone(self), start, bytes, whole };
        for piece in (start..start + whole).step_by(PIECE_BYTES) {
            let end = (piece + PIECE_BYTES).min(start + whole);
            block.back(piece, end)?;
        }
        Ok(block)
    }

    pub(super) fn mapping(&self) -> &Arc<Mapping> {
        &self.mapping
    }

    fn ranges<T>(&self, ask: impl FnOnce(&mut Ranges) -> T) -> T {
        ask(&mut self.ranges.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Bytes of a heap, which it keeps alive. Dropped, its memory goes back to the machine.
#[derive(Debug)]
pub struct Block {
    heap: Arc<Heap>,
    start: usize,
    /// As asked for.
    bytes: usize,
    /// In whole pages.
    whole: usize,
}

impl Block {
    /// Its bytes. They stay where they are for as long as the block lives.
    pub fn span(&self) -> RawSpan {
        self.heap.mapping.span(self.start, self.bytes)
    }

    /// Finds memory for a part of it, if there still is room; in a large page where the part is one and the kernel will.
    fn back(&self, start: usize, end: usize) -> Result<(), SegmentError> {
        let asked = self.bytes;
        let for_all =
            |room: Room| shortage(asked, room.left.saturating_add((start - self.start) as u64), room.limit);
        let room = Room::left();
        if room.left < (end - start) as u64 {
            return Err(for_all(room));
        }
        let is_large = end - start == LARGE_PAGE;
        if is_large && self.heap.mapping.populate(start, end - start).is_ok() {
            return Ok(());
        }
        segment::fallocate_piece(&self.heap.file, start, end - start).map_err(|error| match error {
            Errno::NOSPC | Errno::NOMEM => for_all(Room::left()),
            other => system(asked, "allocate its pages", other),
        })
    }

    /// Gives the memory back; what is read there next is zero.
    fn punch(&self) -> rustix::io::Result<()> {
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        let (start, bytes) = (self.start as u64, self.whole as u64);
        rustix::io::retry_on_intr(|| fallocate(&self.heap.file, flags, start, bytes))
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        // A range that could not be cleared is not given out again.
        if self.punch().is_ok() {
            self.heap.ranges(|ranges| ranges.give(self.start, self.whole));
        }
    }
}

/// The heap of another rank of this host, for reading only.
#[derive(Debug)]
pub struct PeerHeap {
    mapping: Arc<Mapping>,
}

impl PeerHeap {
    /// Maps a heap that another process made, which is not trusted: it must be as long as was said, and sealed.
    ///
    /// A page of it that its owner never allocated is zero and costs this process a page when it is read.
    ///
    /// # Errors
    /// Where it is not.
    pub fn adopt(file: OwnedFd, bytes: u64) -> Result<PeerHeap, SegmentError> {
        let expected = usize::try_from(bytes).unwrap_or(usize::MAX);
        segment::check(&file, expected)?;
        if !expected.is_multiple_of(LARGE_PAGE) {
            return Err(SegmentError::Length {
                actual: bytes,
                expected: expected.next_multiple_of(LARGE_PAGE),
            });
        }
        let mapping = Mapping::of_large_file(file.as_fd(), expected, false);
        let mapping = mapping.map_err(|source| SegmentError::System {
            bytes: expected,
            action: "map a peer's",
            source,
        })?;
        Ok(PeerHeap { mapping })
    }

    /// Its length.
    pub fn bytes(&self) -> usize {
        self.mapping.bytes()
    }

    pub(super) fn into_mapping(self) -> Arc<Mapping> {
        self.mapping
    }
}

fn memory_bytes() -> usize {
    let info = rustix::system::sysinfo();
    let bytes = (info.totalram as u64).saturating_mul(u64::from(info.mem_unit.max(1)));
    usize::try_from(bytes).unwrap_or(ADDRESSES).min(ADDRESSES)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{MemfdFlags, fstat, memfd_create};
    use rustix::mm::{MapFlags, ProtFlags, mmap};

    fn used(heap: &Heap) -> u64 {
        fstat(&heap.file).unwrap().st_blocks as u64 * 512
    }

    fn peer(heap: &Heap) -> PeerHeap {
        PeerHeap::adopt(heap.file().try_clone_to_owned().unwrap(), heap.bytes() as u64).unwrap()
    }

    #[test]
    fn memory_comes_with_a_block_and_goes_with_it() {
        let heap = Heap::create(2).unwrap();
        assert!(heap.bytes().is_power_of_two() && heap.bytes() as u64 >= 1 << 28, "{}", heap.bytes());
        assert_eq!(used(&heap), 0);
        let small = heap.allocate(5000).unwrap();
        assert_eq!((used(&heap), small.span().len()), (8192, 5000));
        let large = heap.allocate(3 << 20).unwrap();
        assert_eq!(used(&heap), (3 << 20) + 8192);
        assert!((large.span().as_ptr() as usize).is_multiple_of(4096));
        large.span().write(&[7; 100]);
        let place = large.span().as_ptr();
        drop((small, large));
        assert_eq!(used(&heap), 0);
        assert_eq!(heap.ranges(|ranges| ranges.clone()), Ranges::new(heap.bytes()));
        let again = heap.allocate(3 << 20).unwrap();
        assert_eq!(heap.mapping.offset_of(again.span()), Some(0));
        assert_eq!(again.span().slice(0, 100).to_vec(), [0; 100], "at {place:?}");
    }

    #[test]
    fn no_bytes_are_a_block_too() {
        let heap = Heap::of_length(1 << 21).unwrap();
        assert!(heap.allocate(0).unwrap().span().is_empty());
    }

    #[test]
    fn a_shortage_names_what_was_asked_and_left_and_keeps_nothing() {
        let heap = Heap::of_length(4 << 20).unwrap();
        let _first = heap.allocate(3 << 20).unwrap();
        let before = used(&heap);
        let text = heap.allocate(2 << 20).unwrap_err().to_string();
        assert!(text.contains("2097152 bytes does not fit: 1048576 bytes are left in one piece"), "{text}");
        let text = heap.allocate(1 << 50).unwrap_err().to_string();
        assert!(text.contains("1125899906842624 bytes does not fit"), "{text}");
        assert!(heap.allocate(usize::MAX).is_err());
        assert_eq!(used(&heap), before);
        heap.allocate(1 << 20).unwrap();
    }

    #[test]
    fn a_block_outlives_what_its_owner_knew_the_heap_by() {
        let heap = Heap::of_length(1 << 21).unwrap();
        let block = heap.allocate(10).unwrap();
        drop(heap);
        block.span().write(b"still here");
        assert_eq!(block.span().to_vec(), b"still here");
    }

    #[test]
    fn a_peer_sees_what_the_owner_writes_and_cannot_write_itself() {
        let heap = Heap::of_length(4 << 20).unwrap();
        let block = heap.allocate(100).unwrap();
        let peer = peer(&heap);
        block.span().write(b"hello");
        let offset = heap.mapping.offset_of(block.span()).unwrap();
        assert_eq!(peer.mapping.span(offset, 5).to_vec(), b"hello");
        assert_eq!(rustix::io::pwrite(heap.file(), b"x", 0), Err(Errno::BADF));
        // SAFETY: a fresh range, which the kernel refuses.
        let writable =
            unsafe { mmap(std::ptr::null_mut(), PAGE, ProtFlags::WRITE, MapFlags::SHARED, heap.file(), 0) };
        assert_eq!(writable, Err(Errno::ACCESS));
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let start = format!("{:x}-", peer.mapping.span(0, 0).as_ptr() as usize);
        let line = maps.lines().find(|line| line.starts_with(&start)).unwrap();
        assert!(line.contains(" r--s "), "{line}");
    }

    #[test]
    fn hostile_files_are_refused() {
        let heap = Heap::of_length(2 << 20).unwrap();
        let copy = || heap.file().try_clone_to_owned().unwrap();
        for wrong in [0, 4096, 1 << 40, u64::MAX - 1] {
            assert!(matches!(PeerHeap::adopt(copy(), wrong), Err(SegmentError::Length { .. })), "{wrong}");
        }
        let unsealed = memfd_create("test", MemfdFlags::ALLOW_SEALING).unwrap();
        ftruncate(&unsealed, 4096).unwrap();
        assert!(matches!(PeerHeap::adopt(unsealed, 4096), Err(SegmentError::Unsealed { .. })));
        let odd = memfd_create("test", MemfdFlags::ALLOW_SEALING).unwrap();
        ftruncate(&odd, 4096).unwrap();
        segment::seal(&odd, 4096).unwrap();
        assert!(matches!(PeerHeap::adopt(odd, 4096), Err(SegmentError::Length { .. })));
        let ordinary = std::fs::File::open("/proc/self/status").unwrap();
        assert!(matches!(PeerHeap::adopt(ordinary.into(), 0), Err(SegmentError::Unsealed { .. })));
    }
}
