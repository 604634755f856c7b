//! Objects that speak DLPack (<https://dmlc.github.io/dlpack/latest/>), with memory of a processor.

use std::ffi::{CStr, c_void};
use std::ptr::NonNull;

use hcomm::DType;
use pyo3::exceptions::{PyBufferError, PyTypeError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict};

use super::{Array, Layout, unknown_dtype};
use crate::errors;

/// The device type of a processor's memory.
const CPU: i32 = 1;

/// Flags of a versioned tensor: its owner forbids writing; it is a copy that was made for the occasion.
const READ_ONLY: u64 = 1;
const IS_COPIED: u64 = 2;

#[repr(C)]
struct Device {
    kind: i32,
    id: i32,
}

#[repr(C)]
struct ElementType {
    code: u8,
    bits: u8,
    lanes: u16,
}

#[repr(C)]
struct Tensor {
    data: *mut u8,
    device: Device,
    dimensions: i32,
    dtype: ElementType,
    shape: *const i64,
    /// In elements; null where they lie side by side.
    strides: *const i64,
    byte_offset: u64,
}

/// The head of a managed tensor of version 1; its tensor follows.
#[repr(C)]
struct Versioned {
    major: u32,
    minor: u32,
    manager: *mut c_void,
    deleter: *mut c_void,
    flags: u64,
    tensor: Tensor,
}

/// The memory of an object that has `__dlpack__`.
pub fn export(object: &Bound<'_, PyAny>) -> PyResult<Option<Array>> {
    let py = object.py();
    if !object.hasattr(intern!(py, "__dlpack__"))? {
        return Ok(None);
    }
    let (kind, _): (i32, i32) = object.call_method0(intern!(py, "__dlpack_device__"))?.extract()?;
    if kind != CPU {
        return Err(errors::array(&format!(
            "memory of DLPack device type {kind}; expected {CPU}, that of the CPU"
        )));
    }
    let capsule = capsule(object)?;
    // SAFETY: the capsule is of the name that goes with the structure, and `array` keeps it, and so the structure, alive.
    let (tensor, flags) = unsafe {
        match capsule.name()?.map(|name| name.as_cstr()) {
            Some(name) if name == c"dltensor_versioned" => {
                let versioned = pointer::<Versioned>(&capsule, c"dltensor_versioned")?;
                if versioned.as_ref().major != 1 {
                    return Err(PyBufferError::new_err("DLPack of a version other than 1"));
                }
                (&versioned.as_ref().tensor, versioned.as_ref().flags)
            }
            _ => (pointer::<Tensor>(&capsule, c"dltensor")?.as_ref(), 0),
        }
    };
    let dtype = tensor.dtype.known()?;
    // SAFETY: the producer describes as many dimensions as it says.
    let layout = unsafe { tensor.layout(dtype.size_bytes()) }
        .ok_or_else(|| PyBufferError::new_err("a DLPack tensor with a shape that no memory has"))?;
    let start = tensor.data.wrapping_add(tensor.byte_offset as usize);
    let is_readonly = flags & (READ_ONLY | IS_COPIED) != 0;
    Ok(Some(Array { start, dtype, layout, is_readonly, keep: capsule.into_any().unbind() }))
}

/// Asks for version 1, which tells what may be written, then for what there was before.
fn capsule<'py>(object: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyCapsule>> {
    let py = object.py();
    let options = PyDict::new(py);
    options.set_item("max_version", (1, 0))?;
    let made = match object.call_method(intern!(py, "__dlpack__"), (), Some(&options)) {
        Err(error) if error.is_instance_of::<PyTypeError>(py) => {
            object.call_method0(intern!(py, "__dlpack__"))?
        }
        made => made?,
    };
    Ok(made.cast_into::<PyCapsule>()?)
}

fn pointer<T>(capsule: &Bound<'_, PyCapsule>, name: &CStr) -> PyResult<NonNull<T>> {
    Ok(capsule.pointer_checked(Some(name))?.cast())
}

impl ElementType {
    fn known(&self) -> PyResult<DType> {
        let dtype = match (self.code, self.bits, self.lanes) {
            (0, 8, 1) => DType::I8,
            (0, 16, 1) => DType::I16,
            (0, 32, 1) => DType::I32,
            (0, 64, 1) => DType::I64,
            (1, 8, 1) => DType::U8,
            (1, 16, 1) => DType::U16,
            (1, 32, 1) => DType::U32,
            (1, 64, 1) => DType::U64,
            (2, 16, 1) => DType::F16,
            (2, 32, 1) => DType::F32,
            (2, 64, 1) => DType::F64,
            (4, 16, 1) => DType::BF16,
            (5, 64, 1) => DType::Complex64,
            (5, 128, 1) => DType::Complex128,
            (6, 8, 1) => DType::Bool,
            (10, 8, 1) => DType::F8E4M3,
            (12, 8, 1) => DType::F8E5M2,
            (code, bits, lanes) => {
                return Err(unknown_dtype(&format!("(DLPack code {code}, {bits} bits, {lanes} lanes)")));
            }
        };
        Ok(dtype)
    }
}

impl Tensor {
    /// # Safety
    /// `shape`, and `strides` where it is not null, have as many elements as there are dimensions.
    unsafe fn layout(&self, item_bytes: usize) -> Option<Layout> {
        let dimensions = usize::try_from(self.dimensions).ok()?;
        let shape: &[i64] = match dimensions {
            0 => &[],
            // SAFETY: the caller vouches for the shape.
            _ => unsafe { std::slice::from_raw_parts(self.shape, dimensions) },
        };
        let shape = shape.iter().map(|extent| usize::try_from(*extent).ok()).collect::<Option<Vec<_>>>()?;
        if self.strides.is_null() || dimensions == 0 {
            let count = shape.iter().try_fold(1_usize, |count, extent| count.checked_mul(*extent))?;
            count.checked_mul(item_bytes)?;
            return Some(Layout::contiguous(count, item_bytes));
        }
        // SAFETY: the caller vouches for the strides.
        let strides = unsafe { std::slice::from_raw_parts(self.strides, dimensions) };
        let strides = strides.iter().map(|stride| *stride as isize * item_bytes as isize);
        Layout::strided(shape.into_iter().zip(strides), item_bytes)
    }
}
