//! What the system allows this process: memory, open files, locked memory, watching other processes.

use hcomm::settings::{Bytes, Settings};
use hcomm::transports::shm::Room;
use rustix::process::{PidfdFlags, Resource, getpid, getrlimit, pidfd_open};

use super::Finding;

/// Files that a rank may keep open for each peer, and beside those.
const FILES_PER_PEER: u64 = 4;
const OTHER_FILES: u64 = 64;

/// Memory, open files, locked memory, pidfd.
pub fn check(settings: &Settings) -> Vec<Finding> {
    vec![memory(settings), open_files(), locked_memory(), process_watch()]
}

/// By the account that segments are made by.
fn memory(settings: &Settings) -> Finding {
    let Room { left, limit } = Room::left();
    let staging = settings.buffer_size;
    if left == u64::MAX {
        return Finding::part("memory", "the system does not say how much is free", "");
    }
    let detail = format!("{} left {limit}; up to {staging} of staging per communicator and rank", size(left));
    if left / 8 < staging.0 {
        let advice = "set a smaller HCOMM_BUFFER_SIZE, or raise that limit; where a rank's shared memory does not fit, \
                      no rank gets a communicator and the error says what was asked and left";
        return Finding::part("memory", detail, advice);
    }
    Finding::ok("memory", detail)
}

fn size(bytes: u64) -> String {
    match bytes >> 30 {
        0 => format!("{:.1}MiB", bytes as f64 / f64::from(1 << 20)),
        _ => format!("{:.1}GiB", bytes as f64 / f64::from(1 << 30)),
    }
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
