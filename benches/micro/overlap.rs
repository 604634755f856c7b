//! Calls in flight together, of two ranks over shared memory: how long a short urgent one takes behind a long one, and eight beside one another
//! against one of the same bytes.

use std::thread;
use std::time::{Duration, Instant};

use hcomm::environment::{Address, Token};
use hcomm::{Communicator, Op, Placement, Settings};

use crate::clock::median;
use crate::table::Table;

/// Elements of f32.
const LONG: usize = 64 << 20;
const SHORT: usize = 1 << 10;
const PART: usize = 256 << 10;
const PARTS: usize = 8;
/// What the long call has run for when the urgent one is submitted.
const HEAD_START: Duration = Duration::from_millis(5);
const ROUNDS: usize = 20;

pub fn run() -> Table {
    let [first, second] = thread::scope(|scope| {
        [0, 1].map(|rank| scope.spawn(move || rank_of_two(rank))).map(|rank| rank.join().expect("no panic"))
    });
    // An urgent call is submitted when the later rank has done so, and ends when both have its result.
    let urgent = |round: usize| {
        let ([start_a, end_a], [start_b, end_b]) = (first.urgent[round], second.urgent[round]);
        (end_a.max(end_b) - start_a.max(start_b)).as_secs_f64()
    };
    let alone = median(first.alone.clone());
    let urgent = median((0..ROUNDS).map(urgent).collect());
    let parts = median(first.parts.clone()) / median(first.whole.clone());
    let rows = vec![
        vec!["4 KiB of high priority behind 256 MiB".to_owned(), format!("{:.2} %", 100.0 * urgent / alone)],
        vec!["eight of 1 MiB at once, against one of 8 MiB".to_owned(), format!("{:.0} %", 100.0 * parts)],
    ];
    Table { heading: "Calls in flight together", columns: &["all_reduces", "of the other's time"], rows }
}

/// What one rank saw, in seconds where it is no moment.
struct Seen {
    alone: Vec<f64>,
    urgent: Vec<[Instant; 2]>,
    parts: Vec<f64>,
    whole: Vec<f64>,
}

fn rank_of_two(rank: usize) -> Seen {
    let comm = connect(rank);
    let mut seen = Seen { alone: Vec::new(), urgent: Vec::new(), parts: Vec::new(), whole: Vec::new() };
    let (mut long, mut short) = (vec![1.0_f32; LONG], vec![1.0_f32; SHORT]);
    for _ in 0..ROUNDS {
        seen.alone.push(timed(&comm, || comm.all_reduce(&mut long, Op::Max).expect("no failure")));
        comm.barrier().expect("no failure");
        let bulk = comm.priority(-1).all_reduce_async(long, Op::Max);
        thread::sleep(HEAD_START);
        let start = Instant::now();
        short = comm.priority(1).all_reduce_async(short, Op::Max).wait().expect("no failure");
        seen.urgent.push([start, Instant::now()]);
        long = bulk.wait().expect("no failure");
    }
    let (mut parts, mut whole) = (vec![vec![1.0_f32; PART]; PARTS], vec![1.0_f32; PARTS * PART]);
    for _ in 0..2 * ROUNDS {
        seen.parts.push(timed(&comm, || {
            let works: Vec<_> = parts.drain(..).map(|part| comm.all_reduce_async(part, Op::Max)).collect();
            parts.extend(works.into_iter().map(|work| work.wait().expect("no failure")));
        }));
        seen.whole.push(timed(&comm, || comm.all_reduce(&mut whole, Op::Max).expect("no failure")));
    }
    assert!(long.iter().chain(&short).chain(&whole).all(|value| *value == 1.0), "the maximum of ones is one");
    comm.close().expect("the other rank closes too");
    seen
}

/// Seconds of a call that both ranks begin together.
fn timed(comm: &Communicator, call: impl FnOnce()) -> f64 {
    comm.barrier().expect("no failure");
    let start = Instant::now();
    call();
    start.elapsed().as_secs_f64()
}

fn connect(rank: usize) -> Communicator {
    let placement = Placement {
        rank,
        world: 2,
        local_rank: None,
        local_world: None,
        address: Address { host: own_host(), port: 29_555 },
        secret: Token::derived(&["benches", &std::process::id().to_string()]).into(),
        source: "the benchmark",
    };
    let settings = Settings::from_pairs([("HCOMM_TRANSPORT", "shm")]).expect("legal settings");
    Communicator::connect(&placement, settings).expect("the ranks meet")
}

/// A loopback address of this process alone, so that others may measure at the same time.
fn own_host() -> String {
    let process = std::process::id();
    format!("127.{}.{}.1", 1 + process % 254, process / 254 % 256)
}
