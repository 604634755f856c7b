//! `hcomm launch`: starts a program as the ranks of a job on this host. A shell over [`hcomm::launch`].

use std::ffi::OsString;
use std::io;
use std::time::Duration;

use clap::Args;
use hcomm::launch::{Failure, Launch, LaunchError, Output};
use hcomm::settings::{Settings, value::duration};

use super::{Subcommand, parsed};
use crate::mistake::CommandError;

/// See the module.
pub const COMMAND: Subcommand = Subcommand {
    name: "launch",
    about: "Start a program as N ranks on this host and end them together",
    arguments: |command| Arguments::augment_args(command).after_help(AFTER_HELP),
    run: |matches, _| run(parsed(matches)?),
};

const AFTER_HELP: &str = "\
Each rank finds its place in HCOMM_RANK, HCOMM_WORLD, HCOMM_LOCAL_RANK, HCOMM_LOCAL_WORLD, HCOMM_ADDRESS and HCOMM_TOKEN, \
and in RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR and MASTER_PORT as under torchrun; OMP_NUM_THREADS is its \
share of the processors and PYTHONUNBUFFERED is 1, unless they are set. Rank 0 reads standard input unless that is a terminal; the others read nothing. \
SIGINT, SIGTERM, SIGHUP and SIGQUIT are passed on, and a second one kills; SIGUSR1, SIGUSR2, SIGTSTP and SIGCONT are passed on each time. When all \
ranks have ended, what they have left running in their process groups is ended.

Exit codes: that of the first rank that failed (128 + N if signal N ended it); 2 a mistake on the command line; 126 the \
program cannot be started, 127 it is not there; 1 the launcher itself failed; 141 nobody reads standard \
output any more.";

/// Nobody reads standard output any more: as if SIGPIPE had ended the command.
const UNREAD: u8 = 128 + 13;

#[derive(Args)]
struct Arguments {
    /// How many ranks
    #[arg(short = 'n', long, value_name = "N", value_parser = rank_count)]
    ranks: usize,
    /// Keep each rank on one processor, round robin over those that may be used, cores first
    #[arg(long)]
    bind: bool,
    #[arg(long, help = "Leave what the ranks print as it is, without \"[RANK] \" before each line")]
    no_prefix: bool,
    /// How long the other ranks have to end after SIGTERM when one fails, before they are killed
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = grace)]
    grace: Duration,
    /// The program and its arguments
    #[arg(value_name = "PROGRAM", required = true, trailing_var_arg = true)]
    program: Vec<OsString>,
}

fn run(arguments: Arguments) -> Result<u8, CommandError> {
    // Every rank would refuse a wrong setting; once is enough.
    Settings::from_env().map_err(|error| CommandError::Usage(error.to_string()))?;
    let [program, rest @ ..] = arguments.program.as_slice() else {
        return Err(CommandError::Usage("missing PROGRAM; see --help".to_owned()));
    };
    let output = if arguments.no_prefix { Output::Inherited } else { Output::Prefixed };
    let launch = Launch::new(program, arguments.ranks)
        .args(rest)
        .output(output)
        .bound(arguments.bind)
        .grace(arguments.grace);
    let is_alone = arguments.ranks == 1;
    let outcome = match launch.run_reporting(|failure| report(failure, is_alone)) {
        Err(LaunchError::Output(cause)) if cause.kind() == io::ErrorKind::BrokenPipe => return Ok(UNREAD),
        outcome => outcome.map_err(failed)?,
    };
    if let (Some(first), [_, ..]) = (&outcome.failure, &outcome.followers[..]) {
        let followers: Vec<String> = outcome.followers.iter().map(ToString::to_string).collect();
        let first = first.rank;
        hcomm::say(&format!("hcomm: rank {first} was the first to fail; after it {}", followers.join(", ")));
    }
    Ok(outcome.code())
}

fn report(failure: &Failure, is_alone: bool) -> String {
    let rest = if is_alone { "" } else { "; ending the other ranks" };
    format!("hcomm: {failure}{rest}")
}

fn failed(error: LaunchError) -> CommandError {
    let code = match &error {
        LaunchError::RankCount { .. } => return CommandError::Usage(error.to_string()),
        LaunchError::Start { cause, .. } if cause.kind() == io::ErrorKind::NotFound => 127,
        LaunchError::Start { .. } => 126,
        _ => 1,
    };
    CommandError::Failed { code, message: error.to_string() }
}

/// Reads a number of ranks to be started.
pub(super) fn rank_count(text: &str) -> Result<usize, String> {
    super::call::rank_count(text, Launch::MOST_RANKS)
}

fn grace(text: &str) -> Result<Duration, String> {
    let day = Duration::from_secs(86_400);
    let expected =
        || format!("'{text}' is no time to wait; expected a duration such as 5s or 500ms, up to 24h");
    duration::read(text).filter(|grace| *grace <= day).ok_or_else(expected)
}
