//! The checks, one file per part of the machine, and the one list of them.

mod devices;
mod limits;
mod network;
mod place;
mod processor;
mod shared_memory;

use hcomm::settings::Settings;

use super::finding::Finding;

/// Looks at one part of the machine.
pub type Check = fn(&Settings) -> Vec<Finding>;

/// Every check, in the order of the report.
pub static CHECKS: &[Check] =
    &[place::check, processor::check, limits::check, shared_memory::check, network::check, devices::check];
