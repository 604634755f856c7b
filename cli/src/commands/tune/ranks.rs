//! Starts the ranks of a setup, as processes of this command, and fetches what they have measured.

use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use std::{env, fs};

use hcomm::launch::{Exit, Output};

use super::results::{self, Cell};
use super::setup::Setup;
use crate::invocation::Invocation;
use crate::mistake::CommandError;

/// What every rank is told.
pub struct Order<'a> {
    /// Sizes of the full buffer.
    pub sizes: &'a [u64],
    /// How long all of a setup may take.
    pub budget: Duration,
    /// What `HCOMM_TUNING` is to be.
    pub tuning: &'a Path,
}

/// Measures a setup.
pub fn measure(
    setup: &Setup,
    order: &Order<'_>,
    invocation: &Invocation<'_>,
) -> Result<Vec<Cell>, CommandError> {
    let file = Scratch::new(setup);
    let start = Instant::now();
    begin(setup);
    let failed = |message: String| CommandError::Failed { code: 1, message };
    let sizes: Vec<String> = order.sizes.iter().map(u64::to_string).collect();
    let budget = order.budget.as_millis().to_string();
    let launch = invocation
        .again(setup.world, ["tune", "--as-rank", "--sizes", &sizes.join(","), "--budget-ms", &budget])?
        .args([Path::new("--results"), file.path()])
        .variable("HCOMM_TRANSPORT", setup.kind.name())
        .variable("HCOMM_TUNING", order.tuning)
        .variable("HCOMM_ALGORITHM", "")
        .output(Output::Inherited)
        .bound(setup.world <= setup.processors);
    let report = |failure: &hcomm::launch::Failure| match failure.exit {
        Exit::Signal(_) => format!("\nhcomm: {failure}; ending the other ranks"),
        Exit::Code(_) => String::new(),
    };
    let outcome = launch.run_reporting(report).map_err(|error| failed(error.to_string()))?;
    if let Some(failure) = &outcome.failure {
        // 1 says something else of a check than that somebody has ended it.
        let code = if let Exit::Signal(_) = failure.exit { outcome.code() } else { 1 };
        let message = format!("the ranks of {} have failed", setup.name());
        return Err(CommandError::Failed { code, message });
    }
    let cells = results::read(file.path());
    hcomm::say(&format!("{:.0} s", start.elapsed().as_secs_f64()));
    cells.ok_or_else(|| failed(format!("the ranks of {} have left no figures", setup.name())))
}

/// Says what comes; its end stands on the same line.
fn begin(setup: &Setup) {
    let mut stderr = io::stderr();
    let end = if stderr.is_terminal() { "" } else { "measured in " };
    let _ = write!(stderr, "{}: {end}", setup.name());
    let _ = stderr.flush();
}

/// A file that goes with the value.
struct Scratch(PathBuf);

impl Scratch {
    fn new(setup: &Setup) -> Scratch {
        let name = format!("hcomm-tune-{}-{}-{}.json", std::process::id(), setup.kind.name(), setup.world);
        Scratch(env::temp_dir().join(name))
    }

    fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}
