//! Too little memory, or none that can be shared: an error that says what was asked and what was left, or TCP and the reason.

use std::path::Path;

use super::group::Group;
use super::*;

/// Segments of about 140 MB, beside which the rest of a rank is small.
const LARGE: [(&str, &str); 3] =
    [("HCOMM_BUFFER_SIZE", "1GiB"), ("HCOMM_TILE_BYTES", "1MiB"), ("HCOMM_DEPTH", "4")];

#[test]
fn a_control_group_that_is_too_small_is_an_error_of_all_ranks_and_nobody_is_killed() {
    for inside in [1..2, 0..2] {
        let group = match Group::new(&format!("small-{}", inside.len()), 100 << 20) {
            Ok(group) => group,
            Err(why_not) => return println!("skipped: no control group can be made here: {why_not}"),
        };
        for text in reports_within(&group, inside) {
            assert!(text.contains("cannot make its shared memory: a shared-memory segment of "), "{text}");
            assert!(text.contains(" bytes does not fit: "), "{text}");
            assert!(text.contains("; the 2 ranks of its host may need "), "{text}");
            let limit = "bytes are left of the 104857600 that /sys/fs/cgroup";
            assert!(text.contains(limit) && !text.contains("LEFT"), "{text}");
        }
    }
}

/// Both segments together are longer than what the group allows, which is no matter while so little of them is used.
#[test]
fn a_control_group_that_holds_what_is_used_suffices() {
    match Group::new("used", 250 << 20) {
        Ok(group) => assert_eq!(reports_within(&group, 0..2), ["shm", "shm"]),
        Err(why_not) => println!("skipped: no control group can be made here: {why_not}"),
    }
}

/// The reports of two ranks with large segments, of which those inside are in the group. The kernel ends none of them.
fn reports_within(group: &Group, inside: std::ops::Range<usize>) -> Vec<String> {
    let prefix = |rank: usize, _: &Path| match inside.contains(&rank) {
        true => group.prefix(),
        false => Vec::new(),
    };
    let reports = reports(&Start { prefix: &prefix, variables: &LARGE, ..Start::new(2, "auto", "share") });
    assert_eq!(group.kills(), 0, "{reports:?}");
    reports
}

/// Whatever it is that a rank cannot open, it says how many files it may have; the others may only know that it does not come.
#[test]
fn a_limit_on_open_files_is_named() {
    let (mut few, mut enough) = (0, 0);
    for limit in [12, 16, 20, 24, 28, 64] {
        let script = format!("ulimit -n {limit} && exec \"$@\"");
        let prefix = |_: usize, _: &Path| words(&["sh", "-c", &script, "sh"]);
        let reports = reports(&Start { prefix: &prefix, ..Start::new(4, "auto", "share") });
        let names = [format!("may have at most {limit} files open"), format!("it may have {limit} at once")];
        match reports.iter().all(|text| text == "shm, shm, shm") {
            true => enough += 1,
            false if reports.iter().any(|text| names.iter().any(|name| text.contains(name))) => few += 1,
            false => panic!("{limit}: {reports:#?}"),
        }
    }
    assert!(few >= 1 && enough >= 1, "{few} of 6 limits were too low, {enough} were not");
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

/// A shortage that shows only when memory is to be used, in the middle of a call.
#[test]
fn a_shortage_that_shows_late_is_the_cause_of_the_loss() {
    if !can_run("a late shortage", &["strace", "-f", "-o", "/dev/null", "true"]) {
        return;
    }
    let inject = "inject=madvise:error=ENOMEM:when=8+";
    let prefix = |rank: usize, _: &Path| match rank {
        1 => words(&["strace", "-f", "-o", "/dev/null", "-e", inject]),
        _ => Vec::new(),
    };
    let reports = reports(&Start { prefix: &prefix, ..Start::new(2, "auto", "share") });
    let cause = "this rank has no memory for its messages: ";
    assert!(reports[1].contains(cause) && reports[1].contains(" bytes are left "), "{reports:?}");
    assert!(reports.iter().all(|text| !text.contains("LEFT")), "{reports:?}");
}
