//! `hcomm settings`: every setting, what it is for, what it may be, and what it is here.

use clap::Args;
use hcomm::settings::{Settings, TABLE};
use serde_json::json;

use super::print::print;
use super::{Subcommand, parsed};
use crate::mistake::CommandError;

/// See the module.
pub const COMMAND: Subcommand = Subcommand {
    name: "settings",
    about: "List every setting: what it is for, what it may be, and what it is here",
    arguments: |command| Arguments::augment_args(command).after_help(AFTER_HELP),
    run: |matches, _| run(&parsed(matches)?),
};

const AFTER_HELP: &str = "\
Settings are environment variables. Of those marked 'agreed' rank 0's value holds for all ranks. A name or value that does not exist is an \
error wherever hcomm starts.

Exit codes: 0 success; 2 a mistake on the command line or in a setting.";

#[derive(Args)]
struct Arguments {
    /// Print one JSON array for programs
    #[arg(long)]
    json: bool,
}

fn run(arguments: &Arguments) -> Result<u8, CommandError> {
    let settings = Settings::from_env().map_err(|error| CommandError::Usage(error.to_string()))?;
    let listed = if arguments.json { json(&settings).to_string() } else { text(&settings) };
    print(&format!("{listed}\n"))?;
    Ok(0)
}

fn text(settings: &Settings) -> String {
    let usual = Settings::default();
    let lines = TABLE.iter().map(|entry| {
        let (value, default) = (entry.show(settings), entry.show(&usual));
        let shown = if value.is_empty() { "(nothing)" } else { &value };
        let change = if value == default { String::new() } else { format!("  (usually {default})") };
        let agreed = if entry.agreed { "agreed; " } else { "" };
        format!(
            "{}={shown}{change}\n    {}\n    {agreed}{}",
            entry.name,
            entry.reason,
            entry.expected(&usual)
        )
    });
    lines.collect::<Vec<_>>().join("\n")
}

fn json(settings: &Settings) -> serde_json::Value {
    let usual = Settings::default();
    let entries = TABLE.iter().map(|entry| {
        json!({
            "name": entry.name, "value": entry.show(settings), "default": entry.show(&usual), "agreed": entry.agreed,
            "expected": entry.expected(&usual), "reason": entry.reason,
        })
    });
    entries.collect()
}
