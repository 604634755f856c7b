//! The `hcomm` program: [`hcomm_cli`] called with the command line of this process.

#![forbid(unsafe_code)]

use std::ffi::OsString;
use std::process::ExitCode;

fn main() -> ExitCode {
    let this: Vec<OsString> = std::env::current_exe().map(OsString::from).into_iter().collect();
    ExitCode::from(hcomm_cli::run(std::env::args_os(), &this))
}
