//! Standard output and files for subcommands. A reader that has gone ends the command quietly; anything else is an error of one line.

use std::io::{self, Write};
use std::path::Path;

use hcomm::file::write_text;

use crate::mistake::CommandError;

/// Prints at once.
pub fn print(text: &str) -> Result<(), CommandError> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Ok(()) => Ok(()),
        Err(cause) if cause.kind() == io::ErrorKind::BrokenPipe => Err(CommandError::Unread),
        Err(cause) => Err(unwritten("standard output", &cause)),
    }
}

/// Writes a file: all of it, or what was there stays.
pub fn save(path: &Path, text: &str) -> Result<(), CommandError> {
    write_text(path, text).map_err(|cause| unwritten(&path.display().to_string(), &cause))
}

/// A file that could not be read.
pub fn unreadable(name: &str, cause: &io::Error) -> CommandError {
    CommandError::Failed { code: 1, message: format!("cannot read {name}: {cause}") }
}

/// A file that could not be written.
pub fn unwritten(name: &str, cause: &io::Error) -> CommandError {
    CommandError::Failed { code: 1, message: format!("cannot write {name}: {cause}") }
}
