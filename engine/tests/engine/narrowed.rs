//! f32 buffers that travel as f16 or bf16.

use half::{bf16, f16};
use hcomm_engine::{Error, Failure};
use hcomm_ops::buffer::{Narrowed, Shared};
use hcomm_ops::{DType, Element, ReduceOp};

use crate::common::{OVER, on_all, within, world};

/// A rank's input: no element is exact in 16 bits, a few are too large for f16, and a few are subnormal there.
fn input(rank: usize, count: usize) -> Vec<f32> {
    let element = |i: usize| {
        let x = ((i * 7919 + rank * 104_729) % 2003) as f32 / 617.0 - 1.5;
        match i % 97 {
            13 => x * 1e5,
            29 => x * 1e-6,
            _ => x,
        }
    };
    (0..count).map(element).collect()
}

/// The bits, which tell one zero and one NaN from another.
fn bits(elements: &[f32]) -> Vec<u32> {
    elements.iter().map(|x| x.to_bits()).collect()
}

/// On each rank: an f32 all_reduce through `T`, and one of `T` itself, whose result is widened.
fn compare<T: Element>(narrow: fn(f32) -> T, widen: fn(T) -> f32, op: ReduceOp) {
    for over in OVER {
        for count in [0, 1, 1000, 70_001] {
            let results = on_all(over.world(3), |comm| {
                let input = input(comm.rank(), count);
                let mut expected: Vec<T> = input.iter().map(|x| narrow(*x)).collect();
                comm.all_reduce(&mut expected, op).expect("all ranks came");
                let expected: Vec<f32> = expected.into_iter().map(widen).collect();
                // More than once: a repeated call lands too.
                for _ in 0..3 {
                    let narrowed = Narrowed::new(input.clone(), T::DTYPE).expect("f32");
                    let found =
                        comm.all_reduce_async(narrowed, op).wait().expect("all ranks came").into_inner();
                    assert!(bits(&found) == bits(&expected), "{count} elements through {}", T::DTYPE);
                }
                assert!(count < 1000 || bits(&expected) != bits(&input), "the call did something");
                bits(&expected)
            });
            assert!(results.iter().all(|result| *result == results[0]), "all ranks have the same bits");
        }
    }
}

#[test]
fn an_all_reduce_through_a_narrow_type_is_that_of_the_rounded_inputs() {
    within(60, || {
        compare::<f16>(f16::from_f32, f16::to_f32, ReduceOp::Sum);
        compare::<f16>(f16::from_f32, f16::to_f32, ReduceOp::Average);
        compare::<bf16>(bf16::from_f32, bf16::to_f32, ReduceOp::Sum);
        compare::<bf16>(bf16::from_f32, bf16::to_f32, ReduceOp::Max);
    });
}

#[test]
fn only_the_output_of_a_call_is_widened() {
    within(20, || {
        on_all(world(3), |comm| {
            let rank = comm.rank();
            let narrow = |buffer: Vec<f32>| Narrowed::new(buffer, DType::F16).expect("f32");
            let round = |x: &f32| f16::from_f32(*x).to_f32();
            let mine = input(rank, 500);
            let (sent, all) = comm
                .all_gather_async(narrow(mine.clone()), narrow(vec![7.0; 1500]))
                .wait()
                .expect("all ranks");
            assert_eq!(bits(&sent.into_inner()), bits(&mine), "an input keeps its bits");
            let expected: Vec<f32> = (0..3).flat_map(|r| input(r, 500)).map(|x| round(&x)).collect();
            assert_eq!(bits(&all.into_inner()), bits(&expected));
            // The root of a broadcast has what the others get.
            let copied =
                comm.broadcast_async(narrow(mine.clone()), 1).wait().expect("all ranks").into_inner();
            assert_eq!(bits(&copied), bits(&input(1, 500).iter().map(round).collect::<Vec<_>>()));
            let reduced =
                comm.reduce_async(narrow(mine.clone()), ReduceOp::Sum, 2).wait().expect("all ranks");
            assert_eq!(bits(&reduced.into_inner()) == bits(&mine), rank != 2);
        })
    });
}

#[test]
fn messages_and_shared_buffers_travel_narrow() {
    within(20, || {
        on_all(world(2), |comm| {
            let shared = Shared::new(input(0, 1000));
            let narrow = || Narrowed::new(shared.clone(), DType::BF16).expect("nobody uses it");
            if comm.rank() == 0 {
                drop(comm.send_async(narrow(), 1, 0).wait().expect("received"));
            } else {
                assert_eq!(shared.with(|elements| elements.fill(0.5)), Some(()));
                drop(comm.recv_async(narrow(), 0, 0).wait().expect("sent"));
                let expected: Vec<f32> = input(0, 1000).iter().map(|x| bf16::from_f32(*x).to_f32()).collect();
                assert_eq!(shared.with(|elements| bits(elements)), Some(bits(&expected)));
            }
            comm.barrier().expect("both");
        })
    });
}

#[test]
fn a_rank_that_does_not_narrow_made_another_call() {
    within(20, || {
        on_all(world(2), |comm| {
            let mine = input(comm.rank(), 1000);
            let outcome = match comm.rank() {
                0 => {
                    let narrowed = Narrowed::new(mine.clone(), DType::F16).expect("f32");
                    let failed =
                        comm.all_reduce_async(narrowed, ReduceOp::Sum).wait().expect_err("they differ");
                    assert_eq!(bits(&failed.buffer.into_inner()), bits(&mine), "nothing has landed");
                    failed.error
                }
                _ => comm.all_reduce_async(mine, ReduceOp::Sum).wait().expect_err("they differ").error,
            };
            assert!(matches!(outcome, Error::Failed(Failure::CallMismatch { .. })), "{outcome}");
            let text = outcome.to_string();
            assert!(text.contains("f16") && text.contains("f32"), "{text}");
        })
    });
}
