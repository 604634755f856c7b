//! The `hcomm` command: parses the command line, runs one subcommand, turns its end into an exit code. Each subcommand is a file
//! (or folder) under `commands`.

#![forbid(unsafe_code)]

mod commands;
mod mistake;

use std::process::ExitCode;

use commands::{COMMANDS, Subcommand};
use mistake::{CommandError, one_line};

fn main() -> ExitCode {
    match run() {
        Ok(code) => code,
        Err(error) => {
            eprintln!("hcomm: {error}");
            error.code()
        }
    }
}

fn run() -> Result<ExitCode, CommandError> {
    let matches = match command_line().try_get_matches() {
        Ok(matches) => matches,
        Err(error) if !error.use_stderr() => return show_help(&error),
        Err(error) => return Err(CommandError::Usage(one_line(&error))),
    };
    let (name, matches) = matches.subcommand().ok_or_else(no_subcommand)?;
    let chosen = COMMANDS.iter().find(|command| command.name == name).ok_or_else(no_subcommand)?;
    (chosen.run)(matches)
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

/// `--help` and `--version`. That their reader has gone is no error.
fn show_help(help: &clap::Error) -> Result<ExitCode, CommandError> {
    let _ = help.print();
    Ok(ExitCode::SUCCESS)
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
