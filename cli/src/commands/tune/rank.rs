//! One rank of a measurement: goes through the cells with the others; rank 0 shows how far they are and writes what came out.

use std::io::{IsTerminal, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use hcomm::{Communicator, Error, Op};

use super::contest::Contest;
use super::results::{self, Cell};
use super::setup::cells;
use crate::commands::print::unwritten;
use crate::mistake::CommandError;

/// Measures every collective at every size within about `budget`.
pub fn run(comm: &Communicator, sizes: &[u64], budget: Duration, path: &Path) -> Result<(), CommandError> {
    let failed = |error: &Error| CommandError::Failed {
        code: 1,
        message: format!("rank {} cannot measure: {error}", comm.rank()),
    };
    let all = cells(sizes);
    let start = Instant::now();
    let mut measured = Vec::new();
    for (number, (collective, bytes)) in all.iter().enumerate() {
        let progress = format!("{collective} of {bytes} bytes ({} of {})", number + 1, all.len());
        show(comm, &progress);
        let left = time_left(comm, start, budget).map_err(|error| failed(&error))?;
        let contest = Contest::new(comm, *collective, *bytes);
        let chosen = contest.chosen();
        let to_come: f64 = all[number..].iter().map(|(_, bytes)| weight(*bytes)).sum();
        let each = left.mul_f64(weight(*bytes) / to_come);
        let times_ns = contest.run(each).map_err(|error| failed(&error))?;
        measured.push(Cell { collective: *collective, bytes: *bytes, chosen, times_ns });
    }
    show(comm, "");
    if comm.rank() == 0 {
        results::write(path, &measured).map_err(|cause| unwritten(&path.display().to_string(), &cause))?;
    }
    comm.close().map_err(|error| failed(&error))
}

/// A cell's part of the time: long calls are few, and need more of it.
fn weight(bytes: u64) -> f64 {
    const LONG: u32 = 15;
    1.0 + f64::from(bytes.max(1).ilog2().saturating_sub(LONG)) * 0.4
}

/// Of the budget, as the rank says that has least.
fn time_left(comm: &Communicator, start: Instant, budget: Duration) -> Result<Duration, Error> {
    let mut left = [budget.saturating_sub(start.elapsed()).as_nanos() as u64];
    comm.all_reduce(&mut left, Op::Min)?;
    Ok(Duration::from_nanos(left[0]))
}

/// On a terminal, one line that is written over; it stands after what the command has written.
fn show(comm: &Communicator, progress: &str) {
    let mut stderr = std::io::stderr();
    if comm.rank() == 0 && stderr.is_terminal() {
        // Back to the column after the setup's name, and nothing after it.
        let _ = write!(stderr, "\x1b[s{progress}\x1b[K\x1b[u");
        let _ = stderr.flush();
    }
}
