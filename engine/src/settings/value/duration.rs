//! Durations, as [`std::time::Duration`].

use std::time::Duration;

use super::{Value, quantity};

const UNITS: &[quantity::Unit] = &[
    ("h", 3_600_000_000_000),
    ("min", 60_000_000_000),
    ("s", 1_000_000_000),
    ("ms", 1_000_000),
    ("us", 1000),
    ("ns", 1),
];

/// Reads a duration such as `10min`, `30s`, `1.5ms` or `200us`.
pub fn read(text: &str) -> Option<Duration> {
    quantity::read(text, UNITS).map(Duration::from_nanos)
}

/// Writes a duration in the largest unit that is exact.
pub fn show(duration: Duration) -> String {
    quantity::show(nanoseconds(duration), UNITS)
}

impl Value for Duration {
    fn read(&mut self, text: &str) -> bool {
        read(text).map(|value| *self = value).is_some()
    }

    fn show(&self) -> String {
        show(*self)
    }

    fn form(&self) -> String {
        "a duration such as 10min, 30s or 200us".to_owned()
    }

    fn magnitude(&self) -> Option<u64> {
        Some(nanoseconds(*self))
    }

    fn show_magnitude(&self, magnitude: u64) -> String {
        show(Duration::from_nanos(magnitude))
    }
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_told_apart_and_must_be_given() {
        assert_eq!(read("10min"), Some(Duration::from_secs(600)));
        assert_eq!(read("200us"), Some(Duration::from_micros(200)));
        assert_eq!(read("1.5ms"), Some(Duration::from_micros(1500)));
        assert_eq!(read("0"), Some(Duration::ZERO));
        for text in ["30", "30 seconds", "10m", "-1s", "99999999h"] {
            assert_eq!(read(text), None, "{text}");
        }
    }

    #[test]
    fn shows_the_largest_unit_that_is_exact() {
        for (text, back) in [("600s", "10min"), ("90s", "90s"), ("1500us", "1500us"), ("3600s", "1h")] {
            assert_eq!(read(text).map(show).as_deref(), Some(back));
        }
    }
}
