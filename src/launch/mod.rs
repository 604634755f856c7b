//! Starts the ranks of a job as processes of this host, carries their output and signals, and ends them together.
//! `hcomm launch` is a thin shell over it; `hcomm bench` and the training example start their ranks with it. The other side,
//! where a rank reads who it is, is [`crate::environment`].

mod bind;
mod drive;
mod ending;
mod lines;
mod outcome;
mod ranks;
mod setup;
mod signals;
mod sys;
mod writer;

use std::ffi::{OsStr, OsString};
use std::time::Duration;

pub use outcome::{Exit, Failure, LaunchError, Outcome};

/// Ranks to start.
///
/// ```no_run
/// let outcome = hcomm::launch::Launch::new("./train", 4).args(["--steps", "100"]).run()?;
/// std::process::exit(outcome.code().into());
/// # #[allow(unreachable_code)]
/// # Ok::<(), hcomm::launch::LaunchError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Launch {
    program: OsString,
    ranks: usize,
    args: Vec<OsString>,
    variables: Vec<(OsString, OsString)>,
    output: Output,
    is_bound: bool,
    grace: Duration,
}

/// What happens to what the ranks print.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// Every line is preceded by its rank, `[3] `; lines of different ranks are never mixed.
    Prefixed,
    /// It goes where this process's own output goes.
    Inherited,
}

impl Launch {
    /// Most ranks that one launch starts.
    pub const MOST_RANKS: usize = 4096;

    /// `ranks` processes of `program`, which is looked for in `PATH` if it has no slash.
    pub fn new(program: impl AsRef<OsStr>, ranks: usize) -> Self {
        Launch {
            program: program.as_ref().to_owned(),
            ranks,
            args: Vec::new(),
            variables: Vec::new(),
            output: Output::Prefixed,
            is_bound: false,
            grace: Duration::from_secs(5),
        }
    }

    /// Adds arguments.
    pub fn args<S: AsRef<OsStr>>(mut self, args: impl IntoIterator<Item = S>) -> Self {
        self.args.extend(args.into_iter().map(|arg| arg.as_ref().to_owned()));
        self
    }

    /// Sets an environment variable of every rank.
    pub fn variable(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Self {
        self.variables.push((name.as_ref().to_owned(), value.as_ref().to_owned()));
        self
    }

    /// Chooses what happens to what the ranks print; [`Output::Prefixed`] unless said otherwise.
    pub fn output(self, output: Output) -> Self {
        Launch { output, ..self }
    }

    /// Whether each rank is kept on one processor: rank r on the r-th of those that this process may use, round and round, one
    /// hardware thread of every core first.
    pub fn bound(self, is_bound: bool) -> Self {
        Launch { is_bound, ..self }
    }

    /// How long ranks that are told to end (SIGTERM) have before they are killed; 5 s unless said otherwise.
    pub fn grace(self, grace: Duration) -> Self {
        Launch { grace, ..self }
    }

    /// Starts the ranks and returns when all have ended. See [`Launch::run_reporting`].
    pub fn run(self) -> Result<Outcome, LaunchError> {
        self.run_reporting(|_| String::new())
    }

    /// Starts the ranks and returns when all have ended.
    ///
    /// Each rank is a process group of its own, reads nothing (rank 0 reads this process's standard input, unless that is a terminal),
    /// and dies with the calling thread. When one fails, `report` is told, and the line that it
    /// returns goes to standard error; the others have a second to find out and say so, are then told to
    /// end by SIGTERM, and after the grace killed. What ranks have left in their process groups when all have ended is ended in the same way; for
    /// that time this process is the subreaper of what it has started.
    ///
    /// SIGINT, SIGTERM, SIGHUP and SIGQUIT are passed on to all ranks, and from the second of them on the ranks are killed; SIGUSR1,
    /// SIGUSR2, SIGTSTP (which stops this process too) and SIGCONT are passed on each time. Signals that this process was started to ignore
    /// stay ignored; blocked ones are unblocked in the calling thread. These signals stay handled afterwards: they no longer end this process
    /// by themselves.
    ///
    /// Nobody who reads slowly holds this up, but the ranks as they print: output is written by threads of its own. Where nobody reads
    /// standard output any more, or it cannot be written, the ranks are ended and [`LaunchError::Output`] says why; standard error that
    /// cannot be written is lost.
    pub fn run_reporting(self, report: impl FnMut(&Failure) -> String) -> Result<Outcome, LaunchError> {
        if self.ranks == 0 || self.ranks > Launch::MOST_RANKS {
            return Err(LaunchError::RankCount { ranks: self.ranks });
        }
        let signals = signals::Signals::listen().map_err(LaunchError::System)?;
        let ranks = ranks::Ranks::start(&self)?;
        drive::drive_to_end(&self, ranks, signals, report)
    }
}
