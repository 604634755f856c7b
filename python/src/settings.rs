//! Settings for Python: those of the environment, with what the program has set in their place.

use hcomm::Settings;
use hcomm::settings::value::Value;
use hcomm::settings::{Bytes, PREFIX, TABLE};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::errors;
use crate::words::parsed;

/// The settings of the environment, and `overrides` (name to value) in their place.
///
/// # Errors
/// `SettingError` for a name or value that is none.
pub fn read(overrides: &Bound<'_, PyDict>) -> PyResult<Settings> {
    let py = overrides.py();
    Settings::from_env_with(pairs(overrides)?).map_err(|error| errors::setting(py, &error.to_string()))
}

/// `settings` with `overrides` in their place.
///
/// # Errors
/// As [`read`].
pub fn changed(settings: &Settings, overrides: &Bound<'_, PyDict>) -> PyResult<Settings> {
    let shown = TABLE.iter().map(|entry| (entry.name.to_owned(), entry.show(settings)));
    let pairs = shown.filter(|(_, value)| !value.is_empty()).chain(pairs(overrides)?);
    Settings::from_pairs(pairs).map_err(|error| errors::setting(overrides.py(), &error.to_string()))
}

fn pairs(overrides: &Bound<'_, PyDict>) -> PyResult<Vec<(String, String)>> {
    let pair = |(name, value): (Bound<'_, PyAny>, Bound<'_, PyAny>)| {
        let name: String = name.extract()?;
        if !name.starts_with(PREFIX) {
            let text =
                format!("'{name}' is no setting; their names begin with {PREFIX}, such as HCOMM_ALGORITHM");
            return Err(errors::setting(overrides.py(), &text));
        }
        Ok((name, value.extract()?))
    };
    overrides.iter().map(pair).collect()
}

/// Every setting by name.
///
/// # Errors
/// Where memory is out.
pub fn show<'py>(py: Python<'py>, settings: &Settings) -> PyResult<Bound<'py, PyDict>> {
    let shown = PyDict::new(py);
    for entry in TABLE {
        shown.set_item(entry.name, entry.show(settings))?;
    }
    Ok(shown)
}

/// The settings that a communicator would be made with, by name; raises `SettingError` for a name or value that is none.
#[pyfunction]
pub fn check_settings(py: Python<'_>, overrides: &Bound<'_, PyDict>) -> PyResult<Py<PyDict>> {
    Ok(show(py, &read(overrides)?)?.unbind())
}

/// Every setting with its value, its reason and what it may be, as text.
#[pyfunction]
pub fn describe_settings(overrides: &Bound<'_, PyDict>) -> PyResult<String> {
    Ok(read(overrides)?.describe())
}

/// The addresses at which other hosts may reach this one, of the interfaces that HCOMM_SOCKET_IFNAME takes; loopback ones where there are no others.
#[pyfunction]
pub fn own_addresses(py: Python<'_>, overrides: &Bound<'_, PyDict>) -> PyResult<Vec<String>> {
    let filter = read(overrides)?.socket_ifname.show();
    let taken = filter.parse().unwrap_or_default();
    let addresses = hcomm::transports::rendezvous::addresses_of_host(&taken)?;
    if addresses.is_empty() {
        let text = format!("HCOMM_SOCKET_IFNAME={filter} takes no network interface that is up");
        return Err(errors::setting(py, &text));
    }
    Ok(addresses.iter().map(ToString::to_string).collect())
}

/// Bytes of a size such as `8MB` or `64KiB`.
#[pyfunction]
pub fn parse_bytes(text: &str) -> PyResult<u64> {
    Ok(parsed::<Bytes>(text)?.0)
}
