//! [`Job`]: ranks of a job as processes of this test binary, and the ways in which one ends.

use std::fs::{File, Permissions};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// What joins the ranks.
pub const TRANSPORTS: [&str; 2] = ["shm", "tcp"];

const ROLE: &str = "JOB_ROLE";
const REPORT: &str = "JOB_REPORT";

/// Ranks at work.
pub struct Job {
    ranks: Vec<Option<Child>>,
    folder: PathBuf,
    token: String,
}

/// How the ranks of a job are started.
pub struct Start<'a> {
    /// How many ranks there are to be.
    pub world: usize,
    /// How many of them are started.
    pub started: usize,
    /// What joins them.
    pub transport: &'a str,
    /// What they do.
    pub role: &'a str,
    /// The words before the program's name on a rank's command line; the folder is the one for reports.
    pub prefix: &'a dyn Fn(usize, &Path) -> Vec<String>,
    /// More variables.
    pub variables: &'a [(&'a str, &'a str)],
    /// This test binary, or a copy of it.
    pub program: PathBuf,
}

impl<'a> Start<'a> {
    /// The usual way.
    pub fn new(world: usize, transport: &'a str, role: &'a str) -> Self {
        let program = std::env::current_exe().expect("this binary has a path");
        Start { world, started: world, transport, role, prefix: &|_, _| Vec::new(), variables: &[], program }
    }

    /// A rank that does not know its job yet.
    fn command(&self, rank: usize, folder: &Path) -> Command {
        let mut words = (self.prefix)(rank, folder);
        words.push(self.program.display().to_string());
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).args(["rank_of_a_job", "--exact", "--nocapture", "--test-threads=1"]);
        command.env(ROLE, self.role).env(REPORT, folder.join(rank.to_string()));
        command.env("HCOMM_RANK", rank.to_string()).env("HCOMM_WORLD", self.world.to_string());
        // Who dies before the ranks have met is only missed at this deadline.
        command.env("HCOMM_RENDEZVOUS_DEADLINE", "5s").env("HCOMM_TRANSPORT", self.transport);
        let errors = File::create(errors_of(folder, rank)).expect("a place for what it prints");
        command.stdout(Stdio::null()).stderr(errors);
        command
    }
}

/// What this process is to do, if it is a rank.
pub fn role() -> Option<String> {
    std::env::var(ROLE).ok()
}

/// Tells the parent a text; the exit code to leave with.
pub fn report(text: &str) -> i32 {
    let path = std::env::var(REPORT).expect("a rank has a place for its report");
    std::fs::write(path, text).expect("the report can be written");
    0
}

/// Tells the parent that this rank has met the others.
pub fn meet() {
    let path = std::env::var(REPORT).expect("a rank has a place for its report");
    std::fs::write(format!("{path}.met"), "").expect("the report can be written");
}

/// Names of the files under `/dev/shm`.
pub fn shared_memory_files() -> Vec<String> {
    let entries = std::fs::read_dir("/dev/shm").into_iter().flatten().flatten();
    let mut names: Vec<String> =
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

impl Job {
    /// Starts all ranks.
    pub fn start(world: usize, transport: &str, role: &str) -> Job {
        Job::start_some(world, world, transport, role)
    }

    /// Starts the first `started` of `world` ranks.
    pub fn start_some(world: usize, started: usize, transport: &str, role: &str) -> Job {
        Job::start_under(&Start { started, ..Start::new(world, transport, role) })
    }

    /// Starts ranks in other ways.
    pub fn start_under(how: &Start<'_>) -> Job {
        static JOBS: AtomicU32 = AtomicU32::new(0);
        let job = JOBS.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("hcomm-job-{}-{job}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder for reports");
        // Ranks of other users report, too.
        std::fs::set_permissions(&folder, Permissions::from_mode(0o777)).expect("it is our folder");
        let token = format!("{:032x}{job:032x}", std::process::id());
        let port = free_port();
        let start = |rank: usize| {
            let mut command = how.command(rank, &folder);
            command.env("HCOMM_ADDRESS", format!("127.0.0.1:{port}")).env("HCOMM_TOKEN", &token);
            Some(command.envs(how.variables.iter().copied()).spawn().expect("a rank starts"))
        };
        let ranks = (0..how.started).map(start).collect();
        Job { ranks, folder, token }
    }

    /// Waits until a rank has ended, in whatever way.
    pub fn await_end(&mut self, rank: usize, limit: Duration) -> ExitStatus {
        let status = self.end_of(rank, Instant::now() + limit);
        self.ranks[rank] = None;
        status
    }

    /// What a rank has reported.
    pub fn text_of(&self, rank: usize) -> String {
        std::fs::read_to_string(self.folder.join(rank.to_string())).unwrap_or_default()
    }

    /// Where ranks leave what they report.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Processes that have the job's token in their environment, this one apart.
    pub fn processes(&self) -> Vec<String> {
        let is_of_job = |folder: &PathBuf| {
            let environment = std::fs::read(folder.join("environ")).unwrap_or_default();
            environment.windows(self.token.len()).any(|part| part == self.token.as_bytes())
        };
        let folders = std::fs::read_dir("/proc").into_iter().flatten().flatten().map(|entry| entry.path());
        folders.filter(is_of_job).map(|folder| folder.display().to_string()).collect()
    }

    /// Waits until all ranks have met.
    pub fn await_meeting(&self, limit: Duration) {
        let deadline = Instant::now() + limit;
        let met = |rank: usize| self.folder.join(format!("{rank}.met")).exists();
        while !(0..self.ranks.len()).all(met) {
            assert!(Instant::now() < deadline, "the ranks have not met within {limit:?}");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Kills a rank with SIGKILL.
    pub fn kill(&mut self, rank: usize) {
        let child = self.ranks[rank].as_mut().expect("the rank was started");
        child.kill().expect("the rank can be killed");
        child.wait().expect("the rank ends");
        self.ranks[rank] = None;
    }

    /// All ranks end well in time.
    pub fn expect_success(mut self, limit: Duration) {
        self.await_all(limit);
    }

    /// All ranks end well in time; returns what each reported.
    pub fn expect_reports(mut self, limit: Duration) -> Vec<String> {
        self.await_all(limit);
        (0..self.ranks.len()).map(|rank| self.text_of(rank)).collect()
    }

    /// All ranks but the killed one end in time with an error that names it.
    pub fn expect_survivors(mut self, victim: usize, limit: Duration) {
        self.await_all(limit);
        for rank in (0..self.ranks.len()).filter(|rank| *rank != victim) {
            let text = self.text_of(rank);
            assert!(text.contains(&format!("rank {victim}")), "rank {rank} says {text:?}, not rank {victim}");
        }
    }

    fn await_all(&mut self, limit: Duration) {
        let deadline = Instant::now() + limit;
        for rank in 0..self.ranks.len() {
            if self.ranks[rank].is_some() {
                let status = self.end_of(rank, deadline);
                let errors = std::fs::read_to_string(errors_of(&self.folder, rank)).unwrap_or_default();
                assert!(
                    status.success(),
                    "rank {rank} ended with {status}: {:?}\n{errors}",
                    self.text_of(rank)
                );
            }
        }
    }

    fn end_of(&mut self, rank: usize, deadline: Instant) -> ExitStatus {
        let child = self.ranks[rank].as_mut().expect("the rank was started");
        loop {
            match child.try_wait().expect("a child can be waited for") {
                Some(status) => return status,
                None if Instant::now() > deadline => panic!("rank {rank} hangs past its time"),
                None => std::thread::sleep(Duration::from_millis(1)),
            }
        }
    }
}

/// A port that is free now, of those that the system gives to nobody who does not ask for one by number: else a connection of
/// another job could take it before rank 0 does.
fn free_port() -> u16 {
    const FIRST: u32 = 12_000;
    const PORTS: u32 = 20_000;
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let own = std::process::id().wrapping_mul(409);
    let next = || FIRST + own.wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed)) % PORTS;
    let mut ports = (0..PORTS).filter_map(|_| u16::try_from(next()).ok());
    ports.find(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok()).expect("a free port")
}

fn errors_of(folder: &Path, rank: usize) -> PathBuf {
    folder.join(format!("{rank}.errors"))
}

impl Drop for Job {
    fn drop(&mut self) {
        for child in self.ranks.iter_mut().flatten() {
            let _ = child.kill();
            let _ = child.wait();
        }
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}
