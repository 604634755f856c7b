//! What each rank does: goes through the sizes, measures every way of calling, adds up what is wrong, and on rank 0 reports.

use hcomm::{Allocated, Communicator, Error, Op};

use super::exercise::{Exercise, Form};
use super::figures::{Figures, Row};
use super::measure::measure;
use super::memory::{Memory, NoMemory};
use super::report::{Job, Report};
use super::sample::{Sample, with_type};
use super::spec::{Buffers, Format, Size, Spec};
use super::trace;
use crate::commands::print::print;
use crate::mistake::CommandError;

/// Why a rank stopped.
#[derive(Debug, thiserror::Error)]
pub(super) enum Stopped {
    #[error(transparent)]
    Call(#[from] Error),
    #[error(transparent)]
    Memory(#[from] NoMemory),
    #[error(transparent)]
    Print(#[from] CommandError),
}

/// Measures. Rank 0 fails where results were wrong, after it has printed all.
pub fn run(comm: &Communicator, spec: &Spec) -> Result<(), CommandError> {
    let dtype = spec.call.dtype;
    let outcome = with_type!(dtype, typed(comm, spec))
        .ok_or_else(|| CommandError::Usage(format!("--dtype: {dtype} is not measured")))?;
    match outcome {
        Ok(faults) if comm.rank() == 0 && !faults.is_empty() => {
            Err(CommandError::Failed { code: 1, message: faults.join("; ") })
        }
        Ok(_) => Ok(()),
        Err(Stopped::Print(error)) => Err(error),
        Err(stopped) => {
            Err(CommandError::Failed { code: 1, message: format!("rank {}: {stopped}", comm.rank()) })
        }
    }
}

/// Returns a sentence for each wrong result.
fn typed<T: Sample>(comm: &Communicator, spec: &Spec) -> Result<Vec<String>, Stopped> {
    match spec.buffers {
        Buffers::Plain => every_size::<T, Vec<T>>(comm, spec),
        Buffers::Shared => every_size::<T, Allocated<T>>(comm, spec),
    }
}

fn every_size<T: Sample, B: Memory<T>>(comm: &Communicator, spec: &Spec) -> Result<Vec<String>, Stopped> {
    let job = Job::new(comm, spec);
    let mut report = Report::new(spec.format, job);
    let mut faults = Vec::new();
    if !tell(comm, || report.head())? {
        return Ok(faults);
    }
    for asked in &spec.sizes {
        let row = measured::<T, B>(comm, spec, spec.size(*asked, comm.world()))?;
        faults.extend(row.figures.iter().filter_map(|(form, figures)| fault(spec, &row, *form, figures)));
        if !tell(comm, || report.row(&row))? {
            return Ok(faults);
        }
    }
    let is_read = tell(comm, || report.end())?;
    if let (true, Some(path), Some(last)) = (is_read, &spec.trace, spec.sizes.last()) {
        trace::record::<T, B>(comm, spec, spec.size(*last, comm.world()), path)?;
    }
    Ok(faults)
}

/// Rank 0 prints. Returns whether it could: where nobody reads any more, or the disk is full, no rank goes on, and rank 0 fails with
/// the cause.
fn tell(comm: &Communicator, text: impl FnOnce() -> String) -> Result<bool, Stopped> {
    let printed = if comm.rank() == 0 { print(&text()) } else { Ok(()) };
    let mut is_printed = [u8::from(printed.is_ok())];
    comm.broadcast(&mut is_printed, 0)?;
    printed?;
    Ok(is_printed[0] != 0)
}

fn measured<T: Sample, B: Memory<T>>(comm: &Communicator, spec: &Spec, size: Size) -> Result<Row, Stopped> {
    let forms = Form::of(spec.call.collective, spec.is_async);
    let forms = if spec.format == Format::Csv { &forms[..1] } else { forms };
    let mut figures = Vec::new();
    for form in forms {
        let mut exercise = Exercise::<T, B>::new(comm, spec, size, *form)?;
        let times = measure(comm, &mut exercise, spec.calls(size.asked))?;
        let wrong = if spec.checks { Some(everybody(comm, exercise.wrong()?)?) } else { None };
        figures.push((*form, Figures { median_us: times.median_us, stream_us: times.stream_us, wrong }));
    }
    Ok(Row { size, figures })
}

/// The sum over all ranks.
fn everybody(comm: &Communicator, wrong: u64) -> Result<u64, Error> {
    let mut sum = [wrong];
    comm.all_reduce(&mut sum, Op::Sum)?;
    Ok(sum[0])
}

fn fault(spec: &Spec, row: &Row, form: Form, figures: &Figures) -> Option<String> {
    let wrong = figures.wrong.filter(|wrong| *wrong > 0)?;
    let way = if form == Form::Apart { "out of place" } else { "in place" };
    let (collective, bytes) = (spec.call.collective, row.size.bytes);
    Some(format!("{wrong} wrong elements after {collective} of {bytes} bytes {way}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::call::CallArguments;
    use hcomm::{Collective, DType, Settings};

    #[test]
    fn only_wrong_elements_are_a_fault() {
        let (collective, dtype, op) = (Collective::AllReduce, DType::F32, Op::Sum);
        let spec = Spec {
            call: CallArguments { collective, dtype, op, root: 0, algorithm: None, deterministic: false },
            ranks: None,
            transport: None,
            settings: Settings::default(),
            sizes: vec![64],
            iters: None,
            warmup: None,
            buffers: Buffers::default(),
            is_async: false,
            checks: true,
            format: Format::Csv,
            trace: None,
        };
        let row = Row { size: spec.size(64, 2), figures: Vec::new() };
        let said =
            |wrong| fault(&spec, &row, Form::InPlace, &Figures { median_us: 1.0, stream_us: 1.0, wrong });
        assert_eq!(said(None), None);
        assert_eq!(said(Some(0)), None);
        assert_eq!(said(Some(3)).as_deref(), Some("3 wrong elements after all_reduce of 64 bytes in place"));
    }
}
