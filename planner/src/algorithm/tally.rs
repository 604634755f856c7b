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
}

impl<'a> Tally<'a> {
    /// No messages yet.
    pub fn new(call: &Call<'a>) -> Tally<'a> {
        let (ranks, hosts) = (vec![[0.0; 2]; call.world], vec![[0.0; 2]; call.topology.host_names().len()]);
        Tally { topology: call.topology, counts: [ranks.clone(), ranks.clone()], chunks: [ranks, hosts] }
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
