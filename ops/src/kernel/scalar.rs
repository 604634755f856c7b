//! Arithmetic on one accumulator. This defines the results; vectors reproduce it bit for bit.
//!
//! How elements of other types become accumulators is in `wire`, vectors of accumulators are in `vector`.

use num_complex::Complex;

/// The numbers a kernel needs besides its operands, in every form that some accumulator takes them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Params {
    /// What a float contribution is multiplied with: 1/n, or the factor of a pre-multiplied sum.
    pub(super) scale: f64,
    /// The same for integers, reduced modulo 2^64.
    pub(super) whole_scale: u64,
    /// What an integer sum is divided by; at least 1.
    pub(super) divisor: u64,
}

/// A number that has an order: the integers, `f32` and `f64`.
pub(super) trait Real: Copy {
    fn add(self, other: Self) -> Self;
    fn mul(self, other: Self) -> Self;
    fn min(self, other: Self) -> Self;
    fn max(self, other: Self) -> Self;
    fn is_true(self) -> bool;
    fn from_bool(value: bool) -> Self;
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
            fn is_true(self) -> bool {
                self != 0
            }

            #[inline(always)]
            fn from_bool(value: bool) -> Self {
                value.into()
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
                let divide: fn($int, u64) -> $int = $divide;
                divide(self, params.divisor)
            }
        }
    )*};
}

// Up to 32 bits the quotient in `f64` is within 2^-53 of the true one, which is at least 2^-32 away from the next
// whole number unless it is one: truncation is exact, and compilers have vector instructions for it.
integers! {
    i8: |x, n| (f64::from(x) / n as f64) as i8,
    u8: |x, n| (f64::from(x) / n as f64) as u8,
    i16: |x, n| (f64::from(x) / n as f64) as i16,
    u16: |x, n| (f64::from(x) / n as f64) as u16,
    i32: |x, n| (f64::from(x) / n as f64) as i32,
    u32: |x, n| (f64::from(x) / n as f64) as u32,
    i64: |x, n| i64::try_from(n).map_or(0, |n| x / n),
    u64: |x, n| x / n,
}

macro_rules! floats {
    ($($float:ty, $infinity:expr);* $(;)?) => {$(
        impl Real for $float {
            #[inline(always)]
            fn add(self, other: Self) -> Self {
                self + other
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
            fn is_true(self) -> bool {
                self != 0.0
            }

            #[inline(always)]
            fn from_bool(value: bool) -> Self {
                if value { 1.0 } else { 0.0 }
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
