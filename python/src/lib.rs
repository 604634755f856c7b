//! The native part of the Python package: takes the memory of Python's arrays to the engine's calls and hands their ends back. The
//! calls by their names, the settings and everything for torch are Python, in `hcomm/`.
//!
//! - `array`: what memory a Python object has. `bound`: that memory as the buffers of a call.
//! - `busy`: memory that operations in flight use.
//! - `request`, `options`, `words`: what a call was given. `communicator`, `work`: the two objects, and `shared` between them. `waiting`: waits that Ctrl-C ends. `completion`: ends told to Python.
//! - `lifetime`: forks and the end of the interpreter. `errors`: failures as exceptions.
//!
//! **Locks.** What is `static` here is locked only by threads that hold the interpreter's lock, and never across its release: so that
//! a fork, which happens under it, finds everything unlocked in the child.

#![deny(clippy::print_stdout, clippy::print_stderr)]

mod array;
mod bound;
mod busy;
mod command;
mod communicator;
mod completion;
mod errors;
mod lent;
mod lifetime;
mod options;
mod plan;
mod request;
mod scratch;
mod settings;
mod shared;
mod statistics;
mod waiting;
mod words;
mod work;

use pyo3::prelude::*;

/// The native part of hcomm; use the package `hcomm`.
#[pymodule(gil_used = true)]
mod _native {
    use pyo3::prelude::*;

    #[pymodule_export]
    use crate::command::command;
    #[pymodule_export]
    use crate::communicator::Communicator;
    #[pymodule_export]
    use crate::completion::{finish_callbacks, flush_callbacks};
    #[pymodule_export]
    use crate::lifetime::after_fork_in_child;
    #[pymodule_export]
    use crate::plan::{Plan, plan};
    #[pymodule_export]
    use crate::settings::{check_settings, describe_settings, own_addresses, parse_bytes};
    #[pymodule_export]
    use crate::work::Work;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
