//! [`Pool`]: the slots that a wire builds messages in and lets them arrive in. The slot freed last is used first, so that
//! its lines are still in the cache; none is given back to the system while the wire lives.

use super::sys::Slot;

/// Messages up to this size lie in small slots, packed where the cache can hold them.
pub(super) const SMALL_BYTES: usize = 4096;

/// Free slots of two sizes.
#[derive(Debug)]
pub(super) struct Pool {
    large_bytes: usize,
    small: Vec<Slot>,
    large: Vec<Slot>,
}

impl Pool {
    /// A pool of small slots and of slots of `large_bytes`; none is made yet.
    pub(super) fn new(large_bytes: usize) -> Self {
        Pool { large_bytes, small: Vec::new(), large: Vec::new() }
    }

    /// A slot of at least `bytes`, which are at most `large_bytes`.
    pub(super) fn take(&mut self, bytes: usize) -> Slot {
        debug_assert!(bytes <= self.large_bytes.max(SMALL_BYTES), "no message is longer than a slot");
        if bytes <= SMALL_BYTES {
            self.small.pop().unwrap_or_else(|| Slot::new(SMALL_BYTES))
        } else {
            self.large.pop().unwrap_or_else(|| Slot::new(self.large_bytes))
        }
    }

    /// Takes a slot back.
    pub(super) fn put(&mut self, slot: Slot) {
        if slot.span().len() <= SMALL_BYTES { self.small.push(slot) } else { self.large.push(slot) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_comes_back_for_the_next_message_of_its_size() {
        let mut pool = Pool::new(1 << 20);
        let (small, large) = (pool.take(1), pool.take(SMALL_BYTES + 1));
        let (small_at, large_at) = (small.span(), large.span());
        assert_eq!((small_at.len(), large_at.len()), (SMALL_BYTES, 1 << 20));
        pool.put(small);
        pool.put(large);
        assert_eq!(pool.take(1 << 20).span(), large_at);
        let again = pool.take(0);
        assert_eq!(again.span(), small_at);
        assert_ne!(pool.take(0).span(), small_at);
    }
}
