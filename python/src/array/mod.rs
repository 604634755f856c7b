//! [`Array`]: the memory of a Python object. torch's tensors are asked by name; [`EXPORTERS`] lists the ways in which other objects show theirs, of which the first that can
//! says where its elements lie.

mod buffer;
mod dlpack;
mod layout;
mod ml_dtypes;
mod overlap;
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

/// Most specific first. One that fails lets the next try: an object may have a buffer for some of its types of elements only.
const EXPORTERS: [Exporter; 3] = [ml_dtypes::export, buffer::export, dlpack::export];

impl Array {
    /// The memory of `object`.
    ///
    /// # Errors
    /// `TypeError` where the object shows no memory of a processor, or its elements are of no type of hcomm's.
    pub fn of(object: &Bound<'_, PyAny>) -> PyResult<Array> {
        // What these say is all that there is to say.
        if let Some(tensor) = tensor::export(object)? {
            return Ok(tensor);
        }
        buffer::check_mask(object)?;
        let mut first_error = None;
        for exporter in EXPORTERS {
            match exporter(object) {
                Ok(Some(array)) => return Ok(array),
                Ok(None) => {}
                Err(error) => first_error = first_error.or(Some(error)),
            }
        }
        if let Some(error) = first_error {
            return Err(error);
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
