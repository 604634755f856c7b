//! What `Kernel` promises besides arithmetic: which pairs exist, when it copies, which bytes it touches.

use hcomm_ops::{DType, Factor, Kernel, Level, Operand, ReduceOp, StableBuffer};

use crate::case::{Call, fold, run};
use crate::sample::{Random, is_float, is_integer, reductions, wild};

#[test]
fn the_pairs_that_make_sense_exist() {
    for dtype in DType::ALL {
        for op in reductions(dtype) {
            let bitwise = matches!(op, ReduceOp::BitAnd | ReduceOp::BitOr | ReduceOp::BitXor);
            let scaled = matches!(op, ReduceOp::Average | ReduceOp::PreMulSum(_));
            let expected = match dtype {
                DType::Complex64 | DType::Complex128 => {
                    scaled || matches!(op, ReduceOp::Sum | ReduceOp::Product)
                }
                DType::Bool => !scaled,
                _ => is_integer(dtype) || is_float(dtype) && !bitwise,
            };
            for level in Level::ALL {
                assert_eq!(Kernel::with_level(dtype, op, 2, level).is_ok(), expected, "{op} of {dtype}");
            }
        }
    }
}

#[test]
fn an_unsupported_pair_is_refused_with_what_is_supported() {
    let error = Kernel::new(DType::Complex64, ReduceOp::Min, 2).expect_err("complex numbers have no order");
    assert_eq!(
        error.to_string(),
        "min of complex64 is not supported; complex64 supports sum, product, average, premulsum"
    );
}

#[test]
fn a_factor_that_an_integer_cannot_be_multiplied_by_is_refused_by_name() {
    let error = Kernel::new(DType::I8, ReduceOp::PreMulSum(Factor(0.5)), 2).expect_err("half of an integer");
    let text = error.to_string();
    assert!(text.starts_with("premulsum(0.5) of i8 is not supported"), "{text}");
    assert!(text.ends_with("premulsum by a whole factor from -128 to 127"), "{text}");
    let infinities = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1e300, -1e300];
    for factor in infinities.into_iter().chain([128.0, -129.0, 1e-9]) {
        assert!(Kernel::new(DType::I8, ReduceOp::PreMulSum(Factor(factor)), 2).is_err(), "{factor}");
    }
    for (dtype, beyond) in [(DType::U64, 2_f64.powi(64)), (DType::I64, 2_f64.powi(63)), (DType::U8, -1.0)] {
        assert!(Kernel::new(dtype, ReduceOp::PreMulSum(Factor(beyond)), 2).is_err(), "{beyond} for {dtype}");
    }
    for (dtype, lowest) in [(DType::I64, -(2_f64.powi(63))), (DType::I8, -128.0), (DType::U8, -0.0)] {
        assert!(Kernel::new(dtype, ReduceOp::PreMulSum(Factor(lowest)), 2).is_ok(), "{lowest} for {dtype}");
    }
}

#[test]
fn one_operand_with_nothing_to_do_is_copied_bit_for_bit() {
    let mut random = Random(7);
    for dtype in DType::ALL {
        for op in reductions(dtype) {
            let Ok(kernel) = Kernel::new(dtype, op, 3) else { continue };
            let data = vec![wild(dtype, 50, &mut random)];
            assert_eq!(fold(&kernel, &data, 0, false), data[0], "{op} of {dtype}");
        }
    }
}

#[test]
fn an_operand_that_is_its_own_sink_is_left_alone_and_still_copied_elsewhere() {
    let kernel = Kernel::new(DType::U8, ReduceOp::Sum, 2).expect("integers have sums");
    let call = Call {
        operand_offsets: vec![3],
        sink_offsets: vec![5, 0],
        in_place: Some(0),
        streamed_offset: None,
        first: 1,
        finish: true,
    };
    let data = vec![(0..=200).collect::<Vec<u8>>()];
    assert_eq!(run(&kernel, &call, &data), vec![data[0].clone(); 3]);
}

#[test]
fn finishing_one_operand_makes_truths_of_other_values() {
    let bytes = vec![vec![0, 1, 2, 255]];
    for op in [ReduceOp::Sum, ReduceOp::Product, ReduceOp::Min, ReduceOp::Max, ReduceOp::BitXor] {
        let kernel = Kernel::new(DType::Bool, op, 1).expect("bools have it");
        assert_eq!(fold(&kernel, &bytes, 0, true), [0, 1, 1, 1], "{op}");
    }
    for op in [ReduceOp::LogicalAnd, ReduceOp::LogicalOr, ReduceOp::LogicalXor] {
        let kernel = Kernel::new(DType::U8, op, 1).expect("integers have it");
        assert_eq!(fold(&kernel, &bytes, 0, true), [0, 1, 1, 1], "{op}");
    }
}

#[test]
fn every_sink_gets_the_result() {
    let mut random = Random(8);
    let kernel = Kernel::new(DType::BF16, ReduceOp::Sum, 2).expect("floats have sums");
    let data: Vec<Vec<u8>> = (0..3).map(|_| wild(DType::BF16, 1001, &mut random)).collect();
    let call = Call {
        operand_offsets: vec![0, 1, 2],
        sink_offsets: vec![0, 1, 2, 3, 31],
        in_place: Some(1),
        streamed_offset: Some(4),
        first: 0,
        finish: false,
    };
    let found = run(&kernel, &call, &data);
    assert_eq!(found.len(), 7);
    assert!(found.iter().all(|sink| *sink == fold(&kernel, &data, 0, false)));
}

#[test]
fn no_operand_changes_nothing() {
    let kernel = Kernel::new(DType::F32, ReduceOp::Sum, 2).expect("floats have sums");
    let mut sink = vec![7_u8; 8];
    kernel.fold(&[], &[sink.span()], true);
    assert_eq!(sink, [7; 8]);
}

#[test]
#[should_panic(expected = "all spans of a fold have the 8 bytes of the first operand")]
fn spans_of_different_lengths_are_a_broken_invariant() {
    let kernel = Kernel::new(DType::U8, ReduceOp::Sum, 2).expect("integers have sums");
    let (mut long, mut short) = (vec![0_u8; 8], vec![0_u8; 7]);
    let operands = [long.span(), short.span()].map(|span| Operand { span, first: false });
    kernel.fold(&operands, &[long.span()], false);
}
