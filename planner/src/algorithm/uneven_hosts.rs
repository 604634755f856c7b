//! Two-level all_gather and reduce_scatter over hosts of any sizes, everything sent directly: what `hierarchical` does where
//! there are no rails. A block crosses to each other host once.
//!
//! On every host a block of another host has a **stand-in**: of the m members the one that counts j mod m, for the block of a
//! host's j-th member; a host's own blocks have their owners. *all_gather*: every rank sends its block to its stand-ins;
//! each of those, and the rank itself, send it to the rest of their hosts. *reduce_scatter*: every rank sends each of its
//! contributions to the stand-in on its own host, which folds them and sends the sum to the block's owner, who folds
//! those of all hosts.
//!
//! Steps: 2. Bytes sent per rank: a block to each other host (reduce_scatter: a sum for each block that it stands in for), and inside a
//! host of m all blocks that it holds m - 1 times (reduce_scatter: all blocks but those). An element is rounded twice.

use std::ops::Range;

use hcomm_ops::Rank;

use super::group::{Group, ahead};
use super::one_shot::fold_all;
use super::{Call, Layout};
use crate::choose::{PerLink, Work};
use crate::graph::Builder;
use crate::plan::Span;
use crate::request::Collective;
use crate::topology::Topology;

pub(super) fn layout() -> Layout {
    Layout { channels: 2, ..Layout::of(1) }
}

pub(super) fn work(call: &Call<'_>) -> Work {
    let n = call.world as f64;
    let hosts = call.topology.host_names().len();
    let mut most = Work { steps: PerLink { local: 1.0, remote: 1.0 }, ..Work::default() };
    for load in (0..hosts).map(|host| Load::of(call.topology, host)) {
        let (held, least) = (load.passed.end as f64, load.passed.start as f64);
        let others = load.members as f64 - 1.0;
        // What a host sends out of itself in an all_gather comes in in a reduce_scatter, and the other way round.
        let (out, inward) = (load.members as f64 * (hosts as f64 - 1.0), n - load.members as f64);
        let inside = (others * held).max(n - least);
        most.messages.remote = most.messages.remote.max((hosts as f64 - 1.0).max(held - 1.0));
        most.messages.local = most.messages.local.max(inside);
        most.sent.remote = most.sent.remote.max(out.max(inward) / n);
        most.sent.local = most.sent.local.max(inside / n);
        most.reduced = most.reduced.max((others * held + hosts as f64 - 1.0) / n);
    }
    match call.collective {
        Collective::AllGather => Work { reduced: 0.0, ..most.copying(1.0 / n) },
        _ => Work { roundings: 2, ..most },
    }
}

/// How many blocks the members of a host hold for it, their own included: the least and the most.
struct Load {
    members: usize,
    passed: Range<usize>,
}

impl Load {
    fn of(topology: &Topology, host: usize) -> Load {
        let members = topology.members(host).len();
        let others = (0..topology.host_names().len()).filter(|other| *other != host);
        let sizes: Vec<usize> = others.map(|other| topology.members(other).len()).collect();
        let least = sizes.iter().map(|size| size / members).sum::<usize>() + 1;
        let most = sizes.iter().map(|size| size.div_ceil(members)).sum::<usize>() + 1;
        Load { members, passed: least..most }
    }
}

pub(super) fn build(call: &Call<'_>, rank: Rank, b: &mut Builder) {
    let host = call.topology.place(rank).host;
    let inside = Group::of(call.topology.members(host).to_vec(), rank);
    let member = Member { topology: call.topology, host, inside, rank };
    match call.collective {
        Collective::AllGather => member.all_gather(b),
        _ => member.reduce_scatter(b),
    }
}

/// A rank among the members of its host.
struct Member<'t> {
    topology: &'t Topology,
    host: usize,
    inside: Group,
    rank: Rank,
}

impl Member<'_> {
    fn all_gather(&self, b: &mut Builder) {
        b.copy(Span::input(0), Span::output(self.rank as u32));
        let held = self.held_by(self.inside.me);
        for host in self.other_hosts() {
            b.send(self.stand_in(host, self.inside.me), 0, Span::input(0));
        }
        for block in held.iter().filter(|block| **block != self.rank) {
            b.recv(*block, 0, Span::output(*block as u32));
        }
        b.stage(1);
        let theirs: Vec<_> = self.inside.others().map(|other| (other, self.held_by(other))).collect();
        for turn in 0..self.turns() {
            if let Some(block) = held.get(turn) {
                let others = self.inside.others().map(|other| self.inside.rank(other));
                others.for_each(|other| b.send(other, 1, Span::output(*block as u32)));
            }
            for (other, block) in theirs.iter().filter_map(|(other, held)| Some((other, held.get(turn)?))) {
                b.recv(self.inside.rank(*other), 1, Span::output(*block as u32));
            }
        }
    }

    fn reduce_scatter(&self, b: &mut Builder) {
        let held = self.held_by(self.inside.me);
        let theirs: Vec<_> = self.inside.others().map(|other| (other, self.held_by(other))).collect();
        let mut sums = Vec::new();
        for turn in 0..self.turns() {
            for (other, block) in theirs.iter().filter_map(|(other, held)| Some((other, held.get(turn)?))) {
                b.send(self.inside.rank(*other), 0, Span::input(*block as u32));
            }
            sums.extend(held.get(turn).map(|block| (*block, self.fold_inside(b, *block))));
        }
        b.stage(1);
        let mut own = Span::input(self.rank as u32);
        for (block, sum) in sums {
            if block == self.rank {
                own = sum;
            } else {
                b.send(block, 1, sum);
            }
        }
        self.fold_across(b, own);
    }

    /// The sum of this host's contributions to a block.
    fn fold_inside(&self, b: &mut Builder, block: Rank) -> Span {
        let own = Span::input(block as u32);
        if self.inside.len() == 1 {
            return own;
        }
        let sum = b.scratch(own);
        fold_all(b, &self.inside, 0, own, sum, 1);
        sum
    }

    /// Folds the hosts' sums of the own block, in the order of the hosts.
    fn fold_across(&self, b: &mut Builder, own: Span) {
        let mut sources = vec![own; self.topology.host_names().len()];
        for host in self.other_hosts() {
            sources[host] = b.scratch(own);
            let members = self.topology.members(host).len() as u64;
            b.recv_partial(self.stand_in(host, self.inside.me), 1, sources[host], members);
        }
        b.reduce(&sources, Span::output(0));
    }

    /// The other hosts, beginning after this one: so that not all begin with the same.
    fn other_hosts(&self) -> impl Iterator<Item = usize> + use<> {
        let (host, hosts) = (self.host, self.topology.host_names().len());
        (1..hosts).map(move |step| ahead(host, step, hosts))
    }

    /// Who stands in on another host for a block of this one.
    fn stand_in(&self, host: usize, member: usize) -> Rank {
        let members = self.topology.members(host);
        members[member % members.len()]
    }

    /// The blocks that a member of this host holds for it: its own, and those that it stands in for.
    fn held_by(&self, member: usize) -> Vec<Rank> {
        let others = self.other_hosts().flat_map(|host| {
            self.topology.members(host).iter().skip(member).step_by(self.inside.len()).copied()
        });
        [self.inside.rank(member)].into_iter().chain(others).collect()
    }

    /// The most blocks that any member of this host holds.
    fn turns(&self) -> usize {
        Load::of(self.topology, self.host).passed.end
    }
}
