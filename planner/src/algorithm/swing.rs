//! Swing: halving and doubling among peers that lie at +-1, -+1, +-3, -+5, ... places on the ring of ranks, so that traffic stays
//! near on rings and tori.
//!
//! At step s an even rank r pairs with r + rho(s), an odd one with r - rho(s), rho(s) = (1 - (-2)^(s+1)) / 3. Reducing, a rank
//! sends at each step the blocks that its peer is nearer to, and keeps the others; gathering goes through the same steps the
//! other way round. Worlds must be even.
//!
//! In an even world that is no power of two a block can meet a rank twice on its way out. Gathering, a rank takes only what it
//! has not got yet; reducing is exactly that, turned round, so that every contribution is counted once. What passes is then
//! in several pieces per step: blocks lie in the order of the ranks. In a power of two they lie in an order in which the
//! blocks of every step are one run.
//!
//! Steps: 2 ceil(lg n). Bytes sent per rank: 2(n - 1)/n S. An element is rounded once per step of the reduction.

use hcomm_ops::Rank;

use super::swing_peers::{Piece, Swing};
use super::tally::Tally;
use super::{Algorithm, Call, Layout, NO_PAIRS, ONE_CHANNEL, only_of_two};
use crate::choose::Work;
use crate::graph::{Builder, MAX_SPAN};
use crate::plan::Span;
use crate::request::Collective;
use crate::shape::BufferKind;

pub(super) const ALGORITHM: Algorithm = Algorithm {
    name: "swing",
    doc: "Halves the vector, reducing, and doubles it back, between peers that swing to and fro on the ring of ranks.",
    collectives: &[Collective::AllReduce],
    channels: ONE_CHANNEL,
    pairs: NO_PAIRS,
    rank_order: only_of_two,
    refuses,
    layout,
    work,
    build,
};

fn refuses(call: &Call<'_>) -> Option<String> {
    let odd = call.world > 1 && call.world % 2 == 1;
    odd.then(|| format!("needs an even number of ranks, not {}", call.world))
}

fn layout(call: &Call<'_>) -> Layout {
    let longest = Swing::new(call.world).longest_piece() as u32;
    Layout { channels: 2, span_chunks: longest.min(MAX_SPAN), ..Layout::of(call.world) }
}

fn work(call: &Call<'_>) -> Work {
    let (swing, n) = (Swing::new(call.world), call.world);
    let mut tally = Tally::in_rounds(call);
    let mut pass = |step: usize, pieces: [Vec<Piece>; 2]| {
        for rank in 0..n {
            let pieces = &pieces[rank % 2];
            let blocks = pieces.iter().map(|piece| piece.count as usize).sum();
            tally.messages(rank, swing.peer(rank, step), pieces.len(), blocks);
        }
        tally.end_round();
    };
    // All even ranks do the same, and all odd ones, but for where what they move wraps round.
    (0..swing.steps()).for_each(|step| pass(step, [0, 1].map(|rank| swing.given(rank, step))));
    (0..swing.steps()).rev().for_each(|step| pass(step, [0, 1].map(|rank| swing.finished(rank, step, true))));
    let n = n as f64;
    tally.work_in_rounds(call.world).reducing((n - 1.0) / n, swing.steps())
}

fn build(call: &Call<'_>, rank: Rank, b: &mut Builder) {
    let swing = Swing::new(call.world);
    let span = |buffer: BufferKind, piece: &Piece| Span::new(buffer, piece.block, piece.count);
    // What has been added to lies in the output.
    let buffer = |held: u64| if held == 1 { BufferKind::Input } else { BufferKind::Output };
    for step in 0..swing.steps() {
        let peer = swing.peer(rank, step);
        let (given, taken) = (swing.given(rank, step), swing.taken(rank, step));
        for i in 0..given.len().max(taken.len()) {
            if let Some(piece) = given.get(i) {
                b.send(peer, 0, span(buffer(piece.held), piece));
            }
            if let Some(piece) = taken.get(i) {
                let own = span(buffer(piece.held), piece);
                let arrived = b.scratch(own);
                b.recv_partial(peer, 0, arrived, piece.held_there);
                b.reduce(&[own, arrived], span(BufferKind::Output, piece));
            }
        }
    }
    b.stage(1);
    for step in (0..swing.steps()).rev() {
        let peer = swing.peer(rank, step);
        let (sent, got) = (swing.finished(rank, step, true), swing.finished(rank, step, false));
        for i in 0..sent.len().max(got.len()) {
            sent.get(i).into_iter().for_each(|piece| b.send(peer, 1, span(BufferKind::Output, piece)));
            got.get(i).into_iter().for_each(|piece| b.recv(peer, 1, span(BufferKind::Output, piece)));
        }
    }
}
