//! [`Bytes`]: a size as people write it, in settings, files and on the command line.

use std::fmt;
use std::str::FromStr;

use crate::quantity;

/// A size in bytes. `KB`, `MB`, `GB`, `TB` count in thousands, `KiB`, `MiB`, `GiB`, `TiB` (and the bare letters `K`, `M`, `G`, `T`,
/// as benchmarks of this field use them) in 1024s.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bytes(pub u64);

const READ: &[quantity::Unit] = &[
    ("", 1),
    ("B", 1),
    ("KB", 1000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("TB", 1_000_000_000_000),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("TiB", 1 << 40),
    ("K", 1 << 10),
    ("M", 1 << 20),
    ("G", 1 << 30),
    ("T", 1 << 40),
];

const SHOW: &[quantity::Unit] = &[
    ("TiB", 1 << 40),
    ("TB", 1_000_000_000_000),
    ("GiB", 1 << 30),
    ("GB", 1_000_000_000),
    ("MiB", 1 << 20),
    ("MB", 1_000_000),
    ("KiB", 1 << 10),
    ("KB", 1000),
    ("", 1),
];

impl Bytes {
    /// What a legal text looks like.
    pub const FORM: &str = "a size such as 256MB, 8KiB or 4096";
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&quantity::show(self.0, SHOW))
    }
}

/// A text that is no size.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is no size; expected {form}", form = Bytes::FORM)]
pub struct NotASize(pub String);

impl FromStr for Bytes {
    type Err = NotASize;

    fn from_str(text: &str) -> Result<Self, NotASize> {
        quantity::read(text, READ).map(Bytes).ok_or_else(|| NotASize(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_and_1024s_differ() {
        let cases = [
            ("256MB", 256_000_000),
            ("8KiB", 8192),
            ("8k", 8192),
            ("4096", 4096),
            ("1.5 gb", 1_500_000_000),
            ("1B", 1),
        ];
        for (text, bytes) in cases {
            assert_eq!(text.parse(), Ok(Bytes(bytes)), "{text}");
        }
        assert_eq!("12QB".parse::<Bytes>(), Err(NotASize("12QB".to_owned())));
    }

    #[test]
    fn shows_the_largest_unit_that_is_exact() {
        for (bytes, text) in
            [(0, "0"), (1, "1"), (1000, "1KB"), (1024, "1KiB"), (32 << 20, "32MiB"), (1001, "1001")]
        {
            assert_eq!(Bytes(bytes).to_string(), text);
        }
    }
}
