//! The path of a file, or nothing.

use std::path::PathBuf;

use super::Value;

impl Value for Option<PathBuf> {
    fn read(&mut self, text: &str) -> bool {
        *self = (!text.is_empty()).then(|| PathBuf::from(text));
        true
    }

    fn show(&self) -> String {
        self.as_ref().map(|path| path.display().to_string()).unwrap_or_default()
    }

    fn form(&self) -> String {
        "the path of a file, or nothing".to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_empty_text_is_no_file() {
        let mut path = Some(PathBuf::from("a"));
        assert!(path.read("") && path.is_none());
        assert!(path.read("b c.json"));
        assert_eq!(path.show(), "b c.json");
    }
}
