//! The subcommands, one file or folder each, and the one list of them.

mod bench;
mod call;
mod doctor;
mod drawings;
mod import;
mod launch;
mod memory;
mod plan;
pub mod print;
mod settings;
mod tune;

use clap::ArgMatches;

use crate::invocation::Invocation;
use crate::mistake::CommandError;

/// A subcommand. To add one, write its file and a line in [`COMMANDS`].
pub struct Subcommand {
    /// The word on the command line.
    pub name: &'static str,
    /// One sentence for `--help`.
    pub about: &'static str,
    /// Adds its arguments.
    pub arguments: fn(clap::Command) -> clap::Command,
    /// Does it; the number is the exit code.
    pub run: fn(&ArgMatches, &Invocation<'_>) -> Result<u8, CommandError>,
}

/// Every subcommand, in the order of `--help`.
pub static COMMANDS: &[Subcommand] = &[
    launch::COMMAND,
    plan::COMMAND,
    import::COMMAND,
    bench::COMMAND,
    tune::COMMAND,
    doctor::COMMAND,
    settings::COMMAND,
];

impl Subcommand {
    /// Its part of the command line.
    pub fn define(&self) -> clap::Command {
        // Deriving takes a comment on the arguments' type for a description of the command.
        (self.arguments)(clap::Command::new(self.name)).about(self.about).long_about(None)
    }
}

/// Arguments as their own type. Cannot fail after clap has checked them, but says so if it does.
fn parsed<A: clap::FromArgMatches>(matches: &ArgMatches) -> Result<A, CommandError> {
    A::from_arg_matches(matches).map_err(|error| CommandError::Usage(crate::mistake::one_line(&error)))
}
