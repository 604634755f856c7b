//! All figures as one JSON object, printed at the end.

use serde_json::{Value, json};

use super::Job;
use crate::commands::bench::exercise::Form;
use crate::commands::bench::figures::Row;

/// What has come so far.
pub struct Json {
    job: Job,
    rows: Vec<Value>,
}

impl Json {
    /// Nothing.
    pub fn new(job: Job) -> Self {
        Json { job, rows: Vec::new() }
    }

    /// Keeps a row, and prints nothing.
    pub fn row(&mut self, row: &Row) -> String {
        self.rows.push(json!({
            "asked_bytes": row.size.asked,
            "bytes": row.size.bytes,
            "count": row.size.count,
            "out_of_place": self.figures(row, Form::Apart),
            "in_place": self.figures(row, Form::InPlace),
        }));
        String::new()
    }

    /// The object.
    pub fn end(&self) -> String {
        let job = &self.job;
        let object = json!({
            "hcomm": env!("CARGO_PKG_VERSION"),
            "collective": job.call.collective.name(),
            "world": job.world,
            "links": job.links,
            "dtype": job.call.dtype.name(),
            "op": job.op(),
            "root": job.root(),
            "algorithm": job.call.algorithm,
            "async": job.is_async,
            "rows": self.rows,
        });
        format!("{object}\n")
    }

    fn figures(&self, row: &Row, form: Form) -> Option<Value> {
        let figures = row.of(form)?;
        let [algorithm, bus] = self.job.bandwidths(row, figures);
        Some(json!({
            "median_us": figures.median_us,
            "stream_us": figures.stream_us,
            "algbw_gb_per_s": algorithm,
            "busbw_gb_per_s": bus,
            "wrong": figures.wrong,
        }))
    }
}
