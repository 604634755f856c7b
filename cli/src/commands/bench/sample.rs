//! [`Sample`]: the element types that are measured, and how a whole number becomes an element and is recognised again.

use half::{bf16, f16};
use hcomm::{DType, Element};
use num_complex::Complex;

/// A test value: a small whole number, with an imaginary part for complex types (others drop it).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Value {
    /// Real part.
    pub re: i64,
    /// Imaginary part.
    pub im: i64,
}

/// What a result should be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Want {
    /// This number, wrapped to the type where the type wraps.
    Exactly(Value),
    /// These real and imaginary parts, up to what rounding can do.
    About {
        /// Real and imaginary part.
        parts: [f64; 2],
        /// Sum of the magnitudes that were added, times the number of roundings.
        weight: f64,
    },
}

/// An element type.
pub trait Sample: Element {
    /// Up to here whole numbers are exact, both signs where it has two.
    const LIMIT: i64;
    /// Whether it has negative numbers.
    const IS_SIGNED: bool;
    /// Unit roundoff; 0 where results wrap instead.
    const ROUNDOFF: f64;
    /// What no result is.
    const POISON: Self;

    /// A value as an element, wrapped to the type.
    fn of(value: Value) -> Self;

    /// What is left of a number in the type; integers only.
    fn wrap(number: i64) -> i64 {
        number
    }

    /// Whether it is the result that should be.
    fn meets(self, want: &Want) -> bool;
}

macro_rules! whole {
    ($($type:ty, $limit:expr, $signed:expr;)*) => {$(
        impl Sample for $type {
            const LIMIT: i64 = $limit;
            const IS_SIGNED: bool = $signed;
            const ROUNDOFF: f64 = 0.0;
            const POISON: Self = <$type>::MAX;

            fn of(value: Value) -> Self {
                value.re as $type
            }

            fn wrap(number: i64) -> i64 {
                number as $type as i64
            }

            fn meets(self, want: &Want) -> bool {
                matches!(want, Want::Exactly(value) if self == value.re as $type)
            }
        }
    )*};
}

/// `LIMIT` leaves out the poison.
const WIDE: i64 = 1 << 30;

whole! {
    i8, 126, true;
    u8, 254, false;
    i16, 32_766, true;
    u16, 65_534, false;
    i32, WIDE, true;
    u32, WIDE, false;
    i64, WIDE, true;
    u64, WIDE, false;
}

macro_rules! float {
    ($($type:ty, $bits:expr, $nan:expr, $of:expr;)*) => {$(
        impl Sample for $type {
            const LIMIT: i64 = 1 << if $bits < 30 { $bits } else { 30 };
            const IS_SIGNED: bool = true;
            const ROUNDOFF: f64 = 1.0 / (1_u64 << $bits) as f64;
            const POISON: Self = $nan;

            fn of(value: Value) -> Self {
                $of(value.re)
            }

            fn meets(self, want: &Want) -> bool {
                is_near([f64::from(self), 0.0], want, Self::ROUNDOFF, false)
            }
        }
    )*};
}

float! {
    f16, 11, f16::NAN, |re| f16::from_f32(re as f32);
    bf16, 8, bf16::NAN, |re| bf16::from_f32(re as f32);
    f32, 24, f32::NAN, |re| re as f32;
    f64, 53, f64::NAN, |re| re as f64;
}

macro_rules! complex {
    ($($part:ty)*) => {$(
        impl Sample for Complex<$part> {
            const LIMIT: i64 = <$part>::LIMIT;
            const IS_SIGNED: bool = true;
            const ROUNDOFF: f64 = <$part>::ROUNDOFF;
            const POISON: Self = Complex { re: <$part>::NAN, im: <$part>::NAN };

            fn of(value: Value) -> Self {
                Complex { re: value.re as $part, im: value.im as $part }
            }

            fn meets(self, want: &Want) -> bool {
                is_near([f64::from(self.re), f64::from(self.im)], want, Self::ROUNDOFF, true)
            }
        }
    )*};
}

complex! { f32 f64 }

impl Sample for bool {
    const LIMIT: i64 = 1;
    const IS_SIGNED: bool = false;
    const ROUNDOFF: f64 = 0.0;
    // There is no third value; the check of fresh data still sees half of what is not written.
    const POISON: Self = true;

    fn of(value: Value) -> Self {
        value.re & 1 == 1
    }

    fn meets(self, want: &Want) -> bool {
        matches!(want, Want::Exactly(value) if self == (value.re & 1 == 1))
    }
}

fn is_near(found: [f64; 2], want: &Want, roundoff: f64, is_complex: bool) -> bool {
    let (parts, slack) = match want {
        Want::Exactly(value) => ([value.re as f64, value.im as f64], 0.0),
        Want::About { parts, weight } => (*parts, weight * roundoff),
    };
    let is_close = |part: usize| (found[part] - parts[part]).abs() <= slack;
    is_close(0) && (!is_complex || is_close(1))
}

/// Calls a generic function with the Rust type of a [`DType`]; `None` for those without one.
macro_rules! with_type {
    ($dtype:expr, $function:ident ($($argument:expr),*)) => {
        match $dtype {
            hcomm::DType::I8 => Some($function::<i8>($($argument),*)),
            hcomm::DType::U8 => Some($function::<u8>($($argument),*)),
            hcomm::DType::I16 => Some($function::<i16>($($argument),*)),
            hcomm::DType::U16 => Some($function::<u16>($($argument),*)),
            hcomm::DType::I32 => Some($function::<i32>($($argument),*)),
            hcomm::DType::U32 => Some($function::<u32>($($argument),*)),
            hcomm::DType::I64 => Some($function::<i64>($($argument),*)),
            hcomm::DType::U64 => Some($function::<u64>($($argument),*)),
            hcomm::DType::F16 => Some($function::<half::f16>($($argument),*)),
            hcomm::DType::BF16 => Some($function::<half::bf16>($($argument),*)),
            hcomm::DType::F32 => Some($function::<f32>($($argument),*)),
            hcomm::DType::F64 => Some($function::<f64>($($argument),*)),
            hcomm::DType::Bool => Some($function::<bool>($($argument),*)),
            hcomm::DType::Complex64 => Some($function::<num_complex::Complex<f32>>($($argument),*)),
            hcomm::DType::Complex128 => Some($function::<num_complex::Complex<f64>>($($argument),*)),
            hcomm::DType::F8E4M3 | hcomm::DType::F8E5M2 => None,
        }
    };
}
pub(super) use with_type;

/// Whether there is a [`Sample`] of it.
pub fn is_measured(dtype: DType) -> bool {
    !matches!(dtype, DType::F8E4M3 | DType::F8E5M2)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check<T: Sample>() {
        let (low, high) = (if T::IS_SIGNED { -T::LIMIT } else { 0 }, T::LIMIT);
        for number in [low, 0, 1, high - 1, high] {
            let value = Value { re: number, im: number / 2 };
            assert!(T::of(value).meets(&Want::Exactly(value)), "{} {number}", T::DTYPE);
            let other = Value { re: number ^ 1, im: value.im };
            assert!(!T::of(value).meets(&Want::Exactly(other)), "{} {number}", T::DTYPE);
            assert!(T::DTYPE == DType::Bool || !T::POISON.meets(&Want::Exactly(value)), "{}", T::DTYPE);
        }
    }

    #[test]
    fn elements_are_told_apart_up_to_their_limits() {
        for dtype in DType::ALL {
            assert_eq!(with_type!(dtype, check()).is_some(), is_measured(dtype), "{dtype}");
        }
    }

    #[test]
    fn roundings_are_forgiven_and_no_more() {
        let want = Want::About { parts: [3.0, 0.0], weight: 6.0 };
        assert!((3.0_f32 + 4.0 * f32::EPSILON / 2.0).meets(&want));
        assert!(!3.000_01_f32.meets(&want));
        assert!(!f32::NAN.meets(&want));
    }
}
