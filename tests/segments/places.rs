//! Ranks of different users and namespaces: they share memory wherever they can open each other's Unix socket.

use std::path::{Path, PathBuf};

use super::*;

const TRANSPORTS: [&str; 2] = ["auto", "shm"];
/// Nobody in particular.
const USERS: [&str; 2] = ["54321", "54322"];

#[test]
fn ranks_of_different_users_share_memory() {
    let as_user = |user: &str| words(&["setpriv", "--reuid", user, "--regid", user, "--clear-groups"]);
    let trial: Vec<String> = as_user(USERS[0]).into_iter().chain(words(&["true"])).collect();
    if !can_run("a second user", &trial.iter().map(String::as_str).collect::<Vec<_>>()) {
        return;
    }
    let program = Program::for_everybody();
    for transport in TRANSPORTS {
        for first in [Some(USERS[0]), None] {
            let prefix = |rank: usize, _: &Path| match rank {
                0 => first.map(as_user).unwrap_or_default(),
                _ => as_user(USERS[1]),
            };
            let program = program.0.clone();
            let how = Start { prefix: &prefix, program, ..Start::new(2, transport, "share") };
            assert_eq!(reports(&how), ["shm", "shm"], "{transport}, first user {first:?}");
        }
    }
}

/// This test binary where every user can read it.
struct Program(PathBuf);

impl Program {
    fn for_everybody() -> Program {
        let own = std::env::current_exe().expect("this binary has a path");
        let path = std::env::temp_dir().join(format!("hcomm-test-{}", std::process::id()));
        std::fs::hard_link(&own, &path).or_else(|_| std::fs::copy(&own, &path).map(drop)).expect("a copy");
        Program(path)
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// The ways to leave the namespaces of processes, mounts and IPC, with the old and with a fresh `/proc`.
fn ways_apart() -> Vec<Vec<&'static str>> {
    let apart = ["unshare", "--pid", "--mount", "--ipc", "--fork", "--kill-child"];
    let is_root = rustix::process::geteuid().is_root();
    let user: &[&str] = if is_root { &[] } else { &["--map-root-user"] };
    [&[][..], &["--mount-proc"][..]].map(|more| [&apart[..], user, more].concat()).into()
}

#[test]
fn ranks_in_namespaces_of_their_own_share_memory_and_a_death_is_named() {
    for way in ways_apart() {
        if !can_run("other namespaces", &[&way[..], &["true"]].concat()) {
            continue;
        }
        let prefix = |_: usize, _: &Path| words(&way);
        for transport in TRANSPORTS {
            let how = Start { prefix: &prefix, ..Start::new(2, transport, "share") };
            assert_eq!(reports(&how), ["shm", "shm"], "{transport}, {way:?}");
        }
        let mut job = Job::start_under(&Start { prefix: &prefix, ..Start::new(2, "shm", "until killed") });
        job.await_meeting(PATIENCE);
        job.kill(1);
        job.expect_survivors(1, PATIENCE);
    }
}

/// Where memory files may never become programs, segments say that they will not.
#[test]
fn ranks_share_memory_where_memory_files_may_not_be_programs() {
    let forbid = "echo 2 > /proc/sys/vm/memfd_noexec && exec \"$@\"";
    let way =
        ["unshare", "--pid", "--mount", "--fork", "--kill-child", "--mount-proc", "sh", "-c", forbid, "sh"];
    if can_run("vm.memfd_noexec", &[&way[..], &["true"]].concat()) {
        let prefix = |_: usize, _: &Path| words(&way);
        let how = Start { prefix: &prefix, ..Start::new(2, "shm", "share") };
        assert_eq!(reports(&how), ["shm", "shm"]);
    }
}

/// Kernels before 6.3 refuse what they do not know.
#[test]
fn ranks_share_memory_where_the_kernel_does_not_know_memory_files_that_are_no_programs() {
    let way = ["strace", "-f", "-o", "/dev/null", "-e", "inject=memfd_create:error=EINVAL:when=1+2"];
    if can_run("an older kernel", &[&way[..], &["true"]].concat()) {
        let prefix = |_: usize, _: &Path| words(&way);
        let how = Start { prefix: &prefix, ..Start::new(2, "shm", "share") };
        assert_eq!(reports(&how), ["shm", "shm"]);
    }
}
