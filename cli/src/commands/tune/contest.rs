//! [`Contest`]: times candidates for one collective and size against one another. All ranks run it together; what they decide follows
//! from times that they have agreed on.
//!
//! 1. A round: every candidate is called a few times. Those that are much slower than the best are out.
//! 2. Those that are left, and the best of them with shorter tiles, are called in turns until their time is up.
//! 3. The finalists, and the one that would be chosen, are called in turns again: only these times count for them, since the
//!    best of many is best by luck too.
//!
//! A time is that of the slowest rank, the median over calls that each follow a barrier.

use std::time::{Duration, Instant};

use hcomm::planner::choose::Candidate;
use hcomm::{Collective, Communicator, Error, Op};

use super::buffers::{Buffers, request};

/// See the module.
pub struct Contest<'a> {
    comm: &'a Communicator,
    collective: Collective,
    buffers: Buffers,
    entrants: Vec<Entrant>,
}

/// A candidate, a handle that calls by it, and its times on this rank.
struct Entrant {
    candidate: Candidate,
    handle: Communicator,
    own_ns: Vec<u64>,
    /// As all ranks have agreed on.
    time_ns: f64,
}

/// How much slower than the best is out after the first round.
const HOPELESS: f64 = 2.0;

/// How much slower than the best is no finalist.
const CLOSE: f64 = 1.25;

/// So many finalists at most, and so many candidates whose tiles are varied.
const FINALISTS: usize = 4;

/// Calls in a row.
const CALLS: usize = 4;

impl<'a> Contest<'a> {
    /// All candidates that can serve the call, with tiles as long as the slots, and the one that would be chosen.
    pub fn new(comm: &'a Communicator, collective: Collective, bytes: u64) -> Contest<'a> {
        let buffers = Buffers::new(collective, bytes, comm);
        let mut contest = Contest { comm, collective, buffers, entrants: Vec::new() };
        Candidate::all().for_each(|candidate| contest.enter(candidate));
        contest.enter(contest.chosen(bytes));
        contest
    }

    /// What the communicator would choose.
    pub fn chosen(&self, bytes: u64) -> Candidate {
        let request = request(self.collective, bytes, self.comm.world());
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
    pub fn run(mut self, bytes: u64, budget: Duration) -> Result<Vec<(Candidate, f64)>, Error> {
        let chosen = self.chosen(bytes);
        let everybody: Vec<usize> = (0..self.entrants.len()).collect();
        self.first_round(&everybody)?;
        let varied = self.best(&everybody, HOPELESS, FINALISTS);
        let shorter = self.vary_tiles(&varied, bytes);
        self.first_round(&shorter)?;
        let left = self.best(&(0..self.entrants.len()).collect::<Vec<_>>(), HOPELESS, usize::MAX);
        self.take_turns(&left, budget / 2)?;
        let mut finalists = self.best(&left, CLOSE, FINALISTS);
        let chosen = self.entrants.iter().position(|entrant| entrant.candidate == chosen);
        finalists.extend(chosen.filter(|chosen| !finalists.contains(chosen)));
        if finalists.len() > 1 {
            finalists.iter().for_each(|finalist| self.entrants[*finalist].own_ns.clear());
            self.take_turns(&finalists, budget / 2)?;
        }
        Ok(self.entrants.iter().map(|entrant| (entrant.candidate, entrant.time_ns)).collect())
    }

    /// A few calls of each, the first of which may compile a plan.
    fn first_round(&mut self, who: &[usize]) -> Result<(), Error> {
        for index in who {
            self.call(*index, 1)?;
            self.entrants[*index].own_ns.clear();
            self.call(*index, 1)?;
        }
        self.agree(who)?;
        // A second look at what does not take long.
        let quick = |index: &&usize| self.entrants[**index].time_ns < 1e6;
        let quick: Vec<usize> = who.iter().filter(quick).copied().collect();
        for index in &quick {
            self.call(*index, 2)?;
        }
        self.agree(&quick)
    }

    /// Calls in turns, so that whatever else the machine does meets all alike.
    fn take_turns(&mut self, who: &[usize], budget: Duration) -> Result<(), Error> {
        let calls = who.len() * CALLS;
        let round_ns: f64 = who.iter().map(|index| self.entrants[*index].time_ns * CALLS as f64).sum();
        // A call comes with a barrier, which takes as long as a short call.
        let with_barriers = round_ns + self.shortest() * calls as f64;
        let rounds = (budget.as_nanos() as f64 / with_barriers.max(1.0)).clamp(2.0, 60.0) as usize;
        for round in 0..rounds {
            for turn in 0..who.len() {
                self.call(who[(turn + round) % who.len()], CALLS)?;
            }
        }
        self.agree(who)
    }

    fn call(&mut self, index: usize, calls: usize) -> Result<(), Error> {
        for _ in 0..calls {
            self.comm.barrier()?;
            let start = Instant::now();
            self.buffers.call(&self.entrants[index].handle)?;
            self.entrants[index].own_ns.push(start.elapsed().as_nanos() as u64);
        }
        Ok(())
    }

    /// Makes the medians of the slowest rank everybody's.
    fn agree(&mut self, who: &[usize]) -> Result<(), Error> {
        let mut times: Vec<f64> = who.iter().map(|index| median(&self.entrants[*index].own_ns)).collect();
        if times.is_empty() {
            return Ok(());
        }
        self.comm.all_reduce(&mut times, Op::Max)?;
        for (index, time) in who.iter().zip(times) {
            self.entrants[*index].time_ns = time.max(1.0);
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

    fn shortest(&self) -> f64 {
        self.entrants.iter().map(|entrant| entrant.time_ns).fold(f64::INFINITY, f64::min)
    }

    /// Enters candidates again with shorter tiles, where those make a difference; returns the new ones.
    fn vary_tiles(&mut self, who: &[usize], bytes: u64) -> Vec<usize> {
        let before = self.entrants.len();
        let candidates: Vec<Candidate> = who.iter().map(|index| self.entrants[*index].candidate).collect();
        for candidate in candidates {
            for shorter in super::tiles::shorter(self.comm.planner(), candidate, self.collective, bytes) {
                self.enter(shorter);
            }
        }
        (before..self.entrants.len()).collect()
    }
}

fn median(times: &[u64]) -> f64 {
    let mut sorted = times.to_vec();
    sorted.sort_unstable();
    sorted.get(sorted.len() / 2).map_or(0.0, |time| *time as f64)
}
