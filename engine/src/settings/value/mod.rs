//! [`Value`]: what the settings table asks of a type, and the types themselves, one file each.

pub mod algorithms;
pub mod bytes;
pub mod choice;
pub mod cpus;
pub mod duration;
pub mod file;
pub mod filter;
pub mod number;
pub mod rate;
pub mod tuning;

pub use algorithms::AlgorithmPins;
pub use bytes::Bytes;
pub use choice::{DebugLevel, TransportChoice};
pub use cpus::CpuSet;
pub use filter::NameFilter;
pub use hcomm_ops::quantity;
pub use rate::Rate;
pub use tuning::TuningChoice;

use super::entry::Range;

/// A type that a setting can have. `show` and `read` are inverse: what `show` gives, `read` takes to the same value.
pub trait Value {
    /// Takes over the value that `text` spells; leaves `self` alone and returns false where it spells none.
    fn read(&mut self, text: &str) -> bool;

    /// The value as a user would write it.
    fn show(&self) -> String;

    /// The shape of a legal text, such as `a size such as 256MB, 8KiB or 4096`.
    fn form(&self) -> String;

    /// The value as a number in its base unit, where it has one: what a [`Range`] is compared with.
    fn magnitude(&self) -> Option<u64> {
        None
    }

    /// A number in the base unit as a user would write it.
    fn show_magnitude(&self, magnitude: u64) -> String {
        magnitude.to_string()
    }

    /// The legal word that `text` was probably meant to be.
    fn nearest(&self, text: &str) -> Option<String> {
        let _ = text;
        None
    }
}

/// What is expected of a value, its range included: the end of the sentence "expected ...".
pub fn expectation(value: &dyn Value, range: Range) -> String {
    match range.describe(|magnitude| value.show_magnitude(magnitude)) {
        Some(limits) => format!("{}, {limits}", value.form()),
        None => value.form(),
    }
}
