//! [`Ranks`]: the processes of a launch, each the first of a process group, and what their groups leave behind.
//!
//! A rank that has ended is not reaped while its group may be signalled: so its number, which is the group's, is nobody else's. What it
//! has started (a DataLoader's workers, a program under `bash -c`) becomes a child of the launcher when the rank ends, since the launcher is
//! their subreaper; so the launcher sees when the last of a group has ended.

use std::fs::File;
use std::io::{self, IsTerminal};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use hcomm_ops::Rank;
use rustix::io::Errno;
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, WaitIdStatus, child_subreaper, kill_process_group,
    set_child_subreaper, waitid,
};

use super::outcome::{Exit, Failure};
use super::setup::Job;
use super::{Launch, LaunchError, Output, bind, sys};

/// The processes, by rank. Dropping it kills those that still run.
pub struct Ranks {
    groups: Vec<Group>,
    /// What the ranks print, until its end; empty where output is inherited.
    pub pipes: Vec<Pipe>,
    /// Whose subreaper this process was before.
    reaper_before: Option<Pid>,
}

/// A rank and what it has started.
enum Group {
    /// The rank runs.
    Running(Child),
    /// The rank has ended and is not reaped.
    Ended(Child),
    /// The rank is reaped; others of its group may run.
    Helpers(Pid),
    /// There is nobody.
    Gone,
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
        let mut ranks = Ranks { groups: Vec::new(), pipes: Vec::new(), reaper_before: become_reaper() };
        for rank in 0..launch.ranks {
            let cpu = cpus.get(rank % cpus.len().max(1)).map(|&cpu| bind::only(cpu));
            let mut command = command(launch, &job, rank);
            sys::prepare(&mut command, cpu);
            let child = command.spawn().map_err(|cause| cannot_start(launch, rank, cause))?;
            ranks.add(rank, child).map_err(LaunchError::System)?;
        }
        Ok(ranks)
    }

    /// Takes note of the ranks that have ended. Returns those that failed.
    pub fn note_ends(&mut self) -> io::Result<Vec<Failure>> {
        let mut failures = Vec::new();
        for (rank, group) in self.groups.iter_mut().enumerate() {
            let Some(exit) = group.note_end()? else { continue };
            failures.extend((!exit.is_success()).then_some(Failure { rank, exit }));
        }
        Ok(failures)
    }

    /// Whether any rank runs.
    pub fn are_running(&self) -> bool {
        self.groups.iter().any(|group| matches!(group, Group::Running(_)))
    }

    /// Once all ranks have ended: tells what they have left behind to end. Returns whether anything may be left.
    pub fn end_helpers(&mut self) -> io::Result<bool> {
        self.signal(Signal::TERM);
        self.signal(Signal::CONT);
        self.groups.iter_mut().try_for_each(Group::reap_rank)?;
        self.reap_helpers()
    }

    /// Takes note of helpers that have ended. Returns whether any is left.
    pub fn reap_helpers(&mut self) -> io::Result<bool> {
        self.groups.iter_mut().try_for_each(Group::reap_helpers)?;
        Ok(self.groups.iter().any(|group| !matches!(group, Group::Gone)))
    }

    /// Sends a signal to the process groups of all ranks.
    pub fn signal(&self, signal: Signal) {
        for pid in self.groups.iter().filter_map(Group::pid) {
            // That the last of them has just ended is no error.
            let _ = kill_process_group(pid, signal);
        }
    }

    fn add(&mut self, rank: Rank, mut child: Child) -> io::Result<()> {
        let out = child.stdout.take().map(|pipe| (false, OwnedFd::from(pipe)));
        let err = child.stderr.take().map(|pipe| (true, OwnedFd::from(pipe)));
        self.groups.push(Group::Running(child));
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
        for group in &mut self.groups {
            // There is nobody to tell.
            let _ = group.reap_rank();
            let _ = group.reap_helpers();
        }
        let _ = set_child_subreaper(self.reaper_before);
    }
}

impl Group {
    /// How the rank has ended, said once.
    fn note_end(&mut self) -> io::Result<Option<Exit>> {
        let Group::Running(child) = self else { return Ok(None) };
        let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        let Some(status) = look_for(WaitId::Pid(Pid::from_child(child)), look)? else { return Ok(None) };
        let Group::Running(child) = std::mem::replace(self, Group::Gone) else { return Ok(None) };
        *self = Group::Ended(child);
        Ok(Some(exit_of(&status)))
    }

    /// Waits for the rank; others of its group may be left.
    fn reap_rank(&mut self) -> io::Result<()> {
        if let Group::Running(child) | Group::Ended(child) = self {
            child.wait()?;
            *self = Group::Helpers(Pid::from_child(child));
        }
        Ok(())
    }

    fn reap_helpers(&mut self) -> io::Result<()> {
        let Group::Helpers(pid) = *self else { return Ok(()) };
        loop {
            match look_for(WaitId::Pgid(Some(pid)), WaitIdOptions::EXITED | WaitIdOptions::NOHANG) {
                Ok(Some(_)) => {}
                Ok(None) => return Ok(()),
                Err(Errno::CHILD) => {
                    *self = Group::Gone;
                    return Ok(());
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Its number, while that can be nobody else's.
    fn pid(&self) -> Option<Pid> {
        match self {
            Group::Running(child) | Group::Ended(child) => Some(Pid::from_child(child)),
            Group::Helpers(pid) => Some(*pid),
            Group::Gone => None,
        }
    }
}

fn look_for(whom: WaitId<'_>, options: WaitIdOptions) -> Result<Option<WaitIdStatus>, Errno> {
    loop {
        match waitid(whom.clone(), options) {
            Err(Errno::INTR) => {}
            other => return other,
        }
    }
}

fn exit_of(status: &WaitIdStatus) -> Exit {
    match status.exit_status() {
        Some(code) => Exit::Code(u8::try_from(code & 0xff).unwrap_or(u8::MAX)),
        None => Exit::Signal(status.terminating_signal().unwrap_or_default()),
    }
}

/// Orphans of the ranks become children of this process. Returns what to set when that is over.
fn become_reaper() -> Option<Pid> {
    let before = child_subreaper().ok().flatten();
    // Where the kernel cannot, groups are signalled all the same, and nobody waits for them.
    let _ = set_child_subreaper(Some(rustix::process::getpid()));
    before
}

fn command(launch: &Launch, job: &Job, rank: Rank) -> Command {
    let mut command = Command::new(&launch.program);
    for (usual, value) in job.usual() {
        if std::env::var_os(usual).is_none() {
            command.env(usual, value);
        }
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
