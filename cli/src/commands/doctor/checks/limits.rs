//! What the system allows this process: memory, open files, locked memory, watching other processes.

use hcomm::settings::{Bytes, Settings};
use hcomm::transports::shm::{Room, segment_bytes};
use hcomm::tuning::Spread;
use rustix::process::{PidfdFlags, Resource, getpid, getrlimit, pidfd_open};

use super::Finding;

/// Files that a rank keeps open for each peer of a communicator, and for each communicator, and beside those.
const FILES_PER_PEER: u64 = 3;
const FILES_PER_COMMUNICATOR: u64 = 8;
const OTHER_FILES: u64 = 64;

/// Peers of a communicator that is to be possible.
const USUAL_PEERS: u64 = 256;

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
    let ranks = std::thread::available_parallelism().map_or(1, usize::from).max(2);
    let all = inbox_bytes(settings, ranks).saturating_mul(ranks as u64);
    let detail = format!(
        "{} left {limit}; up to {staging} of staging per communicator and rank, taken as it is used: a rank on each of {ranks} processors \
         may need {} in all",
        size(left),
        size(all)
    );
    if left < all || left / 8 < staging.0 {
        let advice = "set a smaller HCOMM_BUFFER_SIZE, or raise that limit; where one rank's staging does not fit, \
                      no rank gets a communicator and the error says what was asked and left";
        return Finding::part("memory", detail, advice);
    }
    Finding::ok("memory", detail)
}

/// The most that a rank takes for one communicator of so many ranks of a host.
fn inbox_bytes(settings: &Settings, ranks: usize) -> u64 {
    let config = Spread { near: ranks - 1, far: 0 }.wire(settings);
    segment_bytes(config, ranks).map_or(u64::MAX, |bytes| bytes as u64)
}

fn size(bytes: u64) -> String {
    match bytes >> 30 {
        0 => format!("{:.1}MiB", bytes as f64 / f64::from(1 << 20)),
        _ => format!("{:.1}GiB", bytes as f64 / f64::from(1 << 30)),
    }
}

fn open_files() -> Finding {
    // The soft limit is raised to this one when the first communicator is made.
    let Some(limit) = getrlimit(Resource::Nofile).maximum else {
        return Finding::ok("open files", "unlimited");
    };
    let peers = limit.saturating_sub(OTHER_FILES + FILES_PER_COMMUNICATOR) / FILES_PER_PEER;
    let detail = format!(
        "at most {limit}, enough for about {peers} peers in all communicators together ({FILES_PER_PEER} each, and \
         {FILES_PER_COMMUNICATOR} for each communicator)"
    );
    match peers < USUAL_PEERS {
        true => Finding::part(
            "open files",
            detail,
            "raise the hard limit with `ulimit -Hn 65536`, LimitNOFILE or the container's --ulimit",
        ),
        false => Finding::ok("open files", detail),
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
