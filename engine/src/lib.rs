//! Work in progress.

pub mod environment;
pub mod settings;
