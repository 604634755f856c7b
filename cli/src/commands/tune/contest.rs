//! [`Contest`]: times candidates for one collective and size against one another. All ranks run it together; what they decide follows
//! from times that they have agreed on.
//!
//! 1. A round: every candidate is called a few times. Those whose quickest call is much slower than the best's are out.
//! 2. Those that are left, and the best of them with shorter tiles, are called in turns until their time is up.
//! 3. The finalists, and the one that would be chosen, are called in turns again: only these times count for them, since the
//!    best of many is best by luck too.
//!
//! The ranks share a machine and its clock. A call follows a barrier; it takes from when the first rank begins until the last one is
//! done, and a candidate's time is the lower quartile of its calls: what else the machine does can only add to it. Who drops out keeps his
//! distance from the one that was best then.

use std::time::Duration;

use hcomm::planner::choose::Candidate;
use hcomm::{Collective, Communicator, Error};
use rustix::time::{ClockId, clock_gettime};

use super::buffers::{Buffers, request};
use super::tiles;

/// See the module.
pub struct Contest<'a> {
    comm: &'a Communicator,
    collective: Collective,
    bytes: u64,
    buffers: Buffers,
    entrants: Vec<Entrant>,
}

/// A candidate, a handle that calls by it, and its times.
struct Entrant {
    candidate: Candidate,
    handle: Communicator,
    /// When this rank began and ended each call, by the machine's clock.
    own_ns: Vec<[u64; 2]>,
    /// As all ranks know it.
    time_ns: f64,
}

/// How much slower than the best is out after the first round.
const HOPELESS: f64 = 2.0;

/// How much slower than the best is no finalist.
const CLOSE: f64 = 1.25;

/// So many finalists at most, and so many candidates whose tiles are varied.
const FINALISTS: usize = 4;

/// Calls in a row, of those that are quick.
const CALLS: usize = 4;

/// Longer calls are not quick.
const QUICK_NS: f64 = 1e6;

/// What counts of the times of several calls.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Of {
    Least,
    LowerQuartile,
}

impl<'a> Contest<'a> {
    /// All candidates that can serve the call, with tiles as long as the slots, and the one that would be chosen.
    pub fn new(comm: &'a Communicator, collective: Collective, bytes: u64) -> Contest<'a> {
        let buffers = Buffers::new(collective, bytes, comm);
        let mut contest = Contest { comm, collective, bytes, buffers, entrants: Vec::new() };
        Candidate::all().for_each(|candidate| contest.enter(candidate));
        contest.enter(contest.chosen());
        contest
    }

    /// What the communicator would choose.
    pub fn chosen(&self) -> Candidate {
        let request = request(self.collective, self.bytes, self.comm.world());
        let chosen = self.comm.planner().candidate(&request);
        chosen.expect("every collective is served by some algorithm")
    }

    /// Lets a candidate take part, if it can.
    fn enter(&mut self, candidate: Candidate) {
        let is_new = self.entrants.iter().all(|entrant| entrant.candidate != candidate);
        if let Ok(handle) = self.comm.algorithm(&format!("{}={candidate}", self.collective))
            && is_new
        {
            self.entrants.push(Entrant { candidate, handle, own_ns: Vec::new(), time_ns: f64::INFINITY });
        }
    }

    /// Runs all of it within about `budget`, and returns every candidate's time in nanoseconds.
    pub fn run(mut self, budget: Duration) -> Result<Vec<(Candidate, f64)>, Error> {
        self.first_round(&(0..self.entrants.len()).collect::<Vec<_>>())?;
        let shorter = self.vary_tiles();
        self.first_round(&shorter)?;
        let left = self.best(&(0..self.entrants.len()).collect::<Vec<_>>(), HOPELESS, usize::MAX);
        self.take_turns(&left, budget.mul_f64(0.4))?;
        let mut finalists = self.best(&left, CLOSE, FINALISTS);
        let chosen = self.chosen();
        let chosen = self.entrants.iter().position(|entrant| entrant.candidate == chosen);
        finalists.extend(chosen.filter(|chosen| !finalists.contains(chosen)));
        if finalists.len() > 1 {
            self.take_turns(&finalists, budget.mul_f64(0.4))?;
        }
        Ok(self.entrants.iter().map(|entrant| (entrant.candidate, entrant.time_ns)).collect())
    }

    /// A few calls of each; long ones are made only twice. What the first one does once, a long one does not notice.
    fn first_round(&mut self, who: &[usize]) -> Result<(), Error> {
        for index in who {
            self.call(*index, 2)?;
        }
        self.agree(who, Of::Least)?;
        let quick: Vec<usize> =
            who.iter().filter(|who| self.entrants[**who].time_ns < QUICK_NS).copied().collect();
        for index in &quick {
            self.call(*index, 4)?;
        }
        self.agree(&quick, Of::Least)
    }

    /// Calls in turns, so that whatever else the machine does meets all alike.
    fn take_turns(&mut self, who: &[usize], budget: Duration) -> Result<(), Error> {
        let leader = who.first().copied().unwrap_or_default();
        let before = self.entrants[leader].time_ns;
        let shortest = self.entrants.iter().map(|entrant| entrant.time_ns).fold(f64::INFINITY, f64::min);
        // A call comes with a barrier, which takes as long as a short call.
        let round_ns: f64 = who.iter().map(|index| self.entrants[*index].time_ns + shortest).sum();
        let calls = if shortest < QUICK_NS { CALLS } else { 1 };
        let rounds = budget.as_nanos() as f64 / (round_ns * calls as f64).max(1.0);
        let rounds = rounds.clamp((CALLS / calls) as f64, 250.0) as usize;
        for round in 0..rounds {
            for turn in 0..who.len() {
                self.call(who[(turn + round) % who.len()], calls)?;
            }
        }
        self.agree(who, Of::LowerQuartile)?;
        let drift = self.entrants[leader].time_ns / before;
        let others = self.entrants.iter_mut().enumerate().filter(|(index, _)| !who.contains(index));
        others.for_each(|(_, entrant)| entrant.time_ns *= drift);
        Ok(())
    }

    fn call(&mut self, index: usize, calls: usize) -> Result<(), Error> {
        for _ in 0..calls {
            self.comm.barrier()?;
            let begin = now_ns();
            self.buffers.call(&self.entrants[index].handle)?;
            self.entrants[index].own_ns.push([begin, now_ns()]);
        }
        Ok(())
    }

    /// Makes the times of the latest calls everybody's.
    fn agree(&mut self, who: &[usize], of: Of) -> Result<(), Error> {
        for index in who {
            let own: Vec<u64> = self.entrants[*index].own_ns.drain(..).flatten().collect();
            let mut all = vec![0; own.len() * self.comm.world()];
            self.comm.all_gather(&own, &mut all)?;
            self.entrants[*index].time_ns = time_of(&all, self.comm.world(), of).max(1.0);
        }
        Ok(())
    }

    /// Those of `who` that are not much slower than the fastest, the fastest first.
    fn best(&self, who: &[usize], limit: f64, most: usize) -> Vec<usize> {
        let time = |index: &usize| self.entrants[*index].time_ns;
        let mut sorted = who.to_vec();
        sorted.sort_by(|a, b| time(a).total_cmp(&time(b)));
        let least = sorted.first().map_or(0.0, time);
        sorted.retain(|index| time(index) <= least * limit);
        sorted.truncate(most);
        sorted
    }

    /// Enters the best candidates again with shorter tiles, where those make a difference; returns the new ones.
    fn vary_tiles(&mut self) -> Vec<usize> {
        let before = self.entrants.len();
        for index in self.best(&(0..before).collect::<Vec<_>>(), HOPELESS, FINALISTS) {
            let candidate = self.entrants[index].candidate;
            for shorter in tiles::shorter(self.comm.planner(), candidate, self.collective, self.bytes) {
                self.enter(shorter);
            }
        }
        (before..self.entrants.len()).collect()
    }
}

/// What calls took, from the beginnings and ends that each rank has noted of them, rank by rank.
fn time_of(all: &[u64], world: usize, of: Of) -> f64 {
    let words = all.len() / world;
    let of_call = |call: usize| {
        let times = (0..world).map(|rank| [all[rank * words + call], all[rank * words + call + 1]]);
        let (begin, end) = times.fold((u64::MAX, 0), |(begin, end), [own_begin, own_end]| {
            (begin.min(own_begin), end.max(own_end))
        });
        end.saturating_sub(begin)
    };
    let mut times: Vec<u64> = (0..words).step_by(2).map(of_call).collect();
    times.sort_unstable();
    let at = if of == Of::Least { 0 } else { times.len() / 4 };
    times.get(at).map_or(0.0, |time| *time as f64)
}

/// The clock that all processes of a machine share.
fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_takes_from_the_first_beginning_to_the_last_end() {
        // Two ranks, four calls: 10..30 and 15..40; 50..60 and 45..55; 70..71 and 70..79; 80..99 and 99..180.
        let all = [10, 30, 50, 60, 70, 71, 80, 99, 15, 40, 45, 55, 70, 79, 99, 180];
        assert_eq!(time_of(&all, 2, Of::LowerQuartile), 15.0);
        assert_eq!(time_of(&all, 2, Of::Least), 9.0);
        assert_eq!(time_of(&[], 2, Of::Least), 0.0);
    }
}
