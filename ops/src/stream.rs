//! Streaming copies: stores that go past the caches, for results so long that nothing of them would stay there.
//!
//! An ordinary store first reads the line that it writes. Past the last-level cache that is a third of all traffic.

use std::sync::LazyLock;

use crate::RawSpan;

/// Bytes of the largest cache of the first processor; 32 MiB where the system does not say.
static LAST_LEVEL_CACHE: LazyLock<u64> = LazyLock::new(|| {
    let size = |index: usize| {
        let path = format!("/sys/devices/system/cpu/cpu0/cache/index{index}/size");
        parse(std::fs::read_to_string(path).ok()?.trim())
    };
    (0..8).filter_map(size).max().unwrap_or(32 << 20)
});

/// Bytes of the largest cache of the first processor; 32 MiB where the system does not say.
pub fn last_level_cache_bytes() -> u64 {
    *LAST_LEVEL_CACHE
}

/// Copies `source` to the start of `sink` past the caches. The two must not share bytes. Reading it elsewhere is ordered as after
/// ordinary stores.
///
/// # Panics
/// Where `source` is longer than `sink`, or they overlap: local invariants of the caller.
pub fn stream(source: RawSpan, sink: RawSpan) {
    assert!(source.len() <= sink.len(), "{} bytes streamed into a span of {}", source.len(), sink.len());
    assert!(!source.overlaps(sink), "a streaming copy is between distinct bytes");
    // SAFETY: both spans are valid for `source.len()` bytes by the promise made in `RawSpan::new`, and distinct.
    unsafe { sys::stream(source.as_ptr(), sink.as_ptr(), source.len()) };
}

/// A size as the system writes it: `32768K`.
fn parse(size: &str) -> Option<u64> {
    let (digits, shift) = match size.as_bytes().last()? {
        b'K' => (&size[..size.len() - 1], 10),
        b'M' => (&size[..size.len() - 1], 20),
        _ => (size, 0),
    };
    digits.parse::<u64>().ok()?.checked_shl(shift)
}

#[cfg(target_arch = "x86_64")]
mod sys {
    use std::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_sfence, _mm_stream_si128};
    use std::ptr;

    const LINE: usize = 64;

    /// # Safety
    /// Both are valid for `bytes`, and distinct.
    pub(super) unsafe fn stream(from: *const u8, to: *mut u8, bytes: usize) {
        // SAFETY: `head` bytes, then whole lines, then the rest: all within `bytes`. `to` is aligned to a line behind the head.
        // SSE2 is part of x86-64. The fence orders the streaming stores before whatever the caller publishes.
        unsafe {
            let head = to.align_offset(LINE).min(bytes);
            ptr::copy_nonoverlapping(from, to, head);
            let lines = (bytes - head) / LINE;
            for line in 0..lines {
                let (from, to) = (from.add(head + line * LINE).cast::<__m128i>(), to.add(head + line * LINE));
                let words = [0, 1, 2, 3].map(|i| _mm_loadu_si128(from.add(i)));
                for (i, word) in words.into_iter().enumerate() {
                    _mm_stream_si128(to.cast::<__m128i>().add(i), word);
                }
            }
            let done = head + lines * LINE;
            ptr::copy_nonoverlapping(from.add(done), to.add(done), bytes - done);
            _mm_sfence();
        }
    }
}

#[cfg(not(target_arch = "x86_64"))]
mod sys {
    /// # Safety
    /// Both are valid for `bytes`, and distinct.
    pub(super) unsafe fn stream(from: *const u8, to: *mut u8, bytes: usize) {
        // SAFETY: passed on from the caller.
        unsafe { std::ptr::copy_nonoverlapping(from, to, bytes) };
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::StableBuffer;

    proptest! {
        #[test]
        fn a_streaming_copy_writes_what_a_copy_writes(from in 0_usize..80, to in 0_usize..80, bytes in 0_usize..400) {
            let mut source: Vec<u8> = (0..480_u32).map(|i| (i * 7) as u8).collect();
            let mut sink = vec![0xee_u8; 481];
            stream(source.span().slice(from, bytes), sink.span().slice(to, bytes));
            prop_assert!(sink[..to].iter().all(|byte| *byte == 0xee));
            prop_assert_eq!(&sink[to..to + bytes], &source[from..from + bytes]);
            prop_assert!(sink[to + bytes..].iter().all(|byte| *byte == 0xee));
        }
    }

    #[test]
    fn sizes_are_read_as_the_system_writes_them() {
        assert_eq!(
            ["32768K", "1M", "512", "", "K", "x"].map(parse),
            [Some(32 << 20), Some(1 << 20), Some(512), None, None, None]
        );
        assert!(last_level_cache_bytes() >= 1 << 10);
    }

    #[test]
    #[should_panic(expected = "between distinct bytes")]
    fn spans_that_overlap_are_refused() {
        let mut bytes = vec![0_u8; 100];
        let span = bytes.span();
        stream(span.slice(0, 60), span.slice(40, 60));
    }
}
