//! [`Cell`]: what was measured of one collective at one size; how it travels from the ranks to the command.

use std::fs;
use std::path::Path;

use hcomm::Collective;
use hcomm::planner::choose::{AlgorithmName, Candidate};
use serde_json::{Value, json};

/// See the module.
#[derive(Clone, Debug, PartialEq)]
pub struct Cell {
    /// The collective.
    pub collective: Collective,
    /// Bytes of the full buffer.
    pub bytes: u64,
    /// What a communicator chose.
    pub chosen: Candidate,
    /// Every candidate's time, in nanoseconds.
    pub times_ns: Vec<(Candidate, f64)>,
}

impl Cell {
    /// The time of a candidate.
    pub fn time_ns(&self, candidate: &Candidate) -> Option<f64> {
        self.times_ns.iter().find(|(timed, _)| timed == candidate).map(|(_, time)| *time)
    }

    /// The fastest candidate and its time.
    pub fn best(&self) -> Option<(Candidate, f64)> {
        self.times_ns.iter().copied().min_by(|a, b| a.1.total_cmp(&b.1))
    }

    /// How much longer the chosen one took than the best, as a fraction of that.
    pub fn regret(&self) -> Option<f64> {
        Some(self.time_ns(&self.chosen)? / self.best()?.1 - 1.0)
    }
}

/// Writes cells where [`read`] finds them.
pub fn write(path: &Path, cells: &[Cell]) -> std::io::Result<()> {
    let times = |cell: &Cell| -> Vec<Value> {
        cell.times_ns.iter().map(|(candidate, time)| json!([candidate.to_string(), time])).collect()
    };
    let cell = |cell: &Cell| {
        json!({
            "collective": cell.collective.name(),
            "bytes": cell.bytes,
            "chosen": cell.chosen.to_string(),
            "times_ns": times(cell),
        })
    };
    fs::write(path, Value::from(cells.iter().map(cell).collect::<Vec<_>>()).to_string())
}

/// Reads cells; `None` where they are not what [`write()`] writes.
pub fn read(path: &Path) -> Option<Vec<Cell>> {
    let value: Value = serde_json::from_str(&fs::read_to_string(path).ok()?).ok()?;
    let time = |pair: &Value| Some((candidate(pair.get(0)?)?, pair.get(1)?.as_f64()?));
    let cell = |value: &Value| {
        Some(Cell {
            collective: value.get("collective")?.as_str()?.parse().ok()?,
            bytes: value.get("bytes")?.as_u64()?,
            chosen: candidate(value.get("chosen")?)?,
            times_ns: value.get("times_ns")?.as_array()?.iter().map(time).collect::<Option<_>>()?,
        })
    };
    value.as_array()?.iter().map(cell).collect()
}

fn candidate(name: &Value) -> Option<Candidate> {
    AlgorithmName::parse(name.as_str()?).ok()?.candidates(&[Candidate::WHOLE_SLOT]).next()
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// The candidate of a name.
    pub fn named(name: &str) -> Candidate {
        candidate(&Value::from(name)).expect("an algorithm")
    }

    #[test]
    fn cells_travel_unchanged() {
        let cells = vec![Cell {
            collective: Collective::AllReduce,
            bytes: 8,
            chosen: named("ring"),
            times_ns: vec![(named("ring"), 1.5), (named("ring/16KiB"), 3.0), (named("one_shot"), 1.0)],
        }];
        assert_eq!(cells[0].regret(), Some(0.5));
        assert_eq!(cells[0].best(), Some((named("one_shot"), 1.0)));
        let path = std::env::temp_dir().join(format!("hcomm-cells-{}", std::process::id()));
        write(&path, &cells).expect("a temporary file");
        assert_eq!(read(&path), Some(cells));
        fs::write(&path, "[{}]").expect("a temporary file");
        assert_eq!(read(&path), None);
        let _ = fs::remove_file(path);
    }
}
