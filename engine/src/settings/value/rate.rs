//! [`Rate`]: bytes per second.

use std::fmt;
use std::str::FromStr;

use super::{Value, quantity};

/// A rate in bytes per second; 0 stands for "no limit" wherever a rate is a setting.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rate {
    /// Bytes per second.
    pub bytes_per_s: u64,
}

const FORM: &str = "a rate such as 1GB/s, 100MiB/s or 500Mbit/s";

const BYTES: &[quantity::Unit] = &[
    ("TB/s", 1_000_000_000_000),
    ("GiB/s", 1 << 30),
    ("GB/s", 1_000_000_000),
    ("MiB/s", 1 << 20),
    ("MB/s", 1_000_000),
    ("KiB/s", 1 << 10),
    ("KB/s", 1000),
    ("B/s", 1),
];

const BITS: &[quantity::Unit] = &[
    ("Tbit/s", 1_000_000_000_000),
    ("Gbit/s", 1_000_000_000),
    ("Mbit/s", 1_000_000),
    ("kbit/s", 1000),
    ("bit/s", 1),
];

impl Rate {
    /// So many bytes per second.
    pub const fn bytes_per_s(bytes_per_s: u64) -> Self {
        Rate { bytes_per_s }
    }

    /// Whether it stands for "no limit".
    pub const fn is_unlimited(self) -> bool {
        self.bytes_per_s == 0
    }
}

impl Value for Rate {
    fn read(&mut self, text: &str) -> bool {
        text.parse().map(|value| *self = value).is_ok()
    }

    fn show(&self) -> String {
        self.to_string()
    }

    fn form(&self) -> String {
        FORM.to_owned()
    }

    fn magnitude(&self) -> Option<u64> {
        Some(self.bytes_per_s)
    }

    fn show_magnitude(&self, magnitude: u64) -> String {
        Rate::bytes_per_s(magnitude).to_string()
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&quantity::show(self.bytes_per_s, BYTES))
    }
}

/// A text that is no rate.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is no rate; expected {FORM}")]
pub struct NotARate(pub String);

impl FromStr for Rate {
    type Err = NotARate;

    fn from_str(text: &str) -> Result<Self, NotARate> {
        let whole_bytes = |bits: u64| bits.is_multiple_of(8).then_some(bits / 8);
        quantity::read(text, BYTES)
            .or_else(|| quantity::read(text, BITS).and_then(whole_bytes))
            .map(Rate::bytes_per_s)
            .ok_or_else(|| NotARate(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_are_eighths_of_bytes() {
        for (text, rate) in [
            ("1GB/s", 1_000_000_000),
            ("500Mbit/s", 62_500_000),
            ("8bit/s", 1),
            ("1MiB/s", 1 << 20),
            ("0", 0),
        ] {
            assert_eq!(text.parse(), Ok(Rate::bytes_per_s(rate)), "{text}");
        }
        for text in ["1GB", "100", "7bit/s", "fast"] {
            assert_eq!(text.parse::<Rate>(), Err(NotARate(text.to_owned())));
        }
    }
}
