//! Conversions between f32 and the 16-bit floats: against an independent reference, and the same bits at every level.

use half::{bf16, f16};
use hcomm_ops::{Conversion, DType, Level, RawSpan, StableBuffer};

use crate::sample::{Random, wild};

const NARROW: [DType; 2] = [DType::F16, DType::BF16];

/// Converts bytes that lie `offset` bytes past an allocation's start, and checks that nothing around the result is touched.
fn run(level: Level, from: DType, to: DType, bytes: &[u8], offset: usize) -> Vec<u8> {
    const MARK: u8 = 0xa5;
    let conversion = Conversion::with_level(from, to, level).expect("there is one");
    let mut source = [vec![MARK; offset], bytes.to_vec()].concat();
    let len = bytes.len() / from.size_bytes() * to.size_bytes();
    let mut sink = vec![MARK; 2 * offset + len];
    let slice = |buffer: &mut Vec<u8>, len: usize| -> RawSpan { buffer.span().slice(offset, len) };
    conversion.run(slice(&mut source, bytes.len()), slice(&mut sink, len));
    assert_eq!(source[offset..], *bytes, "the source is only read");
    assert!(sink[..offset].iter().chain(&sink[offset + len..]).all(|byte| *byte == MARK), "{level}");
    sink[offset..offset + len].to_vec()
}

/// The reference: `half`'s own conversions, and one NaN.
fn narrowed(to: DType, x: f32) -> u16 {
    match to {
        DType::F16 if x.is_nan() => 0x7e00,
        DType::F16 => f16::from_f32(x).to_bits(),
        _ if x.is_nan() => 0x7fc0,
        _ => bf16::from_f32(x).to_bits(),
    }
}

fn widened(from: DType, code: u16) -> u32 {
    let x = match from {
        DType::F16 => f16::from_bits(code).to_f32(),
        _ => bf16::from_bits(code).to_f32(),
    };
    if x.is_nan() { f32::NAN.to_bits() } else { x.to_bits() }
}

fn bytes_of(values: impl IntoIterator<Item = u32>) -> Vec<u8> {
    values.into_iter().flat_map(u32::to_le_bytes).collect()
}

fn codes(bytes: &[u8]) -> Vec<u16> {
    bytes.chunks_exact(2).map(|code| u16::from_le_bytes([code[0], code[1]])).collect()
}

#[test]
fn every_code_is_widened_exactly_and_narrowed_back() {
    let all: Vec<u8> = (0..=u16::MAX).flat_map(u16::to_le_bytes).collect();
    for dtype in NARROW {
        let expected = bytes_of((0..=u16::MAX).map(|code| widened(dtype, code)));
        for level in Level::available() {
            let wide = run(level, dtype, DType::F32, &all, 0);
            assert!(wide == expected, "{dtype} at {level}");
            let back = codes(&run(level, DType::F32, dtype, &wide, 0));
            for (code, back) in (0..=u16::MAX).zip(back) {
                let is_nan = widened(dtype, code) == f32::NAN.to_bits();
                assert!(back == code || is_nan && back == narrowed(dtype, f32::NAN), "{dtype} {code:#x}");
            }
        }
    }
}

/// Between two codes, at and next to the middle, which is a tie; beyond the largest finite value; and below the smallest subnormal.
#[test]
fn ties_go_to_even_overflow_to_infinity_and_little_to_zero() {
    for dtype in NARROW {
        let infinity = if dtype == DType::F16 { 0x7c00 } else { 0x7f80 };
        let middles = (0..infinity).flat_map(|code| {
            let (low, high) = (widened(dtype, code), widened(dtype, code + 1));
            // Past the largest finite value: half a step beyond it.
            let is_last = code + 1 == infinity;
            let high = if is_last { 2.0 * value(low) - value(widened(dtype, code - 1)) } else { value(high) };
            let middle = (((value(low) + high) / 2.0) as f32).to_bits();
            [middle - 1, middle, middle + 1]
        });
        let both_signs: Vec<u32> = middles.flat_map(|bits| [bits, bits | 1 << 31]).collect();
        let expected: Vec<u16> = both_signs.iter().map(|x| narrowed(dtype, f32::from_bits(*x))).collect();
        for level in Level::available() {
            let found = codes(&run(level, DType::F32, dtype, &bytes_of(both_signs.iter().copied()), 0));
            let wrong = both_signs.iter().zip(&expected).zip(&found).find(|((_, e), f)| e != f);
            assert_eq!(wrong, None, "{dtype} at {level}");
        }
        let largest = narrowed(dtype, f32::MAX);
        assert_eq!(largest, infinity, "{dtype}");
    }
}

/// An f32 given by its bits; as an f64, the middle of two is exact.
fn value(bits: u32) -> f64 {
    f64::from(f32::from_bits(bits))
}

#[test]
fn all_lengths_and_alignments_give_the_same_bits_at_every_level() {
    let mut random = Random(11);
    for dtype in NARROW {
        for (from, to) in [(DType::F32, dtype), (dtype, DType::F32)] {
            for count in (0..140).chain([4099]) {
                let bytes = wild(from, count, &mut random);
                for offset in [0, 1, 2, 7] {
                    let scalar = run(Level::Scalar, from, to, &bytes, offset);
                    if from == DType::F32 {
                        let values =
                            bytes.chunks_exact(4).map(|x| f32::from_le_bytes([x[0], x[1], x[2], x[3]]));
                        let expected: Vec<u16> = values.map(|x| narrowed(to, x)).collect();
                        assert!(codes(&scalar) == expected, "{count} to {to}");
                    }
                    for level in Level::available() {
                        assert!(run(level, from, to, &bytes, offset) == scalar, "{from} to {to} at {level}");
                    }
                }
            }
        }
    }
}

#[test]
fn other_pairs_are_refused_by_name() {
    let pairs = DType::ALL.into_iter().flat_map(|from| DType::ALL.map(|to| (from, to)));
    let there: Vec<_> = pairs.filter(|(from, to)| Conversion::new(*from, *to).is_ok()).collect();
    assert_eq!(there.len(), 4, "{there:?}");
    let error = Conversion::new(DType::F64, DType::F16).expect_err("not there").to_string();
    assert!(error.contains("f64") && error.contains("f16"), "{error}");
}
