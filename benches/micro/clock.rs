//! How long a short piece of work takes: the median over batches of its mean.

use std::time::{Duration, Instant};

const BATCHES: usize = 15;
const BATCH: Duration = Duration::from_millis(2);

/// Nanoseconds of one call.
pub fn median_ns(mut call: impl FnMut()) -> f64 {
    let calls = calls_per_batch(&mut call);
    median((0..BATCHES).map(|_| batch(&mut call, calls).as_nanos() as f64 / f64::from(calls)).collect())
}

/// The middle one; of an even number, the upper of the two.
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values[values.len() / 2]
}

/// So many that a batch is long against the clock; finding out also warms up.
fn calls_per_batch(call: &mut impl FnMut()) -> u32 {
    let mut calls = 1;
    while batch(call, calls) < BATCH {
        calls *= 2;
    }
    calls
}

fn batch(call: &mut impl FnMut(), calls: u32) -> Duration {
    let start = Instant::now();
    (0..calls).for_each(|_| call());
    start.elapsed()
}
