//! One rank of a measurement: goes through the cells with the others; rank 0 shows how far they are and writes what came out.

use std::io::{IsTerminal, Write};
use std::path::Path;
use std::time::Duration;

use hcomm::{Communicator, Error};

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
    let each = budget / all.len().max(1) as u32;
    let mut measured = Vec::new();
    for (number, (collective, bytes)) in all.iter().enumerate() {
        let progress = format!("{collective} of {bytes} bytes ({} of {})", number + 1, all.len());
        show(comm, &progress);
        let contest = Contest::new(comm, *collective, *bytes);
        let chosen = contest.chosen(*bytes);
        let times_ns = contest.run(*bytes, each).map_err(|error| failed(&error))?;
        measured.push(Cell { collective: *collective, bytes: *bytes, chosen, times_ns });
    }
    show(comm, "");
    if comm.rank() == 0 {
        results::write(path, &measured).map_err(|cause| unwritten(&path.display().to_string(), &cause))?;
    }
    comm.close().map_err(|error| failed(&error))
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
