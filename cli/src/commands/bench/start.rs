//! Makes the ranks of a measurement: processes of this command, threads, or this very process as one of them.

use std::ffi::OsString;
use std::thread;

use hcomm::launch::{Exit, Failure, LaunchError, Output};
use hcomm::{Communicator, CreateError, DType, Placement};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use super::rank;
use super::sample::is_measured;
use super::spec::{Spec, Transport};
use crate::commands::memory;
use crate::invocation::Invocation;
use crate::mistake::CommandError;

/// Measures what is asked for.
pub fn run(spec: &Spec, invocation: &Invocation<'_>) -> Result<u8, CommandError> {
    if !is_measured(spec.call.dtype) {
        let names: Vec<&str> =
            DType::ALL.into_iter().filter(|dtype| is_measured(*dtype)).map(DType::name).collect();
        let message =
            format!("--dtype: {} cannot be measured; expected one of {}", spec.call.dtype, names.join(", "));
        return Err(CommandError::Usage(message));
    }
    let Some(ranks) = spec.ranks else { return as_rank(spec) };
    spec.check(ranks)?;
    memory::check(spec.largest_bytes(), ranks)?;
    match spec.transport {
        Some(Transport::Inproc) => threads(spec, ranks),
        _ => processes(ranks, invocation),
    }
}

/// One rank of a job that is already there.
fn as_rank(spec: &Spec) -> Result<u8, CommandError> {
    let placement = Placement::from_env().map_err(|error| CommandError::Usage(error.to_string()))?;
    spec.check(placement.world)?;
    let failed = |error: &dyn std::fmt::Display| CommandError::Failed {
        code: 1,
        message: format!("rank {}: {error}", placement.rank),
    };
    let comm = Communicator::connect(&placement, spec.rank_settings()?).map_err(|error| failed(&error))?;
    let comm = spec.pinned(comm)?;
    rank::run(&comm, spec)?;
    comm.close().map_err(|error| failed(&error))?;
    Ok(0)
}

/// This command again, once per rank.
fn processes(ranks: usize, invocation: &Invocation<'_>) -> Result<u8, CommandError> {
    let is_bound = ranks <= thread::available_parallelism().map_or(1, usize::from);
    let launch = invocation.again(ranks, rank_arguments(&invocation.arguments))?;
    let launch = launch.output(Output::Inherited).bound(is_bound);
    let outcome = launch.run_reporting(report).map_err(|error| match error {
        LaunchError::RankCount { .. } => CommandError::Usage(error.to_string()),
        _ => CommandError::Failed { code: 1, message: error.to_string() },
    })?;
    Ok(outcome.code())
}

/// This command line, marked as a rank's.
fn rank_arguments(command_line: &[OsString]) -> Vec<OsString> {
    let mut arguments: Vec<OsString> = command_line.iter().skip(1).cloned().collect();
    arguments.insert(arguments.len().min(1), "--as-rank".into());
    arguments
}

/// A rank that exits by itself has said why.
fn report(failure: &Failure) -> String {
    match failure.exit {
        Exit::Signal(_) => format!("hcomm: {failure}; ending the other ranks"),
        Exit::Code(_) => String::new(),
    }
}

/// All ranks as threads of this process, each on a processor of its own where there are enough.
fn threads(spec: &Spec, ranks: usize) -> Result<u8, CommandError> {
    let settings = spec.rank_settings()?;
    let comms = Communicator::in_process_with(ranks, &settings)
        .map_err(|error: CreateError| CommandError::Failed { code: 1, message: error.to_string() })?;
    let outcomes: Vec<Result<(), CommandError>> = thread::scope(|scope| {
        let pinned = |comm: Communicator| {
            pin(comm.rank(), ranks);
            rank::run(&spec.pinned(comm)?, spec)
        };
        let started: Vec<_> = comms.into_iter().map(|comm| scope.spawn(move || pinned(comm))).collect();
        let died = || CommandError::Failed { code: 1, message: "a rank's thread has panicked".to_owned() };
        started.into_iter().map(|thread| thread.join().unwrap_or_else(|_| Err(died()))).collect()
    });
    outcomes.into_iter().collect::<Result<Vec<()>, _>>()?;
    Ok(0)
}

/// A thread that cannot be kept in one place is measured all the same.
fn pin(rank: usize, ranks: usize) {
    let Ok(allowed) = sched_getaffinity(None) else { return };
    let mut processors = (0..CpuSet::MAX_CPU).filter(|cpu| allowed.is_set(*cpu));
    if let Some(processor) = processors.nth(rank).filter(|_| ranks <= allowed.count() as usize) {
        let mut own = CpuSet::new();
        own.set(processor);
        let _ = sched_setaffinity(None, &own);
    }
}
