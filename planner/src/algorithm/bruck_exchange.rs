//! Bruck's all_to_all: a block for the rank i places on travels the powers of two that add up to i. In step k every rank sends
//! to the one 2^k places on all blocks that it holds for i with bit k set, its own and those that it passes on, in one message.
//!
//! Nothing is rotated: a list says where the block for each i is, and what a step sends is packed from there. A message
//! holds its blocks from the highest i down, so that what has come from ranks side by side can be copied to the output at once.
//!
//! Steps: ceil(lg n). Bytes sent per rank: about half the buffer per step, and as many are packed; at the end the whole buffer
//! is copied. Blocks cross ranks that do not know their lengths, so they must be equally long. Scratch: as much as all steps send and
//! receive.

use super::group::{Group, ahead, behind, log2_ceil};
use super::runs::pieces;
use super::tally::Tally;
use super::{Call, Layout};
use crate::choose::Work;
use crate::graph::{Builder, MAX_SPAN};
use crate::plan::Span;

pub(super) fn layout(call: &Call<'_>) -> Layout {
    let longest = steps(call.world).map(|step| (step.blocks.len() as u32).min(MAX_SPAN)).max().unwrap_or(1);
    // Where nothing is packed, blocks go from buffer to buffer: in place both ends would wait for one another.
    Layout { even: true, buffered: longest == 1, span_chunks: longest, ..Layout::of(1) }
}

pub(super) fn work(call: &Call<'_>) -> Work {
    let n = call.world;
    let mut tally = Tally::new(call);
    for step in steps(n) {
        for piece in pieces(Span::new(crate::BufferKind::Scratch, 0, step.blocks.len() as u32), MAX_SPAN) {
            (0..n).for_each(|rank| tally.message(rank, ahead(rank, step.distance, n), piece.count as usize));
        }
    }
    let packed: usize = steps(n).map(|step| step.blocks.len()).filter(|blocks| *blocks > 1).sum();
    tally.work(log2_ceil(n) as usize, n).copying(packed as f64 / n as f64 + 1.0)
}

pub(super) fn build(b: &mut Builder, world: &Group) {
    let n = world.len();
    let mut place: Vec<Span> = (0..n).map(|i| Span::input(ahead(world.me, i, n) as u32)).collect();
    for step in steps(n) {
        let like = Span::input(world.me as u32);
        let count = step.blocks.len() as u32;
        let packed = pack(b, &step, &place, like);
        let arrived = b.scratch_run(like, count);
        let (to, from) = (ahead(world.me, step.distance, n), behind(world.me, step.distance, n));
        for (sent, kept) in pieces(packed, MAX_SPAN).zip(pieces(arrived, MAX_SPAN)) {
            b.send(world.rank(to), 0, sent);
            b.recv(world.rank(from), 0, kept);
        }
        step.blocks.iter().zip(0..).for_each(|(i, at)| place[*i] = arrived.part(at, 1));
    }
    unpack(b, world, &place);
}

/// One step.
struct Step {
    distance: usize,
    /// How far the blocks of its message have to go in all, the farthest first.
    blocks: Vec<usize>,
}

fn steps(world: usize) -> impl Iterator<Item = Step> {
    (0..log2_ceil(world)).map(move |bit| Step {
        distance: 1 << bit,
        blocks: (1..world).rev().filter(|i| i >> bit & 1 == 1).collect(),
    })
}

/// The blocks of a message side by side; a single one stays where it is.
fn pack(b: &mut Builder, step: &Step, place: &[Span], like: Span) -> Span {
    if let [only] = step.blocks[..] {
        return place[only];
    }
    let packed = b.scratch_run(like, step.blocks.len() as u32);
    for (i, at) in step.blocks.iter().zip(0..) {
        b.copy(place[*i], packed.part(at, 1));
    }
    packed
}

/// Copies the blocks to the output, those that lie side by side in both at once: the block that has come i places is
/// that of the rank i places before.
fn unpack(b: &mut Builder, world: &Group, place: &[Span]) {
    let n = world.len();
    let mut copies: Vec<(Span, Span)> = Vec::new();
    for i in (0..n).rev() {
        let into = Span::output(behind(world.me, i, n) as u32);
        match copies.last_mut() {
            Some((from, to)) if follows(*from, place[i]) && follows(*to, into) && from.count < MAX_SPAN => {
                (from.count, to.count) = (from.count + 1, to.count + 1);
            }
            _ => copies.push((place[i], into)),
        }
    }
    copies.into_iter().for_each(|(from, to)| b.copy(from, to));
}

/// Whether `next` lies right after `span`.
fn follows(span: Span, next: Span) -> bool {
    span.buffer == next.buffer && span.first + span.count == next.first
}
