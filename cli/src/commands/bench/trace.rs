//! The trace of one call: every rank records when its plan's nodes ran, and rank 0 writes what all have recorded, as events that
//! Perfetto and `hcomm plan --trace` read.

use std::path::Path;

use hcomm::{Communicator, Error};

use super::exercise::{Exercise, Form};
use super::measure::Timed;
use super::memory::Memory;
use super::rank::Stopped;
use super::sample::Sample;
use super::spec::{Size, Spec};
use crate::commands::print::save;

/// Calls before the one that is recorded.
const WARMUP: usize = 5;

/// Makes a call of a size, and writes what the ranks have recorded of it. All ranks call this together.
pub fn record<T: Sample, B: Memory<T>>(
    comm: &Communicator,
    spec: &Spec,
    size: Size,
    path: &Path,
) -> Result<(), Stopped> {
    let form = Form::of(spec.call.collective, spec.is_async)[0];
    let mut exercise = Exercise::<T, B>::new(comm, spec, size, form)?;
    for _ in 0..WARMUP {
        exercise.call()?;
    }
    comm.barrier()?;
    comm.take_profile();
    exercise.call()?;
    let events = comm.take_profile().trace_events(comm.rank());
    let lines: Vec<String> = events.iter().map(ToString::to_string).collect();
    let Some(parts) = gathered(comm, lines.join(",\n").as_bytes())? else { return Ok(()) };
    let text = format!("{{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n{}\n]}}\n", parts.join(",\n"));
    Ok(save(path, &text)?)
}

/// On rank 0, what each rank has given, the ranks that gave nothing left out.
fn gathered(comm: &Communicator, own: &[u8]) -> Result<Option<Vec<String>>, Error> {
    let mut counts = vec![0; comm.world()];
    comm.all_gather(&[own.len() as u64], &mut counts)?;
    if comm.rank() != 0 {
        comm.gather_v(own, None, 0)?;
        return Ok(None);
    }
    let mut all = vec![0; counts.iter().sum::<u64>() as usize];
    comm.gather_v(own, Some((&mut all, &counts)), 0)?;
    let mut left = &all[..];
    let take = |count: u64| {
        let (part, rest) = left.split_at(count as usize);
        left = rest;
        String::from_utf8_lossy(part).into_owned()
    };
    Ok(Some(counts.into_iter().filter(|count| *count > 0).map(take).collect()))
}
