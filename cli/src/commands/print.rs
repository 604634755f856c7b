//! Standard output for subcommands: a reader that has gone is no error, anything else is one.

use std::io::{self, Write};

use crate::mistake::CommandError;

/// Prints at once.
pub fn print(text: &str) -> Result<(), CommandError> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(cause) if cause.kind() != io::ErrorKind::BrokenPipe => Err(unwritten("standard output", &cause)),
        _ => Ok(()),
    }
}

/// A file that could not be read.
pub fn unreadable(name: &str, cause: &io::Error) -> CommandError {
    CommandError::Failed { code: 1, message: format!("cannot read {name}: {cause}") }
}

/// A file that could not be written.
pub fn unwritten(name: &str, cause: &io::Error) -> CommandError {
    CommandError::Failed { code: 1, message: format!("cannot write {name}: {cause}") }
}
