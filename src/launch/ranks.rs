//! [`Ranks`]: the processes of a launch.

use std::fs::File;
use std::io::{self, IsTerminal};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use hcomm_ops::Rank;
use rustix::process::{Pid, Signal, kill_process_group};

use super::outcome::{Exit, Failure};
use super::setup::Job;
use super::{Launch, LaunchError, Output, bind, sys};

/// The processes, by rank. Dropping it kills those that still run.
pub struct Ranks {
    children: Vec<Option<Child>>,
    /// What the ranks print, until its end; empty where output is inherited.
    pub pipes: Vec<Pipe>,
}

/// A stream that a rank prints to.
pub struct Pipe {
    /// Whose.
    pub rank: Rank,
    /// Standard error, not standard output.
    pub is_error: bool,
    /// The end to read from, which does not block.
    pub file: File,
}

impl Ranks {
    /// Starts all processes, or none.
    pub fn start(launch: &Launch) -> Result<Self, LaunchError> {
        let job = Job::new(launch.ranks)?;
        let cpus =
            if launch.is_bound { bind::processors().map_err(LaunchError::System)? } else { Vec::new() };
        let mut ranks = Ranks { children: Vec::new(), pipes: Vec::new() };
        for rank in 0..launch.ranks {
            let cpu = cpus.get(rank % cpus.len().max(1)).map(|&cpu| bind::only(cpu));
            let mut command = command(launch, &job, rank);
            sys::prepare(&mut command, cpu);
            let child = command.spawn().map_err(|cause| cannot_start(launch, rank, cause))?;
            ranks.add(rank, child).map_err(LaunchError::System)?;
        }
        Ok(ranks)
    }

    /// Takes note of the processes that have ended. Returns those that failed.
    pub fn reap(&mut self) -> io::Result<Vec<Failure>> {
        let mut failures = Vec::new();
        for (rank, slot) in self.children.iter_mut().enumerate() {
            let Some(status) = slot.as_mut().map(Child::try_wait).transpose()?.flatten() else { continue };
            *slot = None;
            let exit = Exit::from(status);
            failures.extend((!exit.is_success()).then_some(Failure { rank, exit }));
        }
        Ok(failures)
    }

    /// Whether any process runs.
    pub fn are_running(&self) -> bool {
        self.children.iter().any(Option::is_some)
    }

    /// Sends a signal to the process groups of all ranks that run.
    pub fn signal(&self, signal: Signal) {
        for child in self.children.iter().flatten() {
            // A process that is not reaped keeps its number, so this reaches it or nobody; that it has just ended is no error.
            let _ = kill_process_group(Pid::from_child(child), signal);
        }
    }

    fn add(&mut self, rank: Rank, mut child: Child) -> io::Result<()> {
        let out = child.stdout.take().map(|pipe| (false, OwnedFd::from(pipe)));
        let err = child.stderr.take().map(|pipe| (true, OwnedFd::from(pipe)));
        self.children.push(Some(child));
        for (is_error, fd) in [out, err].into_iter().flatten() {
            rustix::io::ioctl_fionbio(&fd, true)?;
            self.pipes.push(Pipe { rank, is_error, file: File::from(fd) });
        }
        Ok(())
    }
}

impl Drop for Ranks {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
        for child in self.children.iter_mut().flatten() {
            // There is nobody to tell.
            let _ = child.wait();
        }
    }
}

fn command(launch: &Launch, job: &Job, rank: Rank) -> Command {
    let mut command = Command::new(&launch.program);
    let (usual, value) = job.usual();
    if std::env::var_os(usual).is_none() {
        command.env(usual, value);
    }
    for name in Job::superseded() {
        command.env_remove(name);
    }
    command.args(&launch.args).envs(job.variables(rank)).envs(launch.variables.iter().map(|(n, v)| (n, v)));
    let reads = rank == 0 && !io::stdin().is_terminal();
    command.stdin(if reads { Stdio::inherit() } else { Stdio::null() }).process_group(0);
    if launch.output == Output::Prefixed {
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
    }
    command
}

fn cannot_start(launch: &Launch, rank: Rank, cause: io::Error) -> LaunchError {
    LaunchError::Start { program: launch.program.to_string_lossy().into_owned(), rank, cause }
}
