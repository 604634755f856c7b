//! [`Bytes`] as a setting.

pub use hcomm_ops::Bytes;

use super::Value;

impl Value for Bytes {
    fn read(&mut self, text: &str) -> bool {
        text.parse().map(|value| *self = value).is_ok()
    }

    fn show(&self) -> String {
        self.to_string()
    }

    fn form(&self) -> String {
        Bytes::FORM.to_owned()
    }

    fn magnitude(&self) -> Option<u64> {
        Some(self.0)
    }

    fn show_magnitude(&self, magnitude: u64) -> String {
        Bytes(magnitude).to_string()
    }
}
