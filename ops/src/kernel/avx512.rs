//! Registers of 64 bytes: the vectors and wires of the AVX-512 level.
//!
//! Where no instruction does what `scalar` defines, several give the same bits, or the default of [`Vector`] goes lane
//! by lane. What these lists become is in `registers`.

use std::arch::x86_64::*;
use std::marker::PhantomData;
use std::mem::transmute;

use super::registers::{bits, narrow_floats, ordered_floats, vectors};
use super::vector::{Bits, Vector, at_most_one};
use super::wire::Wire;

vectors! {
    I8: __m512i = [i8; 64] { unchanged; add: _mm512_add_epi8, min: _mm512_min_epi8, max: _mm512_max_epi8 }
    U8: __m512i = [u8; 64] { unchanged, truth at_most_one; add: _mm512_add_epi8, min: _mm512_min_epu8, max: _mm512_max_epu8 }
    I16: __m512i = [i16; 32] { unchanged; add: _mm512_add_epi16, min: _mm512_min_epi16, max: _mm512_max_epi16 }
    U16: __m512i = [u16; 32] {
        unchanged, truth at_most_one;
        add: _mm512_add_epi16, mul: _mm512_mullo_epi16, min: _mm512_min_epu16, max: _mm512_max_epu16,
    }
    I32: __m512i = [i32; 16] { unchanged; add: _mm512_add_epi32, min: _mm512_min_epi32, max: _mm512_max_epi32 }
    U32: __m512i = [u32; 16] {
        unchanged, truth at_most_one;
        add: _mm512_add_epi32, mul: _mm512_mullo_epi32, min: _mm512_min_epu32, max: _mm512_max_epu32,
    }
    I64: __m512i = [i64; 8] { unchanged; add: _mm512_add_epi64, min: _mm512_min_epi64, max: _mm512_max_epi64 }
    U64: __m512i = [u64; 8] {
        unchanged, truth at_most_one;
        add: _mm512_add_epi64, mul: _mm512_mullo_epi64, min: _mm512_min_epu64, max: _mm512_max_epu64,
    }
    F32: __m512 = [f32; 16] { canonical_ps, truth truth_f32; add: _mm512_add_ps, mul: _mm512_mul_ps, min: min_ps, max: max_ps }
    F64: __m512d = [f64; 8] { canonical_pd, truth truth_f64; add: _mm512_add_pd, mul: _mm512_mul_pd, min: min_pd, max: max_pd }
}

bits!(I8, U8, I16, U16, I32, U32, I64, U64; _mm512_and_si512, _mm512_or_si512, _mm512_xor_si512);

narrow_floats! {
    F16 in __m256i: _mm512_cvtph_ps, narrow_f16;
    Bf16 in __m256i: widen_bf16, narrow_bf16;
}

ordered_floats! {
    "avx512f,avx512dq";
    min_ps, max_ps, canonical_ps on __m512:
        _mm512_min_ps, _mm512_max_ps, _mm512_or_ps, _mm512_and_ps, nan_where_ps;
    min_pd, max_pd, canonical_pd on __m512d:
        _mm512_min_pd, _mm512_max_pd, _mm512_or_pd, _mm512_and_pd, nan_where_pd;
}

/// A wire whose parts are loaded and stored under a mask, which leaves the bytes outside of it untouched.
pub(super) struct Masked<W>(PhantomData<W>);

impl<W: Wire> Wire for Masked<W> {
    type Vector = W::Vector;
    type Packed = W::Packed;
    const BYTES: usize = W::BYTES;

    #[inline(always)]
    unsafe fn load(from: *const u8) -> W::Vector {
        // SAFETY: passed on from the caller.
        unsafe { W::load(from) }
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
        // SAFETY: the caller vouches for the bytes in the mask, and for the level; a wire loads at most 64 bytes.
        unsafe {
            let register = _mm512_maskz_loadu_epi8(first(bytes), from.cast());
            W::load((&raw const register).cast())
        }
    }

    #[inline(always)]
    unsafe fn store_part(packed: W::Packed, to: *mut u8, bytes: usize) {
        // SAFETY: the caller vouches for the bytes in the mask, and for the level; a wire stores at most 64 bytes.
        unsafe {
            let mut register = _mm512_setzero_si512();
            W::store(packed, (&raw mut register).cast());
            _mm512_mask_storeu_epi8(to.cast(), first(bytes), register);
        }
    }
}

/// The mask of the first `bytes` of 64 bytes, fewer than all.
#[inline(always)]
fn first(bytes: usize) -> __mmask64 {
    (1 << bytes) - 1
}

#[inline]
#[target_feature(enable = "avx512f")]
fn unchanged(a: __m512i) -> __m512i {
    a
}

/// `c`, and NaN where `a` or `b` is NaN.
#[inline]
#[target_feature(enable = "avx512f")]
fn nan_where_ps(a: __m512, b: __m512, c: __m512) -> __m512 {
    _mm512_mask_mov_ps(c, _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(a, b), _mm512_set1_ps(f32::NAN))
}

/// `c`, and NaN where `a` or `b` is NaN.
#[inline]
#[target_feature(enable = "avx512f")]
fn nan_where_pd(a: __m512d, b: __m512d, c: __m512d) -> __m512d {
    _mm512_mask_mov_pd(c, _mm512_cmp_pd_mask::<_CMP_UNORD_Q>(a, b), _mm512_set1_pd(f64::NAN))
}

/// 1 where `a` is not zero; a NaN is not.
#[inline(always)]
fn truth_f32(a: F32) -> F32 {
    // SAFETY: the machine has the level.
    F32(unsafe {
        _mm512_maskz_mov_ps(_mm512_cmp_ps_mask::<_CMP_NEQ_UQ>(a.0, _mm512_setzero_ps()), _mm512_set1_ps(1.0))
    })
}

/// 1 where `a` is not zero; a NaN is not.
#[inline(always)]
fn truth_f64(a: F64) -> F64 {
    // SAFETY: the machine has the level.
    F64(unsafe {
        _mm512_maskz_mov_pd(_mm512_cmp_pd_mask::<_CMP_NEQ_UQ>(a.0, _mm512_setzero_pd()), _mm512_set1_pd(1.0))
    })
}

#[inline]
#[target_feature(enable = "avx512f")]
fn narrow_f16(a: __m512) -> __m256i {
    _mm512_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(a)
}

#[inline]
#[target_feature(enable = "avx512f")]
fn widen_bf16(a: __m256i) -> __m512 {
    _mm512_castsi512_ps(_mm512_slli_epi32::<16>(_mm512_cvtepu16_epi32(a)))
}

/// Adds half a unit, or a little less where the kept bits are even, and cuts. The instruction that rounds to bfloat16
/// would lose subnormals.
#[inline]
#[target_feature(enable = "avx512f")]
fn narrow_bf16(a: __m512) -> __m256i {
    let bits = _mm512_castps_si512(a);
    let odd = _mm512_and_si512(_mm512_srli_epi32::<16>(bits), _mm512_set1_epi32(1));
    let rounded = _mm512_add_epi32(_mm512_add_epi32(bits, odd), _mm512_set1_epi32(0x7fff));
    _mm512_cvtepi32_epi16(_mm512_srli_epi32::<16>(rounded))
}
