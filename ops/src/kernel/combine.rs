//! The ways of combining two vectors of accumulators: one empty type each, chosen when a kernel is made.

use std::ops::Neg;

use num_complex::Complex;

use super::scalar::{Params, Real, complex_product};
use super::vector::{Bits, Vector};

/// What a fold does with the marks `first` and `finish`.
pub(super) trait Marks {
    /// Whether operands marked `first` are scaled.
    const SCALES: bool = false;
    /// Whether `finish` changes a result.
    const FINISHES: bool = false;
}

/// A reduction of accumulators `V`.
pub(super) trait Combine<V: Copy>: Marks {
    fn combine(so_far: V, next: V) -> V;

    #[inline(always)]
    fn scale(vector: V, _params: &Params) -> V {
        vector
    }

    #[inline(always)]
    fn finish(vector: V, _params: &Params) -> V {
        vector
    }
}

macro_rules! combines {
    ($($name:ident on $bound:ident: $method:ident $(, finish with $finish:ident)?;)*) => {$(
        pub(super) struct $name;

        impl Marks for $name {
            $(const FINISHES: bool = { let _ = stringify!($finish); true };)?
        }

        impl<V: $bound> Combine<V> for $name {
            #[inline(always)]
            fn combine(so_far: V, next: V) -> V {
                so_far.$method(next)
            }

            $(#[inline(always)]
            fn finish(vector: V, _params: &Params) -> V {
                vector.$finish()
            })?
        }
    )*};
}

combines! {
    Sum on Vector: add;
    Product on Vector: mul;
    Min on Vector: min;
    Max on Vector: max;
    BitAnd on Bits: and;
    BitOr on Bits: or;
    BitXor on Bits: xor;
    LogicalAnd on Vector: logical_and, finish with truth;
    LogicalOr on Vector: logical_or, finish with truth;
    LogicalXor on Vector: logical_xor, finish with truth;
}

/// Sum of contributions that are scaled as they are read.
pub(super) struct ScaledSum;

impl Marks for ScaledSum {
    const SCALES: bool = true;
}

impl<V: Vector> Combine<V> for ScaledSum {
    #[inline(always)]
    fn combine(so_far: V, next: V) -> V {
        so_far.add(next)
    }

    #[inline(always)]
    fn scale(vector: V, params: &Params) -> V {
        vector.scale(params)
    }
}

/// Sum that is divided when it is complete.
pub(super) struct DividedSum;

impl Marks for DividedSum {
    const FINISHES: bool = true;
}

impl<V: Bits> Combine<V> for DividedSum {
    #[inline(always)]
    fn combine(so_far: V, next: V) -> V {
        so_far.add(next)
    }

    #[inline(always)]
    fn finish(vector: V, params: &Params) -> V {
        vector.divide(params)
    }
}

/// Product of complex numbers.
pub(super) struct ComplexProduct;

impl Marks for ComplexProduct {}

impl<T: Real + Neg<Output = T>> Combine<Complex<T>> for ComplexProduct {
    #[inline(always)]
    fn combine(so_far: Complex<T>, next: Complex<T>) -> Complex<T> {
        complex_product(so_far, next)
    }
}
