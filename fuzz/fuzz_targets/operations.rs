//! Lists of operations on the executor over the simulated network: whatever is called, in whatever order ranks and operations are
//! driven, all of it completes and is right.
#![no_main]

use std::sync::Arc;

use hcomm_engine::bindings::{Binding, Buffers, InPlace};
use hcomm_engine::call::Call;
use hcomm_engine::execution::{Execution, PORTS, Progress, WINDOWS};
use hcomm_ops::{DType, ReduceOp};
use hcomm_planner::{Collective, Planner, Request, Topology};
use hcomm_transports::sim::{SimConfig, SimNet};
use hcomm_transports::{AnyWire, WireConfig};
use libfuzzer_sys::fuzz_target;

/// Rounds after which a program that has not ended counts as stuck.
const PATIENCE: usize = 200_000;

fuzz_target!(|program: &[u8]| {
    let Some((&head, rest)) = program.split_first() else { return };
    let world = 1 + usize::from(head % 5);
    let mut bytes = rest.iter().copied().chain(std::iter::repeat(7));
    let calls: Vec<(bool, u64)> =
        rest.iter().take(WINDOWS as usize).map(|b| (b % 2 == 0, u64::from(*b) * 3)).collect();
    let wire = WireConfig { ports: PORTS, depth: 2, slot_bytes: 256 };
    let seed = rest.iter().fold(u64::from(head), |seed, b| seed.wrapping_mul(31).wrapping_add(u64::from(*b)));
    let (mut net, mut wires) = SimNet::new(world, wire, SimConfig::default(), seed);
    let mut ranks: Vec<Vec<Flight>> = (0..world).map(|rank| start(rank, world, &calls)).collect();
    for _ in 0..PATIENCE {
        let rank = usize::from(bytes.next().unwrap_or(0)) % world;
        let first = usize::from(bytes.next().unwrap_or(0));
        let moved = advance(&mut ranks[rank], first, &mut wires[rank]);
        if ranks.iter().flatten().all(|flight| flight.ended) {
            return check(&ranks, world);
        }
        if !moved && !net.advance_to_next_event() {
            // Nothing under way: let every rank look before the next byte decides.
            for (flights, wires) in ranks.iter_mut().zip(&mut wires) {
                advance(flights, 0, wires);
            }
        }
    }
    panic!("{calls:?} in a world of {world} does not end");
});

/// An operation of one rank and its buffer.
struct Flight {
    execution: Execution,
    buffer: InPlace<Vec<i64>>,
    is_sum: bool,
    ended: bool,
}

fn start(rank: usize, world: usize, calls: &[(bool, u64)]) -> Vec<Flight> {
    let planner = Planner::new(Topology::single_host(world));
    let flight = |(number, (is_sum, count)): (usize, &(bool, u64))| {
        let collective = if *is_sum { Collective::AllReduce } else { Collective::AllToAll };
        let request = Request::new(collective, DType::I64, ReduceOp::Sum, *count);
        let plan = planner.compile(&request, rank).expect("every world has a plan");
        let call = Call::bind(request, Arc::new(plan), 256).expect("sums of i64 exist");
        let elements = if *is_sum { *count as usize } else { *count as usize * world };
        let mut buffer = InPlace((0..elements).map(|i| element(rank, i)).collect::<Vec<i64>>());
        let spans = buffer.spans(Binding { collective, rank, world, root: 0 }).expect("in place");
        let mut execution = Execution::new(Arc::new(call), number as u64);
        execution.bind(&spans);
        Flight { execution, buffer, is_sum: *is_sum, ended: false }
    };
    calls.iter().enumerate().map(flight).collect()
}

/// Drives a rank's operations for a round, from one of them on. Returns whether anything moved.
fn advance(flights: &mut [Flight], first: usize, wires: &mut [Option<AnyWire>]) -> bool {
    let mut moved = false;
    for at in 0..flights.len() {
        let flight = &mut flights[(first + at) % flights.len()];
        if flight.ended {
            continue;
        }
        match flight.execution.advance_round(wires, &mut ()) {
            Progress::Finished => (flight.ended, moved) = (true, true),
            Progress::Moved => moved = true,
            Progress::Blocked => {}
            Progress::Differs { peer, .. } => panic!("a message of rank {peer} is taken for another call's"),
        }
    }
    moved
}

fn check(ranks: &[Vec<Flight>], world: usize) {
    for (rank, flights) in ranks.iter().enumerate() {
        for flight in flights {
            let block = flight.buffer.0.len() / world;
            for (i, value) in flight.buffer.0.iter().enumerate() {
                let expected = match flight.is_sum {
                    true => (0..world).map(|r| element(r, i)).sum(),
                    false => element(i / block, rank * block + i % block),
                };
                assert_eq!(*value, expected, "rank {rank}, element {i}");
            }
        }
    }
}

fn element(rank: usize, i: usize) -> i64 {
    (rank as i64 + 1) * 1_000_003 + i as i64 * 7
}
