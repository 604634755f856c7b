//! Deterministic reductions are the left fold over the ranks in the accumulate type, rounded once: on data that shows every
//! reordering and every further rounding, whatever the algorithm, the size, the tiles and the transport.

use half::bf16;
use hcomm_engine::bindings::Apart;
use hcomm_engine::settings::Settings;
use hcomm_engine::{Communicator, Error, Refused};
use hcomm_ops::{DType, ReduceOp};
use hcomm_planner::choose::Candidate;
use hcomm_planner::export::json;
use hcomm_planner::verify::FoldOrder;
use hcomm_planner::{Choice, Collective, Costs, Plan, Request, Topology, compile_all, import};

use crate::common::{OVER, Over, on_all, within, world_with};

const COUNTS: [usize; 4] = [1, 3, 257, 40_001];

/// Numbers of both signs over twenty binary orders of magnitude, so that sums of them round at almost every step; in every
/// fourth place ranks 1 and 2 cancel and rank 0 is too small to show beside them.
fn number(rank: usize, i: usize) -> f32 {
    let seed = (rank as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut x = seed ^ (i as u64 + 1).wrapping_mul(0xd1b5_4a32_d192_ed03);
    x = (x ^ (x >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let large = f32::from(u16::try_from(i % 1000 + 1).expect("small")) * 1e12;
    match (i % 4, rank) {
        (0, 0) => 1.0 + (x % 100) as f32 / 128.0,
        (0, 1) => large,
        (0, 2) => -large,
        _ => f32::from_bits(((x >> 63) << 31 | (117 + (x >> 40) % 20) << 23 | x & 0x7f_ffff) as u32),
    }
}

/// A type of the test: how it rounds, and the fold that is asked for.
trait Number: hcomm_ops::Element + PartialEq + std::fmt::Debug {
    fn of(x: f32) -> Self;
    fn wide(self) -> f32;
}

impl Number for f32 {
    fn of(x: f32) -> Self {
        x
    }
    fn wide(self) -> f32 {
        self
    }
}

impl Number for bf16 {
    fn of(x: f32) -> Self {
        bf16::from_f32(x)
    }
    fn wide(self) -> f32 {
        self.to_f32()
    }
}

fn input<T: Number>(rank: usize, count: usize) -> Vec<T> {
    (0..count).map(|i| T::of(number(rank, i))).collect()
}

/// round(left fold over the ranks in f32), and the same with each partial rounded and with the ranks in another order.
fn folds<T: Number>(world: usize, count: usize) -> [Vec<T>; 3] {
    let at = |rank, i| T::of(number(rank, i)).wide();
    let fold = |i, ranks: &mut dyn Iterator<Item = usize>, keep: fn(f32) -> f32| {
        let first = at(ranks.next().expect("a world has ranks"), i);
        T::of(ranks.fold(first, |sum, rank| keep(sum + at(rank, i))))
    };
    let exact = (0..count).map(|i| fold(i, &mut (0..world), |x| x)).collect();
    let rounded = (0..count).map(|i| fold(i, &mut (0..world), |x| T::of(x).wide())).collect();
    let turned = (0..count).map(|i| fold(i, &mut (0..world).rev(), |x| x)).collect();
    [exact, rounded, turned]
}

fn check<T: Number>(comm: &Communicator, count: usize) {
    let (rank, world) = (comm.rank(), comm.world());
    let [expected, ..] = folds::<T>(world, count * world);
    let mut buffer = input::<T>(rank, count);
    comm.all_reduce(&mut buffer, ReduceOp::Sum).expect("all_reduce");
    assert!(buffer == expected[..count], "all_reduce of {count}");

    let whole = input::<T>(rank, count * world);
    let mut block = vec![T::of(-7.0); count];
    comm.reduce_scatter(&whole, &mut block, ReduceOp::Sum).expect("reduce_scatter");
    assert!(block == expected[count * rank..][..count], "reduce_scatter of {count}");

    let root = count % world;
    let mut buffer = input::<T>(rank, count);
    comm.reduce(&mut buffer, ReduceOp::Sum, root).expect("reduce");
    assert!(rank != root || buffer == expected[..count], "reduce of {count} to {root}");
}

#[test]
fn the_data_shows_reordering_and_rounding() {
    for world in [3, 4, 5] {
        let [exact, _, turned] = folds::<f32>(world, 257);
        assert!(exact != turned, "f32 in a world of {world}");
        let [exact, rounded, turned] = folds::<bf16>(world, 257);
        assert!(exact != rounded && exact != turned, "bf16 in a world of {world}");
    }
}

#[test]
fn every_algorithm_that_serves_gives_the_left_fold() {
    let served = within(120, || {
        let mut served = 0;
        for world in [2, 3, 4, 5] {
            for tile in ["0", "256"] {
                let ran = on_all(world_with(world, &[("HCOMM_TILE_BYTES", tile)]), |comm| {
                    let comm = comm.deterministic();
                    COUNTS.iter().for_each(|count| {
                        check::<f32>(&comm, *count);
                        check::<bf16>(&comm, *count);
                    });
                    Candidate::all().map(|candidate| pinned(&comm, &candidate.to_string())).sum::<usize>()
                });
                assert!(ran.iter().all(|n| *n == ran[0]), "{ran:?}");
                served += ran[0];
            }
        }
        served
    });
    println!("deterministic: {served} pinned calls");
    assert!(served >= 4 * 2 * COUNTS.len() * 4, "{served}");
}

/// Runs all_reduce by an algorithm, through submitted plans; returns how many calls it served.
fn pinned(comm: &Communicator, algorithm: &str) -> usize {
    let mut served = 0;
    for count in COUNTS {
        served += usize::from(pinned_call::<f32>(comm, algorithm, count));
        served += usize::from(pinned_call::<bf16>(comm, algorithm, count));
    }
    served
}

fn pinned_call<T: Number>(comm: &Communicator, algorithm: &str, count: usize) -> bool {
    let request = Request::new(Collective::AllReduce, T::DTYPE, ReduceOp::Sum, count as u64);
    let Ok(plan) = comm.plan(&request.deterministic().with_algorithm(algorithm)) else { return false };
    let input = input::<T>(comm.rank(), count);
    let output = vec![T::of(-7.0); count];
    let work = comm.submit(&plan, ReduceOp::Sum, Apart(input, output)).expect("a good plan");
    let (_, output) = work.wait().expect("no failure");
    let [expected, ..] = folds::<T>(comm.world(), count);
    assert!(output == expected, "{algorithm} of {count}");
    true
}

#[test]
fn every_transport_gives_the_same_bits() {
    within(120, || {
        for over in OVER.into_iter().filter(|over| *over != Over::Inproc) {
            on_all(over.world(3), |comm| {
                let comm = comm.deterministic();
                check::<f32>(&comm, 40_001);
                check::<bf16>(&comm, 257);
            });
        }
    });
}

#[test]
fn an_algorithm_that_cannot_is_refused_with_those_that_can() {
    let pinned = [("HCOMM_ALGORITHM", "all_reduce=ring"), ("HCOMM_DETERMINISTIC", "true")];
    let settings = Settings::from_pairs(pinned).expect("legal settings");
    let refused =
        Communicator::in_process_with(4, &settings).map(|_| ()).expect_err("a ring rounds on its way");
    assert!(refused.to_string().contains("does not fold in rank order"), "{refused}");
    on_all(world_with(4, &[]), |comm| {
        let called = comm
            .algorithm("ring")
            .and_then(|comm| comm.deterministic().all_reduce(&mut [1.0_f32; 8], ReduceOp::Sum));
        let error = called.expect_err("a ring rounds on its way");
        assert!(matches!(error, Error::Refused(Refused::Plan(_))), "{error:?}");
        let text = error.to_string();
        for words in ["ring", "rank order", "one_shot", "two_shot", "deterministic"] {
            assert!(text.contains(words), "{text:?} lacks {words:?}");
        }
    });
}

#[test]
fn a_plan_that_does_not_fold_in_rank_order_is_refused_where_the_call_is_deterministic() {
    let of = |algorithm: &str| {
        let topology = Topology::single_host(3);
        let request = Request::new(Collective::AllReduce, DType::F32, ReduceOp::Sum, 3);
        let choice = Choice::new(&topology, Costs::shm());
        compile_all(&request.with_algorithm(algorithm), &topology, &choice).expect("a plan of 3")
    };
    let imported = |plans: &[Plan]| import::read(&json::write(plans)).expect("what was written").1;
    let with = |plans: &[Plan]| Plan::from_json(&plans[0].to_json()).expect("what was written").proved.order;
    assert_eq!(with(&of("one_shot")), FoldOrder::Any, "nothing is known of a slice by itself");
    for (plans, refused) in [
        (of("ring"), Some("in some order")),
        (imported(&of("ring")), Some("in some order")),
        (imported(&of("one_shot")), None),
        (of("chain"), None),
        #[cfg(feature = "msccl")]
        (through_msccl(&of("chain")), None),
    ] {
        on_all(world_with(3, &[("HCOMM_DETERMINISTIC", "true")]), |comm| {
            let plan = plans[comm.rank()].clone().into();
            let input = [1e8_f32, 1.0, -1e8][comm.rank()];
            match (comm.submit(&plan, ReduceOp::Sum, Apart(vec![input; 3], vec![7.0_f32; 3])), refused) {
                (Ok(work), None) => assert_eq!(work.wait().expect("no failure").1, [0.0; 3]),
                (Err(error), Some(order)) => {
                    let expected = format!(
                        "the plan 'ring' is proved to fold {order}, and a deterministic reduction of f32 is folded rank by rank"
                    );
                    assert_eq!(error.error.to_string(), expected);
                }
                (outcome, _) => panic!("{}: {:?}", plan.algorithm, outcome.is_ok()),
            }
        });
    }
}

/// Whether a call repeats the last one must not depend on which form of it a rank uses.
#[test]
fn a_plain_call_after_a_deterministic_one_is_the_same_call_on_all_ranks() {
    within(60, || {
        // A ring does not keep the order of the ranks, so deterministic calls have another plan.
        on_all(world_with(4, &[("HCOMM_ALGORITHM", "all_reduce=ring")]), |comm| {
            let request = Request::new(Collective::AllReduce, DType::F32, ReduceOp::Sum, 1000);
            let plan = |request: &Request| comm.plan(request).expect("a plan").id;
            assert_ne!(plan(&request), plan(&request.clone().deterministic()));
            for _ in 0..3 {
                let mut buffer = input::<f32>(comm.rank(), 1000);
                comm.deterministic().all_reduce(&mut buffer, ReduceOp::Sum).expect("deterministic");
                let mut buffer = input::<f32>(comm.rank(), 1000);
                if comm.rank() % 2 == 0 {
                    comm.all_reduce(&mut buffer, ReduceOp::Sum).expect("blocking");
                } else {
                    comm.all_reduce_async(buffer, ReduceOp::Sum).wait().expect("a future");
                }
            }
        });
    });
}

/// Plans as another program's file has them.
#[cfg(feature = "msccl")]
fn through_msccl(plans: &[Plan]) -> Vec<Plan> {
    let text = hcomm_planner::export::to_msccl(plans).expect("steps");
    Plan::from_msccl(&text).expect("what was written")
}
