//! Calls of any shape: every level against the scalar one, and the rules that hold whatever the values are.

use hcomm_ops::{DType, Kernel, Level};
use proptest::prelude::*;

use crate::case::{Call, fold, run};
use crate::sample::{Random, reductions, wild};

fn any_call() -> impl Strategy<Value = Call> {
    let offsets = |sizes| proptest::collection::vec(0..80_usize, sizes);
    let streamed = proptest::option::of(0..80_usize);
    (offsets(1..10), offsets(0..4), any::<Option<u8>>(), streamed, any::<u32>(), any::<bool>()).prop_map(
        |(operand_offsets, sink_offsets, in_place, streamed_offset, first, finish)| {
            let in_place = in_place.map(|i| usize::from(i) % operand_offsets.len());
            Call { operand_offsets, sink_offsets, in_place, streamed_offset, first, finish }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn any_call_gives_the_scalar_bits(
        call in any_call(),
        dtype in proptest::sample::select(&DType::ALL[..]),
        op in 0..12_usize,
        world in 1..2_000_usize,
        count in 0..700_usize,
        seed in any::<u64>(),
    ) {
        let op = reductions(dtype).nth(op).expect("there are twelve");
        let mut random = Random(seed);
        let data: Vec<Vec<u8>> = call.operand_offsets.iter().map(|_| wild(dtype, count, &mut random)).collect();
        let results = Level::available().filter_map(|level| {
            let kernel = Kernel::with_level(dtype, op, world, level).ok()?;
            Some(run(&kernel, &call, &data))
        });
        let results: Vec<_> = results.collect();
        prop_assert!(results.windows(2).all(|pair| pair[0] == pair[1]), "{} of {}", op, dtype);
        prop_assert!(results.iter().flatten().all(|sink| *sink == results[0][0]), "sinks differ");
    }

    /// a + b = b + a to the bit, NaNs included: what lets two ranks fold in opposite orders.
    #[test]
    fn two_operands_commute(
        dtype in proptest::sample::select(&DType::ALL[..]),
        op in 0..12_usize,
        count in 0..200_usize,
        seed in any::<u64>(),
    ) {
        let op = reductions(dtype).nth(op).expect("there are twelve");
        if let Ok(kernel) = Kernel::new(dtype, op, 2) {
            let mut random = Random(seed);
            let (a, b) = (wild(dtype, count, &mut random), wild(dtype, count, &mut random));
            let swapped = [b.clone(), a.clone()];
            prop_assert_eq!(fold(&kernel, &[a, b], !0, true), fold(&kernel, &swapped, !0, true), "{} of {}", op, dtype);
        }
    }

    /// What says that it is exact gives the same bits in any order and grouping, with every partial stored in between.
    #[test]
    fn exact_reductions_know_no_order(
        dtype in proptest::sample::select(&DType::ALL[..]),
        op in 0..12_usize,
        count in 0..200_usize,
        seed in any::<u64>(),
    ) {
        let op = reductions(dtype).nth(op).expect("there are twelve");
        if let Some(kernel) = Kernel::new(dtype, op, 4).ok().filter(|_| op.is_exact(dtype)) {
            let mut random = Random(seed);
            let all: Vec<_> = (0..4).map(|_| wild(dtype, count, &mut random)).collect();
            let at_once = fold(&kernel, &all, !0, true);
            let partial = |of: [usize; 2]| fold(&kernel, &of.map(|i| all[i].clone()), !0, false);
            let in_pairs = fold(&kernel, &[partial([3, 1]), partial([2, 0])], 0, true);
            prop_assert_eq!(&in_pairs, &at_once, "{} of {} in pairs", op, dtype);
            let one_by_one = fold(&kernel, &[partial([2, 3]), all[0].clone()], 2, false);
            let one_by_one = fold(&kernel, &[all[1].clone(), one_by_one], 1, true);
            prop_assert_eq!(&one_by_one, &at_once, "{} of {} one by one", op, dtype);
        }
    }
}
