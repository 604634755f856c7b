//! Runs a plan on ranks that are threads of this process: every size in every way that the plan is for. `case` has the data.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use hcomm::settings::Settings;
use hcomm::{Apart, Buffers, Communicator, CreateError, InPlace, InputOnly, Op, OutputOnly, Plan, WorkError};

use super::case::{Case, Wrong};
use super::sizes::Size;
use crate::mistake::CommandError;

/// Runs; `say` gets a line for each size and way.
pub fn run(
    plans: &[Plan],
    sizes: &[Size],
    settings: &Settings,
    say: impl Fn(String) -> Result<(), CommandError>,
) -> Result<(), CommandError> {
    let refused = |error: CreateError| CommandError::Failed { code: 1, message: error.to_string() };
    let comms = Communicator::in_process_with(plans.len(), settings).map_err(refused)?;
    let plans: Vec<Arc<Plan>> = plans.iter().cloned().map(Arc::new).collect();
    for size in sizes {
        for in_place in plans[0].overlay.modes() {
            let took = on_all(&comms, &plans, *size, *in_place)?;
            let (bytes, ranks, ms) = (size.bytes, plans.len(), took.as_secs_f64() * 1e3);
            let way = if *in_place { "in place" } else { "out of place" };
            let of = size.asked.map_or_else(String::new, |asked| format!(" (whole elements of {asked})"));
            say(format!("ran        {bytes} bytes{of} {way} in {ms:.1} ms: right on all {ranks} ranks"))?;
        }
    }
    Ok(())
}

/// One call on every rank; the time of the slowest.
fn on_all(
    comms: &[Communicator],
    plans: &[Arc<Plan>],
    size: Size,
    in_place: bool,
) -> Result<Duration, CommandError> {
    let outcomes: Vec<Result<Duration, Fault>> = thread::scope(|scope| {
        let ranks = comms.iter().zip(plans);
        let started: Vec<_> =
            ranks.map(|(comm, plan)| scope.spawn(move || on_one(comm, plan, size, in_place))).collect();
        started.into_iter().map(|thread| thread.join().unwrap_or(Err(Fault::Died))).collect()
    });
    let failed = |(rank, fault): (usize, Fault)| CommandError::Failed {
        code: 1,
        message: format!("rank {rank}, {} bytes: {fault}", size.bytes),
    };
    let ranks = outcomes.into_iter().enumerate();
    let times = ranks.map(|(rank, outcome)| outcome.map_err(|fault| failed((rank, fault))));
    times.collect::<Result<Vec<_>, _>>().map(|times| times.into_iter().max().unwrap_or_default())
}

/// What went wrong on a rank.
#[derive(Debug, thiserror::Error)]
enum Fault {
    #[error("{0}")]
    Call(String),
    #[error(transparent)]
    Wrong(#[from] Wrong),
    #[error("its thread has panicked")]
    Died,
}

impl<B> From<WorkError<B>> for Fault {
    fn from(error: WorkError<B>) -> Fault {
        Fault::Call(error.error.to_string())
    }
}

/// One call on one rank, and the check of what it left.
fn on_one(comm: &Communicator, plan: &Arc<Plan>, size: Size, in_place: bool) -> Result<Duration, Fault> {
    let case = Case::new(plan, size);
    let start = Instant::now();
    let mut took = Duration::ZERO;
    match (case.has_input(), case.has_output()) {
        (true, true) if in_place => {
            let (whole, output) = case.in_place();
            let whole = submitted(comm, plan, InPlace(whole), start, &mut took)?;
            case.check(&whole[output])?;
        }
        (true, true) => {
            let (input, output) =
                submitted(comm, plan, Apart(case.input(), case.poison()), start, &mut took)?;
            case.check_input(&input)?;
            case.check(&output)?;
        }
        (true, false) => {
            case.check_input(&submitted(comm, plan, InputOnly(case.input()), start, &mut took)?)?
        }
        (false, _) => case.check(&submitted(comm, plan, OutputOnly(case.poison()), start, &mut took)?)?,
    }
    Ok(took)
}

fn submitted<B: Buffers + 'static>(
    comm: &Communicator,
    plan: &Arc<Plan>,
    buffers: B,
    start: Instant,
    took: &mut Duration,
) -> Result<B::Returned, Fault>
where
    B::Returned: 'static,
{
    let returned = comm.submit(plan, Op::Sum, buffers)?.wait()?;
    *took = start.elapsed();
    Ok(returned)
}
