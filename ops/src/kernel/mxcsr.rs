//! [`FixedRounding`]: the floating-point environment in which every fold runs.
//!
//! A caller may have asked for flushed subnormals or another rounding (deep-learning frameworks do). A fold must
//! give the same bits on every rank all the same, so the control register is set for its length, and put back. Reading
//! the register costs more than folding a few elements; what it does to an addition shows for a tenth of that.

/// While it lives, arithmetic rounds to nearest even and keeps subnormals.
pub(super) struct FixedRounding {
    /// What to put back, if the environment was another one.
    found: Option<u32>,
}

impl FixedRounding {
    /// Makes the environment the default one.
    #[inline]
    pub(super) fn enter() -> FixedRounding {
        FixedRounding { found: if sys::is_default() { None } else { Some(sys::replace_by_default()) } }
    }
}

impl Drop for FixedRounding {
    #[inline]
    fn drop(&mut self) {
        if let Some(found) = self.found {
            sys::write(found);
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod sys {
    use std::arch::asm;

    /// All exceptions masked, round to nearest even, no flush to zero, no denormals as zero.
    pub(super) const DEFAULT: u32 = 0x1f80;

    #[repr(align(16))]
    struct Lanes([u32; 4]);

    /// 1, 1, a subnormal, 0.
    static LEFT: Lanes = Lanes([0x3f80_0000, 0x3f80_0000, 4, 0]);
    /// 2^-31, -2^-31, 0, 0.
    static RIGHT: Lanes = Lanes([0x3000_0000, 0xb000_0000, 0, 0]);

    /// Whether `LEFT + RIGHT` is `LEFT`: rounding up or down would change one of the first two lanes, flushing the
    /// third. The compiler must not know what it adds, hence the assembly.
    #[inline]
    pub(super) fn is_default() -> bool {
        let unchanged: u32;
        // SAFETY: reads two statics of 16 bytes, aligned to 16, and writes two registers.
        unsafe {
            asm!(
                "movaps {sum}, [{left}]",
                "addps {sum}, [{right}]",
                "pcmpeqd {sum}, [{left}]",
                "movmskps {unchanged:e}, {sum}",
                left = in(reg) &raw const LEFT.0,
                right = in(reg) &raw const RIGHT.0,
                sum = out(xmm_reg) _,
                unchanged = out(reg) unchanged,
                options(nostack, preserves_flags, readonly),
            );
        }
        unchanged == 0b1111
    }

    #[cold]
    pub(super) fn replace_by_default() -> u32 {
        let found = read();
        write(DEFAULT);
        found
    }

    pub(super) fn read() -> u32 {
        let mut word = 0_u32;
        // SAFETY: stores the 4-byte register at the address of a local of 4 bytes.
        unsafe { asm!("stmxcsr [{}]", in(reg) &raw mut word, options(nostack, preserves_flags)) };
        word
    }

    pub(super) fn write(word: u32) {
        // SAFETY: `word` is the default or a value just read, so no reserved bit is set. The default is what Rust code
        // assumes; another value was the caller's and is only put back.
        unsafe { asm!("ldmxcsr [{}]", in(reg) &raw const word, options(nostack, preserves_flags)) };
    }
}

#[cfg(not(target_arch = "x86_64"))]
mod sys {
    pub(super) fn is_default() -> bool {
        true
    }

    pub(super) fn replace_by_default() -> u32 {
        0
    }

    pub(super) fn write(_word: u32) {}
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;

    /// What the probe and the guard see and leave behind in an environment.
    fn visit(environment: u32) -> (bool, u32, u32) {
        let before = sys::read();
        sys::write(environment);
        let seen_as_default = sys::is_default();
        let inside = {
            let _fixed = FixedRounding::enter();
            sys::read()
        };
        let after = sys::read();
        sys::write(before);
        // The low six bits record exceptions that happened.
        (seen_as_default, inside & !0x3f, after & !0x3f)
    }

    #[test]
    fn the_default_environment_is_left_alone() {
        assert_eq!(visit(sys::DEFAULT), (true, sys::DEFAULT, sys::DEFAULT));
        assert_eq!(visit(sys::DEFAULT | 0x3f), (true, sys::DEFAULT, sys::DEFAULT));
    }

    #[test]
    fn any_other_environment_is_replaced_and_put_back() {
        let (flush, as_zero, down, up) = (0x8000, 0x0040, 0x2000, 0x4000);
        for changed in [flush, as_zero, down, up, down | up, flush | as_zero, flush | as_zero | down | up] {
            let environment = sys::DEFAULT | changed;
            assert_eq!(visit(environment), (false, sys::DEFAULT, environment), "{environment:#06x}");
        }
    }
}
