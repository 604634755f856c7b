//! What a system-call counter watches: two ranks, threads that never sleep, repeat calls of up to 64 KiB over shared memory.
//! `benches/syscalls` runs it, and counts what each thread asks of the kernel between its marks.
//!
//! A mark is a look at a file that does not exist: it shows in the counter's log.

use std::fs;
use std::thread;
use std::time::Duration;

use hcomm::environment::{Address, Token};
use hcomm::{Communicator, Error, Op, Placement, Settings};

const WORLD: usize = 2;
/// Calls before those that are counted, and those.
const WARM: u32 = 50;
const CALLS: u32 = 500;

fn main() {
    let host = format!("127.{}.{}.1", 1 + std::process::id() % 254, std::process::id() / 254 % 256);
    let ranks: Vec<_> = (0..WORLD).map(|rank| (rank, host.clone())).collect();
    thread::scope(|scope| {
        for (rank, host) in ranks {
            scope.spawn(move || calls(&connect(rank, host)).expect("no failure"));
        }
    });
}

fn connect(rank: usize, host: String) -> Communicator {
    let settings = Settings::from_pairs([("HCOMM_TRANSPORT", "shm"), ("HCOMM_SPIN", "1h")]).expect("legal");
    let placement = Placement {
        rank,
        world: WORLD,
        local_rank: None,
        local_world: None,
        secret: Token::derived(&["quiet", &host]).into(),
        address: Address { host, port: 29_400 },
        source: "by hand",
    };
    Communicator::connect(&placement, settings).expect("the ranks meet")
}

fn calls(comm: &Communicator) -> Result<(), Error> {
    for bytes in [8, 1 << 10, 64 << 10] {
        let (mut whole, mut half) = (vec![1_f32; bytes / 4], vec![1_f32; bytes / 8]);
        repeat(comm, "all_reduce", bytes, || comm.all_reduce(&mut whole, Op::Max))?;
        repeat(comm, "all_gather", bytes, || comm.all_gather(&half, &mut whole))?;
        repeat(comm, "reduce_scatter", bytes, || comm.reduce_scatter(&whole, &mut half, Op::Max))?;
        repeat(comm, "broadcast", bytes, || comm.broadcast(&mut whole, 0))?;
        repeat(comm, "barrier", bytes, || comm.barrier())?;
    }
    Ok(())
}

fn repeat(
    comm: &Communicator,
    name: &str,
    bytes: usize,
    mut call: impl FnMut() -> Result<(), Error>,
) -> Result<(), Error> {
    // Memory is taken when it is first used, and a rank that runs ahead of the other uses most.
    for late in 0..WORLD {
        if comm.rank() == late {
            thread::sleep(Duration::from_millis(20));
        }
        (0..WARM).try_for_each(|_| call())?;
    }
    mark("begin", name, bytes);
    (0..CALLS).try_for_each(|_| call())?;
    mark("end", name, bytes);
    Ok(())
}

fn mark(what: &str, name: &str, bytes: usize) {
    let _ = fs::metadata(format!("/no-such-file/hcomm-{what}-{name}-{bytes}"));
}
