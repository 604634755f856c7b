//! Arithmetic on one accumulator. This defines the results; vectors reproduce it bit for bit.
//!
//! How elements of other types become accumulators is in `wire`, vectors of accumulators are in `vector`.

use std::num::NonZeroU64;

use num_complex::Complex;

/// The numbers a kernel needs besides its operands, in every form that some accumulator takes them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Params {
    /// What a float contribution is multiplied with: 1/n, or the factor of a pre-multiplied sum.
    pub(super) scale: f64,
    /// The same for integers, reduced modulo 2^64.
    pub(super) whole_scale: u64,
    /// What an integer sum is divided by.
    pub(super) divisor: NonZeroU64,
}

/// A number that has an order: the integers, `f32` and `f64`.
pub(super) trait Real: Copy {
    fn add(self, other: Self) -> Self;
    fn sub(self, other: Self) -> Self;
    fn mul(self, other: Self) -> Self;
    fn min(self, other: Self) -> Self;
    fn max(self, other: Self) -> Self;
    /// 1 for anything but zero.
    fn truth(self) -> Self;
    fn scale(params: &Params) -> Self;
    /// The value that is stored for this one: any NaN becomes the one positive quiet NaN without payload.
    fn canonical(self) -> Self;
}

/// An integer.
pub(super) trait Whole: Real {
    fn and(self, other: Self) -> Self;
    fn or(self, other: Self) -> Self;
    fn xor(self, other: Self) -> Self;
    /// The quotient, truncated toward zero.
    fn divide(self, params: &Params) -> Self;
}

macro_rules! integers {
    ($($int:ty: $divide:expr),* $(,)?) => {$(
        impl Real for $int {
            #[inline(always)]
            fn add(self, other: Self) -> Self {
                self.wrapping_add(other)
            }

            #[inline(always)]
            fn sub(self, other: Self) -> Self {
                self.wrapping_sub(other)
            }

            #[inline(always)]
            fn mul(self, other: Self) -> Self {
                self.wrapping_mul(other)
            }

            #[inline(always)]
            fn min(self, other: Self) -> Self {
                if other < self { other } else { self }
            }

            #[inline(always)]
            fn max(self, other: Self) -> Self {
                if other > self { other } else { self }
            }

            #[inline(always)]
            fn truth(self) -> Self {
                (self != 0).into()
            }

            #[inline(always)]
            fn scale(params: &Params) -> Self {
                params.whole_scale as $int
            }

            #[inline(always)]
            fn canonical(self) -> Self {
                self
            }
        }

        impl Whole for $int {
            #[inline(always)]
            fn and(self, other: Self) -> Self {
                self & other
            }

            #[inline(always)]
            fn or(self, other: Self) -> Self {
                self | other
            }

            #[inline(always)]
            fn xor(self, other: Self) -> Self {
                self ^ other
            }

            #[inline(always)]
            fn divide(self, params: &Params) -> Self {
                let divide: fn($int, NonZeroU64) -> $int = $divide;
                divide(self, params.divisor)
            }
        }
    )*};
}

integers! {
    i8: |x, n| quotient_f32(x.into(), n) as i8,
    u8: |x, n| quotient_f32(x.into(), n) as u8,
    i16: |x, n| quotient_f32(x.into(), n) as i16,
    u16: |x, n| quotient_f32(x.into(), n) as u16,
    i32: |x, n| quotient_f64(x.into(), n) as i32,
    u32: |x, n| quotient_f64(x.into(), n) as u32,
    i64: |x, n| i64::try_from(n.get()).map_or(0, |n| x / n),
    u64: |x, n| x / n,
}

/// The quotient of an integer of up to 16 bits, truncated.
///
/// The true quotient of integers of b bits is at least 2^-b of itself away from the next whole number, unless it is
/// one. A float of more than b bits of precision is closer to the quotient than that, so truncating the float is exact;
/// and there are vector instructions for it, unlike for the division of integers.
#[inline(always)]
fn quotient_f32(x: f32, n: NonZeroU64) -> i32 {
    // SAFETY: no quotient of 16 bits by 1 or more is NaN or beyond 17 bits.
    unsafe { (x / n.get() as f32).to_int_unchecked() }
}

/// The quotient of an integer of up to 32 bits, truncated; exact for the same reason.
#[inline(always)]
fn quotient_f64(x: f64, n: NonZeroU64) -> i64 {
    // SAFETY: no quotient of 32 bits by 1 or more is NaN or beyond 33 bits.
    unsafe { (x / n.get() as f64).to_int_unchecked() }
}

macro_rules! floats {
    ($($float:ty, $infinity:expr);* $(;)?) => {$(
        impl Real for $float {
            #[inline(always)]
            fn add(self, other: Self) -> Self {
                self + other
            }

            #[inline(always)]
            fn sub(self, other: Self) -> Self {
                self - other
            }

            #[inline(always)]
            fn mul(self, other: Self) -> Self {
                self * other
            }

            #[inline(always)]
            fn min(self, other: Self) -> Self {
                if self < other {
                    self
                } else if other < self {
                    other
                } else {
                    // Equal, zeros of either sign, or a NaN: joined bits keep a minus sign and a NaN.
                    <$float>::from_bits(self.to_bits() | other.to_bits())
                }
            }

            #[inline(always)]
            fn max(self, other: Self) -> Self {
                if self > other {
                    self
                } else if other > self {
                    other
                } else if self.is_nan() || other.is_nan() {
                    <$float>::NAN
                } else {
                    // Equal, or zeros of either sign: only common bits keep a minus sign.
                    <$float>::from_bits(self.to_bits() & other.to_bits())
                }
            }

            #[inline(always)]
            fn truth(self) -> Self {
                if self != 0.0 { 1.0 } else { 0.0 }
            }

            #[inline(always)]
            fn scale(params: &Params) -> Self {
                params.scale as $float
            }

            #[inline(always)]
            fn canonical(self) -> Self {
                if self.abs().to_bits() > $infinity { <$float>::NAN } else { self }
            }
        }
    )*};
}

floats! {
    f32, 0x7f80_0000;
    f64, 0x7ff0_0000_0000_0000;
}

/// The product of two complex numbers, each component rounded after each of its three operations.
#[inline(always)]
pub(super) fn complex_product<T: Real + std::ops::Neg<Output = T>>(
    a: Complex<T>,
    b: Complex<T>,
) -> Complex<T> {
    Complex { re: a.re.mul(b.re).add(-a.im.mul(b.im)), im: a.re.mul(b.im).add(a.im.mul(b.re)) }
}
