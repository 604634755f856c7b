//! [`Size`]: a size in a tuning file.

use std::fmt;

use hcomm_ops::Bytes;
use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer};

/// A size: a number of bytes, or a text as in settings, such as `64KB`.
#[derive(Clone, Copy)]
pub(super) struct Size(pub u64);

impl<'de> Deserialize<'de> for Size {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Size, D::Error> {
        from.deserialize_any(SizeVisitor)
    }
}

struct SizeVisitor;

impl Visitor<'_> for SizeVisitor {
    type Value = Size;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number of bytes, or a size such as '64KB'")
    }

    fn visit_u64<E: de::Error>(self, bytes: u64) -> Result<Size, E> {
        Ok(Size(bytes))
    }

    fn visit_i64<E: de::Error>(self, bytes: i64) -> Result<Size, E> {
        let unfit = |_| E::invalid_value(de::Unexpected::Signed(bytes), &self);
        u64::try_from(bytes).map(Size).map_err(unfit)
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Size, E> {
        text.parse().map(|Bytes(bytes)| Size(bytes)).map_err(E::custom)
    }
}

#[cfg(test)]
mod tests {
    use crate::choose::Tuning;

    #[test]
    fn a_number_or_a_text_with_a_unit() {
        let range = |from: &str, to: &str| {
            let pin = "format = 1\n[[pin]]\ncollective = 'reduce'\nalgorithm = 'chain'\n";
            let tuning = Tuning::parse(&format!("{pin}from = {from}\nto = {to}\n"));
            tuning.map(|tuning| (tuning.pins[0].from_bytes, tuning.pins[0].to_bytes))
        };
        for (from, to) in [("4096", "65536"), ("'4KiB'", "\"64K\""), ("'4096'", "'65536 B'")] {
            assert_eq!(range(from, to), Ok((4096, 65536)), "{from} to {to}");
        }
        assert_eq!(range("0", "'1.5MB'"), Ok((0, 1_500_000)));
    }
}
