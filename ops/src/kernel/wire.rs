//! How elements lie in memory: [`Wire`] turns bytes at any alignment into accumulators and back, with one rounding.
//!
//! These are the element-by-element forms; those of wider levels are in `avx2` and `avx512`.

use std::marker::PhantomData;

use num_complex::Complex;

use super::scalar::Real;
use super::small_float::{
    bf16_to_f32, e4m3_to_f32, e5m2_to_f32, f16_to_f32, f32_to_bf16, f32_to_e4m3, f32_to_e5m2, f32_to_f16,
};
use super::vector::{One, Vector};

/// The bytes of one vector of accumulators.
pub(super) trait Wire {
    /// The accumulators.
    type Vector: Copy;
    /// The same, rounded and ready to be stored any number of times.
    type Packed: Copy;
    /// Bytes in memory of one vector; at most 64.
    const BYTES: usize;

    /// # Safety
    /// `BYTES` bytes are readable at `from`; the machine has the level of this wire.
    unsafe fn load(from: *const u8) -> Self::Vector;

    fn pack(vector: Self::Vector) -> Self::Packed;

    /// # Safety
    /// `BYTES` bytes are writable at `to`; the machine has the level of this wire.
    unsafe fn store(packed: Self::Packed, to: *mut u8);

    /// Loads only the first `bytes` bytes; the lanes behind them are zero.
    ///
    /// # Safety
    /// `bytes <= BYTES` bytes are readable at `from`; the machine has the level of this wire.
    #[inline(always)]
    unsafe fn load_part(from: *const u8, bytes: usize) -> Self::Vector {
        let mut copy = [0_u8; 64];
        // SAFETY: the caller vouches for `bytes` bytes, which `copy` can hold; then BYTES of it are read.
        unsafe {
            std::ptr::copy_nonoverlapping(from, copy.as_mut_ptr(), bytes);
            Self::load(copy.as_ptr())
        }
    }

    /// Stores only the first `bytes` bytes.
    ///
    /// # Safety
    /// `bytes <= BYTES` bytes are writable at `to`; the machine has the level of this wire.
    #[inline(always)]
    unsafe fn store_part(packed: Self::Packed, to: *mut u8, bytes: usize) {
        let mut copy = [0_u8; 64];
        // SAFETY: BYTES bytes fit into `copy`; the caller vouches for `bytes` bytes at `to`.
        unsafe {
            Self::store(packed, copy.as_mut_ptr());
            std::ptr::copy_nonoverlapping(copy.as_ptr(), to, bytes);
        }
    }
}

/// Elements that are their own accumulators.
pub(super) struct Plain<V>(PhantomData<V>);

impl<E: Real> Wire for Plain<One<E>> {
    type Vector = One<E>;
    type Packed = E;
    const BYTES: usize = size_of::<E>();

    #[inline(always)]
    unsafe fn load(from: *const u8) -> One<E> {
        // SAFETY: the caller vouches for the bytes; every bit pattern is a number.
        One(unsafe { from.cast::<E>().read_unaligned() })
    }

    #[inline(always)]
    fn pack(vector: One<E>) -> E {
        vector.0.canonical()
    }

    #[inline(always)]
    unsafe fn store(packed: E, to: *mut u8) {
        // SAFETY: the caller vouches for the bytes.
        unsafe { to.cast::<E>().write_unaligned(packed) };
    }
}

/// Bytes that hold 0 or 1, over a wire of plain `u8`.
pub(super) struct Truth<W>(PhantomData<W>);

impl<W: Wire<Vector: Vector<Element = u8>>> Wire for Truth<W> {
    type Vector = W::Vector;
    type Packed = W::Packed;
    const BYTES: usize = W::BYTES;

    #[inline(always)]
    unsafe fn load(from: *const u8) -> W::Vector {
        // SAFETY: passed on from the caller.
        unsafe { W::load(from) }.truth()
    }

    #[inline(always)]
    fn pack(vector: W::Vector) -> W::Packed {
        W::pack(vector)
    }

    #[inline(always)]
    unsafe fn store(packed: W::Packed, to: *mut u8) {
        // SAFETY: passed on from the caller.
        unsafe { W::store(packed, to) };
    }

    #[inline(always)]
    unsafe fn load_part(from: *const u8, bytes: usize) -> W::Vector {
        // SAFETY: passed on from the caller.
        unsafe { W::load_part(from, bytes) }.truth()
    }

    #[inline(always)]
    unsafe fn store_part(packed: W::Packed, to: *mut u8, bytes: usize) {
        // SAFETY: passed on from the caller.
        unsafe { W::store_part(packed, to, bytes) };
    }
}

/// Pairs of floats, real part first.
pub(super) struct Pair<T>(PhantomData<T>);

impl<T: Real> Wire for Pair<T> {
    type Vector = Complex<T>;
    type Packed = Complex<T>;
    const BYTES: usize = 2 * size_of::<T>();

    #[inline(always)]
    unsafe fn load(from: *const u8) -> Complex<T> {
        // SAFETY: the caller vouches for the bytes; every bit pattern is a pair of numbers.
        unsafe { from.cast::<Complex<T>>().read_unaligned() }
    }

    #[inline(always)]
    fn pack(vector: Complex<T>) -> Complex<T> {
        Complex { re: vector.re.canonical(), im: vector.im.canonical() }
    }

    #[inline(always)]
    unsafe fn store(packed: Complex<T>, to: *mut u8) {
        // SAFETY: the caller vouches for the bytes.
        unsafe { to.cast::<Complex<T>>().write_unaligned(packed) };
    }
}

macro_rules! narrow_floats {
    ($($(#[$doc:meta])* $name:ident($code:ty): $widen:path, $narrow:path;)*) => {$(
        $(#[$doc])*
        pub(super) struct $name;

        impl Wire for $name {
            type Vector = One<f32>;
            type Packed = $code;
            const BYTES: usize = size_of::<$code>();

            #[inline(always)]
            unsafe fn load(from: *const u8) -> One<f32> {
                // SAFETY: the caller vouches for the bytes; every bit pattern is a code.
                One($widen(unsafe { from.cast::<$code>().read_unaligned() }))
            }

            #[inline(always)]
            fn pack(vector: One<f32>) -> $code {
                $narrow(vector.0)
            }

            #[inline(always)]
            unsafe fn store(packed: $code, to: *mut u8) {
                // SAFETY: the caller vouches for the bytes.
                unsafe { to.cast::<$code>().write_unaligned(packed) };
            }
        }
    )*};
}

narrow_floats! {
    /// One binary16.
    F16(u16): f16_to_f32, f32_to_f16;
    /// One bfloat16.
    Bf16(u16): bf16_to_f32, f32_to_bf16;
    /// One e4m3.
    E4m3(u8): e4m3_to_f32, f32_to_e4m3;
    /// One e5m2.
    E5m2(u8): e5m2_to_f32, f32_to_e5m2;
}
