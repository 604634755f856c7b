//! [`StableBuffer`]: what a user hands over and gets back, and [`Borrowed`]: what a scope lends. `narrowed` and `widened` show one in another type.

mod narrowed;
mod widened;

pub use narrowed::Narrowed;
pub use widened::Widened;

use std::cell::UnsafeCell;
use std::marker::PhantomData;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

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
/// reads, and for writes where `is_writable`, wherever the value itself is moved, and they must be elements of `dtype` unless `malformed` says
/// which are not.
///
/// What `takeoff` and `landing` give is run, if at all, while the value lives and nobody else has access to it, and is sound then.
pub unsafe trait StableBuffer: Send {
    /// The type of the elements.
    fn dtype(&self) -> DType;

    /// The bytes.
    fn span(&mut self) -> RawSpan;

    /// What is to be done before an operation reads the bytes, such as copying them here from where the user has them. It is asked for
    /// once for every operation that is given the buffer, and runs when that begins: after the operations that it comes after, with the
    /// claims that it needs, on the thread that makes the call or whatever thread drives the communicator. Where the operation does not
    /// begin it is dropped.
    #[inline]
    fn takeoff(&mut self) -> Option<Takeoff> {
        None
    }

    /// What is still to be done with the bytes once an operation that wrote them has ended well, and before anybody is told, such as
    /// copying them on to where the user wants them. It is asked for once for every operation that may write the buffer, and runs
    /// on whatever thread drives the communicator; where the operation fails, or does not write the buffer on this rank, it
    /// is dropped.
    #[inline]
    fn landing(&mut self) -> Option<Landing> {
        None
    }

    /// Whether an operation may write the bytes. A call that would is refused where it may not.
    #[inline]
    fn is_writable(&self) -> bool {
        true
    }

    /// For bytes whose type is only known at run time: the first that belongs to no element of that type. A call with such is refused.
    #[inline]
    fn malformed(&self) -> Option<Malformed> {
        None
    }

    /// For a buffer that several owners hold: the claim that an operation must have while it uses the bytes.
    fn claim(&self) -> Option<Claim> {
        None
    }
}

/// A byte that is part of no element of the type that a buffer says it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("byte {at} of a buffer of {dtype} is {value}, which is no {dtype}")]
pub struct Malformed {
    /// Where, from 0 on.
    pub at: usize,
    /// The byte.
    pub value: u8,
    /// The type.
    pub dtype: DType,
}

/// Whether bytes are elements of a type: of all that there are only `bool` does not have every pattern.
fn malformed(bytes: &[u8], dtype: DType) -> Option<Malformed> {
    if dtype != DType::Bool {
        return None;
    }
    let at = bytes.iter().position(|byte| *byte > 1)?;
    Some(Malformed { at, value: bytes[at], dtype })
}

/// See [`StableBuffer::takeoff`]. A panic on a thread that drives makes the operation fail on this rank.
pub type Takeoff = Box<dyn FnOnce() + Send>;

/// See [`StableBuffer::landing`]. A panic makes the operation fail on this rank.
pub type Landing = Box<dyn FnOnce() + Send>;

/// The right to use the bytes of a [`Shared`] buffer: at most one holder at a time.
#[derive(Clone, Debug)]
pub struct Claim(Arc<AtomicBool>);

impl Claim {
    /// Takes the claim; false where another holds it.
    #[must_use]
    pub fn take(&self) -> bool {
        !self.0.swap(true, Ordering::Acquire)
    }

    /// Gives it back.
    pub fn give_back(&self) {
        self.0.store(false, Ordering::Release);
    }
}

/// A buffer with several owners, for chains of operations: each link of the chain holds a clone. Only one operation (or
/// [`Shared::with`]) uses the bytes at a time; who comes while they are in use is refused.
#[derive(Debug)]
pub struct Shared<T> {
    cells: Arc<Cells<T>>,
    claimed: Arc<AtomicBool>,
}

#[derive(Debug)]
struct Cells<T>(UnsafeCell<Box<[T]>>);

// SAFETY: the elements are only reached by who holds the claim, one thread at a time.
unsafe impl<T: Element> Sync for Cells<T> {}

impl<T> Clone for Shared<T> {
    fn clone(&self) -> Self {
        Shared { cells: self.cells.clone(), claimed: self.claimed.clone() }
    }
}

impl<T: Element> Shared<T> {
    /// A buffer with these elements.
    pub fn new(elements: impl Into<Box<[T]>>) -> Self {
        Shared { cells: Arc::new(Cells(UnsafeCell::new(elements.into()))), claimed: Arc::default() }
    }

    /// Runs `f` on the elements; `None` where an operation is using them.
    pub fn with<R>(&self, f: impl FnOnce(&mut [T]) -> R) -> Option<R> {
        let claim = Claim(self.claimed.clone());
        if !claim.take() {
            return None;
        }
        let _held = Held(claim);
        // SAFETY: the claim is held until `_held` is dropped, so nobody else reaches the elements.
        Some(f(unsafe { &mut *self.cells.0.get() }))
    }
}

/// Gives a claim back in every exit.
struct Held(Claim);

impl Drop for Held {
    fn drop(&mut self) {
        self.0.give_back();
    }
}

// SAFETY: the box's allocation does not move; the engine uses the bytes only while it holds the claim.
unsafe impl<T: Element> StableBuffer for Shared<T> {
    fn dtype(&self) -> DType {
        T::DTYPE
    }

    fn span(&mut self) -> RawSpan {
        let cells: *mut Box<[T]> = self.cells.0.get();
        // SAFETY: the box itself (pointer and length) is never written after `new`; only its address is read here.
        let elements: *mut [T] = unsafe { &raw mut **cells };
        let (start, len) = (elements.cast::<u8>(), elements.len() * size_of::<T>());
        // SAFETY: the allocation lives as long as a clone of this buffer, which the operation's owner keeps.
        NonNull::new(start).map_or(RawSpan::empty(), |start| unsafe { RawSpan::new(start, len) })
    }

    fn claim(&self) -> Option<Claim> {
        Some(Claim(self.claimed.clone()))
    }
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

// SAFETY: as for `Vec<u8>`; `malformed` says where they are no elements of `dtype`, and reductions leave valid ones, which are plain
// bytes here.
unsafe impl StableBuffer for DynBuffer {
    fn dtype(&self) -> DType {
        self.dtype
    }

    fn malformed(&self) -> Option<Malformed> {
        malformed(&self.bytes, self.dtype)
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
    is_writable: bool,
    /// Found when it was lent; who lends it can write it no more.
    malformed: Option<Malformed>,
    lent: PhantomData<&'a mut [u8]>,
}

impl<'a> Borrowed<'a> {
    /// Lends a slice that the operation may write.
    #[inline]
    pub fn from_mut<T: Element>(slice: &'a mut [T]) -> Self {
        let (span, dtype) = (span_of(slice), T::DTYPE);
        Borrowed { span, dtype, is_writable: true, malformed: None, lent: PhantomData }
    }

    /// Lends a slice that the operation only reads. A call that would write it is refused.
    #[inline]
    pub fn from_ref<T: Element>(slice: &'a [T]) -> Self {
        let start = NonNull::from(slice).cast::<u8>();
        // SAFETY: valid for reads during 'a; plans never write a call's input unless it is also its output, and what is not writable
        // is taken for no output.
        let span = unsafe { RawSpan::new(start, size_of_val(slice)) };
        Borrowed { span, dtype: T::DTYPE, is_writable: false, malformed: None, lent: PhantomData }
    }

    /// Lends bytes with a run-time element type. A call with bytes that are no elements of it is refused.
    pub fn from_bytes(bytes: &'a mut [u8], dtype: DType) -> Self {
        let malformed = malformed(bytes, dtype);
        Borrowed { dtype, malformed, ..Self::from_mut(bytes) }
    }

    /// Lends bytes with a run-time element type, to be read only.
    pub fn from_bytes_ref(bytes: &'a [u8], dtype: DType) -> Self {
        let malformed = malformed(bytes, dtype);
        Borrowed { dtype, malformed, ..Self::from_ref(bytes) }
    }
}

// SAFETY: the bytes are lent for 'a, exclusively where they are writable, and a span does not move.
unsafe impl StableBuffer for Borrowed<'_> {
    fn dtype(&self) -> DType {
        self.dtype
    }

    #[inline]
    fn is_writable(&self) -> bool {
        self.is_writable
    }

    #[inline]
    fn malformed(&self) -> Option<Malformed> {
        self.malformed
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
