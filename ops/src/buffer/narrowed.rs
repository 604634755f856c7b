//! [`Narrowed`]: a buffer of f32 that a call sees as f16 or bf16, so that half the bytes travel.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::{Claim, Landing, StableBuffer, Takeoff, span_of};
use crate::{Conversion, DType, RawSpan};

/// An f32 buffer as elements of f16 or bf16, in staging memory of its own.
///
/// The elements are rounded to nearest even when an operation begins; what is too large becomes infinite, and is counted. The operation
/// works on the rounded ones, as its narrow type says (a reduction accumulates in f32 and rounds what it stores), and when it has ended
/// well and this was its output, the result is widened into the buffer. An operation that fails leaves the buffer as it was.
///
/// All ranks of a call narrow alike: to the others the call is one of the narrow type.
///
/// ```
/// # mod hcomm { pub use hcomm_ops::{buffer::{Narrowed, StableBuffer}, DType}; }
/// use hcomm::{DType, Narrowed, StableBuffer};
///
/// let mut narrow = Narrowed::new(vec![1.0_f32, 1.0002, 1e6], DType::F16).expect("f32 as f16");
/// assert_eq!((narrow.dtype(), narrow.span().len()), (DType::F16, 6));
/// narrow.takeoff().map(|takeoff| takeoff());
/// narrow.landing().map(|landing| landing());
/// assert_eq!(narrow.overflows(), 1);
/// assert_eq!(narrow.into_inner(), [1.0, 1.0, f32::INFINITY]);
/// ```
#[derive(Debug)]
pub struct Narrowed<B> {
    inner: B,
    staging: Box<[u16]>,
    dtype: DType,
    narrow: Conversion,
    widen: Conversion,
    overflows: Overflows,
}

/// Elements that became infinite on the way.
#[derive(Clone, Debug)]
struct Overflows {
    count: Arc<AtomicU64>,
    /// Whether what this rank gave was infinite in part, so that of the result it says nothing.
    gave_infinite: Arc<AtomicBool>,
    /// The bits of an infinity, less the sign's.
    infinity: u16,
}

impl<B: StableBuffer> Narrowed<B> {
    /// The buffer as elements of `dtype`.
    ///
    /// # Errors
    /// Gives the buffer back where its elements are not f32, or `dtype` is neither f16 nor bf16.
    pub fn new(mut buffer: B, dtype: DType) -> Result<Narrowed<B>, B> {
        let given = buffer.dtype();
        let conversions = (Conversion::new(given, dtype), Conversion::new(dtype, given));
        let (DType::F32, (Ok(narrow), Ok(widen))) = (given, conversions) else { return Err(buffer) };
        let staging = vec![0_u16; buffer.span().len() / size_of::<f32>()].into_boxed_slice();
        let overflows = Overflows {
            count: Arc::default(),
            gave_infinite: Arc::default(),
            infinity: if dtype == DType::F16 { 0x7c00 } else { 0x7f80 },
        };
        Ok(Narrowed { inner: buffer, staging, dtype, narrow, widen, overflows })
    }

    /// The buffer, whose overflows are added to a count that others may have part in.
    #[must_use]
    pub fn counted_by(mut self, count: Arc<AtomicU64>) -> Narrowed<B> {
        self.overflows.count = count;
        self
    }

    /// Elements that became infinite: those of this rank that were too large for the narrow type, or, where there were none and nothing
    /// given was infinite, those of the result.
    pub fn overflows(&self) -> u64 {
        self.overflows.count.load(Ordering::Relaxed)
    }

    /// The buffer: the widened result, where it was the output of an operation that ended well.
    pub fn into_inner(self) -> B {
        self.inner
    }
}

impl Overflows {
    /// Counts among the elements that this rank gives.
    fn look_at_given(&self, wide: RawSpan, narrow: RawSpan) {
        let infinite = self.infinities(narrow);
        if infinite > 0 {
            let given =
                elements::<u32>(wide).filter(|bits| bits & 0x7fff_ffff == f32::INFINITY.to_bits()).count();
            self.count.fetch_add(infinite.saturating_sub(given as u64), Ordering::Relaxed);
        }
        self.gave_infinite.store(infinite > 0, Ordering::Relaxed);
    }

    /// Counts among those of the result.
    fn look_at_result(&self, narrow: RawSpan) {
        if !self.gave_infinite.load(Ordering::Relaxed) {
            self.count.fetch_add(self.infinities(narrow), Ordering::Relaxed);
        }
    }

    fn infinities(&self, narrow: RawSpan) -> u64 {
        elements::<u16>(narrow).filter(|bits| bits & 0x7fff == self.infinity).count() as u64
    }
}

/// The elements of a span, which may lie at any address.
fn elements<T: Copy>(span: RawSpan) -> impl Iterator<Item = T> {
    let start = span.as_ptr().cast_const().cast::<T>();
    // SAFETY: the span is valid for as many elements, which are plain numbers.
    (0..span.len() / size_of::<T>()).map(move |at| unsafe { start.add(at).read_unaligned() })
}

// SAFETY: the box's allocation does not move; its elements are plain bytes, and all bit patterns are codes of `dtype`. Takeoff and landing
// use that allocation and the bytes of the inner buffer, which are as stable, and both live as long as this value.
unsafe impl<B: StableBuffer> StableBuffer for Narrowed<B> {
    fn dtype(&self) -> DType {
        self.dtype
    }

    fn span(&mut self) -> RawSpan {
        span_of(&mut self.staging)
    }

    fn takeoff(&mut self) -> Option<Takeoff> {
        let inner = self.inner.takeoff();
        let (narrow, from, to) = (self.narrow, self.inner.span(), span_of(&mut self.staging));
        let overflows = self.overflows.clone();
        Some(Box::new(move || {
            if let Some(takeoff) = inner {
                takeoff();
            }
            narrow.run(from, to);
            overflows.look_at_given(from, to);
        }))
    }

    fn landing(&mut self) -> Option<Landing> {
        let (widen, from, to) = (self.widen, span_of(&mut self.staging), self.inner.span());
        let (inner, overflows) = (self.inner.landing(), self.overflows.clone());
        Some(Box::new(move || {
            overflows.look_at_result(from);
            widen.run(from, to);
            if let Some(landing) = inner {
                landing();
            }
        }))
    }

    fn is_writable(&self) -> bool {
        self.inner.is_writable()
    }

    fn claim(&self) -> Option<Claim> {
        self.inner.claim()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::buffer::Shared;

    #[test]
    fn only_f32_becomes_f16_or_bf16() {
        for dtype in DType::ALL {
            let narrowed = Narrowed::new(vec![1.0_f32, -2.0], dtype);
            let fits = matches!(dtype, DType::F16 | DType::BF16);
            assert_eq!(narrowed.is_ok(), fits, "{dtype}");
            assert_eq!(narrowed.map_or_else(|back| back, Narrowed::into_inner), [1.0, -2.0]);
            assert!(Narrowed::new(vec![1.0_f64], dtype).is_err(), "{dtype}");
        }
    }

    /// Rounds what it has, as an operation that begins does.
    fn taken_off(elements: Vec<f32>, dtype: DType) -> Narrowed<Vec<f32>> {
        let mut narrowed = Narrowed::new(elements, dtype).expect("f32");
        narrowed.takeoff().expect("there is one")();
        narrowed
    }

    #[test]
    fn the_buffer_changes_only_where_it_lands() {
        let mut narrowed = taken_off(vec![0.1_f32, 0.2], DType::BF16);
        narrowed.span().write(&[0, 0x40, 0x80, 0xbf]);
        assert_eq!(narrowed.into_inner(), [0.1, 0.2]);
        let mut narrowed = taken_off(vec![0.1_f32, 0.2], DType::BF16);
        narrowed.span().write(&[0, 0x40, 0x80, 0xbf]);
        narrowed.landing().expect("there is one")();
        assert_eq!(narrowed.into_inner(), [2.0, -1.0]);
    }

    #[test]
    fn what_becomes_infinite_is_counted_once() {
        let infinite = f32::INFINITY;
        for (given, result, expected) in [
            ([1.0, 2.0, 3.0], [1.0, 2.0, 3.0], 0),
            ([1.0, 1e5, -1e5], [1.0, infinite, -infinite], 2),
            // Another rank's were too large, or the sum was.
            ([1.0, 6e4, 2.0], [1.0, infinite, -infinite], 2),
            // What was infinite before did not become so.
            ([infinite, 1.0, f32::NAN], [infinite, 1.0, f32::NAN], 0),
            ([infinite, 1e5, 1.0], [infinite, infinite, infinite], 1),
        ] {
            let mut narrowed = taken_off(given.to_vec(), DType::F16);
            let bits: Vec<u8> =
                result.iter().flat_map(|x: &f32| half::f16::from_f32(*x).to_le_bytes()).collect();
            narrowed.span().write(&bits);
            narrowed.landing().expect("there is one")();
            assert_eq!(narrowed.overflows(), expected, "{given:?} {result:?}");
        }
        assert_eq!(taken_off(vec![3.4e38, 3.39e38], DType::BF16).overflows(), 1);
    }

    #[test]
    fn it_is_read_when_it_takes_off() {
        let shared = Shared::new(vec![1.0_f32; 3]);
        let mut narrowed = Narrowed::new(shared.clone(), DType::F16).expect("f32");
        assert!(narrowed.claim().is_some());
        shared.with(|elements| elements.fill(2.0)).expect("nobody uses it");
        narrowed.takeoff().expect("there is one")();
        shared.with(|elements| elements.fill(7.0)).expect("nobody uses it");
        narrowed.landing().expect("there is one")();
        assert_eq!(shared.with(|elements| elements.to_vec()), Some(vec![2.0; 3]));
    }
}
