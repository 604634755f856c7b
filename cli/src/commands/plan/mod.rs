//! `hcomm plan`: compiles a call as a communicator would, proves it, and shows it as text, DOT, SVG, a page or JSON. Nothing is run.

mod ask;
mod summary;

use clap::Args;
use hcomm::planner::export::Drawing;
use hcomm::planner::verify::FoldOrder;
use hcomm::planner::{self, Verified};
use hcomm::settings::{Bytes, Settings};
use hcomm::{Plan, Rank};

use super::call::{self, CallArguments};
use super::drawings::Drawings;
use super::print::print;
use super::{Subcommand, parsed};
use crate::mistake::CommandError;
use ask::{Asked, Transport};

/// See the module.
pub const COMMAND: Subcommand = Subcommand {
    name: "plan",
    about: "Compile a collective into its plan, prove it, and print or draw it",
    arguments: |command| Arguments::augment_args(command).after_help(AFTER_HELP),
    run: |matches, _| run(&parsed(matches)?),
};

const AFTER_HELP: &str = "\
Without --dot, --svg, --html, --json, --msccl or --explain the plan is printed as text: a summary, then every rank's nodes, lane by lane. A FILE \
of - is standard output. A plan of up to 262144 nodes is always proved, and what was proved is printed; above 64 ranks only where all \
slices are needed.

Exit codes: 0 success; 1 the plan is faulty, or a file cannot be read or written; 2 a mistake on the command line, in a setting \
or in the topology, or a call that no algorithm (or not the one asked for, or not MSCCL) supports.";

/// Plans of up to so many nodes, of all ranks together, are proved unasked, in about a second.
const PROVED_NODES: usize = 1 << 18;

/// In worlds up to this size all slices are compiled, even to show one.
const WHOLE_WORLD: usize = 64;

/// Most ranks whose slices are compiled all together.
const JOINED_WORLD: usize = 1024;

#[derive(Args)]
struct Arguments {
    #[command(flatten)]
    call: CallArguments,
    /// How many ranks; with --topology, those of the file
    #[arg(short = 'n', long, value_name = "N", value_parser = rank_count, required_unless_present = "topology")]
    ranks: Option<usize>,
    /// Size of the full buffer: all_gather's and gather's output, reduce_scatter's, scatter's and all_to_all's input. 1MB is 1000
    /// KB, 1MiB (or 1M) is 1024 KiB
    #[arg(long, value_name = "SIZE", default_value = "1MB")]
    bytes: Bytes,
    /// A file that describes hosts, devices and links
    #[arg(long, value_name = "FILE", conflicts_with_all = ["hosts", "transport"])]
    topology: Option<std::path::PathBuf>,
    /// How many hosts the ranks are on, equally many on each
    #[arg(long, value_name = "H")]
    hosts: Option<usize>,
    /// What joins the ranks of a host: shared memory, TCP as between hosts, or the memory of one process
    #[arg(long, value_name = "NAME", value_enum, default_value = "shm")]
    transport: Transport,
    /// How many processors the ranks of a machine have together (without --hosts, all ranks are on one machine) [default: one for
    /// each]
    #[arg(long, value_name = "N", conflicts_with = "topology")]
    processors: Option<std::num::NonZeroUsize>,
    /// A file of measured costs, as `hcomm tune` writes it [default: HCOMM_TUNING]
    #[arg(long, value_name = "FILE")]
    tuning: Option<std::path::PathBuf>,
    /// Show only this rank's slice
    #[arg(long, value_name = "RANK")]
    rank: Option<Rank>,
    /// Say why this algorithm was chosen: the predicted time of each one, the choice at every size, and what overrides it
    #[arg(long)]
    explain: bool,
    /// Prove the plan however large it is
    #[arg(long)]
    verify: bool,
    #[command(flatten)]
    drawings: Drawings,
}

fn run(arguments: &Arguments) -> Result<u8, CommandError> {
    let settings = Settings::from_env().map_err(|error| CommandError::Usage(error.to_string()))?;
    arguments
        .drawings
        .check([&arguments.topology, &arguments.tuning].into_iter().filter_map(|path| path.as_deref()))?;
    let asked = Asked::new(arguments, &settings)?;
    let plans = compile(arguments, &asked)?;
    let shown = match arguments.rank.filter(|_| plans.len() > 1) {
        Some(rank) => &plans[rank..=rank],
        None => &plans[..],
    };
    let nodes = plans.iter().map(|plan| plan.nodes.len()).sum();
    let unproved = unproved(plans.len(), asked.world(), nodes);
    let proof = match unproved.filter(|_| plans.len() < asked.world() || !arguments.verify) {
        None => Ok(verify(&plans, settings.depth as usize)?),
        Some(why) => Err(why),
    };
    draw(arguments, &asked, &plans, shown)?;
    let folds = asked.request().collective.reduces() && asked.world() > 1;
    show(arguments, &asked, shown, &words(proof, folds, &settings))?;
    Ok(0)
}

/// All slices, or the one that is to be shown where nothing needs the others.
fn compile(arguments: &Arguments, asked: &Asked) -> Result<Vec<Plan>, CommandError> {
    let world = asked.world();
    let alone = arguments.rank.filter(|_| world > WHOLE_WORLD && !arguments.verify);
    let needs_none = arguments.explain && !arguments.drawings.are_wanted() && !arguments.verify;
    if needs_none && alone.is_none() && world > WHOLE_WORLD {
        return Ok(Vec::new());
    }
    if alone.is_none() && world > JOINED_WORLD {
        let way = match arguments.rank {
            Some(_) => "expected no --verify, which joins them, even to show --rank",
            None => "expected --rank for one slice",
        };
        return Err(CommandError::Usage(format!(
            "all plans of {world} ranks are too many; {way}, or at most {JOINED_WORLD} ranks"
        )));
    }
    match alone {
        Some(rank) => asked.compile(rank).map(|plan| vec![plan]),
        None => asked.compile_all(),
    }
}

/// Why a plan is not proved unless that is asked for.
fn unproved(compiled: usize, world: usize, nodes: usize) -> Option<String> {
    if compiled < world {
        return Some(format!("{compiled} of {world} slices compiled"));
    }
    (nodes > PROVED_NODES).then(|| format!("{nodes} nodes, more than {PROVED_NODES}"))
}

fn verify(plans: &[Plan], depth: usize) -> Result<Verified, CommandError> {
    let failed = |error: planner::VerifyError| CommandError::Failed {
        code: 1,
        message: format!("the plan is faulty: {}", error.to_string().replace('\n', " ")),
    };
    planner::verify(plans, depth).map_err(failed)
}

/// What was proved, or why nothing was, in words.
fn words(proof: Result<Verified, String>, folds: bool, settings: &Settings) -> String {
    let Verified { nodes, messages, needs_copying, order } = match proof {
        Ok(proof) => proof,
        Err(why) => return format!("not verified: {why}; --verify does it"),
    };
    let copying = if needs_copying { "; right only where messages are copied as they are sent" } else { "" };
    let order = match order {
        _ if !folds => "",
        FoldOrder::Any => "",
        FoldOrder::RankByRank => "; folded rank by rank",
        FoldOrder::AtOnce => "; folded in rank order at once",
    };
    format!(
        "verified: {nodes} nodes, {messages} messages per tile: acyclic, no deadlock with channels {} deep, no races, every output \
         chunk right in place and apart{copying}{order}",
        settings.depth
    )
}

/// Writes the files; with predicted times, where the plans of all ranks are at hand.
fn draw(arguments: &Arguments, asked: &Asked, plans: &[Plan], shown: &[Plan]) -> Result<(), CommandError> {
    let drawings = &arguments.drawings;
    let measured = drawings.measured(plans)?;
    let is_whole = plans.len() == asked.world() && drawings.show_times();
    let timeline = is_whole.then(|| asked.timeline(plans)).and_then(|predicted| {
        predicted.inspect_err(|error| hcomm::say(&format!("hcomm: without predicted times: {error}"))).ok()
    });
    let drawing = Drawing::new(shown)
        .with_sizing(&asked.sizing)
        .with_topology(&asked.topology)
        .with_chosen_by_ns(asked.chosen_by_ns()?);
    let drawing = timeline.as_ref().map_or(drawing, |timeline| drawing.with_timeline(timeline));
    let drawing = measured.as_ref().map_or(drawing, |measured| drawing.with_measured(measured));
    drawings.write(&drawing, shown, plans)
}

fn show(arguments: &Arguments, asked: &Asked, shown: &[Plan], proof: &str) -> Result<(), CommandError> {
    if arguments.drawings.use_stdout() {
        hcomm::say(proof);
        return Ok(());
    }
    let text = match (arguments.explain, arguments.drawings.are_wanted()) {
        (true, _) => format!("{}\n{proof}\n", asked.explain()?),
        (false, true) => format!("{proof}\n"),
        (false, false) => {
            let summary = summary::summary(asked, shown);
            let text = Drawing::new(shown).with_topology(&asked.topology).text();
            format!("{summary}{proof}\n\n{text}")
        }
    };
    print(&text)
}

fn rank_count(text: &str) -> Result<usize, String> {
    call::rank_count(text, ask::MOST_RANKS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_proved_unasked_is_limited_by_nodes_and_not_by_ranks() {
        assert_eq!(unproved(1024, 1024, PROVED_NODES), None);
        assert_eq!(unproved(1, 1024, 8).as_deref(), Some("1 of 1024 slices compiled"));
        assert_eq!(unproved(4, 4, 300_000).as_deref(), Some("300000 nodes, more than 262144"));
    }
}
