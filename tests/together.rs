//! Everything together: a pairwise covering array over (algorithm, data type, reduction, world, count, in place, transport), filled
//! up at random to 2,000 cases, each checked bit for bit on every rank.
//!
//! Contributions are small whole numbers, so that every order of folding gives the same bits.

use std::collections::HashMap;
use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

use hcomm::environment::{Address, Token};
use hcomm::ops::{Kernel, Operand};
use hcomm::planner::Planner;
use hcomm::planner::choose::Candidate;
use hcomm::settings::TransportChoice;
use hcomm::{
    Collective, Communicator, DType, DynBuffer, Factor, Placement, ReduceOp, Request, Settings, StableBuffer,
    Topology,
};

const CASES: usize = 2000;
const SEED: u64 = 0x5eed;
const WORLDS: [usize; 5] = [1, 2, 3, 4, 7];
const COUNTS: [usize; 6] = [0, 1, 7, 129, 1000, 9001];
const TRANSPORTS: [&str; 3] = ["inproc", "shm", "tcp"];

/// One case: an index into each dimension.
type Case = [usize; 7];

#[test]
fn every_pair_of_choices_gives_the_right_bits() {
    let algorithms = algorithms();
    let dimensions = [
        algorithms.len(),
        DType::ALL.len(),
        ReduceOp::ALL.len(),
        WORLDS.len(),
        COUNTS.len(),
        2,
        TRANSPORTS.len(),
    ];
    let (cases, pairs) = covering(dimensions, &mut Random(SEED));
    let mut groups: HashMap<(usize, usize, usize), Vec<Case>> = HashMap::new();
    for case in &cases {
        groups.entry((case[0], case[3], case[6])).or_default().push(*case);
    }
    println!("{} cases cover {pairs} pairs, seed {SEED:#x}, in {} groups", cases.len(), groups.len());
    assert!(cases.len() >= CASES);
    for ((algorithm, world, transport), cases) in groups {
        run_group(&algorithms[algorithm], WORLDS[world], TRANSPORTS[transport], cases);
    }
}

/// Every algorithm of all_reduce on one host, over every number of channels.
fn algorithms() -> Vec<String> {
    let all_reduces = |c: &Candidate| c.algorithm.collectives.contains(&Collective::AllReduce);
    let on_one_host = |c: &Candidate| c.algorithm.name != "hierarchical";
    Candidate::all().filter(all_reduces).filter(on_one_host).map(|c| c.to_string()).collect()
}

/// Runs the cases of one algorithm, world and transport on ranks that are threads.
fn run_group(algorithm: &str, world: usize, transport: &'static str, cases: Vec<Case>) {
    let (cases, name): (_, Arc<str>) = (Arc::new(cases), algorithm.into());
    let ranks: Vec<_> = communicators(world, transport)
        .into_iter()
        .map(|make| {
            let (cases, name) = (cases.clone(), name.clone());
            std::thread::spawn(move || {
                let comm = make();
                match comm.algorithm(&name) {
                    Ok(comm) => cases.iter().for_each(|case| run_case(&comm, &name, transport, case)),
                    Err(refused) => assert!(!is_served(&name, DType::F32, ReduceOp::Sum, world), "{refused}"),
                }
                comm.close().expect("the communicator closes");
            })
        })
        .collect();
    for rank in ranks {
        rank.join().expect("the rank ends well");
    }
}

type Make = Box<dyn FnOnce() -> Communicator + Send>;

fn communicators(world: usize, transport: &str) -> Vec<Make> {
    let mut settings = Settings { deadline: Duration::from_secs(60), ..Settings::default() };
    settings.transport = if transport == "tcp" { TransportChoice::Tcp } else { TransportChoice::Shm };
    if transport == "inproc" {
        let comms = Communicator::in_process_with(world, &settings).expect("a small world fits");
        return comms.into_iter().map(|comm| Box::new(move || comm) as Make).collect();
    }
    let port = TcpListener::bind("127.0.0.1:0").and_then(|l| l.local_addr()).expect("a free port").port();
    let make = |rank| {
        let placement = Placement {
            rank,
            world,
            local_rank: None,
            local_world: None,
            address: Address::loopback(port),
            secret: Token::derived(&["together"]).into(),
            source: "test",
        };
        let settings = settings.clone();
        Box::new(move || Communicator::connect(&placement, settings).expect("the ranks meet")) as Make
    };
    (0..world).map(make).collect()
}

fn run_case(comm: &Communicator, algorithm: &str, transport: &str, case: &Case) {
    let [_, dtype, op, _, count, in_place, _] = *case;
    let (dtype, count, world) = (DType::ALL[dtype], COUNTS[count], comm.world());
    let op = whole(ReduceOp::ALL[op], dtype);
    let name =
        format!("{algorithm} {dtype} {op} world {world} count {count} in place {in_place} {transport}");
    let kernel = Kernel::new(dtype, op, world);
    let input = contribution(dtype, op, comm.rank(), world, count);
    let output = DynBuffer { bytes: vec![0xa5; input.bytes.len()], dtype };
    let result = if in_place == 1 {
        comm.all_reduce_async(input, op).wait()
    } else {
        comm.all_reduce_into_async(input, output, op)
            .wait()
            .map(|(_, output)| output)
            .map_err(|e| hcomm::WorkError { error: e.error, buffer: e.buffer.1 })
    };
    match (kernel, result) {
        (Ok(kernel), Ok(result)) => {
            let expected = fold(&kernel, dtype, op, world, count);
            assert!(result.bytes == expected, "{name}: wrong on rank {}", comm.rank());
        }
        // Refused alike on all ranks: the type has no such reduction, or the algorithm would round 8-bit floats twice or
        // does not serve the world.
        (kernel, Err(refused)) => {
            assert!(matches!(refused.error, hcomm::Error::Refused(_)), "{name}: {}", refused.error);
            let is_served = is_served(algorithm, dtype, op, world);
            assert!(kernel.is_err() || !is_served, "{name}: {}", refused.error);
        }
        (Err(unsupported), Ok(_)) => panic!("{name}: ran, though {unsupported}"),
    }
}

/// Whether the algorithm has a plan for the call.
fn is_served(algorithm: &str, dtype: DType, op: ReduceOp, world: usize) -> bool {
    let request = Request::new(Collective::AllReduce, dtype, op, 1).with_algorithm(algorithm);
    Planner::new(Topology::single_host(world)).key(&request).is_ok()
}

/// The reduction with a factor that the type can have.
fn whole(op: ReduceOp, dtype: DType) -> ReduceOp {
    let is_whole = !matches!(
        dtype,
        DType::F16
            | DType::BF16
            | DType::F32
            | DType::F64
            | DType::F8E4M3
            | DType::F8E5M2
            | DType::Complex64
            | DType::Complex128
    );
    match op {
        ReduceOp::PreMulSum(_) if is_whole => ReduceOp::PreMulSum(Factor(2.0)),
        other => other,
    }
}

/// Small whole numbers that differ by rank and element; multiples of the world for averages.
fn contribution(dtype: DType, op: ReduceOp, rank: usize, world: usize, count: usize) -> DynBuffer {
    let step = match op {
        ReduceOp::Average => world as u64,
        ReduceOp::PreMulSum(_) => 2,
        _ => 1,
    };
    let small = |i: usize| (i as u64 * 7 + rank as u64 * 3) % 3 * step;
    let bytes = (0..count).flat_map(|i| element(dtype, small(i))).collect();
    DynBuffer { bytes, dtype }
}

/// A small whole number in a type's bytes.
fn element(dtype: DType, value: u64) -> Vec<u8> {
    let float = value as f32;
    match dtype {
        DType::F16 => half::f16::from_f32(float).to_le_bytes().to_vec(),
        DType::BF16 => half::bf16::from_f32(float).to_le_bytes().to_vec(),
        DType::F32 => float.to_le_bytes().to_vec(),
        DType::F64 => f64::from(float).to_le_bytes().to_vec(),
        DType::F8E4M3 => vec![small_float(value, 7, 3)],
        DType::F8E5M2 => vec![small_float(value, 15, 2)],
        DType::Complex64 => [float.to_le_bytes(), 0_f32.to_le_bytes()].concat(),
        DType::Complex128 => [f64::from(float).to_le_bytes(), 0_f64.to_le_bytes()].concat(),
        DType::Bool => vec![u8::from(value > 0)],
        integer => value.to_le_bytes()[..integer.size_bytes()].to_vec(),
    }
}

/// A whole number up to 14 as an 8-bit float of the given exponent bias and mantissa bits (cut, not rounded).
fn small_float(value: u64, bias: u32, mantissa: u32) -> u8 {
    if value == 0 {
        return 0;
    }
    let exponent = value.ilog2();
    let fraction = ((value << mantissa) >> exponent) & ((1 << mantissa) - 1);
    (((exponent + bias) << mantissa) as u64 | fraction) as u8
}

/// All ranks' contributions folded in rank order.
fn fold(kernel: &Kernel, dtype: DType, op: ReduceOp, world: usize, count: usize) -> Vec<u8> {
    let mut inputs: Vec<DynBuffer> =
        (0..world).map(|rank| contribution(dtype, op, rank, world, count)).collect();
    let mut output = DynBuffer { bytes: vec![0; count * dtype.size_bytes()], dtype };
    let operands: Vec<Operand> =
        inputs.iter_mut().map(|input| Operand { span: input.span(), first: true }).collect();
    kernel.fold(&operands, &[output.span()], true);
    output.bytes
}

/// A covering array: cases until every pair of choices occurs, then random ones. Returns the number of pairs too.
fn covering(dimensions: [usize; 7], random: &mut Random) -> (Vec<Case>, usize) {
    let mut open = std::collections::HashSet::new();
    for (a, b) in pairs() {
        open.extend((0..dimensions[a]).flat_map(|x| (0..dimensions[b]).map(move |y| (a, x, b, y))));
    }
    let pairs_in_all = open.len();
    let mut cases = Vec::new();
    while !open.is_empty() || cases.len() < CASES {
        let candidates = (0..20).map(|_| dimensions.map(|size| random.below(size)));
        let gain =
            |case: &Case| pairs().filter(|(a, b)| open.contains(&(*a, case[*a], *b, case[*b]))).count();
        let mut best = candidates.max_by_key(gain).expect("there are candidates");
        if let Some((a, x, b, y)) = open.iter().min().copied() {
            (best[a], best[b]) = (x, y);
        }
        pairs().for_each(|(a, b)| {
            open.remove(&(a, best[a], b, best[b]));
        });
        cases.push(best);
    }
    (cases, pairs_in_all)
}

fn pairs() -> impl Iterator<Item = (usize, usize)> {
    (0..7).flat_map(|a| (a + 1..7).map(move |b| (a, b)))
}

/// SplitMix64.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % limit as u64) as usize
    }
}
