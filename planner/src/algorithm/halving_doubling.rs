//! Halving and doubling (Rabenseifner): a reduce_scatter by recursive halving, then an all_gather by recursive doubling.
//!
//! In every halving a rank sends what it has of the other half's blocks to a peer there and adds what it gets to its own
//! half's, until it has one block, complete. The doublings are the same steps in the other order, with finished blocks.
//!
//! Worlds that are no power of two halve unevenly: the rank that is left over sends to a peer that has another one already,
//! and gets the finished blocks from it. Next to letting the excess ranks sleep this costs no step and no whole vector, and
//! next to binary blocks no step either; the price is that a rank with two peers receives twice as much in that step.
//!
//! Steps: 2 ceil(lg n). Bytes sent per rank: 2(n - 1)/n S; up to twice that for a rank with two peers. An element is
//! rounded once per halving. Near ranks pair first, when most bytes pass: between hosts only S over the ranks of a host does.

use hcomm_ops::Rank;

use super::halving::{Half, Halving, halvings, levels};
use super::runs;
use super::tally::Tally;
use super::{Algorithm, Call, Layout, NO_PAIRS, ONE_CHANNEL, only_of_two, serves_all};
use crate::choose::Work;
use crate::graph::{Builder, MAX_SPAN};
use crate::plan::Span;
use crate::request::Collective;
use crate::shape::BufferKind;

pub(super) const ALGORITHM: Algorithm = Algorithm {
    name: "halving_doubling",
    doc: "Halves the vector between ever farther peers, reducing, and doubles it back the same way.",
    collectives: &[Collective::AllReduce],
    channels: ONE_CHANNEL,
    pairs: NO_PAIRS,
    rank_order: only_of_two,
    refuses: serves_all,
    layout,
    work,
    build,
};

fn layout(call: &Call<'_>) -> Layout {
    let longest = call.world.div_ceil(2) as u32;
    Layout { channels: 2, span_chunks: longest.min(MAX_SPAN), ..Layout::of(call.world) }
}

fn work(call: &Call<'_>) -> Work {
    let (levels, n) = (levels(call.world), call.world);
    let mut tally = Tally::in_rounds(call);
    let mut exchange = |level: &[Half], back: bool| {
        for (from, to, half) in level.iter().flat_map(|group| group.pairs()) {
            let (from, to) = if back { (to, from) } else { (from, to) };
            tally.messages(from, to, half.size.div_ceil(MAX_SPAN as usize), half.size);
        }
        tally.end_round();
    };
    levels.iter().for_each(|level| exchange(level, false));
    levels.iter().rev().for_each(|level| exchange(level, true));
    let mut folded = vec![0; n];
    let pairs = levels.iter().flatten().flat_map(|group| group.pairs());
    pairs.for_each(|(_, to, half)| folded[to] += half.size);
    let most = folded.into_iter().max().unwrap_or(0) as f64;
    // The last rank of an odd world keeps its half as it is.
    let copied = if n % 2 == 1 { n.div_ceil(2) as f64 } else { 0.0 };
    let n = n as f64;
    tally.work_in_rounds(call.world).reducing(most / n, levels.len()).copying(copied / n)
}

fn build(call: &Call<'_>, rank: Rank, b: &mut Builder) {
    let halvings = halvings(call.world, rank);
    let mut held = BufferKind::Input;
    for halving in &halvings {
        reduce(b, halving, held);
        held = BufferKind::Output;
    }
    b.stage(1);
    for halving in halvings.iter().rev() {
        gather(b, halving);
    }
}

/// Sends one half of what is in `held` and adds what comes to the other half. Of messages in several pieces no more than one
/// is under way each way.
fn reduce(b: &mut Builder, halving: &Halving, held: BufferKind) {
    let (mine, theirs) = (pieces(halving.mine), pieces(halving.theirs));
    for piece in 0..mine.len().max(theirs.len()) {
        if let Some(piece) = theirs.get(piece) {
            b.send(halving.to, 0, Span { buffer: held, ..*piece });
        }
        if let Some(sum) = mine.get(piece) {
            let mut sources = vec![Span { buffer: held, ..*sum }];
            for (from, contributions) in &halving.from {
                let arrived = b.scratch(*sum);
                b.recv_partial(*from, 0, arrived, *contributions);
                sources.push(arrived);
            }
            // Nobody adds to a sum that is in place already.
            if sources[..] != [*sum] {
                b.reduce(&sources, *sum);
            }
        }
    }
}

/// The same backwards, with finished blocks.
fn gather(b: &mut Builder, halving: &Halving) {
    let (mine, theirs) = (pieces(halving.mine), pieces(halving.theirs));
    for piece in 0..mine.len().max(theirs.len()) {
        if let Some(piece) = mine.get(piece) {
            halving.from.iter().for_each(|(peer, _)| b.send(*peer, 1, *piece));
        }
        if let Some(piece) = theirs.get(piece) {
            b.recv(halving.to, 1, *piece);
        }
    }
}

/// The blocks of a half in the output, in pieces that a message can hold.
fn pieces(half: Half) -> Vec<Span> {
    let whole = Span::new(BufferKind::Output, half.block as u32, half.size as u32);
    runs::pieces(whole, MAX_SPAN).collect()
}
