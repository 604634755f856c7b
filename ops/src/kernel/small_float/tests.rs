//! Conversions against `half`, and against decoding by formula and searching for the nearest value.

use half::{bf16, f16};

use super::*;

/// One layout: how many bits, and its functions.
struct Layout {
    codes: u32,
    widen: fn(u32) -> f32,
    narrow: fn(f32) -> u32,
}

const F16: Layout =
    Layout { codes: 1 << 16, widen: |c| f16_to_f32(c as u16), narrow: |x| u32::from(f32_to_f16(x)) };
const BF16: Layout =
    Layout { codes: 1 << 16, widen: |c| bf16_to_f32(c as u16), narrow: |x| u32::from(f32_to_bf16(x)) };
const E4M3: Layout =
    Layout { codes: 1 << 8, widen: |c| e4m3_to_f32(c as u8), narrow: |x| u32::from(f32_to_e4m3(x)) };
const E5M2: Layout =
    Layout { codes: 1 << 8, widen: |c| e5m2_to_f32(c as u8), narrow: |x| u32::from(f32_to_e5m2(x)) };

/// Values at which rounding may change: every value of the layout, every midpoint, and their neighbours.
fn turning_points(layout: &Layout) -> Vec<f32> {
    let mut magnitudes: Vec<f32> =
        (0..layout.codes / 2).map(layout.widen).filter(|x| x.is_finite()).collect();
    magnitudes.sort_by(f32::total_cmp);
    // One value more than the layout has, where overflow begins.
    let (last, before) = (magnitudes[magnitudes.len() - 1], magnitudes[magnitudes.len() - 2]);
    magnitudes.push(last + (last - before));
    let midpoints =
        magnitudes.windows(2).map(|pair| ((f64::from(pair[0]) + f64::from(pair[1])) / 2.0) as f32);
    let around = |x: f32| [x, x.next_up(), x.next_down()];
    let points: Vec<f32> = magnitudes.iter().copied().chain(midpoints).flat_map(around).collect();
    points
        .iter()
        .flat_map(|x| [*x, -*x])
        .chain([f32::INFINITY, f32::NEG_INFINITY, f32::NAN, -f32::NAN])
        .collect()
}

/// A sample of all bit patterns of `f32`.
fn sampled() -> impl Iterator<Item = f32> {
    (0..u32::MAX).step_by(211).map(f32::from_bits)
}

#[test]
fn every_f16_widens_as_half_says() {
    for code in 0..=u16::MAX {
        let (ours, theirs) = (f16_to_f32(code), f16::from_bits(code).to_f32_const());
        assert!(ours.to_bits() == theirs.to_bits() || ours.is_nan() && theirs.is_nan(), "{code:#06x}");
    }
}

#[test]
fn f16_narrows_as_half_says() {
    for x in turning_points(&F16).into_iter().chain(sampled()) {
        let theirs = if x.is_nan() { F16_NAN } else { f16::from_f32_const(x).to_bits() };
        assert_eq!(f32_to_f16(x), theirs, "{x:e} = {:#010x}", x.to_bits());
    }
}

#[test]
fn every_bf16_widens_as_half_says() {
    for code in 0..=u16::MAX {
        let (ours, theirs) = (bf16_to_f32(code), bf16::from_bits(code).to_f32());
        assert!(ours.to_bits() == theirs.to_bits() || ours.is_nan() && theirs.is_nan(), "{code:#06x}");
    }
}

#[test]
fn bf16_narrows_as_half_says() {
    for x in turning_points(&BF16).into_iter().chain(sampled()) {
        let theirs = if x.is_nan() { 0x7fc0 } else { bf16::from_f32(x).to_bits() };
        assert_eq!(f32_to_bf16(x), theirs, "{x:e} = {:#010x}", x.to_bits());
    }
}

/// The value of a code by the definition of the format, or `None` for infinities and NaNs.
fn decoded(code: u8, exponent_bits: i32, mantissa_bits: i32, finite: impl Fn(u8) -> bool) -> Option<f64> {
    if !finite(code & 0x7f) {
        return None;
    }
    let bias = (1 << (exponent_bits - 1)) - 1;
    let exponent = i32::from(code & 0x7f) >> mantissa_bits;
    let fraction = f64::from(i32::from(code) & ((1 << mantissa_bits) - 1)) / f64::from(1 << mantissa_bits);
    let magnitude = match exponent {
        0 => fraction * 2_f64.powi(1 - bias),
        _ => (1.0 + fraction) * 2_f64.powi(exponent - bias),
    };
    Some(if code & 0x80 != 0 { -magnitude } else { magnitude })
}

fn decoded_e4m3(code: u8) -> Option<f64> {
    decoded(code, 4, 3, |magnitude| magnitude != 0x7f)
}

fn decoded_e5m2(code: u8) -> Option<f64> {
    decoded(code, 5, 2, |magnitude| magnitude < 0x7c)
}

#[test]
fn every_fp8_widens_by_its_definition() {
    for code in 0..=u8::MAX {
        match decoded_e4m3(code) {
            Some(value) => assert_eq!(f64::from(e4m3_to_f32(code)).to_bits(), value.to_bits(), "{code:#04x}"),
            None => assert!(e4m3_to_f32(code).is_nan(), "{code:#04x}"),
        }
        match decoded_e5m2(code) {
            Some(value) => assert_eq!(f64::from(e5m2_to_f32(code)).to_bits(), value.to_bits(), "{code:#04x}"),
            None if code & 0x7f == 0x7c => assert!(e5m2_to_f32(code).is_infinite(), "{code:#04x}"),
            None => assert!(e5m2_to_f32(code).is_nan(), "{code:#04x}"),
        }
        let sign_kept =
            e5m2_to_f32(code).is_nan() || (code & 0x80 != 0) == e5m2_to_f32(code).is_sign_negative();
        assert!(sign_kept, "{code:#04x}");
    }
}

/// The code nearest to `x`, even codes first among equals; `overflow` stands for the value after the largest.
fn nearest(
    x: f32,
    finite_codes: u8,
    decode: impl Fn(u8) -> Option<f64>,
    step_at_top: f64,
    overflow: u8,
) -> u8 {
    let sign = if x.is_sign_negative() { 0x80 } else { 0 };
    let largest = decode(finite_codes - 1).expect("the last finite code is finite");
    let x = f64::from(x).abs().min(largest + step_at_top);
    let value = |code: u8| decode(code).filter(|_| code < finite_codes).unwrap_or(largest + step_at_top);
    let candidates = 0..=finite_codes;
    let distance = |code: &u8| ((value(*code) - x).abs(), code & 1);
    let best = candidates
        .min_by(|a, b| distance(a).partial_cmp(&distance(b)).expect("distances are numbers"))
        .expect("there are codes");
    match best {
        code if code == finite_codes => overflow | if overflow == 0x7f { 0 } else { sign },
        code => code | sign,
    }
}

#[test]
fn e4m3_narrows_to_the_nearest() {
    for x in turning_points(&E4M3).into_iter().chain(sampled().step_by(50)) {
        let expected = if x.is_nan() { 0x7f } else { nearest(x, 0x7f, decoded_e4m3, 32.0, 0x7f) };
        assert_eq!((E4M3.narrow)(x), u32::from(expected), "{x:e} = {:#010x}", x.to_bits());
    }
}

#[test]
fn e5m2_narrows_to_the_nearest() {
    for x in turning_points(&E5M2).into_iter().chain(sampled().step_by(50)) {
        let expected = if x.is_nan() { 0x7e } else { nearest(x, 0x7c, decoded_e5m2, 8192.0, 0x7c) };
        assert_eq!((E5M2.narrow)(x), u32::from(expected), "{x:e} = {:#010x}", x.to_bits());
    }
}

#[test]
fn every_code_that_is_a_number_survives_both_ways() {
    for layout in [F16, BF16, E4M3, E5M2] {
        for code in 0..layout.codes {
            let value = (layout.widen)(code);
            assert!(value.is_nan() || (layout.narrow)(value) == code, "{code:#x} of {}", layout.codes);
        }
    }
}

#[test]
fn narrowing_never_reverses_an_order() {
    let mut ordered: Vec<f32> = (0..0x7f80_0000_u32).step_by(1009).map(f32::from_bits).collect();
    ordered.push(f32::INFINITY);
    for layout in [F16, BF16, E5M2] {
        let codes: Vec<u32> = ordered.iter().map(|x| (layout.narrow)(*x)).collect();
        assert!(codes.is_sorted());
    }
}
