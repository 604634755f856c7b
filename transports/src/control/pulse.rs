//! [`Pulse`]: when a peer was heard last, and what can be said of one that is silent.
//!
//! Three kinds of silence are told apart. A host that is silent answers no packet: the system ends the connection when that has lasted for
//! as long as the settings allow, and the peer is lost. A process that is silent on a host that answers is stopped, or gets no processor: it is
//! not dead, and heartbeats, which the peer sends while it has nothing else to say, only tell since when. A process of this host can be looked at.

use std::fs;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::watch::Watch;

/// Heartbeats in the time for which a peer may be silent.
const BEATS: u32 = 4;

/// See the module's text.
#[derive(Debug)]
pub(crate) struct Pulse {
    began: Instant,
    /// Milliseconds after `began` at which the peer was heard last.
    heard_ms: AtomicU64,
    silence: Duration,
    /// The peer's process, where numbers mean the same to both.
    process: Option<u32>,
}

impl Pulse {
    /// Of a peer that was heard just now, and may be silent for so long; zero is for ever.
    pub(crate) fn new(silence: Duration, watch: &Watch) -> Self {
        Pulse { began: Instant::now(), heard_ms: AtomicU64::new(0), silence, process: watch.number() }
    }

    /// The peer was heard.
    pub(crate) fn beat(&self) {
        self.heard_ms.store(self.began.elapsed().as_millis() as u64, Ordering::Relaxed);
    }

    /// How often this side is to be heard: where the peer cannot look at this process.
    pub(crate) fn interval(&self) -> Option<Duration> {
        (self.process.is_none() && !self.silence.is_zero()).then(|| self.silence / BEATS)
    }

    /// How long the peer has been silent, if that is longer than it may be.
    pub(crate) fn silent_for(&self) -> Option<Duration> {
        self.interval()?;
        let heard = Duration::from_millis(self.heard_ms.load(Ordering::Relaxed));
        Some(self.began.elapsed().saturating_sub(heard)).filter(|silent| *silent > self.silence)
    }

    /// What keeps a peer that is not lost from answering, as a clause; `None` where nothing is known.
    pub(crate) fn condition(&self) -> Option<String> {
        if self.process.is_some_and(is_stopped) {
            return Some("its process is stopped".to_owned());
        }
        let silent = self.silent_for()?.as_secs_f64();
        Some(format!(
            "nothing was heard of it for {silent:.1} s, though its host answers: it is stopped, or gets no processor"
        ))
    }
}

/// Whether a process is stopped, by a signal or a debugger.
fn is_stopped(process: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    // The state follows the name, which is in parentheses and may hold any character.
    let state = stat.rsplit_once(')').and_then(|(_, rest)| rest.trim_start().chars().next());
    matches!(state, Some('T' | 't'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn a_process_that_is_stopped_is_seen() {
        let mut child = Command::new("sleep").arg("30").spawn().expect("a program of every system");
        let pulse =
            Pulse { process: Some(child.id()), ..Pulse::new(Duration::from_secs(5), &Watch::nothing()) };
        assert_eq!(pulse.condition(), None);
        let pid = rustix::process::Pid::from_raw(child.id() as i32).expect("a number");
        rustix::process::kill_process(pid, rustix::process::Signal::STOP).expect("it is a child");
        let until = Instant::now() + Duration::from_secs(10);
        while pulse.condition().is_none() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(1));
        }
        let condition = pulse.condition();
        child.kill().expect("it is a child");
        child.wait().expect("it ends");
        assert_eq!(condition.as_deref(), Some("its process is stopped"));
    }

    #[test]
    fn silence_counts_from_the_last_word_and_where_a_limit_is() {
        let pulse = Pulse::new(Duration::from_millis(20), &Watch::nothing());
        std::thread::sleep(Duration::from_millis(40));
        assert!(pulse.condition().is_some_and(|text| text.contains("nothing was heard of it for 0.0 s")));
        pulse.beat();
        let forever = Pulse::new(Duration::ZERO, &Watch::nothing());
        assert!(forever.silent_for().is_none() && forever.interval().is_none());
    }
}
