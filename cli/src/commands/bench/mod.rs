//! `hcomm bench`: times a collective over a list of sizes, checks every result, and prints a table, CSV or JSON.
//!
//! `arguments` is the command line and becomes a `Spec`; `start` makes the ranks, as processes or threads; in each, `rank` goes
//! through the sizes: `exercise` holds the buffers and makes the call, `data` says what is in them, `measure` times, `report` prints, `trace`
//! writes when the plan's nodes ran.

mod arguments;
mod data;
mod exercise;
mod figures;
mod measure;
mod memory;
mod rank;
mod report;
mod sample;
mod spec;
mod start;
mod trace;

use super::{Subcommand, parsed};
use arguments::Arguments;
use clap::Args;

/// See the module.
pub const COMMAND: Subcommand = Subcommand {
    name: "bench",
    about: "Time a collective, check its results, and print a table",
    arguments: |command| Arguments::augment_args(command).after_help(AFTER_HELP),
    run: |matches, invocation| {
        let arguments: Arguments = parsed(matches)?;
        start::run(&arguments.spec()?, invocation)
    },
};

const AFTER_HELP: &str = "\
The table has nccl-tests' columns: time is the mean of calls one after the other, on the slowest rank; algbw is bytes over time; \
busbw is what a link carries. Sizes are those of the full buffer (all_gather's and gather's output; reduce_scatter's, scatter's and \
all_to_all's input) and are rounded down to whole elements for every rank. 1KB is 1000 bytes; 1KiB and 1K are 1024.

--csv prints hcomm,COLLECTIVE,RANKS,BYTES,MEDIAN_US,STREAM_US: the median of calls that each follow a barrier, and the mean of calls \
one after the other, both of the slowest rank, calls out of place where there is such a call; BYTES is the size as asked for.

Exit codes: 0 success; 1 a wrong result, or the ranks could not do it; 2 a mistake on the command line or in a setting; 128 + N if \
signal N ended a rank.";
