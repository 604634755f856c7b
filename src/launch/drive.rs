//! The launcher's loop: one thread that polls signals and pipes, passes on what comes, and ends all ranks when one fails. It never waits
//! for whoever reads its output.

use std::io::{self, Read};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Signal, getpid, kill_process};

use super::ending::{Ending, Step};
use super::lines::Lines;
use super::outcome::{Failure, Outcome};
use super::ranks::{Pipe, Ranks};
use super::signals::{Meaning, Signals};
use super::writer::{Stream, Writer};
use super::{Launch, LaunchError};

/// How long the beginning of a line waits for its end before it is shown.
const IDLE: Duration = Duration::from_millis(100);

/// Looks after the ranks until all have ended, with all that they have started, and all that they have printed is written.
pub fn drive_to_end(
    launch: &Launch,
    ranks: Ranks,
    signals: Signals,
    report: impl FnMut(&Failure) -> String,
) -> Result<Outcome, LaunchError> {
    let channel = |stream| Ok(Channel { lines: Lines::new(launch.ranks), writer: Writer::start(stream)? });
    let out = channel(Stream::Out).map_err(LaunchError::System)?;
    let err = channel(Stream::Err).map_err(LaunchError::System)?;
    let ending = Ending::new(launch.grace);
    let mut shift = Shift { ranks, signals, out, err, ending, output_error: None, report };
    shift.until_all_have_ended().map_err(LaunchError::System)?;
    shift.finish_output().map_err(LaunchError::System)?;
    match shift.output_error {
        Some(error) => Err(LaunchError::Output(error)),
        None => Ok(shift.ending.outcome()),
    }
}

struct Shift<R> {
    ranks: Ranks,
    signals: Signals,
    out: Channel,
    err: Channel,
    ending: Ending,
    /// Why standard output cannot be written.
    output_error: Option<io::Error>,
    report: R,
}

/// One merged stream on its way out.
struct Channel {
    lines: Lines,
    writer: Writer,
}

impl<R: FnMut(&Failure) -> String> Shift<R> {
    fn until_all_have_ended(&mut self) -> io::Result<()> {
        let mut is_left = true;
        while is_left {
            self.wait(self.ending.next_at())?;
            self.pass_signals();
            self.pass_output();
            is_left = self.note_ends()?;
        }
        Ok(())
    }

    /// Sleeps until a signal or output comes, output is written, or it is time to show or for a step of the ending.
    fn wait(&mut self, until: Option<Instant>) -> io::Result<()> {
        let channels = [&self.out, &self.err];
        let pipes =
            self.ranks.pipes.iter().filter(|pipe| !channels[usize::from(pipe.is_error)].writer.is_full());
        let writers = channels.map(|channel| channel.writer.as_fd());
        let fds = self.signals.as_fds().chain(writers).chain(pipes.map(|pipe| pipe.file.as_fd()));
        let mut polled: Vec<PollFd<'_>> = fds.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
        let idle = channels.iter().any(|channel| channel.lines.is_holding()).then_some(IDLE);
        let step = until.map(|at| at.saturating_duration_since(Instant::now()));
        let timeout = idle.into_iter().chain(step).min();
        let woken = poll(&mut polled, timeout.and_then(|t| Timespec::try_from(t).ok()).as_ref());
        self.out.writer.handle_progress();
        self.err.writer.handle_progress();
        match woken {
            Ok(0) if idle.is_some() => {
                self.out.pass(Lines::handle_idle);
                self.err.pass(Lines::handle_idle);
                Ok(())
            }
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn pass_signals(&mut self) {
        while let Some((signal, meaning)) = self.signals.poll_forwarded() {
            match meaning {
                Meaning::End => self.ranks.signal(self.ending.handle_request(signal)),
                Meaning::Other => self.ranks.signal(signal),
                Meaning::Stop => {
                    self.ranks.signal(signal);
                    // This process as well, so that a shell sees the job stopped. SIGCONT wakes it, and is passed on.
                    let _ = kill_process(getpid(), Signal::STOP);
                }
            }
        }
    }

    fn pass_output(&mut self) {
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let (out_channel, err_channel) = (&mut self.out, &mut self.err);
        self.ranks.pipes.retain_mut(|pipe| {
            let (channel, bytes) =
                if pipe.is_error { (&mut *err_channel, &mut err) } else { (&mut *out_channel, &mut out) };
            channel.writer.is_full() || take(pipe, &mut channel.lines, bytes)
        });
        self.out.writer.write(out);
        self.err.writer.write(err);
        // What ranks say on standard error is lost where nobody can read it; that is no reason to end them.
        let _ = self.err.writer.take_error();
        if let Some(error) = self.out.writer.take_error() {
            self.ending.handle_closed_output(Instant::now());
            self.output_error = Some(error);
        }
    }

    /// Takes the next step towards the end, if it is time. Returns whether anybody is left.
    fn note_ends(&mut self) -> io::Result<bool> {
        self.signals.poll_child();
        let now = Instant::now();
        let failures = self.ranks.note_ends()?;
        // Where nobody takes the output the ranks end by that, which is no failure of theirs.
        if self.output_error.is_none()
            && let Some(first) = self.ending.handle_failures(&failures, now)
        {
            let line = (self.report)(&first);
            self.err.pass(|lines, out| lines.handle_note(&line, out));
        }
        match self.ending.poll_step(now) {
            Some(Step::Tell) => self.ranks.signal(Signal::TERM),
            Some(Step::Kill) => self.ranks.signal(Signal::KILL),
            None => {}
        }
        if self.ranks.are_running() {
            return Ok(true);
        }
        if self.ending.begin_helpers(now) {
            return self.ranks.end_helpers();
        }
        self.ranks.reap_helpers()
    }

    /// All have ended: passes on what still lies in the pipes, and waits until it is written or somebody wants the end. Whatever holds the
    /// pipes open longer is none of ours.
    fn finish_output(&mut self) -> io::Result<()> {
        while self.out.writer.is_full() || self.err.writer.is_full() {
            if self.is_cut_short()? {
                return Ok(());
            }
            self.pass_output();
        }
        self.pass_output();
        self.out.pass(Lines::handle_end);
        self.err.pass(Lines::handle_end);
        self.ranks.pipes.clear();
        while !(self.out.writer.is_idle() && self.err.writer.is_idle()) {
            if self.is_cut_short()? {
                return Ok(());
            }
        }
        self.pass_output();
        Ok(())
    }

    /// Waits; whether a signal wants the end while nobody takes the output.
    fn is_cut_short(&mut self) -> io::Result<bool> {
        self.wait(None)?;
        let mut is_wanted = false;
        while let Some((_, meaning)) = self.signals.poll_forwarded() {
            is_wanted |= meaning == Meaning::End;
        }
        Ok(is_wanted)
    }
}

impl Channel {
    fn pass(&mut self, what: impl FnOnce(&mut Lines, &mut Vec<u8>)) {
        let mut bytes = Vec::new();
        what(&mut self.lines, &mut bytes);
        self.writer.write(bytes);
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
