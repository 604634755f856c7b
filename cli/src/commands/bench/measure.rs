//! The clock: how long one rank's calls take, and of that the slowest rank's.

use std::time::{Duration, Instant};

use hcomm::{Communicator, Error, Op};

/// Something that can be called over and over.
pub trait Timed {
    /// Changes one word in each cache line of the input, differently for each run.
    fn rewrite(&mut self, run: i64);

    /// The call.
    fn call(&mut self) -> Result<(), Error>;
}

/// Median and mean, in microseconds, each of the rank where it is largest.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    /// Of calls that each follow a barrier.
    pub median_us: f64,
    /// Of calls one after the other.
    pub stream_us: f64,
}

/// Times `calls` calls of either kind, after `warmup` of the first kind. All ranks call this together.
pub fn measure(
    comm: &Communicator,
    timed: &mut impl Timed,
    (calls, warmup): (u32, u32),
) -> Result<Times, Error> {
    let median = median_after_barriers(comm, timed, calls, warmup)?;
    comm.barrier()?;
    let start = Instant::now();
    for _ in 0..calls {
        timed.call()?;
    }
    let mean = start.elapsed() / calls;
    let mut slowest = [microseconds(median), microseconds(mean)];
    comm.all_reduce(&mut slowest, Op::Max)?;
    let [median_us, stream_us] = slowest;
    Ok(Times { median_us, stream_us })
}

fn median_after_barriers(
    comm: &Communicator,
    timed: &mut impl Timed,
    calls: u32,
    warmup: u32,
) -> Result<Duration, Error> {
    let mut times = Vec::with_capacity(calls as usize);
    for run in -i64::from(warmup)..i64::from(calls) {
        timed.rewrite(run);
        comm.barrier()?;
        let start = Instant::now();
        timed.call()?;
        let time = start.elapsed();
        if run >= 0 {
            times.push(time);
        }
    }
    times.sort_unstable();
    Ok(times.get(times.len() / 2).copied().unwrap_or_default())
}

fn microseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}
