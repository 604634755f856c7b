//! Values at which arithmetic turns, at every level and at lengths that reach vectors and their rests.

use half::{bf16, f16};
use hcomm_ops::{DType, Element, Factor, Kernel, Level, ReduceOp};

use crate::case::fold;

/// The bytes of one number at every place of a contribution.
fn filled<T: Element>(x: T, to_bytes: impl Fn(T) -> Vec<u8>) -> Vec<u8> {
    to_bytes(x).repeat(67)
}

/// Folds one column at every level; all elements must be the bytes `expected`.
fn expect(dtype: DType, op: ReduceOp, world: usize, operands: &[Vec<u8>], expected: &[u8]) {
    for level in Level::available() {
        let kernel = Kernel::with_level(dtype, op, world, level).expect("the pair is supported");
        let found = fold(&kernel, operands, !0, true);
        for (i, element) in found.chunks(dtype.size_bytes()).enumerate() {
            assert_eq!(element, expected, "{op} of {dtype} at {level}, element {i}");
        }
    }
}

fn expect_f32(op: ReduceOp, world: usize, operands: &[f32], expected: f32) {
    let operands: Vec<Vec<u8>> = operands.iter().map(|x| filled(*x, |x| x.to_le_bytes().to_vec())).collect();
    expect(DType::F32, op, world, &operands, &expected.to_le_bytes());
}

fn expect_f64(op: ReduceOp, world: usize, operands: &[f64], expected: f64) {
    let operands: Vec<Vec<u8>> = operands.iter().map(|x| filled(*x, |x| x.to_le_bytes().to_vec())).collect();
    expect(DType::F64, op, world, &operands, &expected.to_le_bytes());
}

fn expect_f16(op: ReduceOp, world: usize, operands: &[f16], expected: f16) {
    let operands: Vec<Vec<u8>> = operands.iter().map(|x| filled(*x, |x| x.to_le_bytes().to_vec())).collect();
    expect(DType::F16, op, world, &operands, &expected.to_le_bytes());
}

fn expect_bf16(op: ReduceOp, world: usize, operands: &[bf16], expected: bf16) {
    let operands: Vec<Vec<u8>> = operands.iter().map(|x| filled(*x, |x| x.to_le_bytes().to_vec())).collect();
    expect(DType::BF16, op, world, &operands, &expected.to_le_bytes());
}

fn expect_i8(op: ReduceOp, world: usize, operands: &[i8], expected: i8) {
    let operands: Vec<Vec<u8>> = operands.iter().map(|x| filled(*x, |x| x.to_le_bytes().to_vec())).collect();
    expect(DType::I8, op, world, &operands, &expected.to_le_bytes());
}

#[test]
fn a_nan_from_any_operand_propagates_as_one_nan() {
    let strange = f32::from_bits(0xffab_cdef);
    let signalling = f32::from_bits(0x7f80_0001);
    for op in [ReduceOp::Sum, ReduceOp::Product, ReduceOp::Min, ReduceOp::Max, ReduceOp::Average] {
        for nan in [strange, signalling] {
            expect_f32(op, 3, &[nan, 1.0, -2.0], f32::NAN);
            expect_f32(op, 3, &[1.0, nan, f32::NEG_INFINITY], f32::NAN);
            expect_f32(op, 3, &[f32::INFINITY, 1.0, nan], f32::NAN);
            expect_f32(op, 3, &[nan, strange], f32::NAN);
            expect_f64(op, 3, &[1.0, f64::from_bits(0xfff0_0000_0000_0001), 0.0], f64::NAN);
            expect_f16(op, 3, &[f16::ONE, f16::from_bits(0xfc01), f16::ONE], f16::from_bits(0x7e00));
            expect_bf16(op, 3, &[bf16::ONE, bf16::ONE, bf16::from_bits(0xffff)], bf16::from_bits(0x7fc0));
        }
    }
}

#[test]
fn opposite_infinities_give_the_same_nan() {
    expect_f32(ReduceOp::Sum, 2, &[f32::INFINITY, f32::NEG_INFINITY], f32::NAN);
    expect_f64(ReduceOp::Sum, 2, &[f64::NEG_INFINITY, f64::INFINITY], f64::NAN);
    expect_f32(ReduceOp::Product, 2, &[f32::INFINITY, -0.0], f32::NAN);
}

#[test]
fn minus_zero_is_below_zero() {
    for (a, b) in [(0.0, -0.0), (-0.0, 0.0)] {
        expect_f32(ReduceOp::Min, 2, &[a, b], -0.0);
        expect_f32(ReduceOp::Max, 2, &[a, b], 0.0);
        expect_f64(ReduceOp::Min, 2, &[a.into(), b.into()], -0.0);
        expect_f64(ReduceOp::Max, 2, &[a.into(), b.into()], 0.0);
        expect_f16(ReduceOp::Min, 2, &[f16::from_f32(a), f16::from_f32(b)], f16::NEG_ZERO);
        expect_bf16(ReduceOp::Max, 2, &[bf16::from_f32(a), bf16::from_f32(b)], bf16::ZERO);
    }
    expect_f32(ReduceOp::Max, 2, &[-0.0, -0.0], -0.0);
}

#[test]
fn subnormals_are_kept_whatever_the_thread_has_set() {
    let check = || {
        expect_f32(ReduceOp::Sum, 2, &[f32::from_bits(1), f32::from_bits(2)], f32::from_bits(3));
        expect_f32(ReduceOp::Max, 2, &[f32::from_bits(1), 0.0], f32::from_bits(1));
        expect_f64(ReduceOp::Sum, 2, &[f64::from_bits(5), -f64::from_bits(2)], f64::from_bits(3));
        expect_bf16(ReduceOp::Sum, 2, &[bf16::from_bits(1), bf16::from_bits(2)], bf16::from_bits(3));
        expect_f16(ReduceOp::Sum, 2, &[f16::from_bits(1), f16::from_bits(2)], f16::from_bits(3));
        expect_f32(ReduceOp::Average, 2, &[f32::MIN_POSITIVE, 0.0], f32::MIN_POSITIVE / 2.0);
        // One third of a unit more than half way would be cut when rounding toward zero.
        expect_f32(ReduceOp::Sum, 2, &[1.0, f32::EPSILON * 0.7], 1.0 + f32::EPSILON);
    };
    check();
    #[cfg(target_arch = "x86_64")]
    under_flushing_and_truncation(check);
}

/// Runs `check` with subnormals flushed, read as zero, and rounding toward zero.
#[cfg(target_arch = "x86_64")]
fn under_flushing_and_truncation(check: impl Fn()) {
    let (mut before, wanted) = (0_u32, 0x1f80_u32 | 0x8000 | 0x0040 | 0x6000);
    // SAFETY: writes 4 bytes to a local of 4 bytes, then sets control bits that exist; `check` only compares bits.
    unsafe {
        std::arch::asm!("stmxcsr [{0}]", "ldmxcsr [{1}]", in(reg) &raw mut before, in(reg) &raw const wanted);
    }
    check();
    let mut after = 0_u32;
    // SAFETY: writes 4 bytes to a local of 4 bytes, then puts back what was read above.
    unsafe {
        std::arch::asm!("stmxcsr [{0}]", "ldmxcsr [{1}]", in(reg) &raw mut after, in(reg) &raw const before);
    }
    assert_eq!(after & !0x3f, wanted, "the caller's environment is put back");
}

#[test]
fn narrow_floats_round_once() {
    // Each addition rounded by itself would stay at 1: half of the unit of binary16 is a tie, and goes to even.
    let half_unit = f16::from_f32(2_f32.powi(-11));
    expect_f16(ReduceOp::Sum, 3, &[f16::ONE, half_unit, half_unit], f16::from_f32(1.0 + 2_f32.powi(-10)));
    let half_unit = bf16::from_f32(2_f32.powi(-8));
    expect_bf16(ReduceOp::Sum, 3, &[bf16::ONE, half_unit, half_unit], bf16::from_f32(1.0 + 2_f32.powi(-7)));
    // A sum beyond the largest value comes back when the next operand is negative.
    expect_f16(ReduceOp::Sum, 3, &[f16::MAX, f16::MAX, f16::MIN], f16::MAX);
    expect_f16(ReduceOp::Sum, 2, &[f16::MAX, f16::MAX], f16::INFINITY);
    expect(DType::F8E4M3, ReduceOp::Sum, 3, &[vec![0x7e; 67], vec![0x7e; 67], vec![0xfe; 67]], &[0x7e]);
    expect(DType::F8E4M3, ReduceOp::Sum, 2, &[vec![0x7e; 67], vec![0x7e; 67]], &[0x7f]);
    expect(DType::F8E5M2, ReduceOp::Sum, 2, &[vec![0xfb; 67], vec![0xfb; 67]], &[0xfc]);
}

#[test]
fn an_integer_average_wraps_and_then_truncates_toward_zero() {
    expect_i8(ReduceOp::Average, 2, &[-3, 0], -1);
    expect_i8(ReduceOp::Average, 2, &[3, 0], 1);
    expect_i8(ReduceOp::Average, 2, &[100, 100], -28);
    expect_i8(ReduceOp::Average, 1, &[i8::MIN], i8::MIN);
    expect_i8(ReduceOp::Average, 1000, &[i8::MIN], 0);
    expect(
        DType::I64,
        ReduceOp::Average,
        usize::MAX,
        &[filled(i64::MIN, |x| x.to_le_bytes().to_vec())],
        &0_i64.to_le_bytes(),
    );
    expect(
        DType::I32,
        ReduceOp::Average,
        3,
        &[filled(i32::MAX, |x| x.to_le_bytes().to_vec())],
        &(i32::MAX / 3).to_le_bytes(),
    );
}

#[test]
fn a_partial_integer_average_is_not_divided() {
    for level in Level::available() {
        let kernel =
            Kernel::with_level(DType::I32, ReduceOp::Average, 2, level).expect("integers have averages");
        let operands: Vec<Vec<u8>> = [5_i32, 8].map(|x| x.to_le_bytes().repeat(67)).to_vec();
        assert_eq!(fold(&kernel, &operands, !0, false), 13_i32.to_le_bytes().repeat(67), "{level}");
        assert_eq!(fold(&kernel, &operands, 0, true), 6_i32.to_le_bytes().repeat(67), "{level}");
    }
}

#[test]
fn a_float_average_scales_each_marked_operand() {
    expect_f32(ReduceOp::Average, 4, &[1.0, 2.0, 3.0, 4.0], 2.5);
    expect_f32(ReduceOp::Average, 2, &[f32::MAX, f32::MAX], f32::MAX);
    for level in Level::available() {
        let kernel =
            Kernel::with_level(DType::F32, ReduceOp::Average, 4, level).expect("floats have averages");
        let operands: Vec<Vec<u8>> = [1.0_f32, 8.0].map(|x| x.to_le_bytes().repeat(21)).to_vec();
        let found = fold(&kernel, &operands, 0b10, false);
        assert_eq!(found, 3.0_f32.to_le_bytes().repeat(21), "the partial result 1 is not scaled, at {level}");
    }
}

#[test]
fn a_pre_multiplied_sum_scales_by_its_factor() {
    expect_f32(ReduceOp::PreMulSum(Factor(-0.5)), 2, &[3.0, 5.0], -4.0);
    expect_i8(ReduceOp::PreMulSum(Factor(-2.0)), 2, &[3, 100], 50);
    expect(
        DType::U64,
        ReduceOp::PreMulSum(Factor(2_f64.powi(63))),
        2,
        &[vec![1; 64], vec![0; 64]],
        &(0x0101_0101_0101_0101_u64 << 63).to_le_bytes(),
    );
}
