//! How the system schedules hcomm's own threads, which mostly sleep and must wake at once: where they run, and how soon.

use std::io;

use rustix::thread::{CpuSet, sched_setaffinity};

/// Keeps the calling thread on these processors; none is any that it may run on already.
///
/// # Errors
/// Where the system refuses; the thread then stays where it was.
pub fn stay_on(cpus: &[u32]) -> io::Result<()> {
    if cpus.is_empty() {
        return Ok(());
    }
    let mut set = CpuSet::new();
    let most = CpuSet::MAX_CPU as u32;
    cpus.iter().filter(|cpu| **cpu < most).for_each(|cpu| set.set(*cpu as usize));
    Ok(sched_setaffinity(None, &set)?)
}

/// The time slice asked for, in nanoseconds: what a round of progress takes, generously.
const SLICE_NS: u64 = 200_000;

/// `struct sched_attr` of Linux, version 0.
#[repr(C)]
#[derive(Default)]
struct Attributes {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    runtime_ns: u64,
    deadline_ns: u64,
    period_ns: u64,
}

/// Asks for short time slices for the calling thread, at its usual share. Linux (6.12 and later) then lets it interrupt a
/// thread with longer slices when it wakes, instead of after that one's slice of milliseconds. Earlier ones ignore it.
///
/// # Errors
/// Where the system refuses; the thread is scheduled as before.
pub fn wake_promptly() -> io::Result<()> {
    let size = size_of::<Attributes>() as u32;
    let attributes = Attributes { size, runtime_ns: SLICE_NS, ..Attributes::default() };
    // SAFETY: the kernel reads `size` bytes at the address, which is a live value of that size; 0 is the calling thread.
    let result = unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_thread_may_ask_for_short_slices() {
        std::thread::spawn(super::wake_promptly)
            .join()
            .expect("the thread ends")
            .expect("no privilege is needed");
    }
}
