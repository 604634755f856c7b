//! [`Scratch`]: memory for copies of arrays, kept from one call to the next, since the pages of fresh memory cost more than the copies.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, PoisonError};

use hcomm::ops::RawSpan;

/// Bytes at most that are kept while nothing uses them.
const MOST_KEPT_BYTES: usize = 64 << 20;

/// What is kept is lent to a call that needs at least one part in so many of it.
const LEAST_SHARE: usize = 8;

/// Where memory begins, and of what its length is a multiple: cache lines, which the kernels like.
const ALIGNMENT: usize = 64;

/// Memory of a communicator that no call uses now; the oldest first. It is locked by whoever ends an operation, with or without the
/// interpreter's lock: hence it is of no use in the child of a fork (see `lifetime`).
#[derive(Default)]
pub struct Scratch(Mutex<Vec<Block>>);

/// Memory, which goes back to where it came from.
pub struct Piece {
    /// There until it is dropped.
    block: Option<Block>,
    bytes: usize,
    home: Arc<Scratch>,
}

/// An allocation.
struct Block {
    start: NonNull<u8>,
    layout: Layout,
}

// SAFETY: a block owns its allocation, which any thread may use and free.
unsafe impl Send for Block {}
// SAFETY: a shared block gives no access to its bytes but by `RawSpan`, whose users order themselves.
unsafe impl Sync for Block {}

impl Scratch {
    /// Memory of so many bytes, whose values are anything; `None` where there is none.
    pub fn take(self: &Arc<Self>, bytes: usize) -> Option<Piece> {
        let block = self.kept(bytes).or_else(|| Block::new(bytes))?;
        Some(Piece { block: Some(block), bytes, home: self.clone() })
    }

    /// The smallest block that is long enough and not far too long.
    fn kept(&self, bytes: usize) -> Option<Block> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let fits = |block: &Block| block.bytes() >= bytes && block.bytes() / LEAST_SHARE <= bytes;
        let fitting = kept.iter().enumerate().filter(|(_, block)| fits(block));
        let at = fitting.min_by_key(|(_, block)| block.bytes())?.0;
        Some(kept.remove(at))
    }

    /// Keeps a block, in place of the oldest ones where there is no room for all.
    fn keep(&self, block: Block) {
        if block.bytes() > MOST_KEPT_BYTES {
            return;
        }
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.push(block);
        let mut sum: usize = kept.iter().map(Block::bytes).sum();
        let mut stale = 0;
        while sum > MOST_KEPT_BYTES {
            sum -= kept[stale].bytes();
            stale += 1;
        }
        kept.drain(..stale);
    }
}

impl Piece {
    /// The memory.
    pub fn span(&self) -> RawSpan {
        let start = self.block.as_ref().map_or(NonNull::dangling(), |block| block.start);
        // SAFETY: the block has at least so many bytes, all of which have been written at some time, and lives as long as this; who holds
        // the piece sees to it that the span is not used for longer.
        unsafe { RawSpan::new(start, self.bytes) }
    }
}

impl Drop for Piece {
    fn drop(&mut self) {
        if let Some(block) = self.block.take() {
            self.home.keep(block);
        }
    }
}

impl Block {
    fn new(bytes: usize) -> Option<Block> {
        let bytes = bytes.max(1).checked_next_multiple_of(ALIGNMENT)?;
        let layout = Layout::from_size_align(bytes, ALIGNMENT).ok()?;
        // SAFETY: the layout has at least one byte.
        let start = NonNull::new(unsafe { alloc_zeroed(layout) })?;
        Some(Block { start, layout })
    }

    fn bytes(&self) -> usize {
        self.layout.size()
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout, and freed once.
        unsafe { dealloc(self.start.as_ptr(), self.layout) };
    }
}
