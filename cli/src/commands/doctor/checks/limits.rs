//! What the system allows this process: memory, open files, locked memory, watching other processes.

use std::fs;

use hcomm::settings::{Bytes, Settings};
use rustix::process::{PidfdFlags, Resource, getpid, getrlimit, pidfd_open};

use super::Finding;

/// Files that a rank may keep open for each peer, and beside those.
const FILES_PER_PEER: u64 = 4;
const OTHER_FILES: u64 = 64;

/// Memory, open files, locked memory, pidfd.
pub fn check(settings: &Settings) -> Vec<Finding> {
    vec![memory(settings), open_files(), locked_memory(), process_watch()]
}

fn memory(settings: &Settings) -> Finding {
    let free = available_bytes().into_iter().chain(group_room()).min();
    let staging = settings.buffer_size;
    let Some(free) = free else {
        return Finding::part("memory", "the system does not say how much is free", "");
    };
    let detail = format!("{} free, {staging} of staging per communicator and rank", in_gib(free));
    if free / 8 < staging.0 {
        let advice = "set a smaller HCOMM_BUFFER_SIZE, or raise the memory limit of the control group";
        return Finding::part("memory", detail, advice);
    }
    Finding::ok("memory", detail)
}

fn in_gib(bytes: u64) -> String {
    format!("{:.1}GiB", bytes as f64 / (1u64 << 30) as f64)
}

fn available_bytes() -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

/// What the memory limit of this process's control group leaves, where it has one.
fn group_room() -> Option<u64> {
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    let own = groups.lines().find_map(|line| line.strip_prefix("0::"))?;
    let number = |name: &str| -> Option<u64> {
        fs::read_to_string(format!("/sys/fs/cgroup{own}/{name}")).ok()?.trim().parse().ok()
    };
    number("memory.max")?.checked_sub(number("memory.current")?)
}

fn open_files() -> Finding {
    let limit = getrlimit(Resource::Nofile).current;
    match limit {
        Some(limit) if limit < 1024 => Finding::part(
            "open files",
            format!(
                "at most {limit}, enough for about {} peers",
                limit.saturating_sub(OTHER_FILES) / FILES_PER_PEER
            ),
            "raise it with `ulimit -n 65536`",
        ),
        Some(limit) => Finding::ok("open files", format!("at most {limit}")),
        None => Finding::ok("open files", "unlimited"),
    }
}

fn locked_memory() -> Finding {
    match getrlimit(Resource::Memlock).current {
        Some(limit) => Finding::part(
            "locked memory",
            format!("at most {}; shared memory and TCP need none, RDMA does", Bytes(limit)),
            "before RDMA is used, raise it with `ulimit -l unlimited`",
        ),
        None => Finding::ok("locked memory", "unlimited"),
    }
}

fn process_watch() -> Finding {
    match pidfd_open(getpid(), PidfdFlags::empty()) {
        Ok(_) => Finding::ok("process watch", "pidfd: the end of a local rank is noticed at once"),
        Err(error) => Finding::part(
            "process watch",
            format!("no pidfd ({error}): the end of a local rank shows only on its connections"),
            "use Linux 5.3 or later, or allow pidfd_open in the container's system call filter",
        ),
    }
}
