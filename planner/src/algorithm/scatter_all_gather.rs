//! Scatter and all_gather (van de Geijn): the vector is cut into n chunks, which a binomial tree scatters; then all ranks
//! gather them, as in `bruck`, but nobody is sent what the tree has brought to it already. *reduce*: a reduce_scatter as in `bruck`,
//! whose chunks a binomial tree then gathers.
//!
//! Ranks are counted from the root: chunk c goes to, or is summed by, the rank c places after it. So a subtree's chunks lie side
//! by side. The two halves have channels of their own: while one tile is gathered the next is scattered.
//!
//! Steps: 2 ceil(lg n). Bytes: the root sends (reduce: receives) 2 (n - 1)/n S, the others no more. reduce rounds an element
//! ceil(lg n) times.

use hcomm_ops::Rank;

use super::binomial::RADIX;
use super::bruck;
use super::group::{Group, ahead, log2_ceil};
use super::knomial_tree::Tree;
use super::runs::{Run, doublings, pieces};
use super::tally::Tally;
use super::{Algorithm, Call, Layout, NO_PAIRS, ONE_CHANNEL, only_of_two, serves_all};
use crate::choose::Work;
use crate::graph::{Builder, MAX_SPAN};
use crate::plan::Span;
use crate::request::Collective;
use crate::shape::BufferKind;

pub(super) const ALGORITHM: Algorithm = Algorithm {
    name: "scatter_all_gather",
    doc: "Scatters the vector over a tree and gathers its chunks everywhere; a reduce does the same backwards.",
    collectives: &[Collective::Broadcast, Collective::Reduce],
    channels: ONE_CHANNEL,
    pairs: NO_PAIRS,
    rank_order: only_of_two,
    refuses: serves_all,
    layout,
    work,
    build,
};

fn layout(call: &Call<'_>) -> Layout {
    Layout { channels: 2, span_chunks: bruck::longest(call.world), ..Layout::of(call.world) }
}

fn work(call: &Call<'_>) -> Work {
    let (n, steps) = (call.world, log2_ceil(call.world) as usize);
    let rank = |member: usize| ahead(call.root, member, n);
    let tree = Tree::new(RADIX, n, 0, 0);
    let size = |member: usize| tree.size(member);
    let mut tally = Tally::new(call);
    let down = call.collective == Collective::Broadcast;
    for (member, parent) in tree.edges() {
        let (from, to) = if down { (parent, member) } else { (member, parent) };
        tally.messages(rank(from), rank(to), size(member).div_ceil(MAX_SPAN as usize), size(member));
    }
    let tell = |from, to, messages, blocks| tally.messages(rank(from), rank(to), messages, blocks);
    let once = (n - 1) as f64 / n as f64;
    let levels = tree.depth();
    if down {
        bruck::gathered(n, size, tell);
        tally.work(waits(n), n).copying(1.0)
    } else {
        bruck::scattered(n, tell);
        tally.work(bruck::steps_to_scatter(n) + levels, n).reducing(once, steps)
    }
}

/// How many messages of a broadcast wait for one another.
fn waits(n: usize) -> usize {
    // By member: what it has of the blocks from its own on, as ends of runs, and after how many messages.
    let tree = Tree::new(RADIX, n, 0, 0);
    let scattered = |member: usize| vec![(tree.size(member), member.count_ones() as usize)];
    let mut runs: Vec<Vec<(usize, usize)>> = (0..n).map(scattered).collect();
    for (distance, offsets) in doublings(n) {
        for member in 0..n {
            let lacking = offsets.start.max(tree.size(member))..offsets.end;
            if lacking.is_empty() {
                continue;
            }
            let (from, to) = (lacking.start - distance, lacking.end - distance);
            let theirs = &runs[ahead(member, distance, n)];
            let begins = [0].into_iter().chain(theirs.iter().map(|(end, _)| *end));
            let needed = theirs.iter().zip(begins).filter(|((end, _), begin)| *end > from && *begin < to);
            let last = needed.map(|((_, waits), _)| *waits).max().unwrap_or(0);
            runs[member].push((lacking.end, last + 1));
        }
    }
    runs.iter().flatten().map(|(_, waits)| *waits).max().unwrap_or(0)
}

fn build(call: &Call<'_>, rank: Rank, b: &mut Builder) {
    let ranks = (0..call.world).map(|member| ahead(call.root, member, call.world)).collect();
    let members = Group::of(ranks, rank);
    let tree = Tree::new(RADIX, call.world, 0, members.me);
    match call.collective {
        Collective::Broadcast => broadcast(b, &members, &tree),
        _ => reduce(b, &members, &tree),
    }
}

fn broadcast(b: &mut Builder, members: &Group, tree: &Tree) {
    let most = bruck::longest(members.len());
    let held = if members.me == 0 { BufferKind::Input } else { BufferKind::Output };
    let subtree = |member: usize| pieces(chunks(held, member, tree.size(member)), most);
    match tree.parent() {
        Some(parent) => subtree(members.me).for_each(|piece| b.recv(members.rank(parent), 0, piece)),
        None => subtree(0).for_each(|piece| b.copy(piece, Span { buffer: BufferKind::Output, ..piece })),
    }
    for child in tree.children().into_iter().rev() {
        subtree(child).for_each(|piece| b.send(members.rank(child), 0, piece));
    }
    b.stage(1);
    bruck::all_gather(b, members, 1, |run: Run| run.of(held), |member| tree.size(member));
}

fn reduce(b: &mut Builder, members: &Group, tree: &Tree) {
    let size = tree.size(members.me);
    let held = match tree.parent() {
        None => chunks(BufferKind::Output, 0, size),
        Some(_) => b.scratch(chunks(BufferKind::Input, members.me, size)),
    };
    bruck::reduce_scatter(b, members, 0, |run: Run| run.of(BufferKind::Input), held.part(0, 1));
    b.stage(1);
    for child in tree.children() {
        let subtree = held.part((child - members.me) as u32, tree.size(child) as u32);
        pieces(subtree, MAX_SPAN).for_each(|piece| b.recv(members.rank(child), 1, piece));
    }
    if let Some(parent) = tree.parent() {
        pieces(held, MAX_SPAN).for_each(|piece| b.send(members.rank(parent), 1, piece));
    }
}

/// Chunks side by side.
fn chunks(buffer: BufferKind, first: usize, count: usize) -> Span {
    Span::new(buffer, first as u32, count as u32)
}
