//! The scalar level against arithmetic done in another way: wide integers, and floats in pairs of `f64`.

use half::{bf16, f16};
use hcomm_ops::{DType, Factor, Kernel, Level, ReduceOp};

use crate::case::fold;
use crate::sample::{Random, component_bytes, is_float, is_integer, reductions, wild};

const WORLD: usize = 5;
const COUNT: usize = 2_000;

fn contributions(n: usize, mut make: impl FnMut() -> Vec<u8>) -> Vec<Vec<u8>> {
    (0..n).map(|_| make()).collect()
}

fn column(data: &[Vec<u8>], size: usize, i: usize) -> impl Iterator<Item = &[u8]> {
    data.iter().map(move |bytes| &bytes[i * size..(i + 1) * size])
}

fn word(bytes: &[u8]) -> u64 {
    let mut word = [0; 8];
    word[..bytes.len()].copy_from_slice(bytes);
    u64::from_le_bytes(word)
}

fn is_signed(dtype: DType) -> bool {
    matches!(dtype, DType::I8 | DType::I16 | DType::I32 | DType::I64)
}

/// The value of the low bits of `wide` in the type.
fn wrapped(dtype: DType, wide: i128) -> i128 {
    let unused = 128 - 8 * dtype.size_bytes();
    if is_signed(dtype) { wide << unused >> unused } else { ((wide as u128) << unused >> unused) as i128 }
}

fn reduce_integers(dtype: DType, op: ReduceOp, values: &[i128]) -> i128 {
    let all = |mut f: Box<dyn FnMut(i128, i128) -> i128>| {
        values.iter().copied().reduce(|a, b| wrapped(dtype, f(a, b))).expect("there are operands")
    };
    let truths = values.iter().filter(|x| **x != 0).count();
    match op {
        ReduceOp::Sum => all(Box::new(|a, b| a + b)),
        ReduceOp::Product => all(Box::new(i128::wrapping_mul)),
        ReduceOp::Min => all(Box::new(i128::min)),
        ReduceOp::Max => all(Box::new(i128::max)),
        ReduceOp::Average => all(Box::new(|a, b| a + b)) / WORLD as i128,
        ReduceOp::BitAnd => all(Box::new(|a, b| a & b)),
        ReduceOp::BitOr => all(Box::new(|a, b| a | b)),
        ReduceOp::BitXor => all(Box::new(|a, b| a ^ b)),
        ReduceOp::LogicalAnd => i128::from(truths == values.len()),
        ReduceOp::LogicalOr => i128::from(truths > 0),
        ReduceOp::LogicalXor => i128::from(truths % 2 == 1),
        ReduceOp::PreMulSum(Factor(factor)) => wrapped(dtype, values.iter().sum::<i128>() * factor as i128),
    }
}

#[test]
fn integers_are_reduced_as_in_128_bits() {
    let mut random = Random(1);
    for dtype in DType::ALL.into_iter().filter(|dtype| is_integer(*dtype)) {
        let negative = ReduceOp::PreMulSum(Factor(-3.0));
        for op in reductions(dtype).chain(is_signed(dtype).then_some(negative)) {
            let kernel =
                Kernel::with_level(dtype, op, WORLD, Level::Scalar).expect("integers have every reduction");
            for n in 1..=5 {
                let data = contributions(n, || wild(dtype, COUNT, &mut random));
                let found = fold(&kernel, &data, !0, true);
                for i in 0..COUNT {
                    let size = dtype.size_bytes();
                    let values: Vec<i128> =
                        column(&data, size, i).map(|bytes| wrapped(dtype, i128::from(word(bytes)))).collect();
                    let result = wrapped(dtype, i128::from(word(&found[i * size..(i + 1) * size])));
                    assert_eq!(result, reduce_integers(dtype, op, &values), "{op} of {dtype} {values:?}");
                }
            }
        }
    }
}

#[test]
fn averages_are_the_quotients_of_integers() {
    let worlds =
        (1..=130).chain([255, 256, 257, 32_767, 65_535, 65_537, 1 << 24, (1 << 24) + 1, 1 << 40, usize::MAX]);
    for world in worlds {
        let n = world as u64;
        // Around multiples of n in 32 bits, where a quotient that is rounded would show first.
        let near = |k: u64| [u64::MAX, 0, 1].map(|off| k.wrapping_mul(n).wrapping_add(off) as u32);
        let words: Vec<u32> =
            (1..2_000).chain(u64::from(u32::MAX) / n / 3..).take(4_000).flat_map(near).collect();
        let halves: Vec<u16> = (0..=u16::MAX).collect();
        let check = |dtype: DType, bytes: Vec<u8>, expected: Vec<u8>| {
            for level in Level::available() {
                let kernel =
                    Kernel::with_level(dtype, ReduceOp::Average, world, level).expect("integers have it");
                assert!(
                    fold(&kernel, std::slice::from_ref(&bytes), 0, true) == expected,
                    "{dtype} / {world} at {level}"
                );
            }
        };
        let bytes = halves.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<u8>>();
        let unsigned = halves.iter().flat_map(|x| ((u64::from(*x) / n) as u16).to_le_bytes()).collect();
        let signed =
            halves.iter().flat_map(|x| ((i128::from(*x as i16) / i128::from(n)) as i16).to_le_bytes());
        check(DType::U16, bytes.clone(), unsigned);
        check(DType::I16, bytes, signed.collect());
        let bytes = words.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<u8>>();
        let unsigned = words.iter().flat_map(|x| ((u64::from(*x) / n) as u32).to_le_bytes()).collect();
        let signed =
            words.iter().flat_map(|x| ((i128::from(*x as i32) / i128::from(n)) as i32).to_le_bytes());
        check(DType::U32, bytes.clone(), unsigned);
        check(DType::I32, bytes, signed.collect());
    }
}

#[test]
fn bools_are_reduced_as_truths() {
    let mut random = Random(2);
    for op in ReduceOp::ALL {
        let Ok(kernel) = Kernel::with_level(DType::Bool, op, WORLD, Level::Scalar) else { continue };
        for n in 1..=5 {
            let data = contributions(n, || (0..COUNT).map(|_| random.below(3) as u8).collect());
            let found = fold(&kernel, &data, 0, true);
            for (i, found) in found.into_iter().enumerate() {
                let truths = column(&data, 1, i).filter(|byte| byte[0] != 0).count();
                let expected = match op {
                    ReduceOp::Product | ReduceOp::Min | ReduceOp::BitAnd | ReduceOp::LogicalAnd => {
                        truths == n
                    }
                    ReduceOp::BitXor | ReduceOp::LogicalXor => truths % 2 == 1,
                    _ => truths > 0,
                };
                assert_eq!(found, u8::from(expected), "{op} with {truths} of {n}");
            }
        }
    }
}

/// One layout of floats.
struct Float {
    mantissa_bits: i32,
    /// Exponent of the smallest subnormal.
    step_exponent: i32,
    /// Mantissa bits of the accumulate type.
    wide_mantissa_bits: i32,
}

fn float(dtype: DType) -> Float {
    let (mantissa_bits, step_exponent, wide_mantissa_bits) = match dtype {
        DType::F16 => (10, -24, 23),
        DType::BF16 => (7, -133, 23),
        DType::F8E4M3 => (3, -9, 23),
        DType::F8E5M2 => (2, -16, 23),
        DType::F32 | DType::Complex64 => (23, -149, 23),
        DType::F64 | DType::Complex128 => (52, -1074, 52),
        other => unreachable!("{other} is no float"),
    };
    Float { mantissa_bits, step_exponent, wide_mantissa_bits }
}

/// The value of a component, computed apart from the library for 8 bits.
fn value(dtype: DType, bytes: &[u8]) -> f64 {
    let bits = word(bytes);
    match dtype {
        DType::F16 => f16::from_bits(bits as u16).to_f64(),
        DType::BF16 => bf16::from_bits(bits as u16).to_f64(),
        DType::F32 | DType::Complex64 => f64::from(f32::from_bits(bits as u32)),
        DType::F64 | DType::Complex128 => f64::from_bits(bits),
        DType::F8E5M2 => f16::from_bits((bits as u16) << 8).to_f64(),
        DType::F8E4M3 if bits & 0x7f == 0x7f => f64::NAN,
        // The exponent of a binary16 has another bias, 15 instead of 7, which also scales its subnormals.
        DType::F8E4M3 => {
            let magnitude = f16::from_bits(((bits as u16) & 0x7f) << 7).to_f64() * 256.0;
            if bits & 0x80 != 0 { -magnitude } else { magnitude }
        }
        other => unreachable!("{other} is no float"),
    }
}

/// Components of moderate size, so that nothing overflows: sign, magnitude from 2^-3 to 2^2.
fn tame(dtype: DType, count: usize, random: &mut Random) -> Vec<u8> {
    let mut bytes = Vec::new();
    for _ in 0..count * dtype.size_bytes() / component_bytes(dtype) {
        let x = (random.next() as f64 / u64::MAX as f64 - 0.5) * 8.0;
        let x = if random.below(4) == 0 { x / 32.0 } else { x };
        match dtype {
            DType::F16 => bytes.extend(f16::from_f64(x).to_le_bytes()),
            DType::BF16 => bytes.extend(bf16::from_f64(x).to_le_bytes()),
            DType::F32 | DType::Complex64 => bytes.extend((x as f32).to_le_bytes()),
            DType::F64 | DType::Complex128 => bytes.extend(x.to_le_bytes()),
            DType::F8E5M2 => bytes.push(f16::from_f64(x).to_le_bytes()[1]),
            DType::F8E4M3 => bytes.push((random.next() as u8 & 0x87) | 0x28 | (random.next() as u8 & 0x1f)),
            other => unreachable!("{other} is no float"),
        }
    }
    bytes
}

/// An unevaluated sum of two `f64`: about 106 bits.
#[derive(Clone, Copy)]
struct Wide(f64, f64);

impl Wide {
    fn add(self, other: Wide) -> Wide {
        let sum = self.0 + other.0;
        let part = sum - self.0;
        let error = (self.0 - (sum - part)) + (other.0 - part);
        Wide(sum, error + self.1 + other.1)
    }

    fn mul(self, other: Wide) -> Wide {
        let product = self.0 * other.0;
        let error = self.0.mul_add(other.0, -product);
        Wide(product, error + self.0 * other.1 + self.1 * other.0)
    }

    fn distance(self, x: f64) -> f64 {
        ((self.0 - x) + self.1).abs()
    }
}

/// Exact result, and the sum of magnitudes (for a product its magnitude) that the bound is relative to.
fn exact(op: ReduceOp, values: &[f64]) -> (Wide, f64) {
    let factor = match op {
        ReduceOp::Average => 1.0 / WORLD as f64,
        ReduceOp::PreMulSum(Factor(factor)) => factor,
        _ => 1.0,
    };
    // 1/n itself is rounded once; what that leaves out is counted among the roundings.
    let terms = values.iter().map(|x| Wide(*x, 0.0));
    if op == ReduceOp::Product {
        let product = terms.reduce(Wide::mul).expect("there are operands");
        return (product, product.0.abs());
    }
    let sum = terms.map(|x| x.mul(Wide(factor, 0.0))).reduce(Wide::add).expect("there are operands");
    (sum, values.iter().map(|x| (x * factor).abs()).sum())
}

fn check_component(dtype: DType, op: ReduceOp, values: &[f64], found: f64, roundings: usize) {
    let Float { mantissa_bits, step_exponent, wide_mantissa_bits } = float(dtype);
    let unit = |mantissa_bits: i32| 2_f64.powi(-mantissa_bits - 1);
    let (exact, magnitudes) = exact(op, values);
    let wide_error = roundings as f64 * unit(wide_mantissa_bits) * magnitudes;
    let stored_error =
        if mantissa_bits == wide_mantissa_bits { 0.0 } else { unit(mantissa_bits) * found.abs() };
    let bound = wide_error + stored_error * 1.01 + 2_f64.powi(step_exponent) / 2.0;
    let error = exact.distance(found);
    assert!(error <= bound, "{op} of {dtype} {values:?}: {found} is off by {error:e}, more than {bound:e}");
}

/// Additions or multiplications, and for each scaled operand the rounding of the factor and of the product.
fn roundings(op: ReduceOp, operands: usize) -> usize {
    let scaling = if matches!(op, ReduceOp::Average | ReduceOp::PreMulSum(_)) { 2 } else { 0 };
    operands - 1 + scaling
}

#[test]
fn sums_and_products_of_floats_keep_the_bound() {
    let mut random = Random(3);
    for dtype in DType::ALL.into_iter().filter(|dtype| is_float(*dtype)) {
        for op in reductions(dtype) {
            let arithmetic =
                matches!(op, ReduceOp::Sum | ReduceOp::Product | ReduceOp::Average | ReduceOp::PreMulSum(_));
            if !arithmetic {
                continue;
            }
            let kernel = Kernel::with_level(dtype, op, WORLD, Level::Scalar).expect("floats have arithmetic");
            // Three factors below 4 stay below the largest e4m3.
            for n in 1..=if op == ReduceOp::Product { 3 } else { 5 } {
                let data = contributions(n, || tame(dtype, COUNT, &mut random));
                let found = fold(&kernel, &data, !0, true);
                for i in 0..COUNT {
                    let size = dtype.size_bytes();
                    let values: Vec<f64> = column(&data, size, i).map(|bytes| value(dtype, bytes)).collect();
                    let found = value(dtype, &found[i * size..(i + 1) * size]);
                    check_component(dtype, op, &values, found, roundings(op, n));
                }
            }
        }
    }
}

#[test]
fn sums_of_complex_numbers_go_by_components() {
    let mut random = Random(4);
    for dtype in [DType::Complex64, DType::Complex128] {
        for op in [ReduceOp::Sum, ReduceOp::Average, ReduceOp::PreMulSum(Factor(-0.3))] {
            let kernel =
                Kernel::with_level(dtype, op, WORLD, Level::Scalar).expect("complex numbers have sums");
            let data = contributions(4, || tame(dtype, COUNT, &mut random));
            let found = fold(&kernel, &data, !0, true);
            let size = component_bytes(dtype);
            for i in 0..2 * COUNT {
                let values: Vec<f64> = column(&data, size, i).map(|bytes| value(dtype, bytes)).collect();
                let found = value(dtype, &found[i * size..(i + 1) * size]);
                check_component(dtype, op, &values, found, roundings(op, 4));
            }
        }
    }
}

#[test]
fn products_of_complex_numbers_keep_the_bound() {
    let mut random = Random(5);
    for dtype in [DType::Complex64, DType::Complex128] {
        let kernel =
            Kernel::with_level(dtype, ReduceOp::Product, WORLD, Level::Scalar).expect("they have products");
        let data = contributions(2, || tame(dtype, COUNT, &mut random));
        let found = fold(&kernel, &data, 0, true);
        let size = dtype.size_bytes();
        for i in 0..COUNT {
            let parts: Vec<[f64; 2]> = column(&data, size, i)
                .chain([&found[i * size..(i + 1) * size]])
                .map(|bytes| [value(dtype, &bytes[..size / 2]), value(dtype, &bytes[size / 2..])])
                .collect();
            let [[a, b], [c, d], [re, im]] = parts[..] else { unreachable!("two operands and a result") };
            let of = |x: f64, y: f64| Wide(x, 0.0).mul(Wide(y, 0.0));
            let unit = 2_f64.powi(-float(dtype).mantissa_bits - 1);
            let real = of(a, c).add(of(-b, d)).distance(re);
            let imaginary = of(a, d).add(of(b, c)).distance(im);
            assert!(real <= 2.0 * unit * ((a * c).abs() + (b * d).abs()) * 1.01, "real part of {parts:?}");
            assert!(
                imaginary <= 2.0 * unit * ((a * d).abs() + (b * c).abs()) * 1.01,
                "imaginary part of {parts:?}"
            );
        }
    }
}

#[test]
fn minimum_maximum_and_logic_of_floats_are_exact() {
    let mut random = Random(6);
    for dtype in DType::ALL.into_iter().filter(|dtype| is_float(*dtype)) {
        let size = dtype.size_bytes();
        for op in reductions(dtype) {
            let Ok(kernel) = Kernel::with_level(dtype, op, WORLD, Level::Scalar) else { continue };
            for n in 2..=5 {
                let data = contributions(n, || wild(dtype, COUNT, &mut random));
                let found = fold(&kernel, &data, 0, true);
                for i in 0..COUNT {
                    let values: Vec<f64> = column(&data, size, i).map(|bytes| value(dtype, bytes)).collect();
                    let found = value(dtype, &found[i * size..(i + 1) * size]);
                    let Some(expected) = chosen(op, &values) else { continue };
                    let same = found.to_bits() == expected.to_bits() || found.is_nan() && expected.is_nan();
                    assert!(same, "{op} of {dtype} {values:?}: expected {expected}, found {found}");
                }
            }
        }
    }
}

/// The result of a reduction that rounds nothing; `None` for the others.
fn chosen(op: ReduceOp, values: &[f64]) -> Option<f64> {
    let truths = values.iter().filter(|x| **x != 0.0).count();
    let truth = |value: bool| Some(f64::from(u8::from(value)));
    match op {
        ReduceOp::Min | ReduceOp::Max if values.iter().any(|x| x.is_nan()) => Some(f64::NAN),
        ReduceOp::Min => values.iter().copied().min_by(f64::total_cmp),
        ReduceOp::Max => values.iter().copied().max_by(f64::total_cmp),
        ReduceOp::LogicalAnd => truth(truths == values.len()),
        ReduceOp::LogicalOr => truth(truths > 0),
        ReduceOp::LogicalXor => truth(truths % 2 == 1),
        _ => None,
    }
}
