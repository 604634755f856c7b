//! [`Lent`]: the memory of arrays for the time of an operation, directly, or through a copy where elements do not lie side by side.

use std::ptr::NonNull;
use std::sync::Arc;

use hcomm::ops::RawSpan;
use hcomm::ops::buffer::{Landing, Takeoff};
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
    /// Where the elements lie, in order.
    parts: Arc<Vec<(Layout, Address)>>,
    to: Use,
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
        let (mut parts, mut _keep) = (Vec::with_capacity(arrays.len()), Vec::with_capacity(arrays.len()));
        for Array { start, layout, keep, .. } in arrays {
            parts.push((layout, Address(start)));
            _keep.push(keep);
        }
        let span = packed.span();
        Ok(Lent {
            span,
            dtype,
            staging: Some(Staging { _packed: packed, parts: Arc::new(parts), to }),
            _keep,
        })
    }

    /// As an input that is copied before the operation begins.
    ///
    /// # Errors
    /// Where there is no memory for the copy.
    pub fn copied(self, scratch: &Arc<Scratch>) -> PyResult<Lent> {
        if self.staging.is_some() {
            return Ok(self);
        }
        let packed = piece(scratch, self.span.len())?;
        let part = (Layout::contiguous(self.span.len(), 1), Address(self.span.as_ptr()));
        let span = packed.span();
        let staging = Staging { _packed: packed, parts: Arc::new(vec![part]), to: Use::Input };
        Ok(Lent { span, staging: Some(staging), ..self })
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

    fn takeoff(&mut self) -> Option<Takeoff> {
        let staging = self.staging.as_ref().filter(|staging| staging.to != Use::Overwritten)?;
        let (parts, span) = (staging.parts.clone(), self.span);
        Some(Box::new(move || {
            // SAFETY: the operation owns this buffer, hence the staging and the arrays, whose exporters vouch for the elements.
            each_part(&parts, span, |layout, start, part| unsafe { layout.pack(start, part) });
        }))
    }

    fn landing(&mut self) -> Option<Landing> {
        let staging = self.staging.as_ref().filter(|staging| staging.to != Use::Input)?;
        let (parts, span) = (staging.parts.clone(), self.span);
        Some(Box::new(move || {
            // SAFETY: as above; the elements were found writable and apart.
            each_part(&parts, span, |layout, start, part| unsafe { layout.unpack(part, start) });
        }))
    }
}

/// Calls `copy` with each array's layout, its start, and its part of the packed elements.
fn each_part(parts: &[(Layout, Address)], packed: RawSpan, copy: impl Fn(&Layout, *mut u8, RawSpan)) {
    let mut at = 0;
    for (layout, Address(start)) in parts {
        copy(layout, *start, packed.slice(at, layout.bytes()));
        at += layout.bytes();
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

/// Whether a byte is in two of them.
fn do_any_overlap(arrays: &[Array]) -> bool {
    let mut sorted: Vec<_> = arrays
        .iter()
        .filter_map(|array| Some((array.layout.addresses(array.start as usize)?, array)))
        .collect();
    sorted.sort_by_key(|(range, _)| range.start);
    sorted.iter().enumerate().any(|(at, (range, array))| {
        let others = sorted[at + 1..].iter().take_while(|(other, _)| other.start < range.end);
        let mut overlaps = others.map(|(_, other)| {
            array.layout.overlaps(array.start as usize, &other.layout, other.start as usize)
        });
        overlaps.any(|overlaps| overlaps)
    })
}
