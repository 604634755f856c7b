//! The system calls of a TCP wire on spans, and the memory of its slots. All unsafe code of the folder is here.
//!
//! Calls go through `libc` with raw vectors, so that no reference is formed to bytes that a user or kernel may touch.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::NonNull;

use hcomm_ops::RawSpan;

/// Most spans in one call.
pub(super) const MAX_SPANS: usize = 32;
const SLOT_ALIGN: usize = 128;

/// Sends up to `limit` of the bytes of `spans` (the first [`MAX_SPANS`] of them). Never blocks; `Ok(0)` where the
/// kernel takes nothing now.
pub(super) fn send(socket: BorrowedFd<'_>, spans: &[RawSpan], limit: usize) -> io::Result<usize> {
    let (mut vectors, count) = vectors(spans, limit);
    let message = header(&mut vectors, count);
    retry(|| {
        // SAFETY: `message` points at `count` vectors that live until the call returns, each a span that its maker
        // promised to be readable (`RawSpan::new`).
        unsafe { libc::sendmsg(socket.as_raw_fd(), &message, libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT) }
    })
    .map(|sent| sent.unwrap_or(0))
}

/// Receives into `spans`, in order. Never blocks; `None` where nothing is there, `Some(0)` at the end of the stream.
pub(super) fn receive(socket: BorrowedFd<'_>, spans: &[RawSpan]) -> io::Result<Option<usize>> {
    let (mut vectors, count) = vectors(spans, usize::MAX);
    let mut message = header(&mut vectors, count);
    retry(|| {
        // SAFETY: as in `send`; the spans are writable by the same promise, and whoever made or lent them leaves
        // them to this wire until the message has landed.
        unsafe { libc::recvmsg(socket.as_raw_fd(), &mut message, libc::MSG_DONTWAIT) }
    })
}

/// Bytes given to the kernel that the peer's kernel has not acknowledged, where the system can tell.
pub(crate) fn unacknowledged_bytes(socket: BorrowedFd<'_>) -> Option<usize> {
    let mut bytes: libc::c_int = 0;
    // SAFETY: the request writes one int at the address, which is valid for the call.
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), libc::TIOCOUTQ, &raw mut bytes) };
    (result == 0).then(|| usize::try_from(bytes).unwrap_or(0))
}

/// Lets the kernel hold at most about `bytes` that it has not yet sent.
pub(super) fn limit_unsent_bytes(socket: BorrowedFd<'_>, bytes: u32) -> io::Result<()> {
    let size = size_of::<u32>() as libc::socklen_t;
    // SAFETY: the option reads `size` bytes at the address of a local `u32`.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_NOTSENT_LOWAT,
            (&raw const bytes).cast(),
            size,
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

type Vectors = [libc::iovec; MAX_SPANS];

/// The first `limit` bytes of `spans` as vectors, without empty ones.
fn vectors(spans: &[RawSpan], limit: usize) -> (Vectors, usize) {
    let mut out = [libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 }; MAX_SPANS];
    let (mut count, mut left) = (0, limit);
    for span in spans.iter().filter(|span| !span.is_empty()).take(MAX_SPANS) {
        let len = span.len().min(left);
        if len == 0 {
            break;
        }
        out[count] = libc::iovec { iov_base: span.as_ptr().cast(), iov_len: len };
        count += 1;
        left -= len;
    }
    (out, count)
}

fn header(vectors: &mut Vectors, count: usize) -> libc::msghdr {
    // SAFETY: a message header of zeros is valid: no name, no vectors, no control data.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = vectors.as_mut_ptr();
    message.msg_iovlen = count as _;
    message
}

/// Calls again after a signal; `None` where the call would block.
fn retry(mut call: impl FnMut() -> isize) -> io::Result<Option<usize>> {
    loop {
        if let Ok(count) = usize::try_from(call()) {
            return Ok(Some(count));
        }
        let error = io::Error::last_os_error();
        match error.kind() {
            io::ErrorKind::Interrupted => {}
            io::ErrorKind::WouldBlock => return Ok(None),
            _ => return Err(error),
        }
    }
}

/// Memory of a message, owned by a wire.
#[derive(Debug)]
pub(super) struct Slot {
    start: NonNull<u8>,
    layout: Layout,
}

// SAFETY: a slot is memory that it alone owns; nothing about it belongs to a thread.
unsafe impl Send for Slot {}

impl Slot {
    /// A new slot of `bytes`, zeroed. The pages of a large one are only taken from the system as they are used.
    pub(super) fn new(bytes: usize) -> Self {
        let layout = Layout::from_size_align(bytes.max(1), SLOT_ALIGN)
            .expect("a slot is smaller than the address space");
        // SAFETY: the layout has at least one byte.
        let start = unsafe { alloc_zeroed(layout) };
        let Some(start) = NonNull::new(start) else { handle_alloc_error(layout) };
        Slot { start, layout }
    }

    /// All of it. The span is valid until the slot is dropped: the wire, which owns both, keeps to that.
    pub(super) fn span(&self) -> RawSpan {
        // SAFETY: the allocation is valid for the layout's size, and no reference to its bytes is ever formed. The wire
        // shows spans of a slot only between `reserve` and `commit`, or between `poll` and `release`.
        unsafe { RawSpan::new(self.start, self.layout.size()) }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        // SAFETY: allocated in `new` with this layout.
        unsafe { dealloc(self.start.as_ptr(), self.layout) };
    }
}

/// The bytes as a span, for a call that only reads them before the borrow ends.
pub(super) fn span_of(bytes: &[u8]) -> RawSpan {
    // SAFETY: used for the header of a frame, on the stack of the caller, which reads it in the same statement and
    // never writes through it.
    unsafe { RawSpan::new(NonNull::from(bytes).cast(), bytes.len()) }
}

/// The readable bytes of a slot as a slice, for the decoder.
pub(super) fn bytes_of(slot: &Slot, range: std::ops::Range<usize>) -> &[u8] {
    assert!(range.start <= range.end && range.end <= slot.layout.size(), "the range lies within the slot");
    // SAFETY: the range was just checked, the bytes are initialised (the slot began as zeros), and the borrow of the slot keeps
    // its owner, the inbox, from handing the span to the kernel meanwhile.
    unsafe { std::slice::from_raw_parts(slot.start.as_ptr().add(range.start), range.end - range.start) }
}
