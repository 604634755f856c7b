//! [`TuningError`]: what is wrong with a tuning file.

/// Bytes of the longest file that is read.
pub const LONGEST_BYTES: usize = 1 << 20;

/// What is wrong with a tuning file. It is to be corrected, measured anew with `hcomm tune`, or removed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}, '{text}': {reason}")]
pub struct TuningError {
    /// The line, from 1.
    pub line: usize,
    /// What the line says, its key first.
    pub text: String,
    /// What is wrong with it and what was expected.
    pub reason: String,
}
