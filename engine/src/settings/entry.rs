//! [`Entry`]: one line of the settings table, and the [`Range`] of its values.

use super::value::{Value, expectation};
use super::{SettingError, Settings};

/// One setting.
#[derive(Clone, Copy)]
pub struct Entry {
    /// The environment variable.
    pub name: &'static str,
    /// What it is for and why one would change it.
    pub reason: &'static str,
    /// The legal values.
    pub range: Range,
    /// Whether all ranks of a communicator must have the same value; rank 0's is everybody's then.
    pub agreed: bool,
    /// Where its value lies.
    pub value: fn(&Settings) -> &dyn Value,
    /// Where its value lies, to change it.
    pub value_mut: fn(&mut Settings) -> &mut dyn Value,
}

impl Entry {
    /// Sets the value that `text` spells, if it is legal.
    pub fn set(&self, settings: &mut Settings, text: &str) -> Result<(), SettingError> {
        let mut trial = settings.clone();
        let is_legal = (self.value_mut)(&mut trial).read(text) && self.is_in_range(&trial);
        if !is_legal {
            return Err(self.refusal(settings, text));
        }
        *settings = trial;
        Ok(())
    }

    /// The value as a user would write it.
    pub fn show(&self, settings: &Settings) -> String {
        (self.value)(settings).show()
    }

    /// What is expected of a value: `a size such as 256MB, 8KiB or 4096, from 64KiB to 64GiB`.
    pub fn expected(&self, settings: &Settings) -> String {
        expectation((self.value)(settings), self.range)
    }

    fn is_in_range(&self, settings: &Settings) -> bool {
        (self.value)(settings).magnitude().is_none_or(|magnitude| self.range.contains(magnitude))
    }

    fn refusal(&self, settings: &Settings, text: &str) -> SettingError {
        SettingError::BadValue {
            name: self.name,
            value: text.to_owned(),
            expected: self.expected(settings),
            nearest: (self.value)(settings).nearest(text),
        }
    }
}

/// The legal values of a setting that is a number, in its base unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    least: u64,
    most: u64,
    zero: bool,
}

impl Range {
    /// Every value of the type.
    pub const ANY: Range = Range { least: 0, most: u64::MAX, zero: true };

    /// From `least` to `most`, both included.
    pub const fn from_to(least: u64, most: u64) -> Self {
        Range { least, most, zero: least == 0 }
    }

    /// The same, and 0 with a meaning of its own.
    pub const fn or_zero(self) -> Self {
        Range { zero: true, ..self }
    }

    /// Whether a value is legal.
    pub const fn contains(self, magnitude: u64) -> bool {
        (self.zero && magnitude == 0) || (self.least <= magnitude && magnitude <= self.most)
    }

    /// `from 2 to 64`, with `or 0` where 0 stands apart; `None` for [`Range::ANY`].
    pub fn describe(self, show: impl Fn(u64) -> String) -> Option<String> {
        let zero = if self.zero && self.least > 0 { ", or 0" } else { "" };
        (self != Range::ANY).then(|| format!("from {} to {}{zero}", show(self.least), show(self.most)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_include_their_ends_and_a_zero_apart() {
        let range = Range::from_to(2, 4).or_zero();
        assert_eq!([0, 1, 2, 4, 5].map(|n| range.contains(n)), [true, false, true, true, false]);
        assert_eq!(range.describe(|n| n.to_string()).as_deref(), Some("from 2 to 4, or 0"));
        assert_eq!(Range::ANY.describe(|n| n.to_string()), None);
    }
}
