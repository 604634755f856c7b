//! [`Widened`]: a buffer of integers that a call sees in a type of more bits, so that their sum fits.

use super::{Claim, Landing, StableBuffer, Takeoff, span_of};
use crate::{DType, RawSpan};

/// A buffer of integers as such of more bits, in staging memory of its own: of 8 and 16 bits as 32, of 32 as 64.
///
/// The average of integers is their sum, which wraps in the type of the call, divided at the end. In the wider type the sum of up to
/// 65,536 ranks does not wrap, and its average fits the narrow one again: when an operation has ended well and this was its output,
/// the result goes back into the buffer, less the upper bits. An operation that fails leaves the buffer as it was. Two to four times the bytes travel.
///
/// All ranks of a call widen alike: to the others the call is one of the wide type.
///
/// ```
/// # mod hcomm { pub use hcomm_ops::{buffer::{StableBuffer, Widened}, DType}; }
/// use hcomm::{DType, StableBuffer, Widened};
///
/// let mut wide = Widened::new(vec![100_i8, -100]).expect("integers of 8 bits");
/// assert_eq!((wide.dtype(), wide.span().len()), (DType::I32, 8));
/// assert!(Widened::new(vec![100_i64]).is_err());
/// ```
#[derive(Debug)]
pub struct Widened<B> {
    inner: B,
    /// As elements of 64 bits, for their alignment; there may be more room than elements.
    staging: Box<[u64]>,
    bytes: usize,
    ways: Ways,
}

/// How elements of one type become those of another, and back.
#[derive(Clone, Copy, Debug)]
struct Ways {
    wide: DType,
    widen: fn(RawSpan, RawSpan),
    narrow: fn(RawSpan, RawSpan),
}

impl<B: StableBuffer> Widened<B> {
    /// The buffer as elements of a wider type.
    ///
    /// # Errors
    /// Gives the buffer back where its elements are not integers, or there is no wider type: of 64 bits.
    pub fn new(mut buffer: B) -> Result<Widened<B>, B> {
        let Some(ways) = ways(buffer.dtype()) else { return Err(buffer) };
        let count = buffer.span().len() / buffer.dtype().size_bytes();
        let bytes = count * ways.wide.size_bytes();
        let staging = vec![0_u64; bytes.div_ceil(size_of::<u64>())].into_boxed_slice();
        Ok(Widened { inner: buffer, staging, bytes, ways })
    }

    /// The buffer: the result, where it was the output of an operation that ended well.
    pub fn into_inner(self) -> B {
        self.inner
    }
}

// SAFETY: the box's allocation does not move; its elements are plain bytes, and all bit patterns are integers. Takeoff and landing use
// that allocation and the bytes of the inner buffer, which are as stable, and both live as long as this value.
unsafe impl<B: StableBuffer> StableBuffer for Widened<B> {
    fn dtype(&self) -> DType {
        self.ways.wide
    }

    fn span(&mut self) -> RawSpan {
        span_of(&mut self.staging).slice(0, self.bytes)
    }

    fn takeoff(&mut self) -> Option<Takeoff> {
        let inner = self.inner.takeoff();
        let (widen, from, to) = (self.ways.widen, self.inner.span(), self.span());
        Some(Box::new(move || {
            if let Some(takeoff) = inner {
                takeoff();
            }
            widen(from, to);
        }))
    }

    fn landing(&mut self) -> Option<Landing> {
        let (narrow, from, to) = (self.ways.narrow, self.span(), self.inner.span());
        let inner = self.inner.landing();
        Some(Box::new(move || {
            narrow(from, to);
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

macro_rules! ways {
    ($narrow:ty, $wide:ty, $dtype:expr) => {
        Some(Ways {
            wide: $dtype,
            widen: |from, to| each(from, to, |element: $narrow| <$wide>::from(element)),
            narrow: |from, to| each(from, to, |element: $wide| element as $narrow),
        })
    };
}

fn ways(dtype: DType) -> Option<Ways> {
    match dtype {
        DType::I8 => ways!(i8, i32, DType::I32),
        DType::I16 => ways!(i16, i32, DType::I32),
        DType::I32 => ways!(i32, i64, DType::I64),
        DType::U8 => ways!(u8, u32, DType::U32),
        DType::U16 => ways!(u16, u32, DType::U32),
        DType::U32 => ways!(u32, u64, DType::U64),
        _ => None,
    }
}

/// Writes what turns of each element of one span to the other.
fn each<F: Copy, T>(from: RawSpan, to: RawSpan, turn: impl Fn(F) -> T) {
    let count = from.len() / size_of::<F>();
    assert_eq!(count, to.len() / size_of::<T>(), "as many elements on either side");
    let (source, sink) = (from.as_ptr().cast_const().cast::<F>(), to.as_ptr().cast::<T>());
    for at in 0..count {
        // SAFETY: both spans have `count` elements, which are plain numbers, at any alignment.
        unsafe { sink.add(at).write_unaligned(turn(source.add(at).read_unaligned())) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What an operation that does nothing leaves.
    fn there_and_back<T: crate::Element + std::fmt::Debug>(elements: Vec<T>) -> (DType, Vec<T>) {
        let mut widened = Widened::new(elements).expect("integers of few bits");
        widened.takeoff().expect("there is one")();
        let dtype = widened.dtype();
        widened.inner.span().write(&vec![0x55; widened.inner.span().len()]);
        widened.landing().expect("there is one")();
        (dtype, widened.into_inner())
    }

    #[test]
    fn every_value_comes_back() {
        assert_eq!(
            there_and_back((i8::MIN..=i8::MAX).collect()),
            (DType::I32, (i8::MIN..=i8::MAX).collect())
        );
        assert_eq!(there_and_back((0..=u8::MAX).collect()), (DType::U32, (0..=u8::MAX).collect()));
        assert_eq!(there_and_back(vec![i16::MIN, -1, i16::MAX]), (DType::I32, vec![i16::MIN, -1, i16::MAX]));
        assert_eq!(there_and_back(vec![0, u16::MAX]), (DType::U32, vec![0, u16::MAX]));
        assert_eq!(there_and_back(vec![i32::MIN, -1, i32::MAX]), (DType::I64, vec![i32::MIN, -1, i32::MAX]));
        assert_eq!(there_and_back(vec![0, u32::MAX]), (DType::U64, vec![0, u32::MAX]));
        assert_eq!(there_and_back(Vec::<i8>::new()), (DType::I32, vec![]));
    }

    #[test]
    fn only_integers_of_few_bits_turn_wider() {
        let narrow = [DType::I8, DType::I16, DType::I32, DType::U8, DType::U16, DType::U32];
        for dtype in DType::ALL {
            assert_eq!(ways(dtype).is_some(), narrow.contains(&dtype), "{dtype}");
        }
    }
}
