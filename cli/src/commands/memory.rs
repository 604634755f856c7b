//! Whether the buffers of a run fit this machine: the system would end a rank in the middle otherwise.

use std::fs;

use crate::mistake::CommandError;

/// Two full buffers of the largest size, for each of the ranks, must fit.
pub fn check(largest: u64, ranks: usize) -> Result<(), CommandError> {
    let needed = u128::from(largest) * 2 * ranks as u128;
    // What is not known is limited by what can be addressed.
    let available = available_bytes().unwrap_or(i64::MAX as u64);
    match needed <= u128::from(available) {
        true => Ok(()),
        false => Err(CommandError::Usage(format!(
            "a size of {largest} bytes takes {needed} bytes of memory in {ranks} ranks; expected at most the {available} available"
        ))),
    }
}

/// What Linux estimates that programs can still have.
fn available_bytes() -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.trim().trim_end_matches("kB").trim().parse().ok()?;
    kib.checked_mul(1024)
}
