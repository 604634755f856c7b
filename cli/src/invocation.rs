//! [`Invocation`]: how the command was called, and how its subcommands start it once more as the ranks of a measurement.

use std::ffi::{OsStr, OsString};

use hcomm::launch::Launch;

use crate::mistake::CommandError;

/// How the command was called.
pub struct Invocation<'a> {
    /// The command line, the command's own name first.
    pub arguments: Vec<OsString>,
    /// What starts this same command: a program and its first arguments; empty where that is not known.
    pub this: &'a [OsString],
}

impl Invocation<'_> {
    /// This command once more, as so many ranks, with these arguments after its name.
    pub fn again<S: AsRef<OsStr>>(
        &self,
        ranks: usize,
        arguments: impl IntoIterator<Item = S>,
    ) -> Result<Launch, CommandError> {
        let [program, first @ ..] = self.this else {
            let message = "cannot find this program, which the ranks are to run".to_owned();
            return Err(CommandError::Failed { code: 1, message });
        };
        Ok(Launch::new(program, ranks).args(first).args(arguments))
    }
}
