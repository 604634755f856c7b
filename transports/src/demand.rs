//! Memory that is taken when it is first used, so that a shortage is an error and not the kernel's end of a process: [`take`], before
//! anything in a range of a segment is touched, has the kernel find its pages.
//!
//! How much there is left is looked at once for every 2 MiB that this process takes: ranks that share a limit then see each other's share
//! of it, and none takes more past it than is kept free.

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use crate::mapping::Mapping;
use crate::ring::NoRoom;
use crate::shm::Room;

const PAGE: usize = 4096;

/// How many bytes are taken between two looks.
pub(crate) const PIECE_BYTES: usize = 2 << 20;

/// Bytes that this process may take before it looks again.
static ALLOWED: AtomicUsize = AtomicUsize::new(0);

/// Whether the kernel finds pages of a mapping on demand (Linux 5.14 and later); where it does not, segments have all theirs from the start.
pub(crate) fn is_possible() -> bool {
    static POSSIBLE: OnceLock<bool> = OnceLock::new();
    *POSSIBLE.get_or_init(|| Mapping::anonymous(PAGE).is_ok_and(|page| page.populate(0, PAGE).is_ok()))
}

/// Finds memory for a range of a mapping, if that has not all of it from the start. What has been found before is found at once.
pub(crate) fn take(mapping: &Arc<Mapping>, range: Range<usize>) -> Result<(), NoRoom> {
    if !mapping.is_on_demand() || range.is_empty() {
        return Ok(());
    }
    let start = range.start / PAGE * PAGE;
    let bytes = range.end.next_multiple_of(PAGE).min(mapping.bytes()) - start;
    allow(&ALLOWED, bytes, Room::left)?;
    mapping.populate(start, bytes).map_err(|error| {
        let Room { left, limit } = Room::left();
        NoRoom(format!(
            "{bytes} bytes of shared memory cannot be had: {error}; {left} bytes are left {limit}"
        ))
    })
}

/// Counts bytes off what may be taken, and looks again where that does not suffice.
fn allow(allowed: &AtomicUsize, bytes: usize, look: impl FnOnce() -> Room) -> Result<(), NoRoom> {
    let take = |allowed: usize| allowed.checked_sub(bytes);
    if allowed.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok() {
        return Ok(());
    }
    let Room { left, limit } = look();
    if left < bytes as u64 {
        return Err(NoRoom(format!(
            "{bytes} more bytes of shared memory do not fit: {left} bytes are left {limit}"
        )));
    }
    let left = usize::try_from(left).unwrap_or(usize::MAX);
    allowed.store(left.min(bytes.max(PIECE_BYTES)) - bytes, Ordering::Relaxed);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn room(left: u64) -> Room {
        Room { left, limit: "here".into() }
    }

    #[test]
    fn room_is_looked_at_once_for_every_piece() {
        let allowed = AtomicUsize::new(0);
        let mut looks = 0;
        for _ in 0..2 * PIECE_BYTES / PAGE {
            allow(&allowed, PAGE, || {
                looks += 1;
                room(1 << 30)
            })
            .unwrap();
        }
        assert_eq!(looks, 2);
        allow(&allowed, 5 * PIECE_BYTES, || room(1 << 30)).unwrap();
        assert_eq!(allowed.load(Ordering::Relaxed), 0, "a long one takes what was looked for, and no more");
    }

    #[test]
    fn what_does_not_fit_is_refused_and_the_rest_given_out() {
        let allowed = AtomicUsize::new(0);
        allow(&allowed, PAGE, || room(3 * PAGE as u64)).unwrap();
        allow(&allowed, 2 * PAGE, || panic!("this much was seen")).unwrap();
        let NoRoom(text) = allow(&allowed, PAGE, || room(100)).unwrap_err();
        assert_eq!(text, "4096 more bytes of shared memory do not fit: 100 bytes are left here");
    }

    #[test]
    fn memory_of_this_process_alone_comes_by_itself() {
        let mapping = Mapping::anonymous(1 << 46).unwrap();
        take(&mapping, 0..1 << 46).unwrap();
    }
}
