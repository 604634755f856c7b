//! kill -9 at each system call by which a rank comes to share memory: the other rank learns who died, and nothing is left.
//!
//! `strace` runs one rank undisturbed and lists its calls from the first memory file to the last step of the rendezvous; then it
//! runs it once for each, and kills it there.

use std::collections::{BTreeSet, HashMap};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::sync::Mutex;

use super::*;

/// Calls that set something up or tell somebody of it; each of these must have been a place of death.
const STEPS: &[&str] = &[
    "memfd_create",
    "ftruncate",
    "fallocate",
    "fcntl",
    "mmap",
    "eventfd2",
    "membarrier",
    "socket",
    "bind",
    "listen",
    "sendto",
    "sendmsg",
    "recvmsg",
    "readlink",
    "pidfd_open",
];
/// Calls of only one of the two ranks, or whose number varies.
const MORE_STEPS: &[&str] = &["connect", "accept4", "recvfrom", "getrandom", "fstat", "setsockopt"];

/// Jobs at a time; most of them wait.
const WORKERS: usize = 4;

/// The `count`-th call of this name.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Step {
    name: String,
    count: usize,
}

#[test]
fn a_rank_killed_at_any_step_of_the_set_up_leaves_nothing() {
    if !can_run("a death at each system call", &["strace", "-f", "-o", "/dev/null", "true"]) {
        return;
    }
    let files = hcomm_files();
    for victim in 0..2 {
        let steps = steps_of(victim);
        let died_at = Mutex::new(BTreeSet::new());
        let queue = Mutex::new(steps.iter());
        std::thread::scope(|scope| {
            for _ in 0..WORKERS {
                scope.spawn(|| {
                    let next = || queue.lock().expect("no worker panics while it takes a step").next();
                    while let Some(step) = next() {
                        if dies_at(victim, step) {
                            died_at.lock().expect("nor here").insert(step.name.clone());
                        }
                    }
                });
            }
        });
        let died_at = died_at.into_inner().expect("all workers have ended well");
        println!("rank {victim}: {} places of death", steps.len());
        for step in STEPS {
            assert!(died_at.contains(*step), "rank {victim} never died at {step}, but at {died_at:?}");
        }
    }
    assert_eq!(hcomm_files(), files);
}

/// What the control thread of a rank calls, from its first memory file on.
fn steps_of(rank: usize) -> Vec<Step> {
    let prefix = move |other: usize, folder: &Path| match other == rank {
        true => words(&["strace", "-f", "-o", &log_in(folder)]),
        false => Vec::new(),
    };
    let mut job = Job::start_under(&Start { prefix: &prefix, ..Start::new(2, "shm", "share") });
    for rank in 0..2 {
        assert!(job.await_end(rank, PATIENCE).success());
        assert_eq!(job.text_of(rank), "shm");
    }
    let log = std::fs::read_to_string(log_in(job.folder())).expect("strace writes a log");
    let steps = steps_in(&log);
    assert!(steps.len() > 30, "{log}");
    steps
}

fn log_in(folder: &Path) -> String {
    folder.join("strace").display().to_string()
}

/// The steps in a log with lines such as `123  bind(8, ...) = 0`.
fn steps_in(log: &str) -> Vec<Step> {
    let call = |line: &'_ str| -> Option<(String, String)> {
        let (thread, rest) = line.split_once(' ')?;
        let (name, _) = rest.trim_start().split_once('(')?;
        name.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'_').then(|| (thread.into(), name.into()))
    };
    let calls: Vec<(String, String)> = log.lines().filter_map(call).collect();
    let first = calls.iter().position(|(_, name)| name == "memfd_create").expect("a rank makes a segment");
    let thread = &calls[first].0;
    let last = calls.iter().rposition(|(_, name)| name == "pidfd_open").expect("a rank watches its peer");
    let mut counts: HashMap<&str, usize> = HashMap::new();
    let mut steps = Vec::new();
    for (at, (_, name)) in calls.iter().enumerate().filter(|(_, (other, _))| other == thread) {
        let count = counts.entry(name).or_default();
        *count += 1;
        if (first..=last).contains(&at) && STEPS.iter().chain(MORE_STEPS).any(|step| step == name) {
            steps.push(Step { name: name.clone(), count: *count });
        }
    }
    steps
}

/// Whether the victim has died there; it may not have come to that call this time.
fn dies_at(victim: usize, step: &Step) -> bool {
    let Step { name, count } = step;
    let inject = format!("inject={name}:signal=SIGKILL:when={count}");
    let prefix = |rank: usize, folder: &Path| match rank == victim {
        true => words(&["strace", "-f", "-o", &log_in(folder), "-e", &inject]),
        false => Vec::new(),
    };
    let variables = [("HCOMM_RENDEZVOUS_DEADLINE", "2s")];
    let how = Start { prefix: &prefix, variables: &variables, ..Start::new(2, "shm", "share") };
    let mut job = Job::start_under(&how);
    let is_dead = job.await_end(victim, PATIENCE).signal() == Some(9);
    let status = job.await_end(1 - victim, PATIENCE);
    let text = job.text_of(1 - victim);
    assert!(status.success(), "rank {} ended with {status} when rank {victim} died at {step:?}", 1 - victim);
    assert!(!text.contains("LEFT"), "{step:?}: {text}");
    // At the last step all has been set up, and the few calls may be over before it; so may they before a call that came earlier
    // when it was counted.
    let may_vary = name == "pidfd_open" || MORE_STEPS.contains(&name.as_str());
    let may_be_done = !is_dead || may_vary;
    let is_named = text.contains(&format!("rank {victim}"));
    assert!(is_named || (may_be_done && text == "shm"), "rank {victim} died at {step:?}: {text:?}");
    expect_nothing_left(&job, step);
    is_dead
}

fn expect_nothing_left(job: &Job, step: &Step) {
    let log = std::fs::read_to_string(log_in(job.folder())).unwrap_or_default();
    let names: BTreeSet<&str> = log.split("@\"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
    let deadline = Instant::now() + PATIENCE;
    loop {
        let sockets = std::fs::read_to_string("/proc/net/unix").unwrap_or_default();
        let left: Vec<&&str> = names.iter().filter(|name| sockets.contains(**name)).collect();
        let processes = job.processes();
        if left.is_empty() && processes.is_empty() {
            return;
        }
        assert!(Instant::now() < deadline, "a death at {step:?} leaves {left:?} and {processes:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn hcomm_files() -> Vec<String> {
    job::shared_memory_files().into_iter().filter(|name| name.contains("hcomm")).collect()
}
