//! Too little memory, or none that can be shared: an error that says what was asked and what was left, or TCP and the reason.

use std::path::Path;

use super::group::Group;
use super::*;

/// Segments of about 140 MB, beside which the rest of a rank is small.
const LARGE: [(&str, &str); 3] =
    [("HCOMM_BUFFER_SIZE", "1GiB"), ("HCOMM_TILE_BYTES", "1MiB"), ("HCOMM_DEPTH", "4")];

#[test]
fn a_control_group_that_is_too_small_is_an_error_of_all_ranks_and_nobody_is_killed() {
    // Too small for one segment; large enough for one, but not for those of both ranks, which are made at the same time.
    for (megabytes, inside) in [(100, 1..2), (100, 0..2), (190, 0..2), (250, 0..2)] {
        let group = match Group::new(&format!("{megabytes}-{}", inside.len()), megabytes << 20) {
            Ok(group) => group,
            Err(why_not) => return println!("skipped: no control group can be made here: {why_not}"),
        };
        let prefix = |rank: usize, _: &Path| match inside.contains(&rank) {
            true => group.prefix(),
            false => Vec::new(),
        };
        let how = Start { prefix: &prefix, variables: &LARGE, ..Start::new(2, "auto", "share") };
        let reports = reports(&how);
        assert_eq!(group.kills(), 0, "{reports:?}");
        for text in &reports {
            assert!(text.contains("cannot make its shared memory: a shared-memory segment of "), "{text}");
            assert!(text.contains(" bytes does not fit: "), "{text}");
            let limit = format!("bytes are left of the {} that /sys/fs/cgroup", megabytes << 20);
            assert!(text.contains(&limit) && !text.contains("LEFT"), "{text}");
        }
    }
}

#[test]
fn a_limit_on_the_size_of_files_is_an_error_and_no_signal() {
    let limit = "ulimit -f 2048 && exec \"$@\"";
    let prefix = |rank: usize, _: &Path| match rank {
        0 => words(&["sh", "-c", limit, "sh"]),
        _ => Vec::new(),
    };
    for text in reports(&Start { prefix: &prefix, ..Start::new(2, "auto", "share") }) {
        assert!(
            text.starts_with("rank 0 cannot make its shared memory: a shared-memory segment of "),
            "{text}"
        );
        assert!(text.contains("bytes are left for a file by this process's limit"), "{text}");
    }
}

/// The kernel's refusals, injected into the second rank, with how the ranks of `auto` are then joined, and what `shm` says.
#[test]
fn a_rank_that_cannot_make_segments_uses_tcp_and_says_why() {
    if !can_run("refusals of the kernel", &["strace", "-f", "-o", "/dev/null", "true"]) {
        return;
    }
    let refusals = [
        (
            "memfd_create:error=EPERM",
            "cannot share memory: a shared-memory segment of 4096 bytes: cannot make a file",
        ),
        (
            "fallocate:error=EOPNOTSUPP:when=1",
            "cannot share memory: a shared-memory segment of 4096 bytes: cannot allo",
        ),
        ("bind:error=EACCES:when=2", "cannot open a Unix socket: Permission denied"),
    ];
    for (refusal, why) in refusals {
        let inject = format!("inject={refusal}");
        let prefix = |rank: usize, _: &Path| match rank {
            1 => words(&["strace", "-f", "-o", "/dev/null", "-e", &inject]),
            _ => Vec::new(),
        };
        for text in reports(&Start { prefix: &prefix, ..Start::new(2, "auto", "share") }) {
            assert!(
                text.starts_with(&format!("tcp (rank 1 {why}")) && !text.contains("LEFT"),
                "{refusal}: {text}"
            );
        }
        for text in reports(&Start { prefix: &prefix, ..Start::new(2, "shm", "share") }) {
            assert!(text.contains(&format!("they cannot share memory: rank 1 {why}")), "{refusal}: {text}");
        }
    }
}

/// A shortage that only the allocation itself finds.
#[test]
fn a_shortage_that_shows_late_says_what_was_asked_and_left() {
    if !can_run("a late shortage", &["strace", "-f", "-o", "/dev/null", "true"]) {
        return;
    }
    let inject = "inject=fallocate:error=ENOSPC:when=3";
    let prefix = |rank: usize, _: &Path| match rank {
        1 => words(&["strace", "-f", "-o", "/dev/null", "-e", inject]),
        _ => Vec::new(),
    };
    for text in reports(&Start { prefix: &prefix, ..Start::new(2, "auto", "share") }) {
        assert!(
            text.starts_with("rank 1 cannot make its shared memory: a shared-memory segment of "),
            "{text}"
        );
        assert!(text.contains("does not fit: ") && text.contains("bytes are left"), "{text}");
    }
}
