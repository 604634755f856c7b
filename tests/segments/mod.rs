//! How ranks come to share memory where something is in the way: deaths in mid set-up, other users and namespaces, too little memory.
//!
//! What this machine does not allow to be tried is skipped, with a printed reason.

pub mod buffers;
mod deaths;
mod group;
mod places;
mod shortages;

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use hcomm::{Communicator, Op};

use crate::job::{self, Job, Start};

/// Ten times what any of this takes.
const PATIENCE: Duration = Duration::from_secs(30);

/// A rank that meets the others, calls a few times and reports how it is joined to each; or with what error that ended, and
/// whatever the communicator then left in this process.
pub fn share() -> i32 {
    let text = match meet_and_call() {
        Ok(links) => links,
        Err(error) => error.to_string(),
    };
    job::report(&format!("{text}{}", left_behind()))
}

fn meet_and_call() -> Result<String, Box<dyn std::error::Error>> {
    let comm = Communicator::from_env()?;
    job::meet();
    let sum: u64 = (1..=comm.world() as u64).sum();
    for count in [1, 100, 100_000].repeat(5) {
        let mut buffer = vec![comm.rank() as u64 + 1; count];
        comm.all_reduce(&mut buffer, Op::Sum)?;
        assert!(buffer.iter().all(|value| *value == sum), "wrong data");
    }
    let peers = comm.links().iter().enumerate().filter(|(rank, _)| *rank != comm.rank());
    let links: Vec<&str> = peers.map(|(_, link)| link.as_str()).collect();
    let links = links.join(", ");
    comm.close()?;
    Ok(links)
}

/// Memory files and sockets that this process still has a while after its communicator has gone.
fn left_behind() -> String {
    let deadline = Instant::now() + Duration::from_secs(3);
    loop {
        let left = own_files();
        if left.is_empty() || Instant::now() > deadline {
            return left.iter().map(|name| format!(" LEFT {name}")).collect();
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn own_files() -> Vec<String> {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let mapped = maps.lines().filter(|line| line.contains("memfd:hcomm")).map(str::to_owned);
    let files = std::fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
    let is_standard = |name: &std::ffi::OsStr| ["0", "1", "2"].iter().any(|number| name == *number);
    let open = files.filter(|entry| !is_standard(&entry.file_name()));
    let open = open.filter_map(|entry| Some(std::fs::read_link(entry.path()).ok()?.display().to_string()));
    mapped.chain(open.filter(|name| name.contains("memfd:") || name.starts_with("socket:"))).collect()
}

/// Whether a command can be run here; prints that the rest of the test is skipped where it cannot.
fn can_run(what: &str, words: &[&str]) -> bool {
    let outcome = Command::new(words[0]).args(&words[1..]).stdin(Stdio::null()).output();
    let why_not = match outcome {
        Ok(output) if output.status.success() => return true,
        Ok(output) => String::from_utf8_lossy(&output.stderr).trim().to_owned(),
        Err(error) => format!("{}: {error}", words[0]),
    };
    println!("skipped: {what} cannot be tried here: {why_not}");
    false
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

/// The two ranks' reports, which must not end by a signal.
fn reports(how: &Start<'_>) -> Vec<String> {
    Job::start_under(how).expect_reports(PATIENCE)
}
