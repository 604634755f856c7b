//! torch tensors: asked for their address by name, which is the quickest way and needs nothing of torch's at build time.

use hcomm::DType;
use pyo3::ffi::{PyObject_TypeCheck, PyTypeObject};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyType};

use super::{Array, Layout, unknown_dtype};
use crate::errors;

/// What is known of torch once it has been imported.
struct Torch {
    tensor: Py<PyType>,
    /// From torch's types to places in [`DType::ALL`].
    dtypes: Py<PyDict>,
}

static TORCH: PyOnceLock<Torch> = PyOnceLock::new();

/// Types by torch's names.
const NAMES: [(&str, DType); 17] = [
    ("int8", DType::I8),
    ("uint8", DType::U8),
    ("int16", DType::I16),
    ("uint16", DType::U16),
    ("int32", DType::I32),
    ("uint32", DType::U32),
    ("int64", DType::I64),
    ("uint64", DType::U64),
    ("float16", DType::F16),
    ("bfloat16", DType::BF16),
    ("float32", DType::F32),
    ("float64", DType::F64),
    ("float8_e4m3fn", DType::F8E4M3),
    ("float8_e5m2", DType::F8E5M2),
    ("bool", DType::Bool),
    ("complex64", DType::Complex64),
    ("complex128", DType::Complex128),
];

/// The memory of a tensor.
pub fn export(object: &Bound<'_, PyAny>) -> PyResult<Option<Array>> {
    let py = object.py();
    let Some(torch) = torch(py)? else { return Ok(None) };
    // SAFETY: only looks at the object's type; the class is alive.
    if unsafe { PyObject_TypeCheck(object.as_ptr(), torch.tensor.as_ptr().cast::<PyTypeObject>()) } == 0 {
        return Ok(None);
    }
    if !object.getattr(intern!(py, "is_cpu"))?.is_truthy()? {
        let device = object.getattr(intern!(py, "device"))?.str()?;
        return Err(errors::array(&format!("a tensor on device {device}; expected one on the CPU")));
    }
    let type_of = object.getattr(intern!(py, "dtype"))?;
    let place =
        torch.dtypes.bind(py).get_item(&type_of)?.ok_or_else(|| unknown_dtype(&type_of.to_string()))?;
    let dtype = DType::ALL[place.extract::<usize>()?];
    if object.call_method0(intern!(py, "is_neg"))?.is_truthy()?
        || object.call_method0(intern!(py, "is_conj"))?.is_truthy()?
    {
        let message = "a tensor whose conjugation or negation is still to be done; call resolve_conj() and resolve_neg() first";
        return Err(errors::array(message));
    }
    let start: usize = match object.call_method0(intern!(py, "data_ptr")) {
        Ok(start) => start.extract()?,
        Err(cause) => return Err(without_memory(object, cause)?),
    };
    let layout = layout(object, dtype.size_bytes())?;
    if start == 0 && layout.count > 0 {
        return Err(without_memory(object, errors::array("its data_ptr() is 0"))?);
    }
    // The memory itself, which the tensor may exchange for another meanwhile.
    let keep = object.call_method0(intern!(py, "untyped_storage"))?.unbind();
    Ok(Some(Array { start: start as *mut u8, dtype, layout, is_readonly: false, keep }))
}

/// What to say of a tensor whose elements lie nowhere, such as a sparse one.
fn without_memory(tensor: &Bound<'_, PyAny>, cause: PyErr) -> PyResult<PyErr> {
    let py = tensor.py();
    let layout = tensor.getattr("layout")?.str()?;
    let error = errors::array(&format!(
        "a tensor of layout {layout} without memory of its own; expected a dense one (of a DTensor, its to_local())"
    ));
    error.set_cause(py, Some(cause));
    Ok(error)
}

fn layout(tensor: &Bound<'_, PyAny>, item_bytes: usize) -> PyResult<Layout> {
    let py = tensor.py();
    if tensor.call_method0(intern!(py, "is_contiguous"))?.is_truthy()? {
        let count = tensor.call_method0(intern!(py, "numel"))?.extract()?;
        return Ok(Layout::contiguous(count, item_bytes));
    }
    let shape: Vec<usize> = tensor.getattr(intern!(py, "shape"))?.extract()?;
    let strides: Vec<isize> = tensor.call_method0(intern!(py, "stride"))?.extract()?;
    let strides = strides.into_iter().map(|stride| stride * item_bytes as isize);
    Layout::strided(shape.into_iter().zip(strides), item_bytes)
        .ok_or_else(|| errors::array("a tensor with more elements than memory can have"))
}

/// torch, if the program has imported it.
fn torch(py: Python<'_>) -> PyResult<Option<&'static Torch>> {
    if let Some(torch) = TORCH.get(py) {
        return Ok(Some(torch));
    }
    let modules = py.import("sys")?.getattr("modules")?;
    let Ok(module) = modules.get_item("torch") else { return Ok(None) };
    // While torch is being imported it has no tensors yet.
    let Ok(tensor) = module.getattr("Tensor") else { return Ok(None) };
    let dtypes = PyDict::new(py);
    for (name, dtype) in NAMES {
        if let Ok(type_of) = module.getattr(name) {
            let place = DType::ALL.iter().position(|known| *known == dtype).unwrap_or(0);
            dtypes.set_item(type_of, place)?;
        }
    }
    let torch = Torch { tensor: tensor.cast_into::<PyType>()?.unbind(), dtypes: dtypes.unbind() };
    Ok(Some(TORCH.get_or_init(py, || torch)))
}
