//! The `hcomm` command.
fn main() {}
