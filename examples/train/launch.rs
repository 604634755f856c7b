//! The parent of the ranks: starts this program once more per rank, and ends all of them when one fails.
//!
//! `hcomm launch` does the same for any program, with more care for output and signals; this example brings its own
//! so that a plain `cargo run` is enough.

use std::env;
use std::net::TcpListener;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::sleep;
use std::time::Duration;

use crate::Outcome;

/// Candle's own threads would only take the cores from the other ranks.
const ONE_THREAD: (&str, &str) = ("RAYON_NUM_THREADS", "1");
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// A rank runs its arithmetic on one thread: starts this process over if it was launched without that.
pub fn insist_on_one_thread() -> Outcome<()> {
    if env::var(ONE_THREAD.0).as_deref() == Ok(ONE_THREAD.1) {
        return Ok(());
    }
    let this = env::current_exe()?;
    Err(Command::new(this).args(env::args_os().skip(1)).env(ONE_THREAD.0, ONE_THREAD.1).exec().into())
}

/// Runs this program as `world` ranks and returns the exit code of the first that fails, or 0.
pub fn run_ranks(world: usize, arguments: &[&str], settings: &[(&str, String)]) -> Outcome<u8> {
    let job =
        [("HCOMM_WORLD", world.to_string()), ("HCOMM_ADDRESS", free_address()?), ("HCOMM_TOKEN", token()?)];
    let mut ranks = Vec::with_capacity(world);
    for rank in 0..world {
        let started = command(rank, arguments)?.envs(job.iter().chain(settings).cloned()).spawn();
        match started {
            Ok(child) => ranks.push(child),
            Err(error) => {
                end(&mut ranks);
                return Err(format!("cannot start rank {rank}: {error}").into());
            }
        }
    }
    let first_failure = wait_for_all(&mut ranks);
    end(&mut ranks);
    first_failure
}

/// Rank 0 speaks for all; the others only complain.
fn command(rank: usize, arguments: &[&str]) -> Outcome<Command> {
    let mut command = Command::new(env::current_exe()?);
    command.args(env::args_os().skip(1)).args(arguments).stdin(Stdio::null());
    command.env("HCOMM_RANK", rank.to_string()).env(ONE_THREAD.0, ONE_THREAD.1);
    if rank > 0 {
        command.stdout(Stdio::null());
    }
    Ok(command)
}

fn wait_for_all(ranks: &mut [Child]) -> Outcome<u8> {
    loop {
        let ended = ranks.iter_mut().map(Child::try_wait).collect::<Result<Vec<_>, _>>()?;
        let failed = ended.iter().enumerate().filter_map(|(rank, status)| Some((rank, (*status)?)));
        // of several that failed since the last look, one ended by a signal is the likelier cause
        let first = failed
            .filter(|(_, status)| !status.success())
            .min_by_key(|(_, status)| status.signal().is_none());
        if let Some((rank, status)) = first {
            eprintln!("train: rank {rank} failed ({status}); ending the others");
            return Ok(code(status));
        }
        if ended.iter().all(Option::is_some) {
            return Ok(0);
        }
        sleep(LOOK_EVERY);
    }
}

/// Leaves no rank behind. One that has ended already is not harmed.
fn end(ranks: &mut [Child]) {
    for child in ranks {
        let _ = child.kill();
        let _ = child.wait();
    }
}

/// A process ended by a signal counts as 128 and the signal's number, as in a shell.
fn code(status: ExitStatus) -> u8 {
    let code = status.code().or(status.signal().map(|signal| 128 + signal)).unwrap_or(1);
    u8::try_from(code).unwrap_or(1)
}

fn free_address() -> Outcome<String> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.to_string())
}

/// 128 random bits, which ranks of this job prove to each other.
fn token() -> Outcome<String> {
    use std::io::Read;
    let mut bytes = [0; 16];
    std::fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Child {
        Command::new("sh").args(["-c", script]).spawn().unwrap()
    }

    #[test]
    fn the_first_failing_code_is_returned_and_the_others_are_ended() {
        let mut ranks = [shell("sleep 100"), shell("exit 7"), shell("sleep 100")];
        assert_eq!(wait_for_all(&mut ranks).unwrap(), 7);
        end(&mut ranks);
        assert!(ranks.iter_mut().all(|child| child.try_wait().unwrap().is_some()));
    }

    #[test]
    fn a_signal_is_a_code_above_128() {
        assert_eq!(wait_for_all(&mut [shell("true"), shell("kill -9 $$")]).unwrap(), 137);
        assert_eq!(wait_for_all(&mut [shell("true"), shell("true")]).unwrap(), 0);
    }
}
