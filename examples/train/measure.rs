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

/// The median step of one mode in one round.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Timing {
    /// From one step's beginning to the next one's.
    pub step_ns: u64,
    /// The part of it in backward.
    pub backward_ns: u64,
}

/// One round: the steps of every mode, in the order of [`MODES`].
pub type Round = [Timing; 3];

/// Measures all modes. The parameters of the trainer are worth nothing afterwards: without communication every
/// rank goes its own way.
pub fn all_modes(
    trainer: &mut Trainer,
    comm: &Communicator,
    count: usize,
    progress: &mut Progress,
) -> Outcome<Vec<Round>> {
    let mut rounds = Vec::with_capacity(count);
    for _ in 0..count {
        let mut round = Round::default();
        for (mode, timing) in MODES.into_iter().zip(&mut round) {
            comm.barrier()?;
            *timing = median(&take_steps(trainer, mode, STEPS_PER_ROUND)?);
            progress.advance(STEPS_PER_ROUND, format_args!("{}", mode.name()));
        }
        rounds.push(round);
    }
    Ok(rounds)
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
        timings.push(Timing { step_ns: of(Phase::Step), backward_ns: of(Phase::Backward) });
    }
    trainer.finish()?;
    Ok(timings)
}

/// The median of each figure by itself.
fn median(timings: &[Timing]) -> Timing {
    let middle =
        |figure: fn(&Timing) -> u64| quartiles(timings.iter().map(|timing| figure(timing) as f64))[1];
    Timing {
        step_ns: middle(|timing| timing.step_ns) as u64,
        backward_ns: middle(|timing| timing.backward_ns) as u64,
    }
}

/// The lower quartile, the median and the upper quartile.
pub fn quartiles(figures: impl Iterator<Item = f64>) -> [f64; 3] {
    let mut figures: Vec<f64> = figures.collect();
    figures.sort_unstable_by(f64::total_cmp);
    [1, 2, 3]
        .map(|quarter| figures.get(figures.len() * quarter / 4).or(figures.last()).copied().unwrap_or(0.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_taken_of_each_figure() {
        let timing = |step_ns, backward_ns| Timing { step_ns, backward_ns };
        assert_eq!(median(&[timing(3, 1), timing(1, 5), timing(2, 7)]), timing(2, 5));
        assert_eq!(median(&[]), Timing::default());
    }

    #[test]
    fn quartiles_are_figures_that_were_measured() {
        assert_eq!(quartiles([4.0, 1.0, 3.0, 2.0].into_iter()), [2.0, 3.0, 4.0]);
        assert_eq!(quartiles([7.0].into_iter()), [7.0; 3]);
    }
}
