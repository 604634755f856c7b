//! What a rank does between fork and exec, and signal masks. The one place of this crate with unsafe code.

use std::io;
use std::mem::MaybeUninit;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::ptr;

use rustix::process::{Pid, Signal, getpid, getppid, set_parent_process_death_signal};
use rustix::thread::{CpuSet, sched_setaffinity};

/// Lets signals through that the calling thread has blocked, as it may have inherited from whoever started this process.
pub fn unblock(signals: impl IntoIterator<Item = i32>) {
    let mut set = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: `sigemptyset` makes the set before anything reads it, `sigaddset` only adds to it (a number that is no signal is refused), and
    // `pthread_sigmask` reads it and writes nothing where the third pointer is null.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        for signal in signals {
            libc::sigaddset(set.as_mut_ptr(), signal);
        }
        libc::pthread_sigmask(libc::SIG_UNBLOCK, set.as_ptr(), ptr::null_mut());
    }
}

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
