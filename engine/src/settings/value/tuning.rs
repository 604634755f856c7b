//! [`TuningChoice`]: which tuning file counts.

use std::path::PathBuf;

use super::Value;

/// Where measured costs come from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum TuningChoice {
    /// The file at the usual place, if it was measured on this machine.
    #[default]
    Auto,
    /// None: the built-in costs.
    Off,
    /// This file, wherever it was measured.
    File(PathBuf),
}

impl Value for TuningChoice {
    fn read(&mut self, text: &str) -> bool {
        *self = match text {
            "" => return false,
            "auto" => TuningChoice::Auto,
            "off" => TuningChoice::Off,
            path => TuningChoice::File(PathBuf::from(path)),
        };
        true
    }

    fn show(&self) -> String {
        match self {
            TuningChoice::Auto => "auto".to_owned(),
            TuningChoice::Off => "off".to_owned(),
            TuningChoice::File(path) => path.display().to_string(),
        }
    }

    fn form(&self) -> String {
        "auto, off, or the path of a tuning file (./auto for one of such a name)".to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_paths_are_told_apart() {
        let mut choice = TuningChoice::default();
        for (text, expected) in [
            ("off", TuningChoice::Off),
            ("auto", TuningChoice::Auto),
            ("./off", TuningChoice::File("./off".into())),
            ("a b.toml", TuningChoice::File("a b.toml".into())),
        ] {
            assert!(choice.read(text));
            assert_eq!(choice, expected);
            assert_eq!(choice.show(), text);
        }
        assert!(!choice.read(""));
    }
}
