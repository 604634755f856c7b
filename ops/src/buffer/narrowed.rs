//! [`Narrowed`]: a buffer of f32 that a call sees as f16 or bf16, so that half the bytes travel.

use super::{Claim, Landing, StableBuffer, span_of};
use crate::{Conversion, DType, RawSpan};

/// An f32 buffer as elements of f16 or bf16, in staging memory of its own.
///
/// The elements are rounded to nearest even when this is made; what is too large becomes infinite. An operation works on the
/// rounded ones, as its narrow type says (a reduction accumulates in f32 and rounds what it stores), and when it has ended well and this
/// was its output, the result is widened into the buffer. An operation that fails leaves the buffer as it was.
///
/// All ranks of a call narrow alike: to the others the call is one of the narrow type.
///
/// ```
/// use hcomm_ops::buffer::{Landing, Narrowed, StableBuffer};
/// use hcomm_ops::DType;
///
/// let mut narrow = Narrowed::new(vec![1.0_f32, 1.0002, 1e6], DType::F16).expect("f32 as f16");
/// assert_eq!((narrow.dtype(), narrow.span().len()), (DType::F16, 6));
/// narrow.landing().map(|landing| landing());
/// assert_eq!(narrow.into_inner(), [1.0, 1.0, f32::INFINITY]);
/// ```
#[derive(Debug)]
pub struct Narrowed<B> {
    inner: B,
    staging: Box<[u16]>,
    dtype: DType,
    widen: Conversion,
}

impl<B: StableBuffer> Narrowed<B> {
    /// Reads the buffer and shows it as elements of `dtype`. What other operations write to it from now on is not seen.
    ///
    /// # Errors
    /// Gives the buffer back where its elements are not f32, `dtype` is neither f16 nor bf16, or it is shared and in use.
    pub fn new(mut buffer: B, dtype: DType) -> Result<Narrowed<B>, B> {
        let given = buffer.dtype();
        let conversions = (Conversion::new(given, dtype), Conversion::new(dtype, given));
        let (DType::F32, (Ok(narrow), Ok(widen))) = (given, conversions) else { return Err(buffer) };
        let claim = buffer.claim();
        if claim.as_ref().is_some_and(|claim| !claim.take()) {
            return Err(buffer);
        }
        let from = buffer.span();
        let mut staging = vec![0_u16; from.len() / size_of::<f32>()].into_boxed_slice();
        narrow.run(from, span_of(&mut staging));
        claim.iter().for_each(Claim::give_back);
        Ok(Narrowed { inner: buffer, staging, dtype, widen })
    }

    /// The buffer: the widened result, where it was the output of an operation that ended well.
    pub fn into_inner(self) -> B {
        self.inner
    }
}

// SAFETY: the box's allocation does not move; its elements are plain bytes, and all bit patterns are codes of `dtype`. The landing
// uses that allocation and the bytes of the inner buffer, which are as stable, and both live as long as this value.
unsafe impl<B: StableBuffer> StableBuffer for Narrowed<B> {
    fn dtype(&self) -> DType {
        self.dtype
    }

    fn span(&mut self) -> RawSpan {
        span_of(&mut self.staging)
    }

    fn landing(&mut self) -> Option<Landing> {
        let (widen, from, to) = (self.widen, span_of(&mut self.staging), self.inner.span());
        let inner = self.inner.landing();
        Some(Box::new(move || {
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

    #[test]
    fn the_buffer_changes_only_where_it_lands() {
        let mut narrowed = Narrowed::new(vec![0.1_f32, 0.2], DType::BF16).expect("f32");
        narrowed.span().write(&[0, 0x40, 0x80, 0xbf]);
        assert_eq!(Narrowed::new(narrowed.into_inner(), DType::F16).expect("f32").into_inner(), [0.1, 0.2]);
        let mut narrowed = Narrowed::new(vec![0.1_f32, 0.2], DType::BF16).expect("f32");
        narrowed.span().write(&[0, 0x40, 0x80, 0xbf]);
        narrowed.landing().expect("there is one")();
        assert_eq!(narrowed.into_inner(), [2.0, -1.0]);
    }

    #[test]
    fn a_shared_buffer_in_use_is_given_back() {
        let shared = Shared::new(vec![1.0_f32; 3]);
        let other = shared.clone();
        let busy = shared.with(|_| Narrowed::new(other, DType::F16).map(drop).is_err());
        assert_eq!(busy, Some(true));
        let narrowed = Narrowed::new(shared.clone(), DType::F16).expect("nobody uses it");
        assert!(shared.with(|_| ()).is_some(), "it is free again");
        assert!(narrowed.claim().is_some());
    }
}
