//! The loop of every kernel: blocks of a few registers, all operands of a block read before any sink is written.
//!
//! The accumulators of a block stay in registers however many operands there are, so memory is passed over once.
//! [`Fold`] functions are this loop compiled for one wire, one way of combining and one level.

use super::Operand;
use super::combine::Combine;
use super::scalar::Params;
use super::wire::Wire;
use crate::RawSpan;

/// One call of a kernel.
#[derive(Clone, Copy)]
pub(super) struct Job<'a> {
    /// At least one, each `len` bytes long.
    pub(super) operands: &'a [Operand],
    /// Each `len` bytes long.
    pub(super) sinks: &'a [RawSpan],
    /// One more sink, aligned to whole elements, that is written past the caches.
    pub(super) streamed: Option<RawSpan>,
    pub(super) len: usize,
    pub(super) finish: bool,
    pub(super) params: &'a Params,
}

impl Job<'_> {
    /// Bytes before the first place where a vector of `bytes` bytes can be stored past the caches.
    #[inline(always)]
    fn lead(&self, bytes: usize) -> usize {
        self.streamed.map_or(0, |sink| sink.as_ptr().align_offset(bytes).min(self.len))
    }

    /// The first `len` bytes of it.
    #[inline(always)]
    fn first(&self, len: usize) -> Self {
        Job { len, ..*self }
    }
}

/// A compiled loop.
///
/// # Safety
/// The machine has the level that the function was compiled for, and the job keeps what [`Job`] says.
pub(super) type Fold = unsafe fn(&Job<'_>);

/// # Safety
/// As [`Fold`].
pub(super) unsafe fn scalar<W: Wire, C: Combine<W::Vector>>(job: &Job<'_>) {
    // SAFETY: passed on from the caller.
    unsafe {
        let at = blocks::<W, C, 4>(job, 0);
        blocks::<W, C, 1>(job, at);
    }
}

/// Vectors of `W`, then the rest one element of `S` at a time.
///
/// # Safety
/// As [`Fold`].
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,f16c")]
pub(super) unsafe fn avx2<W: Wire, S: Wire, C: Combine<W::Vector> + Combine<S::Vector>>(job: &Job<'_>) {
    // SAFETY: passed on from the caller.
    unsafe {
        let at = blocks::<S, C, 1>(&job.first(job.lead(W::BYTES)), 0);
        let at = blocks::<W, C, 4>(job, at);
        let at = blocks::<W, C, 1>(job, at);
        blocks::<S, C, 1>(job, at);
    }
}

/// Vectors of `W`, then the rest as a part of one vector.
///
/// # Safety
/// As [`Fold`].
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,f16c,avx512f,avx512bw,avx512dq,avx512vl")]
pub(super) unsafe fn avx512<W: Wire, C: Combine<W::Vector>>(job: &Job<'_>) {
    // SAFETY: passed on from the caller; the parts before and behind whole vectors are shorter than one.
    unsafe {
        let at = job.lead(W::BYTES);
        if at > 0 {
            block::<W, C, 1, true>(&job.first(at), 0);
        }
        let at = blocks::<W, C, 4>(job, at);
        let at = blocks::<W, C, 1>(job, at);
        if at < job.len {
            block::<W, C, 1, true>(job, at);
        }
    }
}

/// Folds as many blocks of `N` vectors as fit behind `at`; returns where the next one would start.
#[inline(always)]
unsafe fn blocks<W: Wire, C: Combine<W::Vector>, const N: usize>(job: &Job<'_>, mut at: usize) -> usize {
    while job.len - at >= N * W::BYTES {
        // SAFETY: the block lies within the job's spans.
        unsafe { block::<W, C, N, false>(job, at) };
        at += N * W::BYTES;
    }
    at
}

/// Folds the `N` vectors at `at`; if `PART`, one vector of which only the bytes up to the end of the job exist.
#[inline(always)]
unsafe fn block<W: Wire, C: Combine<W::Vector>, const N: usize, const PART: bool>(job: &Job<'_>, at: usize) {
    let bytes = job.len - at;
    // SAFETY: a job has at least one operand, and the caller keeps the block within the spans.
    unsafe {
        let mut total = read::<W, C, N, PART>(job.operands.get_unchecked(0), at, bytes, job.params);
        for operand in job.operands.get_unchecked(1..) {
            let next = read::<W, C, N, PART>(operand, at, bytes, job.params);
            for i in 0..N {
                total[i] = C::combine(total[i], next[i]);
            }
        }
        if C::FINISHES && job.finish {
            for vector in &mut total {
                *vector = C::finish(*vector, job.params);
            }
        }
        write::<W, N, PART>(total, job, at, bytes);
    }
}

#[inline(always)]
unsafe fn read<W: Wire, C: Combine<W::Vector>, const N: usize, const PART: bool>(
    operand: &Operand,
    at: usize,
    bytes: usize,
    params: &Params,
) -> [W::Vector; N] {
    // SAFETY: the caller keeps the block within the operand.
    unsafe {
        let from = operand.span.as_ptr().cast_const().add(at);
        let mut vectors = [if PART { W::load_part(from, bytes) } else { W::load(from) }; N];
        for (i, vector) in vectors.iter_mut().enumerate().skip(1) {
            *vector = W::load(from.add(i * W::BYTES));
        }
        if C::SCALES && operand.first {
            for vector in &mut vectors {
                *vector = C::scale(*vector, params);
            }
        }
        vectors
    }
}

#[inline(always)]
unsafe fn write<W: Wire, const N: usize, const PART: bool>(
    vectors: [W::Vector; N],
    job: &Job<'_>,
    at: usize,
    bytes: usize,
) {
    let mut packed = [W::pack(vectors[0]); N];
    for i in 1..N {
        packed[i] = W::pack(vectors[i]);
    }
    // SAFETY: the caller keeps the block within the sinks. A block that is a part, or single elements, ends where vectors can be
    // stored past the caches; from there on all are whole.
    unsafe {
        for sink in job.sinks {
            let to = sink.as_ptr().add(at);
            if PART {
                W::store_part(packed[0], to, bytes);
            } else {
                for (i, packed) in packed.iter().enumerate() {
                    W::store(*packed, to.add(i * W::BYTES));
                }
            }
        }
        if let Some(sink) = job.streamed {
            let to = sink.as_ptr().add(at);
            if PART {
                W::store_part(packed[0], to, bytes);
            } else {
                for (i, packed) in packed.iter().enumerate() {
                    stream::<W>(*packed, to.add(i * W::BYTES));
                }
            }
        }
    }
}

/// As [`Wire::store`], past the caches where what is packed is a register.
///
/// # Safety
/// As [`Wire::store`]; `to` is aligned to a register.
#[inline(always)]
unsafe fn stream<W: Wire>(packed: W::Packed, to: *mut u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: as many plain bytes as the register that they are; only a level that has the register packs into it.
    unsafe {
        use std::arch::x86_64::{__m256i, __m512i, _mm256_stream_si256, _mm512_stream_si512};
        use std::mem::transmute_copy;
        match size_of::<W::Packed>() {
            64 => return _mm512_stream_si512(to.cast(), transmute_copy::<W::Packed, __m512i>(&packed)),
            32 => return _mm256_stream_si256(to.cast(), transmute_copy::<W::Packed, __m256i>(&packed)),
            _ => {}
        }
    }
    // SAFETY: passed on from the caller.
    unsafe { W::store(packed, to) };
}

/// Orders what this thread has stored past the caches before whatever it stores later.
pub(super) fn settle() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: SSE is part of x86-64; the fence touches no memory.
    unsafe {
        std::arch::x86_64::_mm_sfence();
    }
}
