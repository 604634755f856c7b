//! What the tests share: ranks as threads, a bound on time, and data that differs in every element and every rank.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use hcomm_engine::environment::{Address, Placement, Token};
use hcomm_engine::settings::Settings;
use hcomm_engine::{Communicator, CreateError};

/// Communicators with settings as the environment would spell them.
pub fn world_with(world: usize, settings: &[(&str, &str)]) -> Vec<Communicator> {
    let settings = Settings::from_pairs(settings.iter().copied()).expect("legal settings");
    Communicator::in_process_with(world, &settings).expect("a small world fits")
}

/// Communicators with the default settings.
pub fn world(world: usize) -> Vec<Communicator> {
    world_with(world, &[])
}

/// What joins the ranks. They are threads in any case; over the other two they meet and talk as processes do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Over {
    Inproc,
    Shm,
    Tcp,
}

pub const OVER: [Over; 3] = [Over::Inproc, Over::Shm, Over::Tcp];

impl Over {
    /// Communicators of so many ranks.
    pub fn world(self, world: usize) -> Vec<Communicator> {
        let transport = match self {
            Over::Inproc => return world_with(world, &[]),
            Over::Shm => "shm",
            Over::Tcp => "tcp",
        };
        let settings = Settings::from_pairs([("HCOMM_TRANSPORT", transport)]).expect("legal settings");
        connected(&vec![settings; world]).into_iter().map(|made| made.expect("the ranks meet")).collect()
    }
}

/// What becomes of ranks that meet as processes do, each with settings of its own.
pub fn connected(settings: &[Settings]) -> Vec<Result<Communicator, CreateError>> {
    let (world, host) = (settings.len(), own_host());
    let connect = &|rank: usize| {
        let placement = Placement {
            rank,
            world,
            local_rank: None,
            local_world: None,
            address: Address { host: host.clone(), port: 29_400 },
            secret: Token::derived(&["a test", &host]).into(),
            source: "by hand",
        };
        Communicator::connect(&placement, settings[rank].clone())
    };
    thread::scope(|s| {
        let ranks: Vec<_> = (0..world).map(|rank| s.spawn(move || connect(rank))).collect();
        ranks.into_iter().map(|rank| rank.join().expect("no panic")).collect()
    })
}

/// A loopback address that nothing else on this machine listens at, so that worlds made at the same time do not meet.
fn own_host() -> String {
    static MADE: AtomicU32 = AtomicU32::new(0);
    let (made, process) = (MADE.fetch_add(1, Ordering::Relaxed), std::process::id());
    format!("127.{}.{}.{}", 1 + process % 254, process / 254 % 256, 1 + made % 254)
}

/// Runs every rank on a thread of its own and gives back what each returned.
pub fn on_all<R: Send>(comms: Vec<Communicator>, f: impl Fn(Communicator) -> R + Sync) -> Vec<R> {
    let f = &f;
    thread::scope(|s| {
        let ranks: Vec<_> = comms.into_iter().map(|comm| s.spawn(move || f(comm))).collect();
        ranks.into_iter().map(|rank| rank.join().unwrap_or_else(|p| std::panic::resume_unwind(p))).collect()
    })
}

/// Fails where `f` takes longer than `seconds`; threads that hang are left behind.
pub fn within<R: Send + 'static>(seconds: u64, f: impl FnOnce() -> R + Send + 'static) -> R {
    let (done, end) = channel();
    let body = thread::spawn(move || {
        let value = f();
        let _ = done.send(());
        value
    });
    match end.recv_timeout(Duration::from_secs(seconds)) {
        Err(RecvTimeoutError::Timeout) => panic!("not done within {seconds} s"),
        _ => body.join().unwrap_or_else(|p| std::panic::resume_unwind(p)),
    }
}

/// Element `i` of rank `rank`'s input.
pub fn element(rank: usize, i: usize) -> i64 {
    (rank as i64 + 1) * 1_000_000_007 + (i as i64) * 13 + ((i * (rank + 3)) % 11) as i64
}

/// A rank's input.
pub fn data(rank: usize, count: usize) -> Vec<i64> {
    (0..count).map(|i| element(rank, i)).collect()
}

/// The sum of all ranks' inputs.
pub fn sum(world: usize, count: usize) -> Vec<i64> {
    (0..count).map(|i| (0..world).map(|rank| element(rank, i)).sum()).collect()
}
