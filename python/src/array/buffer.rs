//! Objects with Python's buffer protocol: NumPy arrays, `bytearray`, `array.array`, `memoryview`.

use hcomm::DType;
use pyo3::buffer::PyUntypedBuffer;
use pyo3::exceptions::PyBufferError;
use pyo3::ffi::{Py_buffer, PyBUF_FULL_RO, PyBuffer_Release, PyObject_CheckBuffer, PyObject_GetBuffer};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyMemoryView;

use super::{Array, Layout, unknown_dtype};
use crate::errors;

/// The memory of an object that has the protocol.
pub fn export(object: &Bound<'_, PyAny>) -> PyResult<Option<Array>> {
    // SAFETY: only looks at the object's type.
    if unsafe { PyObject_CheckBuffer(object.as_ptr()) } == 0 {
        return Ok(None);
    }
    // The view keeps the memory in place: its owner refuses to resize meanwhile.
    let view = PyMemoryView::from(object).map_err(|cause| without_format(object, cause))?;
    if view.getattr(intern!(object.py(), "ndim"))?.extract::<usize>()? == 0 {
        return single(view).map(Some);
    }
    let buffer = PyUntypedBuffer::get(&view)?;
    let format = buffer.format().to_string_lossy();
    let dtype = dtype_of(&format, buffer.item_size()).ok_or_else(|| unknown_dtype(&format!("'{format}'")))?;
    if buffer.suboffsets().is_some_and(|offsets| offsets.iter().any(|offset| *offset >= 0)) {
        return Err(PyBufferError::new_err(
            "a buffer of pointers to rows; expected elements at fixed strides",
        ));
    }
    let dimensions = buffer.shape().iter().copied().zip(buffer.strides().iter().copied());
    let layout = Layout::strided(dimensions, buffer.item_size())
        .ok_or_else(|| PyBufferError::new_err("a buffer with more elements than memory can have"))?;
    let array = Array {
        start: buffer.buf_ptr().cast(),
        dtype,
        layout,
        is_readonly: buffer.readonly(),
        keep: view.into_any().unbind(),
    };
    Ok(Some(array))
}

/// NumPy's masked arrays show memory, whose elements do not all count.
///
/// # Errors
/// For one of those.
pub fn check_mask(object: &Bound<'_, PyAny>) -> PyResult<()> {
    match object.get_type().name()? == "MaskedArray" {
        true => Err(errors::array("a masked array; expected a plain one, such as its filled(0)")),
        false => Ok(()),
    }
}

/// What to say of an array whose elements the protocol has no format for, such as dates.
fn without_format(object: &Bound<'_, PyAny>, cause: PyErr) -> PyErr {
    let Ok(dtype) = object.getattr(intern!(object.py(), "dtype")) else { return cause };
    let error = unknown_dtype(&dtype.to_string());
    error.set_cause(object.py(), Some(cause));
    error
}

/// The memory of a view without dimensions, hence of one element; its shape is a null pointer, which [`PyUntypedBuffer`] refuses.
fn single(view: Bound<'_, PyMemoryView>) -> PyResult<Array> {
    let format: String = view.getattr("format")?.extract()?;
    let bytes: usize = view.getattr("itemsize")?.extract()?;
    let dtype = dtype_of(&format, bytes).ok_or_else(|| unknown_dtype(&format!("'{format}'")))?;
    let mut raw = Py_buffer::new();
    // SAFETY: the view is alive, and `raw` is a buffer to be filled; it is released at once, as the view itself keeps the memory in place.
    let start = unsafe {
        if PyObject_GetBuffer(view.as_ptr(), &raw mut raw, PyBUF_FULL_RO) != 0 {
            return Err(PyErr::fetch(view.py()));
        }
        let start = raw.buf.cast();
        PyBuffer_Release(&raw mut raw);
        start
    };
    let is_readonly = view.getattr("readonly")?.extract()?;
    let layout = Layout::contiguous(1, bytes);
    Ok(Array { start, dtype, layout, is_readonly, keep: view.into_any().unbind() })
}

/// The type of elements of this format (that of the module `struct`) and size.
fn dtype_of(format: &str, bytes: usize) -> Option<DType> {
    let code = match format.as_bytes() {
        [b'>' | b'!', ..] if bytes > 1 => return None,
        [b'@' | b'=' | b'<' | b'>' | b'!', code @ ..] => code,
        code => code,
    };
    let dtype = match (code, bytes) {
        (b"?", 1) => DType::Bool,
        (b"b", 1) => DType::I8,
        (b"B" | b"c", 1) => DType::U8,
        (b"h", 2) => DType::I16,
        (b"H", 2) => DType::U16,
        (b"i" | b"l", 4) => DType::I32,
        (b"I" | b"L", 4) => DType::U32,
        (b"l" | b"q" | b"n", 8) => DType::I64,
        (b"L" | b"Q" | b"N", 8) => DType::U64,
        (b"e", 2) => DType::F16,
        (b"f", 4) => DType::F32,
        (b"d", 8) => DType::F64,
        (b"Zf" | b"F", 8) => DType::Complex64,
        (b"Zd" | b"D", 16) => DType::Complex128,
        _ => return None,
    };
    Some(dtype)
}
