//! In place of `file`, where the feature `tuning` is off: no tuning file is read.

use super::{Tuning, TuningError};

impl Tuning {
    /// Reads no text, for want of the feature `tuning`.
    ///
    /// # Errors
    /// Always.
    pub fn parse(text: &str) -> Result<Tuning, TuningError> {
        let reason =
            "this build of hcomm reads no tuning files; expected its feature 'tuning', or HCOMM_TUNING=off";
        let text = text.lines().next().unwrap_or_default().chars().take(60).collect();
        Err(TuningError { line: 1, text, reason: reason.to_owned() })
    }
}
