//! [`Level`]: which vector instructions a kernel uses. Every level gives the same bits.

use std::fmt;

/// A set of instructions, each containing the one before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Level {
    /// One element at a time; every machine has it.
    Scalar,
    /// AVX2 and F16C, 32 bytes at a time.
    Avx2,
    /// AVX-512 F, BW, DQ and VL, 64 bytes at a time.
    Avx512,
}

impl Level {
    /// Every level, lowest first.
    pub const ALL: [Level; 3] = [Level::Scalar, Level::Avx2, Level::Avx512];

    /// The highest level that this machine has.
    #[cfg(target_arch = "x86_64")]
    pub fn detected() -> Level {
        let avx2 = is_x86_feature_detected!("avx2") && is_x86_feature_detected!("f16c");
        let avx512 = is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512dq")
            && is_x86_feature_detected!("avx512vl");
        match (avx2, avx512) {
            (true, true) => Level::Avx512,
            (true, false) => Level::Avx2,
            _ => Level::Scalar,
        }
    }

    /// The highest level that this machine has.
    #[cfg(not(target_arch = "x86_64"))]
    pub fn detected() -> Level {
        Level::Scalar
    }

    /// Every level that this machine has, lowest first.
    pub fn available() -> impl Iterator<Item = Level> {
        let highest = Level::detected();
        Level::ALL.into_iter().filter(move |level| *level <= highest)
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Level::Scalar => "scalar",
            Level::Avx2 => "avx2",
            Level::Avx512 => "avx512",
        })
    }
}
