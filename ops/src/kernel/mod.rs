//! [`Kernel`]: one data type and one reduction, looked up once and then run on spans.
//!
//! Bottom up: `scalar` is the arithmetic of one accumulator, `vector` that of a register, `wire` the way between bytes
//! and registers, `combine` the reductions, `fold` the loop over a job, `format` and `table` the choice among them, `convert` the loop
//! from one type to another. `avx2`
//! and `avx512` are the vectors and wires of the higher levels.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod combine;
mod convert;
mod fold;
mod format;
mod level;
mod mxcsr;
#[cfg(target_arch = "x86_64")]
mod registers;
mod scalar;
mod small_float;
mod table;
mod vector;
mod wire;

pub use convert::{Conversion, UnsupportedConversion};
pub use level::Level;

use std::num::NonZeroU64;

use crate::{DType, Factor, RawSpan, ReduceOp};
use fold::{Job, settle};
use mxcsr::FixedRounding;
use scalar::Params;
use table::Entry;

/// A reduction that does not exist for a data type.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{op} of {dtype} is not supported; {dtype} supports {supported}")]
pub struct UnsupportedReduction {
    /// The data type asked for.
    pub dtype: DType,
    /// The reduction asked for.
    pub op: ReduceOp,
    /// Names of the reductions that the type has, comma-separated.
    pub supported: String,
}

/// One source of a fold.
#[derive(Clone, Copy, Debug)]
pub struct Operand {
    /// Its elements.
    pub span: RawSpan,
    /// Whether these are a rank's own contribution, not yet scaled: `Average` of floats and `PreMulSum` scale it as
    /// it is read.
    pub first: bool,
}

/// The arithmetic of one (data type, reduction, world size).
///
/// Integers wrap. Floats of 16 and 8 bits are folded in `f32`, the others in their own type, with one rounding to
/// nearest even when the result is stored, whatever environment the calling thread has set. A result that is NaN is
/// stored as the positive quiet NaN without payload, so that no bit depends on order or instructions. A float average
/// multiplies by 1/n; an integer `PreMulSum` takes whole factors in the range of the type. Bool reductions and logical
/// reductions leave 0 or 1.
#[derive(Clone, Copy, Debug)]
pub struct Kernel {
    entry: Entry,
    dtype: DType,
    level: Level,
    params: Params,
}

impl Kernel {
    /// Looks the pair up.
    ///
    /// # Errors
    /// [`UnsupportedReduction`] where the pair has no meaning, such as `min` of complex numbers, or half of an integer
    /// by `PreMulSum`.
    pub fn new(dtype: DType, op: ReduceOp, world: usize) -> Result<Kernel, UnsupportedReduction> {
        Kernel::with_level(dtype, op, world, Level::detected())
    }

    /// As [`Kernel::new`], with no more than the instructions of `level`, for tests and measurements.
    ///
    /// # Errors
    /// As [`Kernel::new`].
    pub fn with_level(
        dtype: DType,
        op: ReduceOp,
        world: usize,
        level: Level,
    ) -> Result<Kernel, UnsupportedReduction> {
        let unsupported = || UnsupportedReduction { dtype, op, supported: supported(dtype) };
        let level = level.min(Level::detected());
        let entry = table::look_up(dtype, op, level).ok_or_else(unsupported)?;
        let params = params(dtype, op, world).ok_or_else(unsupported)?;
        Ok(Kernel { entry, dtype, level, params })
    }

    /// Whether a fold of these is a copy.
    #[inline]
    fn copies(&self, operands: &[Operand], finish: bool) -> bool {
        let [only] = operands else { return false };
        !(self.entry.scales && only.first || self.entry.finishes && finish)
    }

    /// Folds `operands` left to right in the accumulate type, divides by the world size where `finish` is set and
    /// the reduction is an integer average, rounds once, and stores the result in every sink.
    ///
    /// All spans have the same number of bytes, a multiple of the element size, at any alignment. A sink may be
    /// exactly one of the operands; spans overlap in no other way. One operand and nothing to scale is a copy; with
    /// `finish`, bool and logical reductions of one operand still leave 0 or 1. No operand at all changes nothing.
    ///
    /// # Panics
    /// Where the spans differ in length: a local invariant of the caller.
    #[inline]
    pub fn fold(&self, operands: &[Operand], sinks: &[RawSpan], finish: bool) {
        let Some(head) = operands.first() else { return };
        let len = head.span.len();
        let fits = operands.iter().all(|o| o.span.len() == len) && sinks.iter().all(|s| s.len() == len);
        assert!(fits, "all spans of a fold have the {len} bytes of the first operand");
        if self.copies(operands, finish) {
            return copy(head.span, sinks);
        }
        let _rounding = self.entry.floats.then(FixedRounding::enter);
        let job = Job { operands, sinks, streamed: None, len, finish, params: &self.params };
        // SAFETY: the entry's level was detected on this machine; there is an operand, and all spans have `len` bytes.
        unsafe { (self.entry.fold)(&job) };
    }

    /// Whether [`Kernel::fold_streaming`] can write there: it is aligned to whole elements.
    pub fn can_stream_to(&self, result: RawSpan) -> bool {
        (result.as_ptr() as usize).is_multiple_of(self.dtype.size_bytes())
    }

    /// As [`Kernel::fold`], with one more sink, `result`, which overlaps no other span and is written past the caches.
    ///
    /// # Panics
    /// Where the spans differ in length, or [`Kernel::can_stream_to`] says no: local invariants of the caller.
    pub fn fold_streaming(&self, operands: &[Operand], sinks: &[RawSpan], result: RawSpan, finish: bool) {
        let Some(head) = operands.first() else { return };
        let len = head.span.len();
        let fits = operands.iter().all(|o| o.span.len() == len) && sinks.iter().all(|s| s.len() == len);
        assert!(fits && result.len() == len, "all spans of a fold have the {len} bytes of the first operand");
        assert!(self.can_stream_to(result), "a result past the caches is aligned to whole elements");
        let (entry, sinks) = match table::look_up(DType::U8, ReduceOp::Sum, self.level) {
            Some(bytes) if self.copies(operands, finish) => {
                copy(head.span, sinks);
                (bytes, &[][..])
            }
            _ => (self.entry, sinks),
        };
        let _rounding = entry.floats.then(FixedRounding::enter);
        let job = Job { operands, sinks, streamed: Some(result), len, finish, params: &self.params };
        // SAFETY: the entry's level was detected on this machine; there is an operand, and all spans have `len` bytes.
        unsafe { (entry.fold)(&job) };
        settle();
    }
}

fn copy(source: RawSpan, sinks: &[RawSpan]) {
    for sink in sinks.iter().filter(|sink| sink.as_ptr() != source.as_ptr()) {
        sink.copy_from(source);
    }
}

fn params(dtype: DType, op: ReduceOp, world: usize) -> Option<Params> {
    let divisor = NonZeroU64::new(world as u64).unwrap_or(NonZeroU64::MIN);
    let average = Params { scale: 1.0 / divisor.get() as f64, whole_scale: 1, divisor };
    let ReduceOp::PreMulSum(Factor(scale)) = op else { return Some(average) };
    match whole_range(dtype) {
        None => Some(Params { scale, ..average }),
        Some((lowest, highest)) => {
            // A float beyond the range of i128 saturates to a whole number that is outside of every range below.
            let whole = scale as i128;
            let exact = whole as f64 == scale && (lowest..=highest).contains(&whole);
            exact.then_some(Params { scale, whole_scale: whole as u64, ..average })
        }
    }
}

/// Lowest and highest value of an integer type.
fn whole_range(dtype: DType) -> Option<(i128, i128)> {
    let bits = 8 * dtype.size_bytes();
    match dtype {
        DType::I8 | DType::I16 | DType::I32 | DType::I64 => Some((-(1 << (bits - 1)), (1 << (bits - 1)) - 1)),
        DType::U8 | DType::U16 | DType::U32 | DType::U64 => Some((0, (1 << bits) - 1)),
        _ => None,
    }
}

fn supported(dtype: DType) -> String {
    let exists = |op: &ReduceOp| table::look_up(dtype, *op, Level::Scalar).is_some();
    let describe = |op: ReduceOp| match (op, whole_range(dtype)) {
        (ReduceOp::PreMulSum(_), Some((lowest, highest))) => {
            format!("{} by a whole factor from {lowest} to {highest}", op.name())
        }
        _ => op.name().to_owned(),
    };
    ReduceOp::ALL.into_iter().filter(exists).map(describe).collect::<Vec<_>>().join(", ")
}
