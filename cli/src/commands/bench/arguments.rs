//! The command line of `hcomm bench`, and the [`Spec`] that it means.

use std::path::PathBuf;

use clap::Args;
use hcomm::settings::{Bytes, Settings};

use super::spec::{Buffers, Format, Spec, Transport};
use crate::commands::call::CallArguments;
use crate::commands::launch::rank_count;
use crate::mistake::CommandError;

/// See the module.
#[derive(Args)]
pub struct Arguments {
    #[command(flatten)]
    call: CallArguments,
    /// How many ranks to start on this host, each on a processor of its own where there are enough
    #[arg(short = 'n', long, value_name = "N", value_parser = rank_count, required_unless_present = "as_rank")]
    ranks: Option<usize>,
    /// What joins the ranks; inproc makes them threads of one process [default: HCOMM_TRANSPORT, or auto]
    #[arg(long, value_name = "NAME", value_enum)]
    transport: Option<Transport>,
    /// Sizes to time, separated by commas
    #[arg(long, value_name = "SIZE,..", value_delimiter = ',', conflicts_with_all = ["begin", "end", "factor"])]
    sizes: Vec<Bytes>,
    /// The smallest size
    #[arg(long, value_name = "SIZE", default_value = "8")]
    begin: Bytes,
    /// The largest size
    #[arg(long, value_name = "SIZE", default_value = "16MiB")]
    end: Bytes,
    /// How many times as large each size is as the one before
    #[arg(long, value_name = "TIMES", default_value = "4", value_parser = clap::value_parser!(u64).range(2..))]
    factor: u64,
    /// Timed calls per size [default: 2000 up to 64KiB, 200 up to 1MiB, 40 up to 16MiB, 12 beyond]
    #[arg(long, value_name = "CALLS", value_parser = clap::value_parser!(u32).range(1..))]
    iters: Option<u32>,
    /// Calls before those that are timed [default: a fifth of the timed ones, and one]
    #[arg(long, value_name = "CALLS")]
    warmup: Option<u32>,
    /// Time the futures (all_reduce_async and so on), each waited for, instead of the blocking calls
    #[arg(long = "async")]
    is_async: bool,
    /// What memory the buffers are in: the process's own, or what Communicator::allocate gives
    #[arg(long, value_name = "KIND", value_enum, default_value = "plain")]
    buffers: Buffers,
    /// Do not check the results
    #[arg(long)]
    no_check: bool,
    /// Print CSV rows
    #[arg(long, conflicts_with = "json")]
    csv: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    /// Write when each plan node of one more call of the last size ran on every rank, for Perfetto and hcomm plan --trace;
    /// recording adds a little to all times
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Be one rank of a job that a launcher has started (hcomm launch, srun, mpirun)
    #[arg(long)]
    as_rank: bool,
}

impl Arguments {
    /// What they mean.
    pub fn spec(self) -> Result<Spec, CommandError> {
        let settings = Settings::from_env().map_err(|error| CommandError::Usage(error.to_string()))?;
        let sizes = self.sizes()?;
        let format = match (self.csv, self.json) {
            (true, _) => Format::Csv,
            (false, true) => Format::Json,
            (false, false) => Format::Table,
        };
        if self.as_rank && self.transport == Some(Transport::Inproc) {
            return Err(CommandError::Usage(
                "--as-rank: threads have no launcher; expected another transport".to_owned(),
            ));
        }
        Ok(Spec {
            call: self.call,
            ranks: self.ranks.filter(|_| !self.as_rank),
            transport: self.transport,
            settings,
            sizes,
            iters: self.iters,
            warmup: self.warmup,
            buffers: self.buffers,
            is_async: self.is_async,
            checks: !self.no_check,
            format,
            trace: self.trace,
        })
    }

    fn sizes(&self) -> Result<Vec<u64>, CommandError> {
        if self.call.collective == hcomm::Collective::Barrier && self.sizes.is_empty() {
            return Ok(vec![0]);
        }
        if !self.sizes.is_empty() {
            return Ok(self.sizes.iter().map(|size| size.0).collect());
        }
        let (begin, end) = (self.begin.0, self.end.0);
        if begin == 0 || begin > end {
            let (begin, end) = (self.begin, self.end);
            let message =
                format!("--begin {begin} --end {end}; expected at least 1 byte, and no more than --end");
            return Err(CommandError::Usage(message));
        }
        let next = |size: &u64| size.checked_mul(self.factor).filter(|size| *size <= end);
        Ok(std::iter::successors(Some(begin), next).collect())
    }
}
