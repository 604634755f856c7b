//! Vectors of accumulators: what an operation may ask of a register, at any level.
//!
//! An operation without an instruction of its own is done lane by lane through [`Vector::zip`]. The vectors of wider
//! levels are in `avx2` and `avx512`.

use super::scalar::{Params, Real, Whole};

/// Accumulators that are combined lane by lane.
pub(super) trait Vector: Copy {
    /// One accumulator.
    type Element: Real;

    fn splat(element: Self::Element) -> Self;

    fn zip(self, other: Self, f: impl Fn(Self::Element, Self::Element) -> Self::Element) -> Self;

    #[inline(always)]
    fn add(self, other: Self) -> Self {
        self.zip(other, Real::add)
    }

    #[inline(always)]
    fn mul(self, other: Self) -> Self {
        self.zip(other, Real::mul)
    }

    #[inline(always)]
    fn min(self, other: Self) -> Self {
        self.zip(other, Real::min)
    }

    #[inline(always)]
    fn max(self, other: Self) -> Self {
        self.zip(other, Real::max)
    }

    /// 1 for every lane that is not zero.
    #[inline(always)]
    fn truth(self) -> Self {
        self.zip(self, |a, _| a.truth())
    }

    #[inline(always)]
    fn logical_and(self, other: Self) -> Self {
        self.truth().min(other.truth())
    }

    #[inline(always)]
    fn logical_or(self, other: Self) -> Self {
        self.truth().max(other.truth())
    }

    #[inline(always)]
    fn logical_xor(self, other: Self) -> Self {
        let (a, b) = (self.truth(), other.truth());
        a.max(b).zip(a.min(b), Real::sub)
    }

    #[inline(always)]
    fn scale(self, params: &Params) -> Self {
        self.mul(Self::splat(Real::scale(params)))
    }
}

/// A vector of integers.
pub(super) trait Bits: Vector<Element: Whole> {
    #[inline(always)]
    fn and(self, other: Self) -> Self {
        self.zip(other, Whole::and)
    }

    #[inline(always)]
    fn or(self, other: Self) -> Self {
        self.zip(other, Whole::or)
    }

    #[inline(always)]
    fn xor(self, other: Self) -> Self {
        self.zip(other, Whole::xor)
    }

    #[inline(always)]
    fn divide(self, params: &Params) -> Self {
        self.zip(self, |a, _| a.divide(params))
    }
}

/// The truth of unsigned integers, where there is an instruction for their minimum.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(super) fn at_most_one<V: Vector<Element: Whole + From<bool>>>(vector: V) -> V {
    vector.min(V::splat(true.into()))
}

/// A single accumulator: the vector of the scalar level.
#[derive(Clone, Copy)]
pub(super) struct One<E>(pub(super) E);

impl<E: Real> Vector for One<E> {
    type Element = E;

    #[inline(always)]
    fn splat(element: E) -> Self {
        One(element)
    }

    #[inline(always)]
    fn zip(self, other: Self, f: impl Fn(E, E) -> E) -> Self {
        One(f(self.0, other.0))
    }
}

impl<E: Whole> Bits for One<E> {}
