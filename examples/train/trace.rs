//! Where the time goes: sums per kind of work for the table, and spans for `trace.json`.
//!
//! Times are nanoseconds of the machine's monotonic clock, the clock that the library's own node events use, so
//! that compute and communication of all ranks of a host lie on one axis. The format is Chrome's trace events.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use hcomm::profile::Profile;
pub use hcomm::profile::now_ns;

use crate::Outcome;

/// The kinds of work that a step is made of.
#[derive(Clone, Copy, PartialEq)]
pub enum Phase {
    /// Running a block.
    Forward,
    /// Differentiating a block.
    Backward,
    /// Handing a bucket to the library.
    Submit,
    /// Waiting for a bucket to come back.
    Wait,
    /// Updating a block's parameters.
    Update,
    /// A whole step, which holds all of the above.
    Step,
}

/// The times of one rank's main thread.
pub struct Timeline {
    rank: usize,
    recording: bool,
    spans: Vec<Span>,
    totals_ns: [u64; 6],
}

struct Span {
    name: String,
    begun_ns: u64,
    ended_ns: u64,
}

impl Timeline {
    /// An empty timeline, which only sums until `record` is called.
    pub fn new(rank: usize) -> Timeline {
        Timeline { rank, recording: false, spans: Vec::new(), totals_ns: [0; 6] }
    }

    /// Whether spans are kept from now on.
    pub fn record(&mut self, recording: bool) {
        self.recording = recording;
    }

    /// Does `work` on `what` and notes how long it took.
    pub fn timed<T>(&mut self, phase: Phase, what: &str, work: impl FnOnce() -> T) -> T {
        let begun_ns = now_ns();
        let result = work();
        self.add(phase, what, begun_ns, now_ns());
        result
    }

    /// Notes work that was timed elsewhere.
    pub fn add(&mut self, phase: Phase, what: &str, begun_ns: u64, ended_ns: u64) {
        self.totals_ns[phase as usize] += ended_ns - begun_ns;
        if self.recording {
            self.spans.push(Span { name: format!("{} {what}", phase.word()), begun_ns, ended_ns });
        }
    }

    /// The nanoseconds of each phase since the last call, by `Phase as usize`.
    pub fn take_totals_ns(&mut self) -> [u64; 6] {
        std::mem::take(&mut self.totals_ns)
    }

    /// Writes this rank's events, and those of the library's plan nodes, where `merge` finds them.
    pub fn write(&self, nodes: &Profile, folder: &Path) -> Outcome<()> {
        let mut events = format!(
            r#"{{"name":"process_name","ph":"M","pid":{0},"tid":0,"args":{{"name":"rank {0}"}}}},
{{"name":"thread_name","ph":"M","pid":{0},"tid":0,"args":{{"name":"compute"}}}}"#,
            self.rank
        );
        for span in &self.spans {
            let (begun, lasted) = (micros(span.begun_ns), micros(span.ended_ns - span.begun_ns));
            let (name, rank) = (&span.name, self.rank);
            write!(
                events,
                ",\n{{\"name\":\"{name}\",\"cat\":\"compute\",\"ph\":\"X\",\"ts\":{begun},\"dur\":{lasted},\"pid\":{rank},\"tid\":0}}"
            )?;
        }
        for event in nodes.trace_events(self.rank) {
            write!(events, ",\n{event}")?;
        }
        Ok(fs::write(part(folder, self.rank), events)?)
    }
}

impl Phase {
    fn word(self) -> &'static str {
        match self {
            Phase::Forward => "forward",
            Phase::Backward => "backward",
            Phase::Submit => "submit",
            Phase::Wait => "wait for",
            Phase::Update => "update",
            Phase::Step => "step",
        }
    }
}

/// Makes one `trace.json` of what all ranks wrote to `folder`. A rank on another host has left its part there.
pub fn merge(folder: &Path, world: usize) -> Outcome<PathBuf> {
    let parts: Vec<PathBuf> =
        (0..world).map(|rank| part(folder, rank)).filter(|part| part.exists()).collect();
    let events = parts.iter().map(fs::read_to_string).collect::<Result<Vec<_>, _>>()?.join(",\n");
    let path = folder.join("trace.json");
    fs::write(&path, format!("{{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n{events}\n]}}\n"))?;
    for part in parts {
        fs::remove_file(part)?;
    }
    Ok(path)
}

fn part(folder: &Path, rank: usize) -> PathBuf {
    folder.join(format!("trace-of-rank-{rank}.part"))
}

fn micros(ns: u64) -> String {
    format!("{}.{:03}", ns / 1000, ns % 1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_all_ranks_become_one_file() {
        let folder = std::env::temp_dir().join(format!("hcomm-train-trace-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        for rank in 0..2 {
            let mut timeline = Timeline::new(rank);
            timeline.add(Phase::Forward, "unseen", 1, 2);
            timeline.record(true);
            timeline.add(Phase::Backward, "head", 1_002_003, 1_002_503);
            timeline.write(&Profile::default(), &folder).unwrap();
            assert_eq!(timeline.take_totals_ns(), [1, 500, 0, 0, 0, 0]);
        }
        let text = fs::read_to_string(merge(&folder, 2).unwrap()).unwrap();
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
        fs::remove_dir_all(&folder).unwrap();
        let events = r#""name":"backward head","cat":"compute","ph":"X","ts":1002.003,"dur":0.500,"pid":"#;
        assert_eq!(text.matches(events).count(), 2);
        assert!(!text.contains("unseen"));
        assert_eq!(text.matches('{').count(), text.matches('}').count());
    }
}
