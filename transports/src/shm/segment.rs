//! [`Segment`]: shared memory without a name, sealed against resizing. Its pages are found when they are first used (`crate::demand`).

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::fs::{
    FallocateFlags, MemfdFlags, SealFlags, fallocate, fcntl_add_seals, fcntl_get_seals, fstat, ftruncate,
    memfd_create,
};
use rustix::io::Errno;

use super::room::Room;
use crate::demand::{self, PIECE_BYTES};
use crate::mapping::{Mapping, SharedWord};
use crate::{Doorbell, Ringer, files};

const PAGE: usize = 4096;

/// Where the `asleep` word of the owner's doorbell lies.
const ASLEEP_AT: usize = 0;

/// A mapped segment. It lives until the last process that has it mapped or open is gone; nothing is left behind.
#[derive(Debug)]
pub struct Segment {
    file: OwnedFd,
    mapping: Arc<Mapping>,
}

/// A segment could not be made, or another's is not acceptable.
#[derive(Debug, thiserror::Error)]
pub enum SegmentError {
    /// There is not enough memory. Fewer ranks on the host, smaller slots or a higher limit help.
    #[error("a shared-memory segment of {asked} bytes does not fit: {left} bytes are left {limit}")]
    Shortage {
        /// Bytes asked for.
        asked: usize,
        /// Bytes left.
        left: u64,
        /// Within what limit.
        limit: String,
    },
    /// The kernel refused otherwise.
    #[error("a shared-memory segment of {bytes} bytes: cannot {action}: {}", files::explain(source))]
    System {
        /// Bytes asked for.
        bytes: usize,
        /// What was tried.
        action: &'static str,
        /// What the kernel said.
        source: io::Error,
    },
    /// Another process's segment has the wrong length.
    #[error("a peer's shared-memory segment has {actual} bytes where {expected} were expected")]
    Length {
        /// Of the file.
        actual: u64,
        /// By agreement.
        expected: usize,
    },
    /// Another process's segment could be resized under this one.
    #[error(
        "a peer's shared-memory segment has seals {actual:#x}, which do not forbid resizing ({needed:#x} would)"
    )]
    Unsealed {
        /// Of the file.
        actual: u32,
        /// The least.
        needed: u32,
    },
}

impl Segment {
    /// Makes a segment of `bytes` zeros, for which there must be room. Its first page is there at once, and where the kernel cannot find
    /// the others on demand, all of them.
    ///
    /// # Errors
    /// [`SegmentError::Shortage`] where memory, or this process's share of it, does not suffice; the kernel's otherwise.
    pub fn create(bytes: usize) -> Result<Segment, SegmentError> {
        let room = Room::left();
        if room.left < bytes as u64 {
            return Err(shortage(bytes, room.left, room.limit));
        }
        let file = make_file(bytes)?;
        ftruncate(&file, bytes as u64).map_err(|error| system(bytes, "set its length", error))?;
        let at_once = if demand::is_possible() { bytes.min(PAGE) } else { bytes };
        for start in (0..at_once).step_by(PIECE_BYTES) {
            allocate(&file, start, at_once)?;
        }
        Segment::seal(file, bytes)
    }

    /// Tries whether this process can make segments at all, with one page, whatever room there is.
    ///
    /// # Errors
    /// The kernel's.
    pub fn try_one() -> Result<(), SegmentError> {
        let file = make_file(PAGE)?;
        ftruncate(&file, PAGE as u64).map_err(|error| system(PAGE, "set its length", error))?;
        fallocate_piece(&file, 0, PAGE).map_err(|error| system(PAGE, "allocate its pages", error))?;
        Segment::seal(file, PAGE).map(drop)
    }

    /// Maps a segment that another process made, which is not trusted: it must be of the agreed length and sealed.
    ///
    /// # Errors
    /// Where it is not.
    pub fn adopt(file: OwnedFd, bytes: usize) -> Result<Segment, SegmentError> {
        check(&file, bytes)?;
        Segment::map(file, bytes)
    }

    /// Its length.
    pub fn bytes(&self) -> usize {
        self.mapping.bytes()
    }

    /// What another process maps.
    pub fn file(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// The doorbell of the rank whose segment this is, which peers ring through [`Segment::ringer`].
    ///
    /// # Errors
    /// Where the process or the machine is out of file descriptors.
    pub fn doorbell(&self) -> io::Result<Doorbell> {
        Doorbell::at(SharedWord::new(&self.mapping, ASLEEP_AT))
    }

    /// Rings the rank whose segment this is and that sleeps on `event`, an eventfd.
    pub fn ringer(&self, event: OwnedFd) -> Ringer {
        Ringer::of(SharedWord::new(&self.mapping, ASLEEP_AT), event)
    }

    pub(super) fn mapping(&self) -> &Arc<Mapping> {
        &self.mapping
    }

    fn seal(file: OwnedFd, bytes: usize) -> Result<Segment, SegmentError> {
        seal(&file, bytes)?;
        Segment::map(file, bytes)
    }

    fn map(file: OwnedFd, bytes: usize) -> Result<Segment, SegmentError> {
        let mapping = Mapping::of_file(file.as_fd(), bytes, demand::is_possible())
            .map_err(|source| SegmentError::System { bytes, action: "map it", source })?;
        Ok(Segment { file, mapping })
    }
}

/// Checks that a file which another process made is of the agreed length and cannot be resized.
pub(super) fn check(file: &OwnedFd, bytes: usize) -> Result<(), SegmentError> {
    let seals = fcntl_get_seals(file).unwrap_or(SealFlags::empty());
    if !seals.contains(needed_seals()) {
        return Err(SegmentError::Unsealed { actual: seals.bits(), needed: needed_seals().bits() });
    }
    let status = fstat(file).map_err(|error| system(bytes, "look at it", error))?;
    let actual = u64::try_from(status.st_size).unwrap_or(0);
    if actual != bytes as u64 {
        return Err(SegmentError::Length { actual, expected: bytes });
    }
    Ok(())
}

/// Forbids for good that a file of `bytes` is resized.
pub(super) fn seal(file: &OwnedFd, bytes: usize) -> Result<(), SegmentError> {
    let seals = needed_seals() | SealFlags::SEAL;
    fcntl_add_seals(file, seals).map_err(|error| system(bytes, "seal it", error))
}

fn needed_seals() -> SealFlags {
    SealFlags::SHRINK | SealFlags::GROW
}

/// Some systems allow only files that can never be programs; kernels before 6.3 do not know the flag for it.
pub(super) fn make_file(bytes: usize) -> Result<OwnedFd, SegmentError> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    memfd_create("hcomm", flags | MemfdFlags::NOEXEC_SEAL)
        .or_else(|error| if error == Errno::INVAL { memfd_create("hcomm", flags) } else { Err(error) })
        .map_err(|error| system(bytes, "make a file in memory", error))
}

/// Allocates the piece of a file of `bytes` that begins at `start`, if there still is room for it.
fn allocate(file: &OwnedFd, start: usize, bytes: usize) -> Result<(), SegmentError> {
    let piece = PIECE_BYTES.min(bytes - start);
    let room = Room::left();
    let for_all = |room: Room| shortage(bytes, room.left.saturating_add(start as u64), room.limit);
    if room.left < piece as u64 {
        return Err(for_all(room));
    }
    fallocate_piece(file, start, piece).map_err(|error| match error {
        Errno::NOSPC | Errno::NOMEM => for_all(Room::left()),
        other => system(bytes, "allocate its pages", other),
    })
}

pub(super) fn fallocate_piece(file: &OwnedFd, start: usize, bytes: usize) -> rustix::io::Result<()> {
    rustix::io::retry_on_intr(|| fallocate(file, FallocateFlags::empty(), start as u64, bytes as u64))
}

pub(super) fn shortage(asked: usize, left: u64, limit: String) -> SegmentError {
    SegmentError::Shortage { asked, left, limit }
}

pub(super) fn system(bytes: usize, action: &'static str, error: Errno) -> SegmentError {
    SegmentError::System { bytes, action, source: error.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_segment_is_zero_and_cannot_be_resized() {
        let segment = Segment::create(3 * 4096).unwrap();
        assert_eq!(segment.bytes(), 3 * 4096);
        for length in [0, 4096, 4 * 4096] {
            assert_eq!(ftruncate(segment.file(), length), Err(Errno::PERM));
        }
        if demand::is_possible() {
            assert_eq!(taken(&segment), 4096, "one page is there");
            demand::take(segment.mapping(), 4096..4097).unwrap();
            assert_eq!(taken(&segment), 2 * 4096, "and now another");
        }
        demand::take(segment.mapping(), 0..3 * 4096).unwrap();
        assert_eq!(taken(&segment), 3 * 4096, "all pages are there");
    }

    fn taken(segment: &Segment) -> i64 {
        fstat(segment.file()).unwrap().st_blocks * 512
    }

    #[test]
    fn more_than_there_is_names_both_numbers() {
        let text = Segment::create(1 << 50).unwrap_err().to_string();
        assert!(text.contains("1125899906842624 bytes does not fit"), "{text}");
        assert!(text.contains("bytes are left"), "{text}");
    }

    #[test]
    fn an_unsealed_or_short_file_is_refused() {
        let file = memfd_create("test", MemfdFlags::ALLOW_SEALING).unwrap();
        ftruncate(&file, 8192).unwrap();
        let copy = || file.try_clone().unwrap();
        assert!(matches!(Segment::adopt(copy(), 8192), Err(SegmentError::Unsealed { actual: 0, .. })));
        fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW).unwrap();
        let wrong = Segment::adopt(copy(), 4096);
        assert!(matches!(wrong, Err(SegmentError::Length { actual: 8192, expected: 4096 })));
        Segment::adopt(copy(), 8192).unwrap();
        let ordinary = std::fs::File::open("/proc/self/status").unwrap();
        assert!(matches!(Segment::adopt(ordinary.into(), 0), Err(SegmentError::Unsealed { .. })));
    }
}
