//! [`Lent`]: an array's memory for the time of an operation, directly or through a copy where its elements do not lie side by side; and
//! [`Given`]: the buffers of one call.

use std::ptr::NonNull;

use hcomm::ops::RawSpan;
use hcomm::ops::buffer::{Claim, Landing, Narrowed};
use hcomm::{
    Apart, Binding, Buffers, DType, InPlace, InputOnly, Joined, Nothing, OutputOnly, Refused, Spans,
    StableBuffer,
};
use pyo3::prelude::*;

use crate::array::{Array, Layout};
use crate::errors;

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

/// The memory of an array, or of several as one. Python keeps the arrays as long as this is there; nothing here needs the interpreter's
/// lock, nor does dropping it.
pub struct Lent {
    span: RawSpan,
    dtype: DType,
    staging: Option<Staging>,
    /// Only kept; given back to the interpreter when it next runs.
    _keep: Vec<Py<PyAny>>,
}

/// A copy of elements that do not lie side by side.
struct Staging {
    /// What `span` names.
    _packed: Box<[u8]>,
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
    /// The memory of arrays for a call that does this with them.
    ///
    /// # Errors
    /// `BufferError` or `ValueError` for an output that cannot be written: read-only, or with elements that share memory. `TypeError` where
    /// the types of elements differ.
    pub fn new(arrays: Vec<Array>, to: Use) -> PyResult<Lent> {
        let dtype = arrays.first().map_or(DType::U8, |array| array.dtype);
        if let Some(other) = arrays.iter().find(|array| array.dtype != dtype) {
            return Err(errors::array(&format!("arrays of {dtype} and {} in one list", other.dtype)));
        }
        if to != Use::Input && arrays.iter().any(|array| array.is_readonly) {
            return Err(errors::read_only());
        }
        if to != Use::Input
            && (arrays.iter().any(|array| !array.layout.is_disjoint()) || do_any_overlap(&arrays))
        {
            return Err(errors::overlap());
        }
        match side_by_side(&arrays) {
            Some(span) => {
                let _keep = arrays.into_iter().map(|array| array.keep).collect();
                Ok(Lent { span, dtype, staging: None, _keep })
            }
            None => Lent::staged(arrays, dtype, to),
        }
    }

    fn staged(arrays: Vec<Array>, dtype: DType, to: Use) -> PyResult<Lent> {
        let bytes = arrays.iter().map(|array| array.layout.bytes()).fold(0, usize::saturating_add);
        let mut packed = zeros(bytes)?;
        let span = packed.span();
        if to != Use::Overwritten {
            for (array, part) in arrays.iter().zip(parts(&arrays, span)) {
                // SAFETY: the exporter vouches for the elements; the part has as many bytes.
                unsafe { array.layout.pack(array.start, part) };
            }
        }
        let (mut back, mut _keep) = (Vec::new(), Vec::new());
        for Array { start, layout, keep, .. } in arrays {
            if to != Use::Input {
                back.push((layout, Address(start)));
            }
            _keep.push(keep);
        }
        Ok(Lent { span, dtype, staging: Some(Staging { _packed: packed, back }), _keep })
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

// SAFETY: the array is kept and does not move its elements while it is exported; a staging's heap allocation stays where it is.
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

fn zeros(bytes: usize) -> PyResult<Box<[u8]>> {
    let mut zeros = Vec::new();
    zeros.try_reserve_exact(bytes).map_err(|_| Python::attach(|py| errors::memory(py, bytes)))?;
    zeros.resize(bytes, 0);
    Ok(zeros.into_boxed_slice())
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

/// The bytes of arrays that lie side by side, one after the other.
fn side_by_side(arrays: &[Array]) -> Option<RawSpan> {
    let first = arrays.iter().find(|array| array.layout.count > 0);
    let start =
        first.map_or(NonNull::dangling(), |array| NonNull::new(array.start).unwrap_or(NonNull::dangling()));
    let mut bytes = 0;
    for array in arrays.iter().filter(|array| array.layout.count > 0) {
        if !array.layout.is_contiguous() || array.start != start.as_ptr().wrapping_add(bytes) {
            return None;
        }
        bytes += array.layout.bytes();
    }
    // SAFETY: the exporters vouch for the elements while the arrays are kept; Python code that touches them meanwhile gets what it asks for,
    // as with any library of this kind, but no Rust reference is formed to them.
    Some(unsafe { RawSpan::new(start, bytes) })
}

/// The parts of a packed copy that are the arrays'.
fn parts(arrays: &[Array], packed: RawSpan) -> Vec<RawSpan> {
    let mut at = 0;
    let part = |array: &Array| {
        let part = packed.slice(at, array.layout.bytes());
        at += part.len();
        part
    };
    arrays.iter().map(part).collect()
}

/// A buffer of a call: an array's memory, or that memory in fewer bits.
pub enum Side {
    /// As it is.
    Direct(Lent),
    /// In the precision of the wire.
    Narrowed(Narrowed<Lent>),
}

impl Side {
    /// A buffer that crosses the wires as `wire`, where that narrows its type.
    pub fn new(lent: Lent, wire: Option<DType>) -> Side {
        let Some(wire) = wire.filter(|_| lent.dtype == DType::F32) else { return Side::Direct(lent) };
        match Narrowed::new(lent, wire) {
            Ok(narrowed) => Side::Narrowed(narrowed),
            Err(lent) => Side::Direct(lent),
        }
    }
}

// SAFETY: both kinds are stable buffers.
unsafe impl StableBuffer for Side {
    fn dtype(&self) -> DType {
        match self {
            Side::Direct(lent) => lent.dtype(),
            Side::Narrowed(narrowed) => narrowed.dtype(),
        }
    }

    fn span(&mut self) -> RawSpan {
        match self {
            Side::Direct(lent) => lent.span(),
            Side::Narrowed(narrowed) => narrowed.span(),
        }
    }

    fn landing(&mut self) -> Option<Landing> {
        match self {
            Side::Direct(lent) => lent.landing(),
            Side::Narrowed(narrowed) => narrowed.landing(),
        }
    }
}

/// The buffers of a call, in one of the ways in which it may be made.
pub enum Given {
    /// One that is input and output.
    InPlace(InPlace<Side>),
    /// Input and output.
    Apart(Apart<Side, Side>),
    /// Only an input.
    Input(InputOnly<Side>),
    /// Only an output.
    Output(OutputOnly<Side>),
    /// None.
    Nothing(Nothing),
    /// Several in place, as one.
    Joined(Joined<Side>),
}

/// The same expression for whichever it is.
macro_rules! whichever {
    ($given:expr, $buffers:ident => $expression:expr) => {
        match $given {
            Given::InPlace($buffers) => $expression,
            Given::Apart($buffers) => $expression,
            Given::Input($buffers) => $expression,
            Given::Output($buffers) => $expression,
            Given::Nothing($buffers) => $expression,
            Given::Joined($buffers) => $expression,
        }
    };
}

impl Buffers for Given {
    type Returned = ();

    fn dtype(&self) -> Result<Option<DType>, Refused> {
        whichever!(self, buffers => buffers.dtype())
    }

    fn spans(&mut self, binding: Binding) -> Result<Spans, Refused> {
        whichever!(self, buffers => buffers.spans(binding))
    }

    fn claims(&self) -> Vec<Claim> {
        whichever!(self, buffers => buffers.claims())
    }

    fn landing(&mut self, binding: Binding) -> Option<Landing> {
        whichever!(self, buffers => buffers.landing(binding))
    }

    fn into_returned(self) {}
}
