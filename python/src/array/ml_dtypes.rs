//! NumPy arrays whose elements are of a type that NumPy does not have itself (the package `ml_dtypes`): they show no buffer.

use hcomm::DType;
use pyo3::exceptions::PyBufferError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::{Array, Layout, unknown_dtype};

/// From this number on NumPy counts types that are not its own.
const FIRST_FOREIGN: i64 = 256;

/// The memory of such an array.
pub fn export(object: &Bound<'_, PyAny>) -> PyResult<Option<Array>> {
    let py = object.py();
    let ty = object.get_type();
    if ty.name()? != "ndarray" && !object.hasattr(intern!(py, "__array_interface__"))? {
        return Ok(None);
    }
    let Ok(dtype) = object.getattr(intern!(py, "dtype")) else { return Ok(None) };
    let number = dtype.getattr(intern!(py, "num")).and_then(|number| number.extract::<i64>());
    if number.unwrap_or(0) < FIRST_FOREIGN {
        return Ok(None);
    }
    let name: String = dtype.getattr(intern!(py, "name"))?.extract()?;
    let dtype = match name.as_str() {
        "bfloat16" => DType::BF16,
        "float8_e4m3fn" => DType::F8E4M3,
        "float8_e5m2" => DType::F8E5M2,
        _ => return Err(unknown_dtype(&name)),
    };
    let interface = object.getattr(intern!(py, "__array_interface__"))?.cast_into::<PyDict>()?;
    let missing = || PyBufferError::new_err("an array whose __array_interface__ lacks its data or shape");
    let (start, is_readonly): (usize, bool) = interface.get_item("data")?.ok_or_else(missing)?.extract()?;
    let shape: Vec<usize> = interface.get_item("shape")?.ok_or_else(missing)?.extract()?;
    let item_bytes = dtype.size_bytes();
    let strides: Vec<isize> = object.getattr(intern!(py, "strides"))?.extract()?;
    let layout = Layout::strided(shape.into_iter().zip(strides), item_bytes).ok_or_else(missing)?;
    Ok(Some(Array { start: start as *mut u8, dtype, layout, is_readonly, keep: object.clone().unbind() }))
}
