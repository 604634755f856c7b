//! What a rank does between fork and exec. The one place of this crate with unsafe code.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::process::{Pid, Signal, getpid, getppid, set_parent_process_death_signal};
use rustix::thread::{CpuSet, sched_setaffinity};

/// Makes the process that `command` starts die with the thread that starts it, and keeps it on the processors of `cpus`.
pub fn prepare(command: &mut Command, cpus: Option<CpuSet>) {
    let launcher = getpid();
    // SAFETY: the closure runs in a forked child of a process with perhaps many threads, where only async-signal-safe calls are
    // sound: it makes three system calls, allocates nothing, takes no lock, and owns all it captures (`Pid` and `CpuSet`
    // are plain data). `become_rank` keeps to that.
    unsafe {
        command.pre_exec(move || become_rank(launcher, cpus.as_ref()));
    }
}

fn become_rank(launcher: Pid, cpus: Option<&CpuSet>) -> io::Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    // The launcher may have died before that; then nobody would tell.
    if getppid() != Some(launcher) {
        return Err(rustix::io::Errno::SRCH.into());
    }
    match cpus {
        Some(cpus) => Ok(sched_setaffinity(None, cpus)?),
        None => Ok(()),
    }
}
