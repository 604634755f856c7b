//! Plans from MSCCL and MSCCL++ files, run by ranks as threads: in place and apart where the file allows, at sizes within its range that the chunks do
//! and do not divide, several calls in flight at once. Results are exact; what a plan is not for is refused.
//!
//! The files are those of the public plan collections where they are at hand (../shared/data/msccl), and the small ones of the planner's tests.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use hcomm_engine::bindings::{Apart, Buffers, InPlace, InputOnly, OutputOnly};
use hcomm_engine::{Communicator, Work};
use hcomm_ops::{Rank, ReduceOp};
use hcomm_planner::shape::alias;
use hcomm_planner::{Collective, LaneKind, Plan, Request};

use crate::common::{OVER, element, on_all, within, world_with};

/// Calls in flight at once.
const AT_ONCE: usize = 3;

const POISON: i64 = -77;

fn read(path: &Path) -> Vec<Arc<Plan>> {
    let text = std::fs::read_to_string(path).expect("a readable file");
    let is_json = path.extension().is_some_and(|extension| extension == "json");
    let plans = if is_json { Plan::from_mscclpp(&text) } else { Plan::from_msccl(&text) };
    let plans = plans.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    plans.into_iter().map(Arc::new).collect()
}

/// The files of a folder, in order.
fn files(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let paths = entries.map(|entry| entry.expect("a readable folder").path());
    let mut paths: Vec<PathBuf> =
        paths.filter(|path| path.extension().is_some_and(|e| e == "xml" || e == "json")).collect();
    paths.sort();
    paths
}

fn own_mscclpp_files() -> Vec<PathBuf> {
    let files = files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../planner/tests/data/mscclpp"));
    assert_eq!(files.len(), 12);
    files
}

fn is_on_gpus(plan: &Plan) -> bool {
    plan.lanes.iter().any(|lane| matches!(lane.kind, LaneKind::Stream { .. }))
}

fn own_files() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../planner/tests/data/msccl")
}

/// One call on one rank.
#[derive(Clone, Copy, Debug)]
struct Case {
    count: usize,
    in_place: bool,
    op: ReduceOp,
}

/// What rank `rank` gives at `i`, and what comes out at `i`.
struct Data<'a> {
    plan: &'a Plan,
    case: Case,
}

impl Data<'_> {
    /// Elements of the rank's input and output; 0 where it has none.
    fn lengths(&self) -> [usize; 2] {
        let Plan { collective, rank, world, root, .. } = *self.plan;
        let request = Request::new(collective, hcomm_ops::DType::I64, self.case.op, self.case.count as u64);
        let blocks = request.with_root(root).blocks(rank, world);
        [blocks.input, blocks.output].map(|blocks| blocks.map_or(0, |b| b.iter().sum::<u64>() as usize))
    }

    fn input(&self) -> Vec<i64> {
        (0..self.lengths()[0]).map(|i| element(self.plan.rank, i)).collect()
    }

    fn expected(&self, i: usize) -> i64 {
        let Plan { collective, rank, root, .. } = *self.plan;
        let count = self.case.count;
        let (block, at) = (i.checked_div(count).unwrap_or(0), i.checked_rem(count).unwrap_or(0));
        match collective {
            Collective::AllReduce | Collective::Reduce | Collective::Barrier => self.folded(i),
            Collective::ReduceScatter => self.folded(rank * count + i),
            Collective::AllGather | Collective::Gather => element(block, at),
            Collective::Broadcast => element(root, i),
            Collective::Scatter => element(root, rank * count + i),
            Collective::AllToAll => element(block, rank * count + at),
        }
    }

    fn folded(&self, i: usize) -> i64 {
        let ranks = (0..self.plan.world as Rank).map(|rank| element(rank, i));
        match self.case.op {
            ReduceOp::Max => ranks.max().expect("there are ranks"),
            ReduceOp::Average => ranks.sum::<i64>() / self.plan.world as i64,
            ReduceOp::PreMulSum(factor) => ranks.map(|value| value * factor.0 as i64).sum(),
            _ => ranks.sum(),
        }
    }

    fn check(&self, output: &[i64]) {
        let wrong = (0..output.len()).find(|i| output[*i] != self.expected(*i));
        if let Some(i) = wrong {
            let (case, rank, name) = (self.case, self.plan.rank, &self.plan.algorithm);
            panic!(
                "{name}, rank {rank}, {case:?}: element {i} is {}, expected {}",
                output[i],
                self.expected(i)
            );
        }
    }
}

/// Submits a plan several times, then waits for all and checks them.
fn run(comm: &Communicator, plan: &Arc<Plan>, case: Case) {
    let data = Data { plan, case };
    let [input, output] = data.lengths();
    if case.in_place && input > 0 && output > 0 {
        let (whole, own) = in_place(plan, &data);
        let works = submitted(comm, plan, case.op, || InPlace(whole.clone()));
        works.into_iter().for_each(|work| data.check(&work.wait().unwrap()[own.clone()]));
    } else if output == 0 {
        let works = submitted(comm, plan, case.op, || InputOnly(data.input()));
        works.into_iter().for_each(|work| assert_eq!(work.wait().unwrap(), data.input()));
    } else if input == 0 {
        let works = submitted(comm, plan, case.op, || OutputOnly(vec![POISON; output]));
        works.into_iter().for_each(|work| data.check(&work.wait().unwrap()));
    } else {
        let works = submitted(comm, plan, case.op, || Apart(data.input(), vec![POISON; output]));
        for work in works {
            let (input, output) = work.wait().unwrap();
            assert_eq!(input, data.input(), "an input is only read");
            data.check(&output);
        }
    }
}

fn submitted<B: Buffers + 'static>(
    comm: &Communicator,
    plan: &Arc<Plan>,
    op: ReduceOp,
    buffers: impl Fn() -> B,
) -> Vec<Work<B>> {
    let submit = |_| {
        comm.submit(plan, op, buffers()).unwrap_or_else(|error| panic!("{}: {}", plan.algorithm, error.error))
    };
    (0..AT_ONCE).map(submit).collect()
}

/// The one buffer, and where in it the output lies.
fn in_place(plan: &Plan, data: &Data<'_>) -> (Vec<i64>, std::ops::Range<usize>) {
    let ([input, output], count) = (data.lengths(), data.case.count);
    let own = plan.rank * count;
    if input >= output {
        let at = if alias(plan.collective, plan.rank, 1, plan.rank as u32) == Some(0) && input > output {
            own
        } else {
            0
        };
        return (data.input(), at..at + output);
    }
    let mut whole = vec![POISON; output];
    whole[own..own + input].copy_from_slice(&data.input());
    (whole, 0..output)
}

/// Elements per block at which a plan is tried: at the ends of its range, and at counts that its chunks do not divide.
fn counts(plan: &Plan) -> Vec<usize> {
    let bytes_of = |count: usize| {
        let request = Request::new(plan.collective, hcomm_ops::DType::I64, ReduceOp::Sum, count as u64);
        request.full_bytes(plan.world).expect("even counts")
    };
    let per_element = bytes_of(1);
    let least = plan.bytes.min.div_ceil(per_element) as usize;
    let most = plan.bytes.max.map_or(usize::MAX, |max| (max / per_element) as usize);
    let parts = plan.parts as usize;
    let mut counts: Vec<usize> =
        [0, 1, parts - 1, parts, parts + 1, 4 * parts, 7 * parts + 3].iter().map(|n| least + n).collect();
    counts.push(most.min(least + 3001));
    counts.retain(|count| plan.bytes.contains(bytes_of(*count)));
    counts.sort_unstable();
    counts.dedup();
    counts
}

/// Runs a plan in every way that it claims, at all counts from number `first` on; returns how many cases that was.
fn run_all(plans: &[Arc<Plan>], settings: &[(&str, &str)], first: usize) -> usize {
    run_in(world_with(plans.len(), settings), plans, first)
}

fn run_in(world: Vec<Communicator>, plans: &[Arc<Plan>], first: usize) -> usize {
    let ops = match plans[0].collective.reduces() {
        true => {
            &[ReduceOp::Sum, ReduceOp::Average, ReduceOp::PreMulSum(hcomm_ops::Factor(3.0)), ReduceOp::Max][..]
        }
        false => &[ReduceOp::Sum],
    };
    let ran = on_all(world, |comm| {
        let plan = &plans[comm.rank()];
        let mut cases = 0;
        for (i, count) in counts(plan).into_iter().enumerate().skip(first) {
            for in_place in plan.overlay.modes() {
                run(&comm, plan, Case { count, in_place: *in_place, op: ops[(cases + i) % ops.len()] });
                cases += 1;
            }
        }
        comm.close().expect("closes well");
        cases
    });
    ran[0]
}

#[test]
fn public_files_run_as_they_say() {
    let files = files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/data/msccl"));
    if files.is_empty() {
        return println!("skipped: no ../shared/data/msccl here");
    }
    for file in files {
        let plans = read(&file);
        let start = std::time::Instant::now();
        let most = counts(&plans[0]).len() - 1;
        let tiled = [("HCOMM_TILE_BYTES", "512")];
        let cases = within(120, move || run_all(&plans, &[], 0) + run_all(&plans, &tiled, most));
        println!("{}: {cases} cases in {:?}", file.display(), start.elapsed());
        assert!(cases > 3, "{}: {cases}", file.display());
    }
}

#[test]
fn own_files_of_every_step_run_as_they_say() {
    let files = files(&own_files());
    assert!(files.len() > 8, "{files:?}");
    for file in files {
        for tile in ["0", "256"] {
            let plans = read(&file);
            let cases = within(120, move || run_all(&plans, &[("HCOMM_TILE_BYTES", tile)], 0));
            assert!(cases > 2, "{}: {cases}", file.display());
        }
    }
}

#[test]
fn mscclpp_files_run_as_they_say_over_every_transport() {
    within(240, || {
        for file in own_mscclpp_files() {
            let plans = read(&file);
            if is_on_gpus(&plans[0]) {
                continue;
            }
            let mut cases = run_all(&plans, &[("HCOMM_TILE_BYTES", "256")], 0);
            cases += OVER.iter().map(|over| run_in(over.world(plans.len()), &plans, 0)).sum::<usize>();
            println!("{}: {cases} cases", file.display());
            assert!(cases > 4 * 3, "{}: {cases}", file.display());
        }
    });
}

#[test]
fn a_switch_of_gpus_is_refused_by_name() {
    let files = own_mscclpp_files().into_iter().map(|file| read(&file));
    let switched: Vec<_> = files.filter(|plans| is_on_gpus(&plans[0])).collect();
    assert_eq!(switched.len(), 3);
    for plans in switched {
        on_all(world_with(plans.len(), &[]), |comm| {
            let buffers = Apart(vec![0_i64; 64], vec![0_i64; 64 * plans.len()]);
            let refused = comm.submit(&plans[comm.rank()], ReduceOp::Sum, buffers).expect_err("no CUDA here");
            let text = refused.error.to_string();
            assert!(text.contains("stream of gpu") && text.contains("CUDA"), "{text}");
        });
    }
}

/// hcomm's own plans, lowered to MSCCL's steps and read back.
#[test]
fn exported_plans_run_as_the_ones_they_were() {
    let topology = hcomm_planner::Topology::single_host(5);
    let choice = hcomm_planner::Choice::new(&topology, hcomm_planner::Costs::shm());
    let mut cases = 0;
    for algorithm in hcomm_planner::algorithm::ALGORITHMS {
        for collective in algorithm.collectives {
            let count = if *collective == Collective::Barrier { 0 } else { 100 };
            let request = Request::new(*collective, hcomm_ops::DType::I64, ReduceOp::Sum, count);
            let request = request.with_algorithm(algorithm.name);
            let Ok(plans) = hcomm_planner::compile_all(&request, &topology, &choice) else { continue };
            let Ok(text) = hcomm_planner::export::to_msccl(&plans) else { continue };
            let read: Vec<Arc<Plan>> =
                Plan::from_msccl(&text).expect("what was written").into_iter().map(Arc::new).collect();
            cases += within(120, move || run_all(&read, &[("HCOMM_TILE_BYTES", "256")], 0));
        }
    }
    println!("exported plans: {cases} cases");
    assert!(cases > 200, "{cases}");
}

/// What every rank says to a call that its plan is not for.
fn refusal<B: Buffers + 'static>(
    name: &str,
    count: usize,
    buffers: impl Fn(&Data<'_>) -> B + Sync,
) -> String {
    let plans = read(&own_files().join(name));
    let said = on_all(world_with(plans.len(), &[]), |comm| {
        let plan = &plans[comm.rank()];
        let case = Case { count, in_place: false, op: ReduceOp::Sum };
        let refused = comm.submit(plan, ReduceOp::Sum, buffers(&Data { plan, case }));
        refused.err().map(|refused| refused.error.to_string()).unwrap_or_else(|| panic!("{name} is taken"))
    });
    assert!(said.iter().all(|words| *words == said[0]), "{said:?}");
    said[0].clone()
}

#[test]
fn what_a_plan_is_not_for_is_refused_by_both_names() {
    let apart = |data: &Data<'_>| Apart(data.input(), vec![POISON; data.lengths()[1]]);
    let in_place = |data: &Data<'_>| InPlace(data.input());
    assert_eq!(
        refusal("all_reduce_pairs_3.xml", 6, apart),
        "the plan 'all_reduce_pairs_3' is right only in place, and this call is out of place"
    );
    assert_eq!(
        refusal("all_to_all_2.xml", 5, in_place),
        "the plan 'all_to_all_2' is right only out of place, and this call is in place"
    );
    assert_eq!(
        refusal("all_reduce_pairs_3.xml", 5, in_place),
        "the plan 'all_reduce_pairs_3' is for 48 to 65536 bytes, and this call has 40"
    );
    assert_eq!(
        refusal("all_reduce_pairs_3.xml", 8193, in_place),
        "the plan 'all_reduce_pairs_3' is for 48 to 65536 bytes, and this call has 65544"
    );
    let joined = |data: &Data<'_>| hcomm_engine::bindings::Joined(vec![data.input(), data.input()]);
    assert_eq!(
        refusal("all_to_all_2.xml", 5, joined),
        "the plan 'all_to_all_2' is right only out of place, and this call is in place"
    );
}
