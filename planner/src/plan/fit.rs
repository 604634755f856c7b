//! What a plan is right for: how input and output may lie ([`Overlay`]), and which sizes it is meant for ([`ByteRange`]). Built
//! plans serve all; a plan from a file may not, and the engine refuses what is outside.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::verify::FoldOrder;

/// Whether input and output may share bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Overlay {
    /// Right in place and apart alike.
    #[default]
    Either,
    /// Right only in place: where one buffer is both, as [`crate::shape::alias`] says.
    InPlace,
    /// Right only where input and output share no bytes.
    Apart,
}

impl Overlay {
    /// The one that allows these; `None` where neither is allowed.
    pub const fn new(in_place: bool, apart: bool) -> Option<Overlay> {
        match (in_place, apart) {
            (true, true) => Some(Overlay::Either),
            (true, false) => Some(Overlay::InPlace),
            (false, true) => Some(Overlay::Apart),
            (false, false) => None,
        }
    }

    /// Whether a call in place (or apart) is served.
    pub fn allows(self, in_place: bool) -> bool {
        self.modes().contains(&in_place)
    }

    /// What is served, apart first; true: in place.
    pub fn modes(self) -> &'static [bool] {
        match self {
            Overlay::Either => &[false, true],
            Overlay::InPlace => &[true],
            Overlay::Apart => &[false],
        }
    }
}

impl fmt::Display for Overlay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Overlay::Either => "in place and out of place",
            Overlay::InPlace => "in place",
            Overlay::Apart => "out of place",
        })
    }
}

/// What is known of a plan beside what it says. It is no part of what the plan is: plans are equal whatever is known of them.
#[derive(Clone, Copy, Debug, Default)]
pub struct Proved {
    /// How the contributions to every result are folded, or better.
    pub order: FoldOrder,
}

impl PartialEq for Proved {
    fn eq(&self, _: &Proved) -> bool {
        true
    }
}

impl Eq for Proved {}

/// Bytes of the full buffer (see [`crate::Request::full_bytes`]) that a plan is meant for, both ends included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ByteRange {
    /// The least.
    pub min: u64,
    /// The most; `None` has no limit.
    pub max: Option<u64>,
}

impl ByteRange {
    /// Every size.
    pub const ANY: ByteRange = ByteRange { min: 0, max: None };

    /// Whether a buffer of `bytes` is within.
    pub fn contains(self, bytes: u64) -> bool {
        self.min <= bytes && self.max.is_none_or(|max| bytes <= max)
    }
}

impl fmt::Display for ByteRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.min, self.max) {
            (0, None) => f.write_str("any number of bytes"),
            (min, None) => write!(f, "at least {min} bytes"),
            (0, Some(max)) => write!(f, "at most {max} bytes"),
            (min, Some(max)) => write!(f, "{min} to {max} bytes"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_overlay_allows_what_it_was_made_of() {
        for (in_place, apart) in [(true, true), (true, false), (false, true)] {
            let overlay = Overlay::new(in_place, apart).expect("one of them");
            assert_eq!((overlay.allows(true), overlay.allows(false)), (in_place, apart));
        }
        assert_eq!(Overlay::new(false, false), None);
    }

    #[test]
    fn both_ends_of_a_range_are_within() {
        let range = ByteRange { min: 8, max: Some(16) };
        let within: Vec<u64> = (0..30).filter(|bytes| range.contains(*bytes)).collect();
        assert_eq!(within, (8..=16).collect::<Vec<_>>());
        assert!(ByteRange::ANY.contains(0) && ByteRange::ANY.contains(u64::MAX));
        let words = [ByteRange::ANY, ByteRange { max: None, ..range }, ByteRange { min: 0, ..range }, range];
        let words = words.map(|range| range.to_string());
        assert_eq!(words, ["any number of bytes", "at least 8 bytes", "at most 16 bytes", "8 to 16 bytes"]);
    }
}
