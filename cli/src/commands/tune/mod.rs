//! `hcomm tune`: measures what messages and bytes cost on this machine and writes it to a tuning file; with `--check`, measures how good
//! the choices by such a file are.
//!
//! `setup` says which worlds are measured, `ranks` starts them, `rank` is one of them and holds a `contest` of all candidates for each
//! collective and size; `results` carries the times back; `fitted` makes a tuning of them, `check` a verdict.

mod buffers;
mod check;
mod contest;
mod fitted;
mod made;
mod rank;
mod ranks;
mod results;
mod setup;
mod tiles;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::Args;
use hcomm::file::check_writable;
use hcomm::planner::choose::Tuning;
use hcomm::settings::{Bytes, Settings, TuningChoice};
use hcomm::tuning::{Tuned, this_machine, usual_path};
use hcomm::{Communicator, Placement};

use super::print::{self, print, unwritten};
use super::{Subcommand, parsed};
use crate::invocation::Invocation;
use crate::mistake::CommandError;
use ranks::Order;
use results::Cell;
use setup::Setup;

/// See the module.
pub const COMMAND: Subcommand = Subcommand {
    name: "tune",
    about: "Measure what communication costs on this machine, for the choice of algorithms",
    arguments: |command| Arguments::augment_args(command).after_help(AFTER_HELP),
    run: |matches, invocation| run(&parsed(matches)?, invocation),
};

const AFTER_HELP: &str = "\
Ranks of this machine, 2 and 4 of them (8 where there are processors enough), over shared memory and over TCP, time every algorithm of \
every collective at several sizes. The file is written to ~/.config/hcomm/tuning.toml unless --out says otherwise; there every \
communicator of this machine finds it. HCOMM_TUNING names another, or 'off'. Pins that the file had are kept.

--check measures again, and prints where the algorithm that a communicator chose was more than 10 % slower than the best, and the mean and \
total regret. Nothing is written.

Exit codes: 0 success; 1 with --check: the mean regret of a world is above 10 %; without: the ranks could not measure, or the file cannot \
be written; 2 a mistake on the command line, in a setting or in a tuning file; 128 + N if signal N ended a rank.";

/// Sizes of the full buffer that are measured.
const SIZES: [u64; 7] = [8, 512, 4 << 10, 32 << 10, 256 << 10, 2 << 20, 16 << 20];

/// Sizes at which choices are checked: others.
const CHECKED_SIZES: [u64; 7] = [64, 1 << 10, 8 << 10, 64 << 10, 512 << 10, 4 << 20, 8 << 20];

/// Seconds that all of it takes, more or less, and with `--quick`.
const SECONDS: (u64, u64) = (60, 15);

#[derive(Args)]
struct Arguments {
    /// The file to write
    #[arg(long, value_name = "FILE", conflicts_with = "check")]
    out: Option<PathBuf>,
    /// Take a quarter of the time, at the price of less exact figures
    #[arg(long, conflicts_with = "seconds")]
    quick: bool,
    /// About how long all worlds of this machine take together; fewer of them take less [default: 60]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=86_400))]
    seconds: Option<u64>,
    /// Check the choices by a tuning file instead [default: HCOMM_TUNING]
    #[arg(long, value_name = "FILE", num_args = 0..=1)]
    check: Option<Option<PathBuf>>,
    /// Only these worlds, as LINK:RANKS, such as shm:2,tcp:4
    #[arg(long, value_name = "WORLD,..", value_delimiter = ',', value_parser = world)]
    worlds: Vec<Setup>,
    /// Sizes of the full buffer, separated by commas
    #[arg(long, value_name = "SIZE,..", value_delimiter = ',')]
    sizes: Vec<Bytes>,
    /// Print the check, or the tuning's figures, as one JSON object
    #[arg(long)]
    json: bool,
    #[arg(long, hide = true, requires_all = ["results", "budget_ms"])]
    as_rank: bool,
    #[arg(long, hide = true)]
    results: Option<PathBuf>,
    #[arg(long, hide = true)]
    budget_ms: Option<u64>,
}

impl Arguments {
    fn sizes(&self) -> Result<Vec<u64>, CommandError> {
        let usual = if self.check.is_some() { CHECKED_SIZES } else { SIZES };
        let mut sizes: Vec<u64> = self.sizes.iter().map(|size| size.0).collect();
        if sizes.is_empty() {
            sizes = usual.to_vec();
        }
        sizes.sort_unstable();
        sizes.dedup();
        match sizes.iter().find(|size| !(8..=1 << 30).contains(*size)) {
            Some(size) => {
                Err(CommandError::Usage(format!("--sizes: {size} bytes; expected sizes from 8 to 1GiB")))
            }
            None => Ok(sizes),
        }
    }

    fn setups(&self) -> Vec<Setup> {
        if self.worlds.is_empty() { Setup::all() } else { self.worlds.clone() }
    }
}

fn run(arguments: &Arguments, invocation: &Invocation<'_>) -> Result<u8, CommandError> {
    let settings = Settings::from_env().map_err(|error| CommandError::Usage(error.to_string()))?;
    if arguments.as_rank {
        return as_rank(arguments, settings);
    }
    match &arguments.check {
        Some(file) => check(arguments, &settings, file.as_deref(), invocation),
        None => tune(arguments, invocation),
    }
}

fn as_rank(arguments: &Arguments, settings: Settings) -> Result<u8, CommandError> {
    let placement = Placement::from_env().map_err(|error| CommandError::Usage(error.to_string()))?;
    let failed = |error: hcomm::CreateError| CommandError::Failed { code: 1, message: error.to_string() };
    let comm = Communicator::connect(&placement, settings).map_err(failed)?;
    let budget = Duration::from_millis(arguments.budget_ms.unwrap_or_default());
    let results = arguments.results.clone().unwrap_or_default();
    rank::run(&comm, &arguments.sizes()?, budget, &results)?;
    Ok(0)
}

/// Measures all setups, in about the time that it is to take.
fn measure(
    arguments: &Arguments,
    tuning: &Path,
    invocation: &Invocation<'_>,
) -> Result<Vec<(Setup, Vec<Cell>)>, CommandError> {
    let (setups, sizes) = (arguments.setups(), arguments.sizes()?);
    let usual = if arguments.quick { SECONDS.1 } else { SECONDS.0 };
    let seconds = Duration::from_secs(arguments.seconds.unwrap_or(usual));
    let budget = seconds / Setup::all().len().max(1) as u32;
    hcomm::say(&format!("about {:.0} s", budget.as_secs_f64() * setups.len() as f64));
    let order = Order { sizes: &sizes, budget, tuning };
    setups.into_iter().map(|setup| Ok((setup, ranks::measure(&setup, &order, invocation)?))).collect()
}

fn tune(arguments: &Arguments, invocation: &Invocation<'_>) -> Result<u8, CommandError> {
    let path =
        arguments.out.clone().or_else(usual_path).ok_or_else(|| {
            CommandError::Usage("there is no home directory; expected --out FILE".to_owned())
        })?;
    // What is there already must be a tuning file: its pins are kept, and nothing else is overwritten.
    let pins = match path.exists() {
        true => Tuned::read(&path).map_err(|error| CommandError::Usage(error.to_string()))?.tuning.pins,
        false => Vec::new(),
    };
    prepare(&path)?;
    let start = Instant::now();
    let measured = measure(arguments, Path::new("off"), invocation)?;
    let samples = measured.iter().flat_map(|(_, cells)| cells).map(|cell| cell.times_ns.len() as u64).sum();
    let tuning = Tuning {
        machine: Some(this_machine()),
        made: Some(made::made(start.elapsed().as_secs(), samples)),
        pins,
        ..fitted::tuning(&measured, &arguments.sizes()?)
    };
    save(&path, &tuning)?;
    let name = path.display().to_string();
    print(&if arguments.json { figures_json(&tuning, &name) } else { figures(&tuning, &name) })?;
    Ok(0)
}

/// Makes the folder, and finds out whether a file can be written there: that is to be known before minutes of measuring.
fn prepare(path: &Path) -> Result<(), CommandError> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let made = folder.map_or(Ok(()), std::fs::create_dir_all);
    let failed = |cause: std::io::Error| unwritten(&path.display().to_string(), &cause);
    made.and_then(|()| check_writable(path)).map_err(failed)
}

/// At once: whoever reads the file meanwhile finds the old one or the new one.
fn save(path: &Path, tuning: &Tuning) -> Result<(), CommandError> {
    let text = format!(
        "# Measured by `hcomm tune`. Without this file hcomm goes by built-in figures.\n{}",
        tuning.to_text()
    );
    print::save(path, &text)
}

/// The prices, for people.
fn figures(tuning: &Tuning, path: &str) -> String {
    let mut text = format!(
        "{:<14}{:>12}{:>12}{:>10}{:>12}{:>12}{:>12}{:>10}{:>10}\n",
        "link",
        "latency ns",
        "message ns",
        "wait ns",
        "ns/KiB",
        "fold ns/KiB",
        "copy ns/KiB",
        "off by",
        "at most"
    );
    for link in &tuning.links {
        let [latency, message, wait, byte, fold, copy] = link.prices.to_array();
        let [byte, fold, copy] = [byte, fold, copy].map(|price| price * 1024.0);
        let error = link.error.map_or(Default::default(), |error| {
            [error.median, error.worst].map(|part| format!("{:.0} %", part * 100.0))
        });
        let [median, worst] = error;
        text += &format!(
            "{:<14}{latency:>12.0}{message:>12.0}{wait:>10.0}{byte:>12.1}{fold:>12.1}{copy:>12.1}{median:>10}{worst:>10}\n",
            link.condition.to_string()
        );
    }
    format!("{text}written to {path}\n")
}

/// The prices, for programs.
fn figures_json(tuning: &Tuning, path: &str) -> String {
    let link = |link: &hcomm::planner::choose::tuning::LinkTuning| {
        let [latency_ns, message_ns, wait_ns, byte_ns, reduce_byte_ns, copy_byte_ns] = link.prices.to_array();
        serde_json::json!({
            "link": link.condition.to_string(),
            "latency_ns": latency_ns,
            "message_ns": message_ns,
            "wait_ns": wait_ns,
            "byte_ns": byte_ns,
            "reduce_byte_ns": reduce_byte_ns,
            "copy_byte_ns": copy_byte_ns,
            "median_error": link.error.map(|error| error.median),
            "worst_error": link.error.map(|error| error.worst),
        })
    };
    let links: Vec<_> = tuning.links.iter().map(link).collect();
    format!("{}\n", serde_json::json!({ "file": path, "links": links }))
}

fn check(
    arguments: &Arguments,
    settings: &Settings,
    file: Option<&Path>,
    invocation: &Invocation<'_>,
) -> Result<u8, CommandError> {
    let choice = file.map_or_else(|| settings.tuning.clone(), |file| TuningChoice::File(file.to_owned()));
    let tuned = Tuned::load(&choice).map_err(|error| CommandError::Usage(error.to_string()))?;
    let word = hcomm::settings::value::Value::show(&choice);
    let built_in =
        if tuned.text.is_empty() { ", hcomm's built-in figures: no tuning file counts here" } else { "" };
    hcomm::say(&format!("checks the choices by {}{built_in}", tuned.source));
    let measured = measure(arguments, Path::new(&word), invocation)?;
    let text = match arguments.json {
        true => format!("{}\n", check::json(&measured, &tuned.source)),
        false => check::text(&measured, &tuned.source),
    };
    print(&text)?;
    Ok(u8::from(!check::is_good(&measured)))
}

/// `shm:2`.
fn world(text: &str) -> Result<Setup, String> {
    let known = Setup::all();
    let name = |setup: &Setup| format!("{}:{}", setup.kind.name(), setup.world);
    known.iter().find(|setup| name(setup) == text).copied().ok_or_else(|| {
        let names: Vec<String> = known.iter().map(name).collect();
        format!("'{text}' is no world that is measured here; expected one of {}", names.join(", "))
    })
}
