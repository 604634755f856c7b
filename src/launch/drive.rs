//! The launcher's loop: one thread that polls signals and pipes, passes on what comes, and ends all ranks when one fails.

use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::Signal;

use super::lines::Lines;
use super::outcome::{Failure, Outcome};
use super::ranks::{Pipe, Ranks};
use super::signals::Signals;
use super::{Launch, LaunchError};

/// How long the beginning of a line waits for its end before it is shown.
const IDLE: Duration = Duration::from_millis(100);

/// Looks after the ranks until all have ended.
pub fn drive_to_end(
    launch: &Launch,
    ranks: Ranks,
    signals: Signals,
    report: impl FnMut(&Failure),
) -> Result<Outcome, LaunchError> {
    let (out, err) = (Lines::new(launch.ranks), Lines::new(launch.ranks));
    let end = End { grace: launch.grace, failure: None, kill_at: None, told: 0 };
    let mut shift = Shift { ranks, signals, out, err, end, report };
    while shift.ranks.are_running() {
        shift.wait().map_err(LaunchError::System)?;
        shift.pass_signals();
        shift.pass_output().map_err(LaunchError::Output)?;
        shift.note_ends().map_err(LaunchError::System)?;
    }
    shift.finish_output().map_err(LaunchError::Output)?;
    Ok(Outcome { failure: shift.end.failure })
}

struct Shift<R> {
    ranks: Ranks,
    signals: Signals,
    out: Lines,
    err: Lines,
    end: End,
    report: R,
}

/// How far the ranks are on their way to being ended.
struct End {
    grace: Duration,
    failure: Option<Failure>,
    kill_at: Option<Instant>,
    told: usize,
}

impl<R: FnMut(&Failure)> Shift<R> {
    /// Sleeps until a signal or output comes, or it is time to show or to kill.
    fn wait(&mut self) -> io::Result<()> {
        let pipes = self.ranks.pipes.iter().map(|pipe| pipe.file.as_fd());
        let fds = self.signals.as_fds().chain(pipes);
        let mut polled: Vec<PollFd<'_>> = fds.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
        let idle = (self.out.is_holding() || self.err.is_holding()).then_some(IDLE);
        let kill = self.end.kill_at.map(|at| at.saturating_duration_since(Instant::now()));
        let timeout = idle.into_iter().chain(kill).min();
        match poll(&mut polled, timeout.and_then(|t| Timespec::try_from(t).ok()).as_ref()) {
            Ok(0) if idle.is_some() => self.show_held(),
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn show_held(&mut self) -> io::Result<()> {
        let (mut out, mut err) = (Vec::new(), Vec::new());
        self.out.handle_idle(&mut out);
        self.err.handle_idle(&mut err);
        write(&out, &err)
    }

    fn pass_signals(&mut self) {
        while let Some(signal) = self.signals.poll_forwarded() {
            self.end.told += 1;
            self.ranks.signal(if self.end.told > 1 { Signal::KILL } else { signal });
        }
    }

    fn pass_output(&mut self) -> io::Result<()> {
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let (out_lines, err_lines) = (&mut self.out, &mut self.err);
        self.ranks.pipes.retain_mut(|pipe| match pipe.is_error {
            true => take(pipe, err_lines, &mut err),
            false => take(pipe, out_lines, &mut out),
        });
        write(&out, &err)
    }

    /// Ends the others when a rank has failed; kills them when their time is up.
    fn note_ends(&mut self) -> io::Result<()> {
        self.signals.poll_child();
        // Of several that failed at once, one that a signal killed is the likelier cause.
        let failures = self.ranks.reap()?;
        if let (None, Some(failure)) = (self.end.failure, failures.iter().min_by_key(|f| !f.exit.is_signal()))
        {
            self.end.failure = Some(*failure);
            self.end.kill_at = Some(Instant::now() + self.end.grace);
            (self.report)(failure);
            self.ranks.signal(Signal::TERM);
        }
        if self.end.kill_at.is_some_and(|at| at <= Instant::now()) {
            self.ranks.signal(Signal::KILL);
            self.end.kill_at = Some(Instant::now() + self.end.grace);
        }
        Ok(())
    }

    /// All ranks have ended: passes on what still lies in the pipes. Whatever holds them open longer is none of ours.
    fn finish_output(&mut self) -> io::Result<()> {
        self.pass_output()?;
        let (mut out, mut err) = (Vec::new(), Vec::new());
        self.out.handle_end(&mut out);
        self.err.handle_end(&mut err);
        write(&out, &err)
    }
}

/// Reads what is there, up to a bound, so that a rank that never stops printing does not keep the loop from its other duties.
/// Returns whether more may come.
fn take(pipe: &mut Pipe, lines: &mut Lines, out: &mut Vec<u8>) -> bool {
    let mut bytes = [0; 16 << 10];
    for _ in 0..16 {
        match pipe.file.read(&mut bytes) {
            Ok(0) => return false,
            Ok(count) => lines.handle_bytes(pipe.rank, &bytes[..count], out),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return error.kind() == io::ErrorKind::WouldBlock,
        }
    }
    true
}

fn write(out: &[u8], err: &[u8]) -> io::Result<()> {
    if !out.is_empty() {
        let mut stdout = io::stdout().lock();
        stdout.write_all(out)?;
        stdout.flush()?;
    }
    io::stderr().lock().write_all(err)
}
