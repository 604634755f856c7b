//! Test data: random bits of a type, mixed with the values at which arithmetic turns.

use half::{bf16, f16};
use hcomm_ops::{DType, Factor, ReduceOp};

/// SplitMix64.
#[derive(Clone)]
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }
}

/// `count` elements of any value whatever, special ones frequent.
pub fn wild(dtype: DType, count: usize, random: &mut Random) -> Vec<u8> {
    let specials = specials(dtype);
    let mut bytes = Vec::with_capacity(count * dtype.size_bytes());
    let words = count * dtype.size_bytes() / component_bytes(dtype);
    for _ in 0..words {
        let bits = if random.below(3) == 0 { specials[random.below(specials.len())] } else { random.next() };
        bytes.extend_from_slice(&bits.to_le_bytes()[..component_bytes(dtype)]);
    }
    bytes
}

/// Every reduction, the factor of the pre-multiplied sum fitting the type.
pub fn reductions(dtype: DType) -> impl Iterator<Item = ReduceOp> {
    ReduceOp::ALL.into_iter().map(move |op| match op {
        ReduceOp::PreMulSum(_) => ReduceOp::PreMulSum(Factor(if is_integer(dtype) { 3.0 } else { 0.7 })),
        other => other,
    })
}

pub fn is_integer(dtype: DType) -> bool {
    use DType::*;
    matches!(dtype, I8 | U8 | I16 | U16 | I32 | U32 | I64 | U64)
}

pub fn is_float(dtype: DType) -> bool {
    use DType::*;
    matches!(dtype, F16 | BF16 | F32 | F64 | F8E4M3 | F8E5M2)
}

/// Bytes of a real number: half an element where elements are complex.
pub fn component_bytes(dtype: DType) -> usize {
    match dtype {
        DType::Complex64 => 4,
        DType::Complex128 => 8,
        other => other.size_bytes(),
    }
}

/// Bits of one component: zeros, ones, extremes, and for floats infinities, NaNs and both ends of the subnormals.
fn specials(dtype: DType) -> Vec<u64> {
    let top = 1_u64 << (8 * component_bytes(dtype) - 1);
    let magnitudes: Vec<u64> = match dtype {
        DType::F16 => floats(10, 0x7c00, u64::from(f16::ONE.to_bits())),
        DType::BF16 => floats(7, 0x7f80, u64::from(bf16::ONE.to_bits())),
        DType::F32 | DType::Complex64 => floats(23, 0x7f80_0000, u64::from(1_f32.to_bits())),
        DType::F64 | DType::Complex128 => floats(52, 0x7ff0_0000_0000_0000, 1_f64.to_bits()),
        DType::F8E5M2 => floats(2, 0x7c, 0x3c),
        DType::F8E4M3 => vec![0, 1, 7, 8, 0x38, 0x7e, 0x7f],
        _ => vec![0, 1, 2, 3, top - 1, top >> 1],
    };
    magnitudes.iter().flat_map(|bits| [*bits, *bits | top]).collect()
}

fn floats(mantissa_bits: u32, infinity: u64, one: u64) -> Vec<u64> {
    let smallest_normal = 1 << mantissa_bits;
    let quiet = 1 << (mantissa_bits - 1);
    vec![
        0,
        1,
        smallest_normal - 1,
        smallest_normal,
        one,
        infinity - 1,
        infinity,
        infinity + 1,
        infinity | quiet | 1,
    ]
}
