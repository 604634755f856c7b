//! Words and numbers as Python gives them: what is none is an error that says so.

use std::time::Duration;

use hcomm::Rank;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::errors;

/// A rank, where it is one.
///
/// # Errors
/// `RankError` where it is negative; larger ones are refused by the engine.
pub fn rank_of(py: Python<'_>, rank: i64, world: usize) -> PyResult<Rank> {
    Rank::try_from(rank).map_err(|_| errors::rank(py, rank, world))
}

/// A tag.
///
/// # Errors
/// `RefusedError` for one that is none.
pub fn tag_of(py: Python<'_>, tag: i64) -> PyResult<u32> {
    u32::try_from(tag)
        .map_err(|_| errors::refused(py, &format!("a message with tag {tag}; expected 0 to {}", u32::MAX)))
}

/// A word of hcomm's.
///
/// # Errors
/// `ValueError` (a `RefusedError`) with the words that there are.
pub fn parsed<T: std::str::FromStr<Err: std::fmt::Display>>(text: &str) -> PyResult<T> {
    text.parse().map_err(|error: T::Err| Python::attach(|py| errors::refused(py, &error.to_string())))
}

/// A number that fits its type.
///
/// # Errors
/// `RefusedError`, which says what the number is for.
pub fn number<'py, T: FromPyObjectOwned<'py>>(value: &Bound<'py, PyAny>, what: &str) -> PyResult<T> {
    let py = value.py();
    value.extract().map_err(|error: T::Error| {
        let cause: PyErr = error.into();
        let error =
            errors::refused(py, &format!("{what} of {value}, which is out of range or no whole number"));
        error.set_cause(py, Some(cause));
        error
    })
}

/// A time in seconds; none where it is infinite, or longer than anybody waits.
///
/// # Errors
/// `ValueError` where it is negative or no number.
pub fn limit(given: f64) -> PyResult<Option<Duration>> {
    if given > MOST_SECONDS { Ok(None) } else { seconds(given).map(Some) }
}

/// A hundred years.
const MOST_SECONDS: f64 = 100.0 * 365.0 * 86_400.0;

/// A time in seconds.
///
/// # Errors
/// `ValueError` where it is negative or no number.
pub fn seconds(seconds: f64) -> PyResult<Duration> {
    Duration::try_from_secs_f64(seconds)
        .map_err(|_| PyValueError::new_err(format!("{seconds} is no time in seconds; expected 0 or more")))
}
