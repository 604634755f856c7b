//! The figures in words: a table for people, CSV rows for comparisons, JSON for programs. Pure: what comes out is text.

mod csv;
mod json;
mod table;

use hcomm::Communicator;

use super::figures::{Figures, Row};
use super::spec::{Format, Spec};
use crate::commands::call::CallArguments;
use hcomm::planner::bandwidth::{algorithm_gb_per_s, bus_factor};

/// What is measured, apart from sizes.
#[derive(Clone, Debug)]
pub struct Job {
    /// The call.
    pub call: CallArguments,
    /// Ranks.
    pub world: usize,
    /// What joins them.
    pub links: String,
    /// Futures instead of blocking calls.
    pub is_async: bool,
    /// Whether results are checked.
    pub checks: bool,
    /// Timed calls, where they are the same for every size.
    pub calls: Option<u32>,
}

/// One of the three.
pub enum Report {
    /// For people.
    Table(table::Table),
    /// For comparisons.
    Csv(Job),
    /// For programs.
    Json(json::Json),
}

impl Job {
    /// What rank 0 can tell.
    pub fn new(comm: &Communicator, spec: &Spec) -> Self {
        let mut links: Vec<&str> =
            comm.links().iter().map(String::as_str).filter(|link| *link != "self").collect();
        links.sort_unstable();
        links.dedup();
        Job {
            call: spec.call.clone(),
            world: comm.world(),
            links: if links.is_empty() { "none".to_owned() } else { links.join(", ") },
            is_async: spec.is_async,
            checks: spec.checks,
            calls: spec.iters,
        }
    }

    /// GB/s of a row's bytes in so much time: the algorithm's, and the bus's.
    fn bandwidths(&self, row: &Row, figures: &Figures) -> [f64; 2] {
        let algorithm = algorithm_gb_per_s(row.size.bytes, figures.stream_us);
        [algorithm, algorithm * bus_factor(self.call.collective, self.world)]
    }

    /// The op's name where it matters.
    fn op(&self) -> String {
        if self.call.collective.reduces() { self.call.op.to_string() } else { "-".to_owned() }
    }

    /// The root where there is one.
    fn root(&self) -> Option<usize> {
        self.call.collective.is_rooted().then_some(self.call.root)
    }
}

impl Report {
    /// An empty one.
    pub fn new(format: Format, job: Job) -> Self {
        match format {
            Format::Table => Report::Table(table::Table::new(job)),
            Format::Csv => Report::Csv(job),
            Format::Json => Report::Json(json::Json::new(job)),
        }
    }

    /// What comes before the rows.
    pub fn head(&self) -> String {
        match self {
            Report::Table(table) => table.head(),
            Report::Csv(_) | Report::Json(_) => String::new(),
        }
    }

    /// What comes for a row.
    pub fn row(&mut self, row: &Row) -> String {
        match self {
            Report::Table(table) => table.row(row),
            Report::Csv(job) => csv::row(job, row),
            Report::Json(json) => json.row(row),
        }
    }

    /// What comes after the rows.
    pub fn end(&self) -> String {
        match self {
            Report::Table(table) => table.end(),
            Report::Csv(_) => String::new(),
            Report::Json(json) => json.end(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::bench::exercise::Form;
    use crate::commands::bench::spec::Size;
    use hcomm::{Collective, DType, Op};

    fn job() -> Job {
        let (collective, dtype, op) = (Collective::AllReduce, DType::F32, Op::Sum);
        let call = CallArguments { collective, dtype, op, root: 0, algorithm: None, deterministic: false };
        Job { call, world: 4, links: "shm".to_owned(), is_async: false, checks: true, calls: None }
    }

    fn rows() -> [Row; 2] {
        let figures = |stream_us, wrong| Figures { median_us: 3.25, stream_us, wrong };
        let size = |asked| Size { asked, bytes: asked / 4 * 4, count: asked / 4 };
        [
            Row {
                size: size(1_000_000),
                figures: vec![
                    (Form::Apart, figures(500.0, Some(0))),
                    (Form::InPlace, figures(1000.0, Some(7))),
                ],
            },
            Row { size: size(10), figures: vec![(Form::InPlace, figures(2.0, None))] },
        ]
    }

    fn printed(format: Format) -> String {
        let mut report = Report::new(format, job());
        let mut text = report.head();
        rows().iter().for_each(|row| text.push_str(&report.row(row)));
        text + &report.end()
    }

    #[test]
    fn the_table_has_a_line_per_size_and_the_average() {
        let text = printed(Format::Table);
        let line =
            |start: &str| text.lines().find(|line| line.trim_start().starts_with(start)).map(str::to_owned);
        let words = |start: &str| {
            line(start).map(|line| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
        };
        let expected = "1000000 250000 f32 sum - 500.00 2.00 3.00 0 1000.00 1.00 1.50 7";
        assert_eq!(words("1000000").map(|words| words.join(" ")).as_deref(), Some(expected), "{text}");
        assert_eq!(
            words("8 ").map(|words| words.join(" ")).as_deref(),
            Some("8 2 f32 sum - - - - - 2.00 0.00 0.01 -"),
            "{text}"
        );
        assert!(text.contains("# 10 bytes are rounded down to 8"), "{text}");
        assert!(text.contains("average bus bandwidth 1.50 GB/s"), "{text}");
        assert!(
            text.starts_with(&format!("# hcomm {}: all_reduce, 4 ranks, shm", env!("CARGO_PKG_VERSION"))),
            "{text}"
        );
    }

    #[test]
    fn csv_gives_the_size_as_asked_for() {
        assert_eq!(
            printed(Format::Csv),
            "hcomm,all_reduce,4,1000000,3.250,500.000\nhcomm,all_reduce,4,10,3.250,2.000\n"
        );
    }

    #[test]
    fn json_is_one_object() {
        let value: serde_json::Value = serde_json::from_str(&printed(Format::Json)).expect("it is JSON");
        assert_eq!(value["rows"][0]["out_of_place"]["busbw_gb_per_s"], 3.0);
        assert_eq!(value["rows"][0]["in_place"]["wrong"], 7);
        assert_eq!(value["rows"][1]["out_of_place"], serde_json::Value::Null);
        assert_eq!(value["rows"][1]["asked_bytes"], 10);
        assert_eq!(value["world"], 4);
    }
}
