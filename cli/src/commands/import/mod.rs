//! `hcomm import`: reads a plan from a file, proves it, says what it is, writes it in other forms, and runs it on threads of this process.

mod case;
mod exercise;
mod sizes;
mod summary;

use std::path::PathBuf;

use clap::Args;
use hcomm::Plan;
use hcomm::file::read_text;
use hcomm::planner::export::Drawing;
use hcomm::planner::import::{self, Format};
use hcomm::planner::{self, ImportError};
use hcomm::settings::{Bytes, Settings};

use super::drawings::Drawings;
use super::memory;
use super::print::{print, unreadable};
use super::{Subcommand, parsed};
use crate::mistake::CommandError;
use sizes::Size;

/// See the module.
pub const COMMAND: Subcommand = Subcommand {
    name: "import",
    about: "Read a plan from a file, prove it, and say what it is; draw, convert or run it",
    arguments: |command| Arguments::augment_args(command).after_help(AFTER_HELP),
    run: |matches, _| run(&parsed(matches)?),
};

const AFTER_HELP: &str = "\
The file is a regular one of at most 64 MiB: MSCCL XML, MSCCL++ JSON or hcomm's own JSON; which of them is told by what is in it. --run makes a rank of every thread, has each submit its \
slice on 64-bit integers (sums, where the collective reduces), in place and out of place as far as the plan is for that, and compares every \
element with what it should be.

Exit codes: 0 success; 1 the file cannot be read, is no plan or a wrong one, another file cannot be written, or a run went wrong; 2 a \
mistake on the command line or in a setting, sizes that the plan is not for, or a plan that --msccl cannot express.";

/// Bytes of the longest file that any format reads.
const MOST_BYTES: u64 = 64 << 20;

/// What a tile is where the settings leave it to the transport.
const TILE_BYTES: u64 = 64 << 10;

#[derive(Args)]
struct Arguments {
    /// The plan
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Run it on threads of this process, and check the results
    #[arg(long)]
    run: bool,
    /// Sizes of the full buffer to run it at, separated by commas, and to draw it at, the first of them [default: to run, some that
    /// the plan is for; to draw, 1MiB or the nearest that it is for]
    #[arg(long, value_name = "SIZE,...", value_delimiter = ',')]
    bytes: Vec<Bytes>,
    #[command(flatten)]
    drawings: Drawings,
}

fn run(arguments: &Arguments) -> Result<u8, CommandError> {
    let settings = Settings::from_env().map_err(|error| CommandError::Usage(error.to_string()))?;
    arguments.drawings.check([arguments.file.as_path()])?;
    let (format, plans) = read(&arguments.file)?;
    let sizes = sizes::of(&plans, &arguments.bytes)?;
    draw(arguments, &plans, sizes::drawn(&plans, &sizes), &settings)?;
    let summary = summary::summary(format.name, &plans);
    say(arguments, &summary)?;
    if arguments.run {
        let sizes = if sizes.is_empty() { sizes::usual(&plans) } else { sizes };
        let largest = sizes.iter().map(|size| size.bytes).max().unwrap_or(0);
        memory::check(largest, plans.len())?;
        exercise::run(&plans, &sizes, &settings, |line| say(arguments, &format!("{line}\n")))?;
    }
    Ok(0)
}

/// Prints, where a file goes to standard output beside it.
fn say(arguments: &Arguments, text: &str) -> Result<(), CommandError> {
    if arguments.drawings.use_stdout() {
        hcomm::say(text.trim_end_matches('\n'));
        return Ok(());
    }
    print(text)
}

/// The slices of all ranks, proved.
fn read(path: &std::path::Path) -> Result<(&'static Format, Vec<Plan>), CommandError> {
    let name = path.display().to_string();
    let text = read_text(path, MOST_BYTES).map_err(|cause| unreadable(&name, &cause))?;
    import::read(&text).map_err(|error: ImportError| CommandError::Failed {
        code: 1,
        message: format!("{name}: {}", error.to_string().replace('\n', " ")),
    })
}

/// Writes the files; drawings show the bytes of a size.
fn draw(arguments: &Arguments, plans: &[Plan], size: Size, settings: &Settings) -> Result<(), CommandError> {
    let drawings = &arguments.drawings;
    let tile_bytes = if settings.tile_bytes.0 == 0 { TILE_BYTES } else { settings.tile_bytes.0 };
    let request = sizes::request(&plans[0], size.count);
    let sizing = planner::export::Sizing { request, tile_bytes };
    let timeline = drawings.show_times().then(|| predicted(plans, &sizing, settings)).flatten();
    let measured = drawings.measured(plans)?;
    let drawing = Drawing::new(plans).with_sizing(&sizing);
    let drawing = timeline.as_ref().map_or(drawing, |timeline| drawing.with_timeline(timeline));
    let drawing = measured.as_ref().map_or(drawing, |measured| drawing.with_measured(measured));
    drawings.write(&drawing, plans, plans)
}

/// When each node runs by the cost model, the ranks being on one host.
fn predicted(
    plans: &[Plan],
    sizing: &planner::export::Sizing,
    settings: &Settings,
) -> Option<planner::timeline::Timeline> {
    let topology = hcomm::Topology::single_host(plans.len());
    let model = planner::timeline::Model::new(planner::Costs::default());
    let model = planner::timeline::Model { depth: settings.depth as usize, ..model };
    let timeline = planner::timeline::predict(plans, sizing, &topology, &model);
    timeline.inspect_err(|error| hcomm::say(&format!("hcomm: without predicted times: {error}"))).ok()
}
