//! Two-level all_gather, reduce_scatter and all_to_all by any two algorithms, over hosts of g ranks each: the rest of
//! `hierarchical`. Members i of all hosts form rail i. Hosts of other sizes: see `uneven_hosts`.
//!
//! *all_gather*: every rail gathers its own blocks across hosts; then the members of each host gather the blocks of one host after
//! another from one another. *reduce_scatter*: the same backwards: the members of a host sum the blocks of one host after another,
//! each those of its rail; then every rail sums across. *all_to_all*: inside a host every member gets what is for its rail, one
//! host after another; then every rail exchanges, g blocks for each host together.
//!
//! Messages of an all_to_all by direct and direct: k(g - 1) inside and k - 1 across. The blocks for a member inside lie g blocks apart,
//! and so do those from it for a host: to join them too would copy the whole buffer twice, to save messages between neighbours.
//!
//! Steps: those of the one algorithm, then of the other; a stage each. Bytes sent per rank, of a full buffer S: all_gather and
//! reduce_scatter (k - 1)/n S across and (g - 1)/g S inside; all_to_all (k - 1)/k S across and (g - 1)/g S inside. reduce_scatter rounds as
//! often as both algorithms do.

use hcomm_ops::Rank;

use super::group::{Group, behind};
use super::step::{Step, common_block, layout_of};
use super::{Call, Layout, Pair, uneven_hosts};
use crate::choose::{PerLink, Work};
use crate::graph::{Builder, Frame, MAX_SPAN};
use crate::hash::Fnv;
use crate::plan::Span;
use crate::request::Collective;
use crate::shape::BufferKind;
use crate::topology::Topology;

pub(super) fn refuses(call: &Call<'_>) -> Option<String> {
    match (call.topology.uniform_host_size(), call.pair) {
        (Some(_), _) => Rails::new(call.topology).steps(call).err(),
        _ if call.collective == Collective::AllToAll => {
            Some("needs hosts with equally many ranks".to_owned())
        }
        (None, Some(Pair { first: "direct", second: "direct" })) => None,
        _ => {
            Some("needs hosts with equally many ranks, unless it is made of 'direct' and 'direct'".to_owned())
        }
    }
}

pub(super) fn layout(call: &Call<'_>) -> Layout {
    let mut salt = Fnv::new();
    (0..call.world).for_each(|rank| salt.number(call.topology.place(rank).host as u64));
    if call.topology.uniform_host_size().is_none() {
        return Layout { salt: salt.finish(), ..uneven_hosts::layout() };
    }
    let rails = Rails::new(call.topology);
    let [inner, outer] = rails.supported(call);
    let layout = layout_of(inner.block, &[inner, outer]);
    let span_chunks =
        longest(&inner, rails.a_host_is_in_a_row()).max(longest(&outer, rails.joins(call.collective)));
    let even = call.collective == Collective::AllToAll;
    salt.number(layout.salt);
    // What is exchanged inside a host goes to scratch, so that nothing waits for its room.
    Layout { span_chunks, even, buffered: false, salt: salt.finish(), ..layout }
}

pub(super) fn work(call: &Call<'_>) -> Work {
    if call.topology.uniform_host_size().is_none() {
        return uneven_hosts::work(call);
    }
    let rails = Rails::new(call.topology);
    let (k, g) = (rails.hosts() as f64, rails.size() as f64);
    let [inner, outer] = rails.supported(call);
    let one = inner.work().scaled(1.0 / k, 1.0);
    let times = |amount: PerLink, by: f64| PerLink { local: amount.local * by, remote: amount.remote * by };
    let inside = Work {
        messages: times(one.messages, k),
        sent: times(one.sent, k),
        reduced: one.reduced * k,
        copied: one.copied * k,
        ..one
    };
    let across = outer.work().scaled(1.0 / g, g);
    match call.collective {
        // Blocks that have come across to their places are not copied again.
        Collective::AllGather if outer.layout().span_chunks == 1 => {
            across.then(Work { copied: inside.copied - 1.0 / g, ..inside })
        }
        Collective::AllGather => across.then(inside),
        Collective::ReduceScatter => inside.then(across),
        _ => {
            let exchanges = g * f64::from(inner.block) / f64::from(outer.block);
            let messages = times(across.messages, exchanges);
            inside.then(Work { messages, sent: times(across.sent, g), copied: across.copied * g, ..across })
        }
    }
}

pub(super) fn build(call: &Call<'_>, rank: Rank, b: &mut Builder) {
    if call.topology.uniform_host_size().is_none() {
        return uneven_hosts::build(call, rank, b);
    }
    let rails = Rails::new(call.topology);
    let steps = rails.supported(call);
    let host = call.topology.place(rank).host;
    let inside = Group::of(call.topology.members(host).to_vec(), rank);
    let member = Member { rails: &rails, host, inside, steps };
    match call.collective {
        Collective::AllGather => member.all_gather(b),
        Collective::ReduceScatter => member.reduce_scatter(b),
        _ => member.all_to_all(b),
    }
}

/// Most chunks in a message of a step; `joins` says whether its blocks lie side by side in the whole.
fn longest(step: &Step<'_>, joins: bool) -> u32 {
    let own = step.layout();
    let each = step.block / own.parts;
    (if joins { own.span_chunks * each } else { each }).min(MAX_SPAN)
}

/// The worlds of the steps.
struct Rails<'t> {
    topology: &'t Topology,
    inside: Topology,
    across: Topology,
}

impl Rails<'_> {
    fn new(topology: &Topology) -> Rails<'_> {
        let size = topology.members(0).len();
        let hosts = topology.host_names().len();
        Rails { topology, inside: Topology::single_host(size), across: Topology::hosts(hosts, 1) }
    }

    fn hosts(&self) -> usize {
        self.across.world()
    }

    fn size(&self) -> usize {
        self.inside.world()
    }

    fn supported<'a>(&'a self, call: &Call<'a>) -> [Step<'a>; 2] {
        self.steps(call).expect("a call that is not refused")
    }

    /// The step inside a host, and the one across.
    fn steps<'a>(&'a self, call: &Call<'a>) -> Result<[Step<'a>; 2], String> {
        let names = call.pair.ok_or("is made of two other algorithms")?;
        let part = |topology| Call { variant: call.variant, ..call.part(call.collective, 0, topology) };
        let inner = Step::new(names.first, part(&self.inside))?;
        let outer = Step::new(names.second, part(&self.across))?;
        let parts = common_block(&[inner, outer]);
        let wide = call.collective == Collective::AllToAll && self.are_in_rows();
        let width = if wide { self.width(&outer) } else { 1 };
        let steps = [inner.over(parts), outer.over(parts * width).on_channel(inner.next_channel())];
        steps.iter().try_for_each(Step::fits)?;
        Ok(steps)
    }

    /// Of how many members of a host the blocks can be exchanged together: of as many as its messages can hold.
    fn width(&self, outer: &Step<'_>) -> u32 {
        let (size, own) = (self.size() as u32, outer.layout().span_chunks);
        let fits = |width: &u32| size.is_multiple_of(*width) && (own == 1 || own * width <= MAX_SPAN);
        (1..=size).rev().find(fits).unwrap_or(1)
    }

    fn is_in_a_row(&self, host: usize) -> bool {
        self.topology.members(host).windows(2).all(|pair| pair[0] + 1 == pair[1])
    }

    fn a_host_is_in_a_row(&self) -> bool {
        (0..self.hosts()).any(|host| self.is_in_a_row(host))
    }

    /// Ranks are numbered host by host, in whatever order of the hosts.
    fn are_in_rows(&self) -> bool {
        (0..self.hosts()).all(|host| self.is_in_a_row(host))
    }

    /// Whether what the step across hands to a rank lies side by side.
    fn joins(&self, collective: Collective) -> bool {
        let first = |host: usize| self.topology.members(host)[0];
        let in_order = (1..self.hosts()).all(|host| first(host - 1) < first(host));
        collective != Collective::AllToAll || (self.are_in_rows() && in_order)
    }
}

/// A rank, and the steps that it takes.
struct Member<'a> {
    rails: &'a Rails<'a>,
    host: usize,
    inside: Group,
    /// Inside the host, and across.
    steps: [Step<'a>; 2],
}

impl Member<'_> {
    fn all_gather(&self, b: &mut Builder) {
        let [inner, outer] = &self.steps;
        // An algorithm that joins blocks into longer messages finds them side by side.
        let apart = outer.layout().span_chunks > 1;
        let rail: Vec<u32> = (0..self.rails.hosts()).map(|host| self.first(host, self.inside.me)).collect();
        let (buffer, blocks) = match apart {
            true => (BufferKind::Scratch, self.scratch(b, BufferKind::Output, rail.iter().copied())),
            false => (BufferKind::Output, rail),
        };
        let own = outer.chunks(BufferKind::Input, [0]);
        self.across(b, own, outer.chunks(buffer, blocks.iter().copied()), 1);
        b.stage(1);
        for host in self.hosts_from_here() {
            let mine = inner.chunks(buffer, [blocks[host]]);
            self.within(b, mine, inner.chunks(BufferKind::Output, self.blocks_of(host)));
        }
    }

    fn reduce_scatter(&self, b: &mut Builder) {
        let [inner, outer] = &self.steps;
        let rail = (0..self.rails.hosts()).map(|host| self.first(host, self.inside.me));
        let sums = self.scratch(b, BufferKind::Input, rail);
        // A ring needs its own host's last.
        for host in self.hosts_from_here().skip(1).chain([self.host]) {
            let theirs = inner.chunks(BufferKind::Input, self.blocks_of(host));
            self.within(b, theirs, inner.chunks(BufferKind::Scratch, [sums[host]]));
        }
        b.stage(1);
        let sums = outer.chunks(BufferKind::Scratch, sums);
        self.across(b, sums, outer.chunks(BufferKind::Output, [0]), self.inside.len() as u64);
    }

    fn all_to_all(&self, b: &mut Builder) {
        let [inner, outer] = &self.steps;
        let (hosts, size, each) = (self.rails.hosts(), self.inside.len(), inner.block);
        let every = (0..hosts).flat_map(|host| self.blocks_of(host));
        let passed = self.scratch(b, BufferKind::Input, every);
        for host in self.hosts_from_here() {
            let theirs = inner.chunks(BufferKind::Input, self.blocks_of(host));
            let from_all = passed[host * size..(host + 1) * size].iter().copied();
            self.within(b, theirs, inner.chunks(BufferKind::Scratch, from_all));
        }
        b.stage(1);
        let width = (outer.block / each) as usize;
        for member in (0..size).step_by(width) {
            let from = (0..hosts).map(|host| passed[host * size + member]);
            let to = (0..hosts).map(|host| self.first(host, member));
            let (from, to) = (outer.chunks(BufferKind::Scratch, from), outer.chunks(BufferKind::Output, to));
            self.across(b, from, to, 1);
        }
    }

    /// The step across hosts, each contribution being the fold of `held` ranks'.
    fn across(&self, b: &mut Builder, input: Vec<Span>, output: Vec<Span>, held: u64) {
        let ranks: Vec<Rank> =
            (0..self.rails.hosts()).map(|host| self.rails.topology.members(host)[self.inside.me]).collect();
        let held = vec![held; ranks.len()];
        self.steps[1].build(self.host, b, &Frame { ranks, held, input, output, channel: 0 });
    }

    /// The step inside this host.
    fn within(&self, b: &mut Builder, input: Vec<Span>, output: Vec<Span>) {
        let frame = Frame::of(self.inside.ranks().to_vec(), input, output);
        self.steps[0].build(self.inside.me, b, &frame);
    }

    /// The hosts in the order in which a ring brings their blocks.
    fn hosts_from_here(&self) -> impl Iterator<Item = usize> {
        let (host, hosts) = (self.host, self.rails.hosts());
        (0..hosts).map(move |step| behind(host, step, hosts))
    }

    /// The first chunk of a member's block.
    fn first(&self, host: usize, member: usize) -> u32 {
        self.rails.topology.members(host)[member] as u32 * self.steps[0].block
    }

    fn blocks_of(&self, host: usize) -> impl Iterator<Item = u32> {
        (0..self.inside.len()).map(move |member| self.first(host, member))
    }

    /// Scratch like each of these blocks, side by side: the first chunk of each.
    fn scratch(&self, b: &mut Builder, like: BufferKind, blocks: impl Iterator<Item = u32>) -> Vec<u32> {
        let each = self.steps[0].block;
        blocks.map(|block| b.scratch(Span::new(like, block, each)).first).collect()
    }
}
