//! The command line: the same as that of the binary `hcomm`.

use std::ffi::OsString;

use pyo3::prelude::*;

/// Runs the command `hcomm` with arguments (the first is its name) and gives its exit code. `this` is the command line that starts the
/// same again, for the rank processes that some subcommands start.
#[pyfunction]
pub fn command(py: Python<'_>, arguments: Vec<OsString>, this: Vec<OsString>) -> u8 {
    py.detach(|| hcomm_cli::run(arguments, &this))
}
