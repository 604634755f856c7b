//! [`Measured`]: when the nodes of a plan really ran, read from traces that the engine has written (`Profile::trace_events`).
//!
//! Of a trace only the events of plan nodes are read, and of those only the newest operation that most ranks have events of. Times
//! count from its first event. The clocks of different hosts are not compared.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use serde_json::Value;

use super::MOST_RUNS;
use super::run::Run;
use crate::plan::Plan;

/// Why a text is no trace of a plan.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// No JSON, or no list of events.
    #[error("{name} is no trace: {cause}")]
    Syntax {
        /// The file.
        name: String,
        /// What the reader found.
        cause: serde_json::Error,
    },
    /// A trace without events of plan nodes.
    #[error("{name} has no events of plan nodes; expected a trace that hcomm has recorded")]
    NoNodes {
        /// The file.
        name: String,
    },
    /// A trace of other plans.
    #[error("{name} is a trace of plan {found}; expected plan {expected:016x}")]
    OtherPlan {
        /// The file.
        name: String,
        /// The plans that it has events of.
        found: String,
        /// The plan that is drawn.
        expected: u64,
    },
    /// An event that the plan has no node for, or without a time.
    #[error("{name}: an event of {what}; expected {expected}")]
    Event {
        /// The file.
        name: String,
        /// The value at fault.
        what: String,
        /// What would do.
        expected: String,
    },
}

/// The runs of one operation.
#[derive(Clone, Debug, PartialEq)]
pub struct Measured {
    operation: u64,
    runs: Vec<Run>,
    tiles: usize,
    is_cut: bool,
}

impl Measured {
    /// Reads traces, given as (name, text), of the plan whose slices these are. Each may have any ranks' events.
    ///
    /// # Errors
    /// [`TraceError`] names the file and what is wrong with it.
    pub fn read(files: &[(String, String)], plans: &[Plan]) -> Result<Measured, TraceError> {
        let mut operations: BTreeMap<u64, Vec<Run>> = BTreeMap::new();
        for (name, text) in files {
            for (operation, run) in (Reader { name, plans }).read(text)? {
                operations.entry(operation).or_default().push(run);
            }
        }
        let ranks = |runs: &[Run]| runs.iter().map(|run| run.rank).collect::<BTreeSet<_>>().len();
        let fullest = operations.into_iter().max_by_key(|(number, runs)| (ranks(runs), *number));
        let (operation, runs) = fullest.unwrap_or_default();
        let nodes = plans.iter().map(|plan| plan.nodes.len()).sum::<usize>();
        Ok(Measured::of(operation, runs, (MOST_RUNS / nodes.max(1)).max(1)))
    }

    fn of(operation: u64, mut runs: Vec<Run>, most_tiles: usize) -> Measured {
        let all = runs.len();
        runs.retain(|run| (run.tile as usize) < most_tiles);
        let start = runs.iter().map(|run| run.from_ns).fold(f64::INFINITY, f64::min);
        for run in &mut runs {
            (run.from_ns, run.to_ns) = (run.from_ns - start, run.to_ns - start);
        }
        runs.sort_by_key(|run| (run.rank, run.node, run.tile));
        runs.dedup_by_key(|run| (run.rank, run.node, run.tile));
        let tiles = runs.iter().map(|run| run.tile as usize + 1).max().unwrap_or(0);
        Measured { operation, is_cut: runs.len() < all, runs, tiles }
    }

    /// Which operation of its communicator it was.
    pub fn operation(&self) -> u64 {
        self.operation
    }

    /// All runs, rank by rank, node by node, tile by tile; times count from the first of them.
    pub fn runs(&self) -> &[Run] {
        &self.runs
    }

    /// Tiles that the runs are of.
    pub fn tiles(&self) -> usize {
        self.tiles
    }

    /// Whether later tiles were left out, of which there were too many.
    pub fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// From the first run's start to the last one's end, in nanoseconds.
    pub fn total_ns(&self) -> f64 {
        self.runs.iter().map(|run| run.to_ns).fold(0.0, f64::max)
    }
}

/// A file of events: an object that holds them, as is written, or the bare list.
#[derive(Deserialize)]
struct File {
    #[serde(rename = "traceEvents")]
    events: Vec<Event>,
}

/// What of an event is looked at. Others' events may have anything there.
#[derive(Deserialize)]
struct Event {
    #[serde(default)]
    cat: Value,
    #[serde(default)]
    pid: Value,
    #[serde(default)]
    ts: Value,
    #[serde(default)]
    dur: Value,
    #[serde(default)]
    args: Value,
}

/// Reads one file.
struct Reader<'a> {
    name: &'a str,
    plans: &'a [Plan],
}

impl Reader<'_> {
    fn read(&self, text: &str) -> Result<Vec<(u64, Run)>, TraceError> {
        let events = self.events(text)?;
        let nodes: Vec<_> = events.into_iter().filter(|event| event.cat == "node").collect();
        if nodes.is_empty() {
            return Err(TraceError::NoNodes { name: self.name.to_owned() });
        }
        let expected = self.plans.first().map_or(0, |plan| plan.id);
        let id = Value::from(format!("{expected:016x}"));
        let (ours, others): (Vec<_>, Vec<_>) = nodes.into_iter().partition(|event| event.args["plan"] == id);
        if ours.is_empty() {
            let found: BTreeSet<&str> =
                others.iter().map(|event| event.args["plan"].as_str().unwrap_or("without an id")).collect();
            let found = found.into_iter().take(4).collect::<Vec<_>>().join(", ");
            return Err(TraceError::OtherPlan { name: self.name.to_owned(), found, expected });
        }
        ours.iter().map(|event| self.run(event)).collect()
    }

    fn events(&self, text: &str) -> Result<Vec<Event>, TraceError> {
        let events = match text.trim_start().starts_with('[') {
            true => serde_json::from_str(text),
            false => serde_json::from_str(text).map(|file: File| file.events),
        };
        events.map_err(|cause| TraceError::Syntax { name: self.name.to_owned(), cause })
    }

    fn run(&self, event: &Event) -> Result<(u64, Run), TraceError> {
        let number = |value: &Value, what: &str, below: u64| {
            value.as_u64().filter(|number| *number < below).ok_or_else(|| TraceError::Event {
                name: self.name.to_owned(),
                what: format!("{what} {value}"),
                expected: format!("a number below {below}"),
            })
        };
        let args = &event.args;
        let rank = number(&event.pid, "rank", self.plans.len() as u64)? as usize;
        let nodes = self.plans[rank].nodes.len() as u64;
        let node = number(&args["node"], &format!("rank {rank}, node"), nodes)? as u32;
        let tile = number(&args["tile"], "tile", u64::from(u32::MAX))? as u32;
        let operation = number(&args["operation"], "operation", u64::MAX)?;
        let (from_ns, lasts_ns) = (self.ns(&event.ts, "time")?, self.ns(&event.dur, "duration")?);
        Ok((operation, Run { rank, node, tile, from_ns, to_ns: from_ns + lasts_ns }))
    }

    /// Microseconds as nanoseconds.
    fn ns(&self, value: &Value, what: &str) -> Result<f64, TraceError> {
        let micros = value.as_f64().filter(|micros| (0.0..1e15).contains(micros));
        micros.map(|micros| micros * 1000.0).ok_or_else(|| TraceError::Event {
            name: self.name.to_owned(),
            what: format!("{what} {value}"),
            expected: "microseconds from 0 to 1e15".to_owned(),
        })
    }
}
