//! [`Ranks`]: starts this test program once for each rank and listens to what each says.

use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, TcpListener};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

/// Environment of a child.
pub const RANK: &str = "HCOMM_TEST_RANK";
pub const WORLD: &str = "HCOMM_TEST_WORLD";
pub const ADDRESS: &str = "HCOMM_TEST_ADDRESS";
pub const TRANSPORT: &str = "HCOMM_TEST_TRANSPORT";
pub const ROLE: &str = "HCOMM_TEST_ROLE";
pub const DEADLINE_MS: &str = "HCOMM_TEST_DEADLINE_MS";
pub const VICTIM: &str = "HCOMM_TEST_VICTIM";

/// What a child says is marked so, among what the test harness prints.
pub const MARK: &str = "rank says: ";

/// Deadlines of a rendezvous.
const LONG_MS: u64 = 15_000;
const SHORT_MS: u64 = 1_000;

/// How long a child may take to say something.
const PATIENCE: Duration = Duration::from_secs(20);

/// The processes of one job. Those that still run are killed at the end.
pub struct Ranks(Vec<Rank>);

struct Rank {
    child: Child,
    lines: Receiver<String>,
}

impl Ranks {
    /// Starts `world` processes, each in a role of its own.
    pub fn start(world: usize, transport: &str, role: impl Fn(usize) -> &'static str) -> Ranks {
        Ranks::start_all(world, transport, usize::MAX, LONG_MS, role)
    }

    /// Starts one with `role` and others that watch it.
    pub fn start_with(world: usize, transport: &str, victim: usize, role: &'static str) -> Ranks {
        let role = |rank| if rank == victim { role } else { "watch" };
        Ranks::start_all(world, transport, victim, LONG_MS, role)
    }

    /// Starts ranks that do not wait long for one that may never come.
    pub fn start_hasty(world: usize, transport: &str, victim: usize) -> Ranks {
        let role = |rank| if rank == victim { "stay" } else { "watch" };
        Ranks::start_all(world, transport, victim, SHORT_MS, role)
    }

    fn start_all(
        world: usize,
        transport: &str,
        victim: usize,
        deadline_ms: u64,
        role: impl Fn(usize) -> &'static str,
    ) -> Ranks {
        let address = free_address();
        let start = |rank: usize| {
            let mut child = Command::new(std::env::current_exe().unwrap())
                .args(["--exact", "rank_process", "--nocapture", "--test-threads=1"])
                .envs([(RANK, rank.to_string()), (WORLD, world.to_string()), (VICTIM, victim.to_string())])
                .env(DEADLINE_MS, deadline_ms.to_string())
                .envs([(ADDRESS, &*address), (TRANSPORT, transport), (ROLE, role(rank))])
                .stdout(Stdio::piped())
                .spawn()
                .unwrap();
            let (said, lines) = channel();
            let output = BufReader::new(child.stdout.take().unwrap());
            std::thread::spawn(move || {
                for line in output.lines().map_while(Result::ok) {
                    if let Some((_, line)) = line.split_once(MARK) {
                        let _ = said.send(line.to_owned());
                    }
                }
            });
            Rank { child, lines }
        };
        Ranks((0..world).map(start).collect())
    }

    pub fn world(&self) -> usize {
        self.0.len()
    }

    /// The next that a rank says.
    pub fn line(&mut self, rank: usize) -> String {
        match self.0[rank].lines.recv_timeout(PATIENCE) {
            Ok(line) => line,
            Err(error) => {
                panic!("rank {rank} says nothing ({error}); its process: {:?}", self.0[rank].child.try_wait())
            }
        }
    }

    /// Waits until every rank has said so.
    pub fn lines_of_all(&mut self, expected: &str) {
        (0..self.world()).for_each(|rank| assert_eq!(self.line(rank), expected, "rank {rank}"));
    }

    pub fn kill(&mut self, rank: usize) {
        self.0[rank].child.kill().unwrap();
    }

    pub fn wait(&mut self, rank: usize) -> ExitStatus {
        self.0[rank].child.wait().unwrap()
    }
}

impl Drop for Ranks {
    fn drop(&mut self) {
        for rank in &mut self.0 {
            // It may have ended by itself.
            let _ = rank.child.kill();
            let _ = rank.child.wait();
        }
    }
}

/// An address that no test of this run has had, below the ports that the system gives to connections.
fn free_address() -> String {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let first = 10_000 + (std::process::id() % 100) as u16 * 100;
    loop {
        let port = first + NEXT.fetch_add(1, Ordering::Relaxed) % 12_000;
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return format!("127.0.0.1:{port}");
        }
    }
}
