//! [`CommandError`]: how a subcommand fails; and clap's errors on one line.

use std::error::Error;

use clap::error::{ContextKind, ContextValue, ErrorKind};

use crate::names;

/// Why a subcommand did not do its work. The text is one line.
#[derive(Debug, thiserror::Error)]
pub enum CommandError {
    /// The command line (or a setting) is wrong: exit code 2.
    #[error("{0}")]
    Usage(String),
    /// Whoever reads standard output has seen enough: nothing is said, and it is no failure.
    #[error("standard output is closed")]
    Unread,
    /// Something else went wrong.
    #[error("{message}")]
    Failed {
        /// The exit code.
        code: u8,
        /// What.
        message: String,
    },
}

impl CommandError {
    /// The exit code.
    pub fn code(&self) -> u8 {
        match self {
            CommandError::Usage(_) => 2,
            CommandError::Unread => 0,
            CommandError::Failed { code, .. } => *code,
        }
    }
}

/// What clap found wrong, as one line that names the offending word and what was expected.
pub fn one_line(error: &clap::Error) -> String {
    match error.kind() {
        ErrorKind::InvalidSubcommand => unknown_subcommand(error),
        ErrorKind::ValueValidation => match error.source() {
            Some(source) => format!("{}{source}", option_of(error)),
            None => first_line(error),
        },
        ErrorKind::MissingRequiredArgument => {
            format!("missing {}; see --help", listed(error, ContextKind::InvalidArg))
        }
        ErrorKind::InvalidValue => match listed(error, ContextKind::ValidValue) {
            words if words.is_empty() => first_line(error),
            words => format!("{}; expected one of {words}", first_line(error)),
        },
        _ => format!("{}{}; see --help", first_line(error), suggestion(error)),
    }
}

fn unknown_subcommand(error: &clap::Error) -> String {
    let word = listed(error, ContextKind::InvalidSubcommand);
    let suggestion = suggestion(error);
    format!("unknown command '{word}'{suggestion}; expected one of {}", names().join(", "))
}

/// `--grace: `, where the message would not say which option is meant.
fn option_of(error: &clap::Error) -> String {
    let argument = listed(error, ContextKind::InvalidArg);
    match argument.split_whitespace().next() {
        Some(option) if option.starts_with('-') => format!("{option}: "),
        _ => String::new(),
    }
}

fn suggestion(error: &clap::Error) -> String {
    let kinds = [ContextKind::SuggestedArg, ContextKind::SuggestedSubcommand];
    // Of several the likeliest is the last.
    let likeliest = |kind| match error.get(kind) {
        Some(ContextValue::String(word)) => Some(word.as_str()),
        Some(ContextValue::Strings(words)) => words.last().map(String::as_str),
        _ => None,
    };
    kinds.into_iter().find_map(likeliest).map(|word| format!(" (did you mean '{word}'?)")).unwrap_or_default()
}

fn listed(error: &clap::Error, kind: ContextKind) -> String {
    match error.get(kind) {
        Some(ContextValue::String(word)) => word.clone(),
        Some(ContextValue::Strings(words)) => words.join(", "),
        _ => String::new(),
    }
}

fn first_line(error: &clap::Error) -> String {
    let text = error.to_string();
    let line = text.lines().next().unwrap_or_default();
    line.trim_start_matches("error: ").to_owned()
}
