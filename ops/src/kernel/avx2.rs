//! Registers of 32 bytes: the vectors and wires of the AVX2 level.
//!
//! Where no instruction does what `scalar` defines, several give the same bits, or the default of [`Vector`] goes lane
//! by lane. What these lists become is in `registers`.

use std::arch::x86_64::*;
use std::mem::transmute;

use super::registers::{bits, narrow_floats, ordered_floats, vectors};
use super::vector::{Bits, Vector, at_most_one};
use super::wire::Wire;

vectors! {
    I8: __m256i = [i8; 32] { unchanged; add: _mm256_add_epi8, min: _mm256_min_epi8, max: _mm256_max_epi8 }
    U8: __m256i = [u8; 32] { unchanged, truth at_most_one; add: _mm256_add_epi8, min: _mm256_min_epu8, max: _mm256_max_epu8 }
    I16: __m256i = [i16; 16] { unchanged; add: _mm256_add_epi16, min: _mm256_min_epi16, max: _mm256_max_epi16 }
    U16: __m256i = [u16; 16] {
        unchanged, truth at_most_one;
        add: _mm256_add_epi16, mul: _mm256_mullo_epi16, min: _mm256_min_epu16, max: _mm256_max_epu16,
    }
    I32: __m256i = [i32; 8] { unchanged; add: _mm256_add_epi32, min: _mm256_min_epi32, max: _mm256_max_epi32 }
    U32: __m256i = [u32; 8] {
        unchanged, truth at_most_one;
        add: _mm256_add_epi32, mul: _mm256_mullo_epi32, min: _mm256_min_epu32, max: _mm256_max_epu32,
    }
    I64: __m256i = [i64; 4] { unchanged; add: _mm256_add_epi64 }
    U64: __m256i = [u64; 4] { unchanged; add: _mm256_add_epi64 }
    F32: __m256 = [f32; 8] { canonical_ps, truth truth_f32; add: _mm256_add_ps, mul: _mm256_mul_ps, min: min_ps, max: max_ps }
    F64: __m256d = [f64; 4] { canonical_pd, truth truth_f64; add: _mm256_add_pd, mul: _mm256_mul_pd, min: min_pd, max: max_pd }
}

bits!(I8, U8, I16, U16, I32, U32, I64, U64; _mm256_and_si256, _mm256_or_si256, _mm256_xor_si256);

narrow_floats! {
    F16 in __m128i: _mm256_cvtph_ps, narrow_f16;
    Bf16 in __m128i: widen_bf16, narrow_bf16;
}

ordered_floats! {
    "avx2";
    min_ps, max_ps, canonical_ps on __m256:
        _mm256_min_ps, _mm256_max_ps, _mm256_or_ps, _mm256_and_ps, nan_where_ps;
    min_pd, max_pd, canonical_pd on __m256d:
        _mm256_min_pd, _mm256_max_pd, _mm256_or_pd, _mm256_and_pd, nan_where_pd;
}

#[inline]
#[target_feature(enable = "avx2")]
fn unchanged(a: __m256i) -> __m256i {
    a
}

/// `c`, and NaN where `a` or `b` is NaN.
#[inline]
#[target_feature(enable = "avx2")]
fn nan_where_ps(a: __m256, b: __m256, c: __m256) -> __m256 {
    _mm256_blendv_ps(c, _mm256_set1_ps(f32::NAN), _mm256_cmp_ps::<_CMP_UNORD_Q>(a, b))
}

/// `c`, and NaN where `a` or `b` is NaN.
#[inline]
#[target_feature(enable = "avx2")]
fn nan_where_pd(a: __m256d, b: __m256d, c: __m256d) -> __m256d {
    _mm256_blendv_pd(c, _mm256_set1_pd(f64::NAN), _mm256_cmp_pd::<_CMP_UNORD_Q>(a, b))
}

/// 1 where `a` is not zero; a NaN is not.
#[inline(always)]
fn truth_f32(a: F32) -> F32 {
    // SAFETY: the machine has the level.
    F32(unsafe { _mm256_and_ps(_mm256_cmp_ps::<_CMP_NEQ_UQ>(a.0, _mm256_setzero_ps()), _mm256_set1_ps(1.0)) })
}

/// 1 where `a` is not zero; a NaN is not.
#[inline(always)]
fn truth_f64(a: F64) -> F64 {
    // SAFETY: the machine has the level.
    F64(unsafe { _mm256_and_pd(_mm256_cmp_pd::<_CMP_NEQ_UQ>(a.0, _mm256_setzero_pd()), _mm256_set1_pd(1.0)) })
}

#[inline]
#[target_feature(enable = "avx2,f16c")]
fn narrow_f16(a: __m256) -> __m128i {
    _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(a)
}

#[inline]
#[target_feature(enable = "avx2")]
fn widen_bf16(a: __m128i) -> __m256 {
    _mm256_castsi256_ps(_mm256_slli_epi32::<16>(_mm256_cvtepu16_epi32(a)))
}

/// Adds half a unit, or a little less where the kept bits are even, and cuts.
#[inline]
#[target_feature(enable = "avx2")]
fn narrow_bf16(a: __m256) -> __m128i {
    let bits = _mm256_castps_si256(a);
    let odd = _mm256_and_si256(_mm256_srli_epi32::<16>(bits), _mm256_set1_epi32(1));
    let rounded = _mm256_add_epi32(_mm256_add_epi32(bits, odd), _mm256_set1_epi32(0x7fff));
    let kept = _mm256_srli_epi32::<16>(rounded);
    _mm_packus_epi32(_mm256_castsi256_si128(kept), _mm256_extracti128_si256::<1>(kept))
}
