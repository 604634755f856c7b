//! Rows that compare line by line with those of other libraries' benchmarks: `hcomm,COLLECTIVE,RANKS,BYTES,MEDIAN_US,STREAM_US`.

use super::Job;
use crate::commands::bench::figures::Row;

/// A row; the first way of calling only.
pub fn row(job: &Job, row: &Row) -> String {
    let Some((_, figures)) = row.figures.first() else { return String::new() };
    let (collective, world, bytes) = (job.call.collective, job.world, row.size.asked);
    format!("hcomm,{collective},{world},{bytes},{:.3},{:.3}\n", figures.median_us, figures.stream_us)
}
