//! [`FixedRounding`]: the floating-point environment in which every fold runs.
//!
//! A caller may have asked for flushed subnormals or another rounding (deep-learning frameworks do). A fold must
//! give the same bits on every rank all the same, so the control register is looked at before each fold of floats
//! and, only where it differs from the default, set and put back.

/// While it lives, arithmetic rounds to nearest even and keeps subnormals.
pub(super) struct FixedRounding {
    saved: Option<u32>,
}

/// All exceptions masked, round to nearest even, no flush to zero, no denormals as zero.
const DEFAULT: u32 = 0x1f80;
/// The low six bits record exceptions that happened; they change nothing.
const CONTROL_BITS: u32 = !0x3f;

impl FixedRounding {
    /// Makes the environment the default one.
    #[inline]
    pub(super) fn enter() -> FixedRounding {
        let found = read();
        if found & CONTROL_BITS == DEFAULT {
            return FixedRounding { saved: None };
        }
        write(DEFAULT);
        FixedRounding { saved: Some(found) }
    }
}

impl Drop for FixedRounding {
    #[inline]
    fn drop(&mut self) {
        if let Some(found) = self.saved {
            write(found);
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[inline]
fn read() -> u32 {
    let mut word = 0_u32;
    // SAFETY: stores the 4-byte register at the address of a local of 4 bytes.
    unsafe { std::arch::asm!("stmxcsr [{}]", in(reg) &raw mut word, options(nostack, preserves_flags)) };
    word
}

#[cfg(target_arch = "x86_64")]
#[inline]
fn write(word: u32) {
    // SAFETY: `word` is the default or a value just read, so no reserved bit is set. The default is what Rust code
    // assumes; another value was the caller's and is only put back.
    unsafe { std::arch::asm!("ldmxcsr [{}]", in(reg) &raw const word, options(nostack, preserves_flags)) };
}

#[cfg(not(target_arch = "x86_64"))]
fn read() -> u32 {
    DEFAULT
}

#[cfg(not(target_arch = "x86_64"))]
fn write(_word: u32) {}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;

    #[test]
    fn another_environment_is_replaced_and_put_back() {
        let before = read();
        let flush_and_truncate = DEFAULT | 0x8000 | 0x0040 | 0x6000;
        write(flush_and_truncate);
        let inside = {
            let _fixed = FixedRounding::enter();
            read()
        };
        let after = read();
        write(before);
        assert_eq!(inside & CONTROL_BITS, DEFAULT);
        assert_eq!(after & CONTROL_BITS, flush_and_truncate & CONTROL_BITS);
    }
}
