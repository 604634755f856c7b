//! The `hcomm` command as a function: parses a command line, runs one subcommand, turns its end into an exit code. Each subcommand is
//! a file (or folder) under `commands`. The program `hcomm` and Python's `python -m hcomm` are the same few lines around [`run`].

#![forbid(unsafe_code)]
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod commands;
mod invocation;
mod mistake;

use std::ffi::OsString;

use commands::{COMMANDS, Subcommand};
use invocation::Invocation;
use mistake::{CommandError, one_line};

/// Runs the command. `arguments` is the command line, the name that usage lines show first; `this` is what starts this same command
/// once more (a program and its first arguments), for subcommands whose ranks are processes of it; empty where that is not known, which
/// those subcommands then say.
///
/// Returns the exit code: 0 success, 2 a mistake on the command line (said on standard error, in one line), others as the
/// subcommand's help has them. What was printed has been written when it returns; where its reader has gone (`hcomm plan | head`), the
/// command ends early, silently and with 0.
///
/// Signals: `launch`, `bench` and `tune` pass SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGTSTP and SIGCONT on to their ranks while those run, in addition to what the
/// process does with them by itself; the other subcommands leave them alone.
pub fn run(arguments: impl IntoIterator<Item = OsString>, this: &[OsString]) -> u8 {
    let invocation = Invocation { arguments: arguments.into_iter().collect(), this };
    match invoke(&invocation) {
        Ok(code) => code,
        Err(CommandError::Unread) => CommandError::Unread.code(),
        Err(error) => {
            hcomm::say(&format!("hcomm: {error}"));
            error.code()
        }
    }
}

fn invoke(invocation: &Invocation<'_>) -> Result<u8, CommandError> {
    let matches = match command_line().try_get_matches_from(&invocation.arguments) {
        Ok(matches) => matches,
        Err(error) if !error.use_stderr() => return show_help(&error),
        Err(error) => return Err(CommandError::Usage(one_line(&error))),
    };
    let (name, matches) = matches.subcommand().ok_or_else(no_subcommand)?;
    let chosen = COMMANDS.iter().find(|command| command.name == name).ok_or_else(no_subcommand)?;
    (chosen.run)(matches, invocation)
}

fn command_line() -> clap::Command {
    clap::Command::new("hcomm")
        .about("Collective communication for training large models")
        .version(env!("CARGO_PKG_VERSION"))
        .after_help(
            "Exit codes: 0 success, 2 a mistake on the command line; a subcommand's help names its others.",
        )
        .disable_help_subcommand(true)
        .subcommands(COMMANDS.iter().map(|command| command.define()))
}

/// `--help` and `--version`.
fn show_help(help: &clap::Error) -> Result<u8, CommandError> {
    commands::print::print(&help.to_string())?;
    Ok(0)
}

fn no_subcommand() -> CommandError {
    CommandError::Usage(format!("no command given; expected one of {}", names().join(", ")))
}

fn names() -> Vec<&'static str> {
    COMMANDS.iter().map(|Subcommand { name, .. }| *name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_subcommand_is_well_defined_and_described() {
        command_line().debug_assert();
        for command in COMMANDS {
            let help = command.define().render_long_help().to_string();
            assert!(help.starts_with(command.about), "{} is described as {help}", command.name);
            assert!(help.contains("Exit codes"), "{} does not name its exit codes", command.name);
        }
    }
}
