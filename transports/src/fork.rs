//! [`Kept`]: keeps a descriptor from the children that this process forks.
//!
//! A connection ends for the peer when the last copy of its descriptor is closed. A child that is forked and goes on without `exec` (a data
//! loader's worker) holds copies of them all, so a rank that dies would seem to live for as long as the child. In the child, right after the
//! fork, every kept descriptor is therefore made to mean `/dev/null`: its number stays taken, so whatever the child still does with it, by a
//! value that it inherited, harms nobody; and the connection is the parent's alone.
//!
//! The numbers lie in chunks that are never freed, so that the child can read them whatever other threads were doing as it was forked. A
//! slot is written by its owner alone: the number before the descriptor can be forked with, [`NONE`] before it is closed.

use std::ffi::c_int;
use std::os::fd::{AsRawFd, RawFd};
use std::ptr::null_mut;
use std::sync::Once;
use std::sync::atomic::{AtomicI32, AtomicPtr, Ordering};

/// An empty slot.
const NONE: RawFd = -1;

const CHUNK: usize = 128;

struct Chunk {
    slots: [AtomicI32; CHUNK],
    /// Made before this one.
    older: *const Chunk,
}

/// The chunk made last.
static CHUNKS: AtomicPtr<Chunk> = AtomicPtr::new(null_mut());

unsafe extern "C" {
    fn pthread_atfork(
        prepare: Option<extern "C" fn()>,
        parent: Option<extern "C" fn()>,
        child: Option<extern "C" fn()>,
    ) -> c_int;
}

/// A descriptor that children do not keep, until this is dropped: to be done before the descriptor is closed.
#[derive(Debug)]
pub(crate) struct Kept(&'static AtomicI32);

impl Kept {
    /// Keeps a descriptor from children that are forked from now on.
    pub(crate) fn new(file: &impl AsRawFd) -> Kept {
        static REGISTERED: Once = Once::new();
        REGISTERED.call_once(|| {
            // SAFETY: the handler is a function of this program, and does only what a child may do after a fork.
            let result = unsafe { pthread_atfork(None, None, Some(let_go)) };
            if result != 0 {
                tracing::debug!(result, "forked children keep connections open");
            }
        });
        loop {
            let taken = |slot: &&AtomicI32| {
                slot.compare_exchange(NONE, file.as_raw_fd(), Ordering::AcqRel, Ordering::Relaxed).is_ok()
            };
            if let Some(slot) = chunks().flat_map(|chunk| &chunk.slots).find(taken) {
                return Kept(slot);
            }
            add_chunk();
        }
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.0.store(NONE, Ordering::Release);
    }
}

fn chunks() -> impl Iterator<Item = &'static Chunk> {
    // SAFETY: every pointer in the list is null or one that `add_chunk` leaked.
    let chunk = |at: *const Chunk| unsafe { at.as_ref() };
    std::iter::successors(chunk(CHUNKS.load(Ordering::Acquire)), move |newer| chunk(newer.older))
}

/// Two threads may do so at once: then there are two more.
fn add_chunk() {
    let mut older = CHUNKS.load(Ordering::Acquire);
    let made = Box::into_raw(Box::new(Chunk { slots: [const { AtomicI32::new(NONE) }; CHUNK], older }));
    while let Err(now) = CHUNKS.compare_exchange(older, made, Ordering::AcqRel, Ordering::Acquire) {
        older = now;
        // SAFETY: nobody else knows the chunk before it is in the list.
        unsafe { (*made).older = older };
    }
}

/// In the child, right after the fork.
extern "C" fn let_go() {
    // SAFETY: `open`, `dup3` and `close` are among what a child of many threads may call, and no memory is allocated; the path is a C string.
    // A number in a slot is one that this process had open as it was forked, by its owner's word.
    unsafe {
        let nothing = libc::open(c"/dev/null".as_ptr(), libc::O_RDWR | libc::O_CLOEXEC);
        for slot in chunks().flat_map(|chunk| &chunk.slots) {
            let file = slot.swap(NONE, Ordering::AcqRel);
            if file == NONE {
                continue;
            }
            if nothing < 0 || libc::dup3(nothing, file, libc::O_CLOEXEC) < 0 {
                libc::close(file);
            }
        }
        if nothing >= 0 {
            libc::close(nothing);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::os::unix::net::UnixStream;
    use std::time::Duration;

    #[test]
    fn a_connection_ends_though_a_forked_child_lives() {
        let (near, mut far) = UnixStream::pair().expect("two descriptors");
        let kept = Kept::new(&near);
        // SAFETY: the child only sleeps, and ends without running what belongs to this process.
        let child = unsafe { libc::fork() };
        if child == 0 {
            // SAFETY: as above.
            unsafe {
                libc::sleep(20);
                libc::_exit(0)
            }
        }
        drop(kept);
        drop(near);
        far.set_read_timeout(Some(Duration::from_secs(10))).expect("a socket");
        let end = far.read(&mut [0; 8]);
        // SAFETY: the child is this test's own.
        unsafe {
            libc::kill(child, libc::SIGKILL);
            libc::waitpid(child, null_mut(), 0);
        }
        assert_eq!(end.expect("the end of the stream, while the child sleeps"), 0);
    }

    #[test]
    fn slots_are_used_again_and_more_are_made() {
        let file = std::fs::File::open("/dev/null").expect("it is there");
        for _ in 0..3 {
            let many: Vec<Kept> = (0..3 * CHUNK).map(|_| Kept::new(&file)).collect();
            let distinct: std::collections::HashSet<_> = many.iter().map(|kept| kept.0.as_ptr()).collect();
            assert_eq!(distinct.len(), many.len());
        }
        assert!(chunks().count() <= 8, "{}", chunks().count());
    }
}
