//! How this program becomes the ranks of a job: started by hand, it starts itself once per rank.

use std::env;
use std::os::unix::process::CommandExt;
use std::process::Command;

use hcomm::launch::{Launch, Output};

use crate::Outcome;

/// Candle's own threads would only take the cores from the other ranks.
const ONE_THREAD: (&str, &str) = ("RAYON_NUM_THREADS", "1");

/// Runs this program again as `world` ranks and returns the exit code of the first that fails, or 0.
pub fn start_ranks(world: usize) -> Outcome<u8> {
    let launch =
        Launch::new(env::current_exe()?, world).args(env::args_os().skip(1)).output(Output::Inherited);
    let launch = launch.variable(ONE_THREAD.0, ONE_THREAD.1);
    let outcome = launch.run_reporting(|failure| format!("train: {failure}; ending the other ranks"))?;
    Ok(outcome.code())
}

/// A rank does its arithmetic on one thread. One that another launcher started without that starts over.
pub fn insist_on_one_thread() -> Outcome<()> {
    if env::var(ONE_THREAD.0).as_deref() == Ok(ONE_THREAD.1) {
        return Ok(());
    }
    let this = env::current_exe()?;
    Err(Command::new(this).args(env::args_os().skip(1)).env(ONE_THREAD.0, ONE_THREAD.1).exec().into())
}
