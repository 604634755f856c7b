//! [`StableBuffer`]: what a user hands over and gets back, and [`Borrowed`]: what a scope lends.

use std::marker::PhantomData;
use std::ptr::NonNull;

use half::{bf16, f16};
use num_complex::Complex;

use crate::{DType, RawSpan};

/// A Rust type whose values are elements of a [`DType`].
///
/// # Safety
/// The type must be plain bytes of exactly `DTYPE.size_bytes()`, valid for every bit pattern that reductions of
/// that `DType` can leave, and free of padding.
pub unsafe trait Element: Copy + Send + Sync + 'static {
    /// The run-time name of the type.
    const DTYPE: DType;
}

macro_rules! elements {
    ($($rust:ty => $dtype:ident),* $(,)?) => {$(
        // SAFETY: a primitive (or transparent, or pair of floats) of the size that the DType has.
        unsafe impl Element for $rust {
            const DTYPE: DType = DType::$dtype;
        }
    )*};
}

elements! {
    i8 => I8, u8 => U8, i16 => I16, u16 => U16, i32 => I32, u32 => U32, i64 => I64, u64 => U64,
    f16 => F16, bf16 => BF16, f32 => F32, f64 => F64, bool => Bool,
    Complex<f32> => Complex64, Complex<f64> => Complex128,
}

/// A buffer that can be given to an operation: the bytes do not move when the owner does.
///
/// # Safety
/// While the value lives and nobody else has access to it, `span` must always name the same bytes, valid for
/// reads and writes, wherever the value itself is moved, and they must be elements of `dtype`.
pub unsafe trait StableBuffer: Send {
    /// The type of the elements.
    fn dtype(&self) -> DType;

    /// The bytes.
    fn span(&mut self) -> RawSpan;
}

// SAFETY: a vector's heap allocation stays where it is when the vector moves.
unsafe impl<T: Element> StableBuffer for Vec<T> {
    fn dtype(&self) -> DType {
        T::DTYPE
    }

    fn span(&mut self) -> RawSpan {
        span_of(self)
    }
}

// SAFETY: a box's heap allocation stays where it is when the box moves.
unsafe impl<T: Element> StableBuffer for Box<[T]> {
    fn dtype(&self) -> DType {
        T::DTYPE
    }

    fn span(&mut self) -> RawSpan {
        span_of(self)
    }
}

/// Bytes with a run-time element type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DynBuffer {
    /// The elements, in the machine's byte order.
    pub bytes: Vec<u8>,
    /// Their type.
    pub dtype: DType,
}

// SAFETY: as for `Vec<u8>`; reductions leave valid elements of `dtype`, which are plain bytes here.
unsafe impl StableBuffer for DynBuffer {
    fn dtype(&self) -> DType {
        self.dtype
    }

    fn span(&mut self) -> RawSpan {
        span_of(&mut self.bytes)
    }
}

/// A slice lent for `'a`. It is only handed out where the operation is sure to end within `'a`: by the blocking
/// calls and by `scope`, which wait in every exit.
#[derive(Debug)]
pub struct Borrowed<'a> {
    span: RawSpan,
    dtype: DType,
    lent: PhantomData<&'a mut [u8]>,
}

impl<'a> Borrowed<'a> {
    /// Lends a slice that the operation may write.
    pub fn from_mut<T: Element>(slice: &'a mut [T]) -> Self {
        Borrowed { span: span_of(slice), dtype: T::DTYPE, lent: PhantomData }
    }

    /// Lends a slice that the operation only reads.
    pub fn from_ref<T: Element>(slice: &'a [T]) -> Self {
        let start = NonNull::from(slice).cast::<u8>();
        // SAFETY: valid for reads during 'a; plans never write a call's input unless it is also its output.
        let span = unsafe { RawSpan::new(start, size_of_val(slice)) };
        Borrowed { span, dtype: T::DTYPE, lent: PhantomData }
    }

    /// Lends bytes with a run-time element type.
    pub fn from_bytes(bytes: &'a mut [u8], dtype: DType) -> Self {
        Borrowed { span: span_of(bytes), dtype, lent: PhantomData }
    }

    /// Lends bytes with a run-time element type, to be read only.
    pub fn from_bytes_ref(bytes: &'a [u8], dtype: DType) -> Self {
        Borrowed { dtype, ..Self::from_ref(bytes) }
    }
}

// SAFETY: the bytes are lent for 'a, exclusively where they may be written, and a span does not move.
unsafe impl StableBuffer for Borrowed<'_> {
    fn dtype(&self) -> DType {
        self.dtype
    }

    fn span(&mut self) -> RawSpan {
        self.span
    }
}

fn span_of<T: Element>(slice: &mut [T]) -> RawSpan {
    let len = size_of_val(slice);
    // SAFETY: the slice's bytes, borrowed exclusively; the callers above say how long the promise holds.
    unsafe { RawSpan::new(NonNull::from(slice).cast::<u8>(), len) }
}
