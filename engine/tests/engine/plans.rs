//! The plans' matrix: every candidate x collective x world x count x in place or not, and again with a tile so small that the loop runs;
//! then the v-variants, empty blocks included. Data differs in every element and rank, outputs are poisoned, results are exact.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use hcomm_engine::Communicator;
use hcomm_engine::bindings::InPlace;
use hcomm_ops::{DType, ReduceOp};
use hcomm_planner::choose::Candidate;
use hcomm_planner::request::Counts;
use hcomm_planner::{Collective, Request};

use crate::common::{data, on_all, within, world_with};

const WORLDS: [usize; 7] = [1, 2, 3, 4, 5, 7, 8];
const LARGE: usize = 100_003;
const LONGEST: usize = 8 * LARGE;

/// Every rank's input, and the sum of the first inputs by how many: computed once, compared in whole slices.
struct Data {
    inputs: Vec<Vec<i64>>,
    sums: Vec<Vec<i64>>,
    poison: Vec<i64>,
}

static DATA: LazyLock<Data> = LazyLock::new(|| {
    let inputs: Vec<Vec<i64>> = (0..8).map(|rank| data(rank, LONGEST)).collect();
    let mut sums: Vec<Vec<i64>> = vec![vec![0; LONGEST]];
    for input in &inputs {
        let last = &sums[sums.len() - 1];
        sums.push(last.iter().zip(input).map(|(a, b)| a + b).collect());
    }
    Data { inputs, sums, poison: vec![-77; LONGEST] }
});

/// One case on one rank.
#[derive(Clone, Copy, Debug)]
struct Case<'a> {
    algorithm: &'a str,
    collective: Collective,
    count: usize,
    in_place: bool,
    root: usize,
}

#[test]
fn every_algorithm_collective_world_and_count_in_place_and_not() {
    let wanted = |world: usize, count: usize| count < LARGE || [2, 3, 8].contains(&world);
    let cases = within(300, move || run_matrix(&[], wanted));
    println!("plans: {cases} cases");
    assert!(cases > 4000, "{cases}");
}

#[test]
fn again_with_tiles_of_256_bytes() {
    let wanted = |world: usize, count: usize| count < LARGE || world == 3;
    let cases = within(300, move || run_matrix(&[("HCOMM_TILE_BYTES", "256")], wanted));
    println!("plans with small tiles: {cases} cases");
    assert!(cases > 3600, "{cases}");
}

fn run_matrix(settings: &[(&str, &str)], wanted: impl Fn(usize, usize) -> bool + Copy + Sync) -> usize {
    let topology = two_hosts();
    let mut cases = 0;
    for world in WORLDS {
        for candidate in Candidate::all() {
            let mut settings = settings.to_vec();
            let file = topology.path(world);
            if candidate.algorithm.name == "hierarchical" {
                let Some(file) = &file else { continue };
                settings.push(("HCOMM_TOPOLOGY", file));
            }
            let barriers = AtomicUsize::new(0);
            let ran = on_all(world_with(world, &settings), |comm| match pinned(&comm, &candidate) {
                Some(comm) => run_rank(&comm, &candidate, &barriers, wanted),
                None => 0,
            });
            assert!(ran.iter().all(|n| *n == ran[0]), "{ran:?}");
            cases += ran[0];
        }
    }
    cases
}

/// Runs all cases of an algorithm on one rank; returns how many.
fn run_rank(
    comm: &Communicator,
    candidate: &Candidate,
    barriers: &AtomicUsize,
    wanted: impl Fn(usize, usize) -> bool,
) -> usize {
    let world = comm.world();
    let mut counts = vec![0, 1, 2, world - 1, world + 1, 1000, LARGE];
    counts.sort_unstable();
    counts.dedup();
    let (mut cases, algorithm) = (0, candidate.to_string());
    for &collective in candidate.algorithm.collectives {
        for &count in counts.iter().filter(|count| wanted(world, **count)) {
            for in_place in [false, true] {
                let root = if collective.is_rooted() { (count + cases) % world } else { 0 };
                let case = Case { algorithm: &algorithm, collective, count, in_place, root };
                if is_served(comm, &case) {
                    run_case(comm, &case, barriers);
                    cases += 1;
                }
            }
        }
    }
    comm.close().expect("closes well");
    cases
}

/// Whether the algorithm serves the case; the planner's tests see to it that it refuses only what it must.
fn is_served(comm: &Communicator, case: &Case<'_>) -> bool {
    let count = if case.collective == Collective::Barrier { 0 } else { case.count as u64 };
    let request = Request::new(case.collective, DType::I64, ReduceOp::Sum, count).with_root(case.root);
    let is_repeat = case.collective == Collective::Barrier && case.in_place;
    !is_repeat && comm.plan(&request.with_algorithm(case.algorithm)).is_ok()
}

fn run_case(comm: &Communicator, case: &Case<'_>, barriers: &AtomicUsize) {
    let Case { collective, count, in_place, root, .. } = *case;
    let (rank, world) = (comm.rank(), comm.world());
    let at_root = rank == root;
    let Data { inputs, sums, poison } = &*DATA;
    let (input, sum) = (&inputs[rank], &sums[world]);
    let mut whole = poison[..count * world].to_vec();
    let mut block = poison[..count].to_vec();
    let own = rank * count..(rank + 1) * count;
    let is_right = |right: bool| assert!(right, "rank {rank} of {world}: {case:?}");
    match (collective, in_place) {
        (Collective::AllReduce, false) => {
            comm.all_reduce_into(&input[..count], &mut block, ReduceOp::Sum).unwrap();
            is_right(block == sum[..count]);
        }
        (Collective::AllReduce, true) => {
            block.copy_from_slice(&input[..count]);
            comm.all_reduce(&mut block, ReduceOp::Sum).unwrap();
            is_right(block == sum[..count]);
        }
        (Collective::AllGather, _) => {
            if in_place {
                whole[own].copy_from_slice(&input[..count]);
                comm.all_gather_in_place(&mut whole).unwrap();
            } else {
                comm.all_gather(&input[..count], &mut whole).unwrap();
            }
            is_right((0..world).all(|r| whole[r * count..(r + 1) * count] == inputs[r][..count]));
        }
        (Collective::ReduceScatter, false) => {
            comm.reduce_scatter(&input[..count * world], &mut block, ReduceOp::Sum).unwrap();
            is_right(block == sum[own]);
        }
        (Collective::ReduceScatter, true) => {
            whole.copy_from_slice(&input[..count * world]);
            comm.reduce_scatter_in_place(&mut whole, ReduceOp::Sum).unwrap();
            is_right(whole[own.clone()] == sum[own]);
        }
        (Collective::Broadcast, _) => {
            if at_root {
                block.copy_from_slice(&input[..count]);
            }
            comm.broadcast(&mut block, root).unwrap();
            is_right(block == inputs[root][..count]);
        }
        (Collective::Reduce, false) => {
            comm.reduce_into(&input[..count], at_root.then_some(&mut block[..]), ReduceOp::Sum, root)
                .unwrap();
            is_right(if at_root { block == sum[..count] } else { block == poison[..count] });
        }
        (Collective::Reduce, true) => {
            block.copy_from_slice(&input[..count]);
            comm.reduce(&mut block, ReduceOp::Sum, root).unwrap();
            is_right(!at_root || block == sum[..count]);
        }
        (Collective::Gather, _) => {
            gather(comm, case, &mut whole);
            is_right(!at_root || (0..world).all(|r| whole[r * count..(r + 1) * count] == inputs[r][..count]));
        }
        (Collective::Scatter, _) => {
            scatter(comm, case, &mut whole, &mut block);
            let result = if in_place && at_root { &whole[own.clone()] } else { &block[..] };
            is_right(*result == inputs[root][own]);
        }
        (Collective::AllToAll, _) => {
            if in_place {
                whole.copy_from_slice(&input[..count * world]);
                comm.all_to_all_in_place(&mut whole).unwrap();
            } else {
                comm.all_to_all(&input[..count * world], &mut whole).unwrap();
            }
            is_right((0..world).all(|r| whole[r * count..(r + 1) * count] == inputs[r][own.clone()]));
        }
        (Collective::Barrier, _) => {
            let mine = barriers.fetch_add(1, Ordering::SeqCst);
            comm.barrier().unwrap();
            // All ranks have come to this barrier: no fewer than make its round full.
            is_right(barriers.load(Ordering::SeqCst) >= (mine / world + 1) * world);
        }
    }
}

fn gather(comm: &Communicator, case: &Case<'_>, whole: &mut Vec<i64>) {
    let (rank, count, root) = (comm.rank(), case.count, case.root);
    let input = &DATA.inputs[rank][..count];
    if case.in_place && rank == root {
        whole[rank * count..(rank + 1) * count].copy_from_slice(input);
        submit_in_place(comm, case, whole);
    } else {
        comm.gather(input, (rank == root).then_some(&mut whole[..]), root).unwrap();
    }
}

fn scatter(comm: &Communicator, case: &Case<'_>, whole: &mut Vec<i64>, block: &mut [i64]) {
    let (rank, root) = (comm.rank(), case.root);
    let input = &DATA.inputs[rank][..whole.len()];
    if case.in_place && rank == root {
        whole.copy_from_slice(input);
        submit_in_place(comm, case, whole);
    } else {
        comm.scatter((rank == root).then_some(input), block, root).unwrap();
    }
}

/// In place at the root: there is no call of its own for that, but a plan can be submitted so.
fn submit_in_place(comm: &Communicator, case: &Case<'_>, whole: &mut Vec<i64>) {
    let request = Request::new(case.collective, DType::I64, ReduceOp::Sum, case.count as u64);
    let plan = comm.plan(&request.with_root(case.root).with_algorithm(case.algorithm)).unwrap();
    let buffer = std::mem::take(whole);
    *whole = comm.submit(&plan, ReduceOp::Sum, InPlace(buffer)).unwrap().wait().unwrap();
}

/// A handle that calls by the candidate, unless that can do nothing here.
fn pinned(comm: &Communicator, candidate: &Candidate) -> Option<Communicator> {
    comm.algorithm(&candidate.to_string()).ok()
}

/// Topology files that put half of the ranks on each of two hosts.
struct TwoHosts(std::path::PathBuf);

fn two_hosts() -> TwoHosts {
    static MADE: AtomicUsize = AtomicUsize::new(0);
    let name = format!("hcomm-plans-{}-{}", std::process::id(), MADE.fetch_add(1, Ordering::Relaxed));
    let folder = std::env::temp_dir().join(name);
    std::fs::create_dir_all(&folder).expect("a temporary folder");
    TwoHosts(folder)
}

impl TwoHosts {
    /// A file for so many ranks, one more on the first host where they cannot be halved; `None` for fewer than three.
    fn path(&self, world: usize) -> Option<String> {
        if world < 3 {
            return None;
        }
        let half = world.div_ceil(2);
        let ranks = |ranks: std::ops::Range<usize>| {
            let list: Vec<String> = ranks.map(|rank| format!("{{\"rank\": {rank}}}")).collect();
            list.join(", ")
        };
        let text = format!(
            r#"{{"hosts": [{{"name": "a", "ranks": [{}]}}, {{"name": "b", "ranks": [{}]}}]}}"#,
            ranks(0..half),
            ranks(half..world)
        );
        let path = self.0.join(format!("{world}.json"));
        std::fs::write(&path, text).expect("a small file");
        Some(path.display().to_string())
    }
}

impl Drop for TwoHosts {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Lengths of the blocks of a v-call, by block: none, some empty, one much longer than the others.
fn blocks(world: usize, pattern: usize) -> Vec<u64> {
    let length = |block: usize| match pattern {
        0 => 0,
        1 => (block % 3) as u64 * 5,
        2 => (block * block * 37 + 1) as u64,
        _ if block == world / 2 => 20_011,
        _ => (block % 2) as u64,
    };
    (0..world).map(length).collect()
}

const PATTERNS: usize = 4;

#[test]
fn v_variants_with_empty_and_very_different_blocks() {
    let cases = within(120, || {
        let settings: [&[(&str, &str)]; 2] = [&[], &[("HCOMM_TILE_BYTES", "256")]];
        let (topology, mut cases) = (two_hosts(), 0);
        for world in WORLDS {
            for candidate in Candidate::all() {
                let file = topology.path(world).filter(|_| candidate.algorithm.name == "hierarchical");
                if candidate.algorithm.name == "hierarchical" && file.is_none() {
                    continue;
                }
                for settings in settings {
                    let mut settings = settings.to_vec();
                    settings.extend(file.iter().map(|file| ("HCOMM_TOPOLOGY", file.as_str())));
                    let ran = on_all(world_with(world, &settings), |comm| {
                        pinned(&comm, &candidate).map_or(0, |comm| run_v_rank(&comm, &candidate))
                    });
                    cases += ran[0];
                }
            }
        }
        cases
    });
    println!("v-variants: {cases} cases");
    assert!(cases > 300, "{cases}");
}

fn run_v_rank(comm: &Communicator, candidate: &Candidate) -> usize {
    let (mut cases, algorithm) = (0, candidate.to_string());
    for &collective in candidate.algorithm.collectives {
        for pattern in 0..PATTERNS {
            let blocks = blocks(comm.world(), pattern);
            if is_v_served(comm, collective, &algorithm, &blocks) {
                run_v_case(comm, collective, &blocks, pattern % comm.world());
                cases += 1;
            }
        }
    }
    comm.close().expect("closes well");
    cases
}

fn is_v_served(comm: &Communicator, collective: Collective, algorithm: &str, blocks: &[u64]) -> bool {
    let counts = match collective {
        Collective::AllGather | Collective::ReduceScatter => Counts::Listed(blocks.into()),
        Collective::Gather if comm.rank() == 0 => {
            Counts::Local { input: [blocks[0]].into(), output: blocks.into() }
        }
        Collective::Gather => Counts::Local { input: [blocks[0]].into(), output: [].into() },
        Collective::Scatter if comm.rank() == 0 => {
            Counts::Local { input: blocks.into(), output: [blocks[0]].into() }
        }
        Collective::Scatter => Counts::Local { input: [].into(), output: [blocks[0]].into() },
        Collective::AllToAll => Counts::Local { input: blocks.into(), output: blocks.into() },
        _ => return false,
    };
    let request = Request { counts, ..Request::new(collective, DType::I64, ReduceOp::Sum, 0) };
    comm.plan(&request.with_algorithm(algorithm)).is_ok()
}

fn run_v_case(comm: &Communicator, collective: Collective, blocks: &[u64], root: usize) {
    let (rank, world) = (comm.rank(), comm.world());
    let Data { inputs, sums, poison } = &*DATA;
    let lengths: Vec<usize> = blocks.iter().map(|b| *b as usize).collect();
    let start = |block: usize| lengths[..block].iter().sum::<usize>();
    let (total, own) = (start(world), start(rank)..start(rank + 1));
    let mut whole = poison[..total].to_vec();
    let mut block = poison[..lengths[rank]].to_vec();
    let at_root = rank == root;
    let is_right =
        |right: bool| assert!(right, "rank {rank} of {world}: {collective} {blocks:?}, root {root}");
    let is_gathered =
        |whole: &[i64]| (0..world).all(|r| whole[start(r)..start(r + 1)] == inputs[r][..lengths[r]]);
    match collective {
        Collective::AllGather => {
            comm.all_gather_v(&inputs[rank][..lengths[rank]], &mut whole, blocks).unwrap();
            is_right(is_gathered(&whole));
        }
        Collective::ReduceScatter => {
            comm.reduce_scatter_v(&inputs[rank][..total], &mut block, blocks, ReduceOp::Sum).unwrap();
            is_right(block == sums[world][own]);
        }
        Collective::Gather => {
            let output = at_root.then_some((&mut whole[..], blocks));
            comm.gather_v(&inputs[rank][..lengths[rank]], output, root).unwrap();
            is_right(!at_root || is_gathered(&whole));
        }
        Collective::Scatter => {
            let input = at_root.then_some((&inputs[root][..total], blocks));
            comm.scatter_v(input, &mut block, root).unwrap();
            is_right(block == inputs[root][own]);
        }
        _ => {
            // Rank i sends block (i + j) mod world to rank j, so that what is sent and what is received differ.
            let length = |i: usize, j: usize| lengths[(i + j) % world];
            let sent: Vec<u64> = (0..world).map(|j| length(rank, j) as u64).collect();
            let begin = |i: usize, j: usize| (0..j).map(|k| length(i, k)).sum::<usize>();
            comm.all_to_all_v(&inputs[rank][..total], &sent, &mut whole, &sent).unwrap();
            let mut at = 0;
            for i in 0..world {
                let expected = &inputs[i][begin(i, rank)..begin(i, rank) + length(i, rank)];
                is_right(whole[at..at + expected.len()] == *expected);
                at += expected.len();
            }
        }
    }
}
