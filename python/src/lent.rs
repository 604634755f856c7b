//! [`Lent`]: the memory of arrays for the time of an operation, directly, or through a copy where elements do not lie side by side.

use std::ptr::NonNull;
use std::sync::Arc;

use hcomm::ops::RawSpan;
use hcomm::ops::buffer::Landing;
use hcomm::{DType, StableBuffer};
use pyo3::prelude::*;

use crate::array::{Array, Layout};
use crate::errors;
use crate::scratch::{Piece, Scratch};

/// What a call does with an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// Its elements are read only.
    Input,
    /// Its elements are written, and may be read.
    Output,
    /// All its elements are written, and none is read before.
    Overwritten,
}

/// The memory of an array, or of several that lie side by side. Python keeps the arrays as long as this is there; nothing here needs the
/// interpreter's lock, nor does dropping it.
pub struct Lent {
    span: RawSpan,
    dtype: DType,
    staging: Option<Staging>,
    /// Only kept; given back to the interpreter when it next runs.
    _keep: Vec<Py<PyAny>>,
}

/// A copy of arrays' elements.
struct Staging {
    /// What `span` names.
    _packed: Piece,
    /// Where the elements go back to, in order, where the call writes them.
    back: Vec<(Layout, Address)>,
}

/// Where an array's elements begin.
struct Address(*mut u8);

// SAFETY: an address; the array that it is of is kept, and used by one operation at a time as its caller promises.
unsafe impl Send for Address {}
// SAFETY: as above; a shared address reads no memory.
unsafe impl Sync for Address {}

impl Lent {
    /// The memory of arrays for a call that does this with them, in order: as one where they lie side by side, by themselves where
    /// not. There is at least one.
    ///
    /// # Errors
    /// `BufferError` or `ValueError` for an output that cannot be written: read-only, or with elements that share memory. `TypeError` where
    /// the types of elements differ.
    pub fn list(arrays: Vec<Array>, to: Use, scratch: &Arc<Scratch>) -> PyResult<Vec<Lent>> {
        let dtype = arrays.first().map_or(DType::U8, |array| array.dtype);
        check(&arrays, dtype, to)?;
        let mut list: Vec<Lent> = Vec::new();
        for array in arrays.into_iter().filter(|array| array.layout.count > 0) {
            match list.last_mut() {
                Some(last) if last.is_continued_by(&array) => last.append(array),
                _ if array.layout.is_contiguous() => list.push(Lent::direct(array)),
                _ => list.push(Lent::staged(vec![array], dtype, to, scratch)?),
            }
        }
        if list.is_empty() {
            list.push(Lent { span: RawSpan::empty(), dtype, staging: None, _keep: Vec::new() });
        }
        Ok(list)
    }

    /// The same as one, copied together where they do not lie side by side.
    ///
    /// # Errors
    /// As [`Lent::list`].
    pub fn whole(arrays: Vec<Array>, to: Use, scratch: &Arc<Scratch>) -> PyResult<Lent> {
        let is_one = |pair: &[Array]| {
            pair.iter().all(|array| array.layout.is_contiguous())
                && pair[0].start.wrapping_add(pair[0].layout.bytes()) == pair[1].start
        };
        if arrays.len() < 2 || arrays.windows(2).all(is_one) {
            let mut list = Lent::list(arrays, to, scratch)?;
            return Ok(list.swap_remove(0));
        }
        let dtype = arrays.first().map_or(DType::U8, |array| array.dtype);
        check(&arrays, dtype, to)?;
        Lent::staged(arrays, dtype, to, scratch)
    }

    fn direct(Array { start, dtype, layout, keep, .. }: Array) -> Lent {
        Lent { span: in_place(start, layout.bytes()), dtype, staging: None, _keep: vec![keep] }
    }

    fn staged(arrays: Vec<Array>, dtype: DType, to: Use, scratch: &Arc<Scratch>) -> PyResult<Lent> {
        let bytes = arrays.iter().map(|array| array.layout.bytes()).fold(0, usize::saturating_add);
        let packed = piece(scratch, bytes)?;
        let span = packed.span();
        let (mut back, mut _keep, mut at) = (Vec::new(), Vec::new(), 0);
        for Array { start, layout, keep, .. } in arrays {
            if to != Use::Overwritten {
                // SAFETY: the exporter vouches for the elements; the part has as many bytes.
                unsafe { layout.pack(start, span.slice(at, layout.bytes())) };
            }
            at += layout.bytes();
            if to != Use::Input {
                back.push((layout, Address(start)));
            }
            _keep.push(keep);
        }
        Ok(Lent { span, dtype, staging: Some(Staging { _packed: packed, back }), _keep })
    }

    /// As an input whose elements are read now.
    ///
    /// # Errors
    /// Where there is no memory for the copy.
    pub fn copied(self, scratch: &Arc<Scratch>) -> PyResult<Lent> {
        if self.staging.is_some() {
            return Ok(self);
        }
        let packed = piece(scratch, self.span.len())?;
        let span = packed.span();
        span.copy_from(self.span);
        Ok(Lent { span, staging: Some(Staging { _packed: packed, back: Vec::new() }), ..self })
    }

    /// Whether an array lies behind it.
    fn is_continued_by(&self, array: &Array) -> bool {
        let behind = self.span.as_ptr().wrapping_add(self.span.len());
        self.staging.is_none() && array.layout.is_contiguous() && array.start == behind
    }

    /// Takes in an array that lies behind it.
    fn append(&mut self, array: Array) {
        self.span = in_place(self.span.as_ptr(), self.span.len() + array.layout.bytes());
        self._keep.push(array.keep);
    }

    /// The type of the elements.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// Whether it shares the arrays' own bytes with another.
    pub fn overlaps(&self, other: &Lent) -> bool {
        self.staging.is_none() && other.staging.is_none() && self.span.overlaps(other.span)
    }

    /// Whether they are the very bytes of another.
    pub fn is_same(&self, other: &Lent) -> bool {
        self.span == other.span && self.staging.is_none()
    }

    /// Whether another array is block `rank` of `world` equal ones of this.
    pub fn has_block(&self, other: &Lent, rank: usize, world: usize) -> bool {
        let block = other.span.len();
        let is_direct = self.staging.is_none() && other.staging.is_none();
        is_direct
            && block.checked_mul(world) == Some(self.span.len())
            && self.span.slice(rank * block, block).as_ptr() == other.span.as_ptr()
    }
}

// SAFETY: the array is kept and does not move its elements while it is exported; a staging's allocation stays where it is.
unsafe impl StableBuffer for Lent {
    fn dtype(&self) -> DType {
        self.dtype
    }

    fn span(&mut self) -> RawSpan {
        self.span
    }

    fn landing(&mut self) -> Option<Landing> {
        let back = std::mem::take(&mut self.staging.as_mut()?.back);
        let span = self.span;
        if back.is_empty() {
            return None;
        }
        Some(Box::new(move || {
            let mut at = 0;
            for (layout, Address(start)) in back {
                let part = span.slice(at, layout.bytes());
                at += layout.bytes();
                // SAFETY: the operation still owns this buffer, hence the staging and the arrays; their elements were found writable and
                // apart.
                unsafe { layout.unpack(part, start) };
            }
        }))
    }
}

fn piece(scratch: &Arc<Scratch>, bytes: usize) -> PyResult<Piece> {
    scratch.take(bytes).ok_or_else(|| Python::attach(|py| errors::memory(py, bytes)))
}

/// Bytes of arrays, where they lie.
fn in_place(start: *mut u8, bytes: usize) -> RawSpan {
    // SAFETY: the exporters vouch for the elements while the arrays are kept; Python code that touches them meanwhile gets what it asks for,
    // as with any library of this kind, but no Rust reference is formed to them.
    NonNull::new(start).map_or(RawSpan::empty(), |start| unsafe { RawSpan::new(start, bytes) })
}

/// Whether a call can do this with the arrays.
fn check(arrays: &[Array], dtype: DType, to: Use) -> PyResult<()> {
    if let Some(other) = arrays.iter().find(|array| array.dtype != dtype) {
        return Err(errors::array(&format!("arrays of {dtype} and {} in one list", other.dtype)));
    }
    if to != Use::Input && arrays.iter().any(|array| array.is_readonly) {
        return Err(errors::read_only());
    }
    if to != Use::Input && (arrays.iter().any(|array| !array.layout.is_disjoint()) || do_any_overlap(arrays))
    {
        return Err(errors::overlap());
    }
    Ok(())
}

/// Whether two arrays whose elements lie side by side have some in common, or two of any kind begin at the same element.
fn do_any_overlap(arrays: &[Array]) -> bool {
    let addresses = |array: &Array| {
        let all = array.layout.addresses(array.start as usize)?;
        let is_whole = array.layout.is_contiguous();
        Some(if is_whole {
            all
        } else {
            array.start as usize..array.start as usize + array.layout.item_bytes
        })
    };
    let mut sorted: Vec<_> = arrays.iter().filter_map(addresses).collect();
    sorted.sort_by_key(|range| range.start);
    sorted.windows(2).any(|pair| pair[0].end > pair[1].start)
}
