//! Settings that are one word of a few.

use super::Value;
use crate::settings::suggest;

/// Which transport joins the ranks of a communicator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum TransportChoice {
    /// Shared memory between ranks that can share it, TCP between others.
    #[default]
    Auto,
    /// Shared memory between all ranks, or an error that says which cannot.
    Shm,
    /// TCP between all ranks.
    Tcp,
}

/// How much hcomm says on standard error.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DebugLevel {
    /// Nothing.
    Off,
    /// What needs attention: stalls, lost ranks.
    #[default]
    Warn,
    /// Also, per communicator: version, ranks by host, transport and why per pair, staging, settings, tuning source.
    Info,
    /// Also every operation.
    Trace,
}

/// A type with a fixed list of words.
trait Choice: Copy + PartialEq + 'static {
    /// Every word and its value; each value once.
    const WORDS: &'static [(&'static str, Self)];
}

impl Choice for TransportChoice {
    const WORDS: &'static [(&'static str, Self)] =
        &[("auto", TransportChoice::Auto), ("shm", TransportChoice::Shm), ("tcp", TransportChoice::Tcp)];
}

impl Choice for DebugLevel {
    const WORDS: &'static [(&'static str, Self)] = &[
        ("off", DebugLevel::Off),
        ("warn", DebugLevel::Warn),
        ("info", DebugLevel::Info),
        ("trace", DebugLevel::Trace),
    ];
}

impl<T: Choice> Value for T {
    fn read(&mut self, text: &str) -> bool {
        let found = T::WORDS.iter().find(|(word, _)| word.eq_ignore_ascii_case(text.trim()));
        found.map(|(_, value)| *self = *value).is_some()
    }

    fn show(&self) -> String {
        let word = T::WORDS.iter().find(|(_, value)| value == self).map(|(word, _)| *word);
        word.unwrap_or_default().to_owned()
    }

    fn form(&self) -> String {
        let words: Vec<&str> = T::WORDS.iter().map(|(word, _)| *word).collect();
        format!("one of {}", words.join(", "))
    }

    fn nearest(&self, text: &str) -> Option<String> {
        let words = T::WORDS.iter().map(|(word, _)| *word);
        suggest::nearest(text, words).map(str::to_owned)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letter_case_does_not_count() {
        let mut level = DebugLevel::Off;
        assert!(level.read("INFO"));
        assert_eq!(level, DebugLevel::Info);
        assert!(!level.read("chatty"));
        assert_eq!(level.form(), "one of off, warn, info, trace");
    }

    #[test]
    fn a_slip_finds_its_word() {
        assert_eq!(TransportChoice::Auto.nearest("TPC").as_deref(), Some("tcp"));
        assert_eq!(TransportChoice::Auto.nearest("carrier-pigeon"), None);
    }
}
