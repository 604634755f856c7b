//! Floats of 16 and 8 bits: exact widening to `f32` and narrowing with one rounding, to nearest even.
//!
//! One pair of functions serves every layout that has a sign, `E` exponent bits and `M` mantissa bits. What lies
//! beyond the largest finite value differs: binary16 and e5m2 have infinities, as IEEE 754 has; e4m3 (the OCP variant
//! without infinities) turns overflow into NaN, as PyTorch and ml_dtypes do when they convert.

/// The quiet NaN that is stored, of either layout.
pub(super) const F16_NAN: u16 = 0x7e00;
const E5M2_INFINITY: u32 = 0x7c;
const E5M2_NAN: u8 = 0x7e;
const E4M3_LARGEST: u32 = 0x7e;
const E4M3_NAN: u8 = 0x7f;
const F16_INFINITY: u32 = 0x7c00;

static E4M3_VALUES: [f32; 256] = e4m3_values();
static E5M2_VALUES: [f32; 256] = e5m2_values();

/// The value of a binary16.
#[inline(always)]
pub(super) const fn f16_to_f32(code: u16) -> f32 {
    widen_ieee::<5, 10>(code as u32)
}

/// The nearest binary16; overflow gives infinity.
#[inline(always)]
pub(super) fn f32_to_f16(x: f32) -> u16 {
    if x.is_nan() {
        return F16_NAN;
    }
    (sign(x, 16) | narrow_magnitude::<5, 10>(x).min(F16_INFINITY)) as u16
}

/// The value of a bfloat16.
#[inline(always)]
pub(super) const fn bf16_to_f32(code: u16) -> f32 {
    f32::from_bits((code as u32) << 16)
}

/// The nearest bfloat16; overflow gives infinity.
#[inline(always)]
pub(super) fn f32_to_bf16(x: f32) -> u16 {
    let bits = if x.is_nan() { f32::NAN.to_bits() } else { x.to_bits() };
    ((bits + 0x7fff + (bits >> 16 & 1)) >> 16) as u16
}

/// The value of an e4m3.
#[inline(always)]
pub(super) fn e4m3_to_f32(code: u8) -> f32 {
    E4M3_VALUES[code as usize]
}

/// The nearest e4m3; overflow gives NaN.
#[inline(always)]
pub(super) fn f32_to_e4m3(x: f32) -> u8 {
    let magnitude = narrow_magnitude::<4, 3>(x);
    if x.is_nan() || magnitude > E4M3_LARGEST {
        return E4M3_NAN;
    }
    (sign(x, 8) | magnitude) as u8
}

/// The value of an e5m2.
#[inline(always)]
pub(super) fn e5m2_to_f32(code: u8) -> f32 {
    E5M2_VALUES[code as usize]
}

/// The nearest e5m2; overflow gives infinity.
#[inline(always)]
pub(super) fn f32_to_e5m2(x: f32) -> u8 {
    if x.is_nan() {
        return E5M2_NAN;
    }
    (sign(x, 8) | narrow_magnitude::<5, 2>(x).min(E5M2_INFINITY)) as u8
}

/// The sign of `x` as the highest of `width` bits.
#[inline(always)]
fn sign(x: f32, width: u32) -> u32 {
    x.to_bits() >> 31 << (width - 1)
}

/// Exponent and mantissa of |x|, rounded to `M` mantissa bits as if the exponent had no upper bound.
#[inline(always)]
fn narrow_magnitude<const E: u32, const M: u32>(x: f32) -> u32 {
    let bits = x.abs().to_bits();
    let bias = bias(E);
    if bits < (128 - bias) << 23 {
        // Below the smallest normal. One unit in the last place of this power of two is the step of the subnormals,
        // so the addition itself rounds to a multiple of the step.
        let rounder = f32::from_bits((127 + 24 - bias - M) << 23);
        return (x.abs() + rounder).to_bits() - rounder.to_bits();
    }
    let dropped = 23 - M;
    let odd = bits >> dropped & 1;
    ((bits + (1 << (dropped - 1)) - 1 + odd) >> dropped) - ((127 - bias) << M)
}

/// The value of a code whose largest exponent means infinity or NaN.
#[inline(always)]
const fn widen_ieee<const E: u32, const M: u32>(code: u32) -> f32 {
    let magnitude = code & ((1 << (E + M)) - 1);
    let sign = (code >> (E + M)) << 31;
    if magnitude >> M == (1 << E) - 1 {
        let mantissa = magnitude << (23 - M) & 0x7f_ffff;
        return f32::from_bits(sign | 0x7f80_0000 | mantissa);
    }
    f32::from_bits(sign | widen_finite::<E, M>(magnitude).to_bits())
}

/// The value of a code without its sign that is neither infinite nor NaN.
#[inline(always)]
const fn widen_finite<const E: u32, const M: u32>(magnitude: u32) -> f32 {
    if magnitude >> M == 0 {
        let step = f32::from_bits((128 - bias(E) - M) << 23);
        return magnitude as f32 * step;
    }
    f32::from_bits((magnitude << (23 - M)) + ((127 - bias(E)) << 23))
}

const fn bias(exponent_bits: u32) -> u32 {
    (1 << (exponent_bits - 1)) - 1
}

const fn e4m3_values() -> [f32; 256] {
    let mut values = [f32::NAN; 256];
    let mut code = 0_u32;
    while code < 256 {
        if code & 0x7f != E4M3_NAN as u32 {
            let value = widen_finite::<4, 3>(code & 0x7f);
            values[code as usize] = f32::from_bits(value.to_bits() | (code >> 7) << 31);
        }
        code += 1;
    }
    values
}

const fn e5m2_values() -> [f32; 256] {
    let mut values = [0.0; 256];
    let mut code = 0_u32;
    while code < 256 {
        values[code as usize] = widen_ieee::<5, 2>(code);
        code += 1;
    }
    values
}

#[cfg(test)]
mod tests;
