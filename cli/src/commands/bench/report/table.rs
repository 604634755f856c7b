//! The table for people, with the columns of nccl-tests.

use super::Job;
use crate::commands::bench::exercise::Form;
use crate::commands::bench::figures::{Figures, Row};

/// The job, and the bus bandwidths so far.
pub struct Table {
    job: Job,
    bus: Vec<f64>,
}

impl Table {
    /// No rows yet.
    pub fn new(job: Job) -> Self {
        Table { job, bus: Vec::new() }
    }

    /// What is measured, and the columns.
    pub fn head(&self) -> String {
        let Job { call, world, links, is_async, checks, calls } = &self.job;
        let plural = if *world == 1 { "" } else { "s" };
        let algorithm = call.algorithm.as_ref().map_or("chosen by size", String::as_str);
        let kind = if *is_async { "futures" } else { "blocking calls" };
        let calls = calls.map_or("2000 to 12 by size".to_owned(), |calls| calls.to_string());
        let checked = if *checks { "checked" } else { "not checked" };
        let version = env!("CARGO_PKG_VERSION");
        let parts = ["time", "algbw", "busbw", "wrong"].map(|name| format!("{name:>9}")).join("");
        let units = ["(us)", "(GB/s)", "(GB/s)", ""].map(|name| format!("{name:>9}")).join("");
        let left = format!("#{:>12} {:>12} {:>10} {:>12} {:>5}", "bytes", "count", "type", "op", "root");
        let blank = format!("#{:56}", "");
        format!(
            "# hcomm {version}: {collective}, {world} rank{plural}, {links}; algorithm {algorithm}; {kind}, {calls} timed; results {checked}\n#\n\
             {blank}{:^36}  {:^36}\n{left}{parts}  {parts}\n{blank}{units}  {units}\n",
            "out of place",
            "in place",
            collective = call.collective,
        )
    }

    /// A line, and one before it where the size was rounded.
    pub fn row(&mut self, row: &Row) -> String {
        self.bus.extend(row.figures.iter().map(|(_, figures)| self.job.bandwidths(row, figures)[1]));
        let (size, call) = (&row.size, &self.job.call);
        let note = match size.asked == size.bytes {
            true => String::new(),
            false => format!("# {} bytes are rounded down to {}\n", size.asked, size.bytes),
        };
        let root = self.job.root().map_or("-".to_owned(), |root| root.to_string());
        let op = self.job.op();
        format!(
            "{note} {:>12} {:>12} {:>10} {op:>12} {root:>5}{}  {}\n",
            size.bytes,
            size.count,
            call.dtype,
            self.cells(row, row.of(Form::Apart)),
            self.cells(row, row.of(Form::InPlace)),
        )
    }

    /// The average, as nccl-tests has it: over all sizes and both ways.
    pub fn end(&self) -> String {
        let average = self.bus.iter().sum::<f64>() / self.bus.len().max(1) as f64;
        format!("# average bus bandwidth {average:.2} GB/s\n")
    }

    fn cells(&self, row: &Row, figures: Option<&Figures>) -> String {
        let Some(figures) = figures else { return format!("{:>9}", "-").repeat(4) };
        let [algorithm, bus] = self.job.bandwidths(row, figures);
        let wrong = figures.wrong.map_or("-".to_owned(), |wrong| wrong.to_string());
        format!("{:>9.2}{algorithm:>9.2}{bus:>9.2}{wrong:>9}", figures.stream_us)
    }
}
