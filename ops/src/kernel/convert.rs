//! [`Conversion`]: elements of one float type as those of another, with the wires of the kernels, so that the bits are those that a
//! fold would have read or stored.
//!
//! Both wires of a level have the same accumulators: a vector is loaded from one and packed by the other.

use super::format::{self, Format, VectorOf};
use super::level::Level;
use super::mxcsr::FixedRounding;
use super::wire::Wire;
use crate::{DType, RawSpan};

/// Two types between which there is no conversion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{from} cannot be converted to {to}; conversions are between f32 and f16, and f32 and bf16")]
pub struct UnsupportedConversion {
    /// The type of the source.
    pub from: DType,
    /// The type of the result.
    pub to: DType,
}

/// The conversion of one type to another, looked up once and then run on spans.
///
/// Narrowing rounds to nearest even, whatever environment the calling thread has set; what is too large becomes infinite, and
/// what is small subnormal. Widening is exact. A NaN becomes the positive quiet NaN without payload.
#[derive(Clone, Copy, Debug)]
pub struct Conversion {
    convert: Convert,
    /// Bytes of an element of either type.
    sizes: (usize, usize),
}

/// A compiled loop.
///
/// # Safety
/// The machine has the level that the function was compiled for; the spans have the same number of whole elements.
type Convert = unsafe fn(RawSpan, RawSpan);

impl Conversion {
    /// Looks the pair up.
    ///
    /// # Errors
    /// Where there is no conversion between the two.
    pub fn new(from: DType, to: DType) -> Result<Conversion, UnsupportedConversion> {
        Conversion::with_level(from, to, Level::detected())
    }

    /// The same with no more than the instructions of `level`, for tests and measurements.
    ///
    /// # Errors
    /// As [`Conversion::new`].
    pub fn with_level(from: DType, to: DType, level: Level) -> Result<Conversion, UnsupportedConversion> {
        let level = level.min(Level::detected());
        let convert = match (from, to) {
            (DType::F32, DType::F16) => convert::<format::F32, format::F16>(level),
            (DType::F32, DType::BF16) => convert::<format::F32, format::BF16>(level),
            (DType::F16, DType::F32) => convert::<format::F16, format::F32>(level),
            (DType::BF16, DType::F32) => convert::<format::BF16, format::F32>(level),
            _ => return Err(UnsupportedConversion { from, to }),
        };
        Ok(Conversion { convert, sizes: (from.size_bytes(), to.size_bytes()) })
    }

    /// Converts all elements of `from` into `to`, at any alignment.
    ///
    /// # Panics
    /// Where the two have not the same number of whole elements, or share a byte: local invariants of the caller.
    pub fn run(&self, from: RawSpan, to: RawSpan) {
        let (of, into) = self.sizes;
        let whole = |bytes: usize, size: usize| bytes.is_multiple_of(size).then_some(bytes / size);
        let count = whole(from.len(), of);
        assert!(
            count.is_some() && count == whole(to.len(), into),
            "{} bytes are not as many elements as {} bytes",
            from.len(),
            to.len()
        );
        assert!(!from.overlaps(to), "a conversion reads and writes different bytes");
        let _rounding = FixedRounding::enter();
        // SAFETY: the loop's level was detected on this machine; both spans have as many whole elements.
        unsafe { (self.convert)(from, to) };
    }
}

fn convert<F, T>(level: Level) -> Convert
where
    F: Format,
    T: Format<
            Scalar: Wire<Vector = VectorOf<F::Scalar>>,
            Avx2: Wire<Vector = VectorOf<F::Avx2>>,
            Avx512: Wire<Vector = VectorOf<F::Avx512>>,
        >,
{
    match level {
        Level::Scalar => scalar::<F::Scalar, T::Scalar>,
        #[cfg(target_arch = "x86_64")]
        Level::Avx2 => avx2::<F::Avx2, T::Avx2>,
        #[cfg(target_arch = "x86_64")]
        Level::Avx512 => avx512::<F::Avx512, T::Avx512>,
        #[cfg(not(target_arch = "x86_64"))]
        Level::Avx2 | Level::Avx512 => scalar::<F::Scalar, T::Scalar>,
    }
}

/// # Safety
/// As [`Convert`].
unsafe fn scalar<F: Wire, T: Wire<Vector = F::Vector>>(from: RawSpan, to: RawSpan) {
    // SAFETY: passed on from the caller.
    unsafe { vectors::<F, T>(from, to) };
}

/// # Safety
/// As [`Convert`].
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,f16c")]
unsafe fn avx2<F: Wire, T: Wire<Vector = F::Vector>>(from: RawSpan, to: RawSpan) {
    // SAFETY: passed on from the caller.
    unsafe { vectors::<F, T>(from, to) };
}

/// # Safety
/// As [`Convert`].
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,f16c,avx512f,avx512bw,avx512dq,avx512vl")]
unsafe fn avx512<F: Wire, T: Wire<Vector = F::Vector>>(from: RawSpan, to: RawSpan) {
    // SAFETY: passed on from the caller.
    unsafe { vectors::<F, T>(from, to) };
}

/// Whole vectors, then the rest as a part of one.
///
/// # Safety
/// As [`Convert`].
#[inline(always)]
unsafe fn vectors<F: Wire, T: Wire<Vector = F::Vector>>(from: RawSpan, to: RawSpan) {
    let whole = from.len() / F::BYTES;
    // SAFETY: a vector has as many elements in either wire, so that `whole` of them lie within both spans, and what is left of
    // both is the same elements, fewer than a vector.
    unsafe {
        let (mut source, mut sink) = (from.as_ptr().cast_const(), to.as_ptr());
        for _ in 0..whole {
            T::store(T::pack(F::load(source)), sink);
            (source, sink) = (source.add(F::BYTES), sink.add(T::BYTES));
        }
        let rest = from.len() - whole * F::BYTES;
        if rest > 0 {
            let vector = F::load_part(source, rest);
            T::store_part(T::pack(vector), sink, to.len() - whole * T::BYTES);
        }
    }
}
