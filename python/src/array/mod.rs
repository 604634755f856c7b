//! [`Array`]: the memory of a Python object. [`EXPORTERS`] lists the ways in which objects show theirs; the first that knows an object
//! says where its elements lie.

mod buffer;
mod dlpack;
mod layout;
mod ml_dtypes;
mod runs;
mod tensor;

use hcomm::DType;
use pyo3::prelude::*;

use crate::errors;

pub use layout::Layout;

/// Where an object's elements lie.
pub struct Array {
    /// Address of the element whose indices are all 0; anything where there are no elements.
    pub start: *mut u8,
    /// Type of the elements.
    pub dtype: DType,
    /// Shape and strides.
    pub layout: Layout,
    /// Whether the owner forbids writing.
    pub is_readonly: bool,
    /// What keeps the memory alive and in place.
    pub keep: Py<PyAny>,
}

/// A way to learn where an object's elements lie: nothing where the object is not of its kind.
type Exporter = fn(&Bound<'_, PyAny>) -> PyResult<Option<Array>>;

/// Most specific first.
const EXPORTERS: [Exporter; 4] = [tensor::export, ml_dtypes::export, buffer::export, dlpack::export];

impl Array {
    /// The memory of `object`.
    ///
    /// # Errors
    /// `TypeError` where the object shows no memory of a processor, or its elements are of no type of hcomm's.
    pub fn of(object: &Bound<'_, PyAny>) -> PyResult<Array> {
        for exporter in EXPORTERS {
            if let Some(array) = exporter(object)? {
                return Ok(array);
            }
        }
        let name = object.get_type().fully_qualified_name()?;
        Err(errors::array(&format!(
            "cannot use the memory of a {name}; expected a NumPy array, a torch tensor, or anything with a buffer or DLPack on the CPU"
        )))
    }
}

/// What to say of elements that are none of hcomm's.
fn unknown_dtype(name: &str) -> PyErr {
    let known = DType::ALL.map(DType::name).join(", ");
    errors::array(&format!("elements of type {name}; expected one of {known}"))
}
