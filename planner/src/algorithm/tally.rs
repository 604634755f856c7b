//! [`Tally`]: adds up an algorithm's messages, rank by rank and link by link, to say what the busiest rank does. For
//! algorithms whose ranks do not all do the same; its cost is that of their messages, so it is for those that have few.

use hcomm_ops::Rank;

use super::Call;
use crate::choose::{PerLink, Work};
use crate::topology::{LinkClass, Topology};

/// Messages and chunks, by direction: sent, received.
type Both = [f64; 2];

/// What every rank has sent and received so far.
#[derive(Clone, Debug)]
pub(super) struct Tally<'a> {
    topology: &'a Topology,
    /// Messages over links inside the host and to other hosts, by rank.
    counts: [Vec<Both>; 2],
    /// Chunks over links inside the host, by rank; over those to other hosts, by host.
    chunks: [Vec<Both>; 2],
    /// The longest chain of messages that each rank has waited for, where rounds are counted.
    waited: Vec<Chain>,
    /// What ends with the messages of the current round: (who receives, chain).
    round: Vec<(Rank, Chain)>,
    longest: Chain,
}

/// Messages that wait for one another: to other hosts, inside a host. Those between hosts say which chain is longer.
type Chain = (usize, usize);

impl<'a> Tally<'a> {
    /// No messages yet.
    pub fn new(call: &Call<'a>) -> Tally<'a> {
        let (ranks, hosts) = (vec![[0.0; 2]; call.world], vec![[0.0; 2]; call.topology.host_names().len()]);
        Tally {
            topology: call.topology,
            counts: [ranks.clone(), ranks.clone()],
            chunks: [ranks, hosts],
            waited: Vec::new(),
            round: Vec::new(),
            longest: (0, 0),
        }
    }

    /// No messages yet; they will be counted round by round (see [`Tally::end_round`]), which says how they wait for one another.
    pub fn in_rounds(call: &Call<'a>) -> Tally<'a> {
        Tally { waited: vec![(0, 0); call.world], ..Tally::new(call) }
    }

    /// One more message, of so many chunks.
    pub fn message(&mut self, from: Rank, to: Rank, chunks: usize) {
        self.messages(from, to, 1, chunks);
    }

    /// So many more messages, of so many chunks in all.
    pub fn messages(&mut self, from: Rank, to: Rank, messages: usize, chunks: usize) {
        let host = |rank: Rank| self.topology.place(rank).host;
        let (class, payers) = match self.topology.link(from, to) {
            LinkClass::Local => (0, [from, to]),
            LinkClass::Remote => (1, [host(from), host(to)]),
        };
        for (way, rank) in [from, to].into_iter().enumerate() {
            self.counts[class][rank][way] += messages as f64;
            self.chunks[class][payers[way]][way] += chunks as f64;
        }
        if let Some((far, near)) = self.waited.get(from) {
            self.round.push((to, (far + class, near + 1 - class)));
        }
    }

    /// What has been counted since the last call goes at once; later messages of those that receive it wait for it.
    pub fn end_round(&mut self) {
        for (rank, chain) in self.round.drain(..) {
            self.waited[rank] = self.waited[rank].max(chain);
            self.longest = self.longest.max(chain);
        }
    }

    /// Later messages wait for none of those so far.
    pub fn start_anew(&mut self) {
        self.end_round();
        self.waited.fill((0, 0));
    }

    /// On a ring, `hops` messages of a chunk each from every rank to the next, each of which waits for the one that the rank
    /// before has sent.
    pub fn circle(&mut self, order: &[Rank], hops: usize) {
        let n = order.len();
        let is_far = |at: usize| self.topology.link(order[at % n], order[(at + 1) % n]) == LinkClass::Remote;
        let mut far = (0..hops).filter(|at| is_far(*at)).count();
        let mut most = far;
        for first in 1..n {
            far = far + usize::from(is_far(first + hops - 1)) - usize::from(is_far(first - 1));
            most = most.max(far);
        }
        self.longest = self.longest.max((most, hops - most));
        (0..n).for_each(|at| self.messages(order[at], order[(at + 1) % n], hops, hops));
    }

    /// The work of the busiest rank, in a buffer of `chunks` chunks; its steps are the longest chain of rounds.
    pub fn work_in_rounds(&mut self, chunks: usize) -> Work {
        self.end_round();
        let steps = PerLink { local: self.longest.1 as f64, remote: self.longest.0 as f64 };
        Work { steps, ..self.work(0, chunks) }
    }

    /// The work of the busiest rank: `steps` steps that wait for one another, in a buffer of `chunks` chunks.
    pub fn work(&self, steps: usize, chunks: usize) -> Work {
        let most = |list: &Vec<Both>| list.iter().flatten().copied().fold(0.0, f64::max);
        let per_link =
            |of: &[Vec<Both>; 2], by: f64| PerLink { local: most(&of[0]) / by, remote: most(&of[1]) / by };
        let messages = per_link(&self.counts, 1.0);
        let steps = steps as f64;
        let far = messages.remote > 0.0;
        Work {
            steps: PerLink { local: if far { 0.0 } else { steps }, remote: if far { steps } else { 0.0 } },
            messages,
            sent: per_link(&self.chunks, chunks as f64),
            ..Work::default()
        }
    }
}

/// The work of `messages` messages from every rank to every other, with `chunks` chunks in all, in a buffer of as many as there
/// are ranks.
pub(super) fn all_pairs(call: &Call<'_>, steps: usize, messages: usize, chunks: usize) -> Work {
    let n = call.world as f64;
    let hosts = (0..call.topology.host_names().len()).map(|host| call.topology.members(host).len() as f64);
    let most = |of: &dyn Fn(f64) -> f64| hosts.clone().map(of).fold(0.0, f64::max);
    let (inside, outside) = (most(&|size| size - 1.0), most(&|size| n - size));
    let leaving = most(&|size| size * (n - size));
    let (messages, part, steps) = (messages as f64, chunks as f64 / n, steps as f64);
    let far = outside > 0.0;
    Work {
        steps: PerLink { local: if far { 0.0 } else { steps }, remote: if far { steps } else { 0.0 } },
        messages: PerLink { local: messages * inside, remote: messages * outside },
        sent: PerLink { local: part * inside, remote: part * leaving },
        ..Work::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::{Collective, Request};
    use hcomm_ops::{DType, ReduceOp};

    #[test]
    fn the_busiest_rank_counts_inside_and_the_busiest_host_across() {
        let topology = Topology::hosts(2, 2);
        let request = Request::new(Collective::AllGather, DType::F32, ReduceOp::Sum, 1);
        let mut tally = Tally::new(&Call::new(&request, 4, &topology));
        tally.message(0, 1, 1);
        tally.message(0, 1, 3);
        tally.message(0, 2, 1);
        tally.message(1, 3, 1);
        let work = tally.work(3, 4);
        assert_eq!(work.messages, PerLink { local: 2.0, remote: 1.0 });
        assert_eq!(work.sent, PerLink { local: 1.0, remote: 0.5 });
        assert_eq!(work.steps, PerLink { local: 0.0, remote: 3.0 });
    }
}
