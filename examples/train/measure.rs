//! What communication costs: rounds of a few steps with overlap, without overlap and without communication, one
//! after the other in the same processes, so that a machine that speeds up or slows down does it to all three.

use hcomm::Communicator;
use hcomm::profile::Profile;

use crate::Outcome;
use crate::buckets::Mode;
use crate::report::Progress;
use crate::trace::Phase;
use crate::trainer::Trainer;

/// The ways to communicate, in the order of the table.
pub const MODES: [Mode; 3] = [Mode::Overlap, Mode::NoOverlap, Mode::NoComm];
const STEPS_PER_ROUND: usize = 6;

/// The median step of one mode.
#[derive(Clone, Copy, Default)]
pub struct Timing {
    /// From one step's beginning to the next one's.
    pub step_ns: u64,
    /// The part of it in backward.
    pub backward_ns: u64,
    /// The part of it in the library: handing buckets over and waiting for them.
    pub communication_ns: u64,
    /// What a step takes longer than without communication: the median over rounds of the difference within a
    /// round, since a machine that is slow for a while is slow for the whole round.
    pub exposed_ns: i64,
}

/// Measures all modes. The parameters of the trainer are worth nothing afterwards: without communication every
/// rank goes its own way.
pub fn all_modes(
    trainer: &mut Trainer,
    comm: &Communicator,
    rounds: usize,
    progress: &mut Progress,
) -> Outcome<[Timing; 3]> {
    let mut by_mode = MODES.map(|_| Vec::with_capacity(rounds));
    for _ in 0..rounds {
        let mut round = MODES.map(|_| Timing::default());
        for (mode, timing) in MODES.into_iter().zip(&mut round) {
            comm.barrier()?;
            *timing = median(&take_steps(trainer, mode, STEPS_PER_ROUND)?);
            progress.advance(STEPS_PER_ROUND, format_args!("{}", mode.name()));
        }
        let alone_ns = round[2].step_ns as i64;
        for (timing, timings) in round.into_iter().zip(&mut by_mode) {
            timings.push(Timing { exposed_ns: timing.step_ns as i64 - alone_ns, ..timing });
        }
    }
    Ok(by_mode.map(|timings| median(&timings)))
}

/// How many steps `all_modes` takes.
pub fn steps(rounds: usize) -> usize {
    rounds * MODES.len() * STEPS_PER_ROUND
}

/// A few steps of both ways to communicate, kept in the timeline and not in the table. Returns what the library recorded
/// of its plan nodes meanwhile.
pub fn record(trainer: &mut Trainer, comm: &Communicator) -> Outcome<Profile> {
    comm.take_profile();
    for mode in [Mode::Overlap, Mode::NoOverlap] {
        comm.barrier()?;
        trainer.timeline.record(true);
        take_steps(trainer, mode, 4)?;
        trainer.timeline.record(false);
    }
    Ok(comm.take_profile())
}

/// The median step with nothing communicated.
pub fn compute_alone(trainer: &mut Trainer) -> Outcome<Timing> {
    Ok(median(&take_steps(trainer, Mode::NoComm, 2 * STEPS_PER_ROUND)?))
}

/// The first step has nothing to receive from the one before, so it is left out.
fn take_steps(trainer: &mut Trainer, mode: Mode, steps: usize) -> Outcome<Vec<Timing>> {
    trainer.step(mode)?;
    trainer.timeline.take_totals_ns();
    let mut timings = Vec::with_capacity(steps);
    for _ in 1..steps {
        trainer.step(mode)?;
        let totals_ns = trainer.timeline.take_totals_ns();
        let of = |phase: Phase| totals_ns[phase as usize];
        timings.push(Timing {
            step_ns: of(Phase::Step),
            backward_ns: of(Phase::Backward),
            communication_ns: of(Phase::Submit) + of(Phase::Wait),
            exposed_ns: 0,
        });
    }
    trainer.finish()?;
    Ok(timings)
}

/// The median of each figure by itself.
fn median(timings: &[Timing]) -> Timing {
    Timing {
        step_ns: middle(timings.iter().map(|timing| timing.step_ns)),
        backward_ns: middle(timings.iter().map(|timing| timing.backward_ns)),
        communication_ns: middle(timings.iter().map(|timing| timing.communication_ns)),
        exposed_ns: middle(timings.iter().map(|timing| timing.exposed_ns)),
    }
}

fn middle<T: Ord + Copy + Default>(figures: impl Iterator<Item = T>) -> T {
    let mut figures: Vec<T> = figures.collect();
    figures.sort_unstable();
    figures.get(figures.len() / 2).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_taken_of_each_figure() {
        let timing = |step_ns, exposed_ns| Timing { step_ns, exposed_ns, ..Timing::default() };
        let middle = median(&[timing(3, -9), timing(1, 5), timing(2, 7)]);
        assert_eq!((middle.step_ns, middle.exposed_ns), (2, 5));
        assert_eq!(median(&[]).step_ns, 0);
    }
}
