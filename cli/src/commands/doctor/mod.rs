//! `hcomm doctor`: what of this machine hcomm can use, and for each thing it cannot, why and what to do.

mod checks;
mod finding;
mod report;

use clap::Args;
use hcomm::settings::Settings;

use super::print::print;
use super::{Subcommand, parsed};
use crate::mistake::CommandError;
use checks::CHECKS;
use finding::Finding;

/// See the module.
pub const COMMAND: Subcommand = Subcommand {
    name: "doctor",
    about: "Say what of this machine hcomm can use, and for each thing it cannot, why and what to do",
    arguments: |command| Arguments::augment_args(command).after_help(AFTER_HELP),
    run: |matches, _| run(&parsed(matches)?),
};

const AFTER_HELP: &str = "\
Marks: ok, part (works, but less well than it could), no (not used).

Exit codes: 0 a communicator can be made here; 1 it cannot; 2 a mistake on the command line or in a setting.";

#[derive(Args)]
struct Arguments {
    /// Print one JSON object for programs
    #[arg(long)]
    json: bool,
}

fn run(arguments: &Arguments) -> Result<u8, CommandError> {
    let settings = Settings::from_env().map_err(|error| CommandError::Usage(error.to_string()))?;
    let findings: Vec<Finding> = CHECKS.iter().flat_map(|check| check(&settings)).collect();
    let text = if arguments.json { report::json(&findings) } else { report::table(&findings) };
    print(&format!("{text}\n"))?;
    Ok(u8::from(!finding::is_usable(&findings)))
}
