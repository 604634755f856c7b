//! Whole numbers and switches.

use super::Value;

impl Value for u32 {
    fn read(&mut self, text: &str) -> bool {
        text.trim().parse().map(|value| *self = value).is_ok()
    }

    fn show(&self) -> String {
        self.to_string()
    }

    fn form(&self) -> String {
        "a whole number".to_owned()
    }

    fn magnitude(&self) -> Option<u64> {
        Some(u64::from(*self))
    }
}

impl Value for bool {
    fn read(&mut self, text: &str) -> bool {
        let value = match text.trim().to_ascii_lowercase().as_str() {
            "1" | "true" | "yes" | "on" => true,
            "0" | "false" | "no" | "off" => false,
            _ => return false,
        };
        *self = value;
        true
    }

    fn show(&self) -> String {
        if *self { "1" } else { "0" }.to_owned()
    }

    fn form(&self) -> String {
        "1 or 0 (also true, yes, on or false, no, off)".to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn switches_take_the_usual_words() {
        for (text, expected) in [("1", true), ("ON", true), ("no", false), ("False", false)] {
            let mut value = !expected;
            assert!(value.read(text));
            assert_eq!(value, expected);
        }
        let mut value = true;
        assert!(!value.read("maybe") && value);
    }

    #[test]
    fn numbers_refuse_signs_and_overflow() {
        let mut value = 7u32;
        for text in ["-1", "4294967296", "1.5", ""] {
            assert!(!value.read(text), "{text}");
        }
        assert_eq!(value, 7);
        assert!(value.read(" 42 ") && value == 42);
    }
}
