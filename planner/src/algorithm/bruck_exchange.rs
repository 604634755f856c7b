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
        let (messages, blocks) = (step.pieces().count(), step.blocks.len());
        (0..n).for_each(|rank| tally.messages(rank, ahead(rank, step.distance, n), messages, blocks));
    }
    tally.work(waits(n), n).copying((packed(n) + unpacked(n)) as f64 / n as f64)
}

/// How many messages wait for one another.
fn waits(world: usize) -> usize {
    let mut ready = vec![0; world];
    for step in steps(world) {
        let last = 1 + step.blocks.iter().map(|i| ready[*i]).max().unwrap_or(0);
        step.blocks.iter().for_each(|i| ready[*i] = last);
    }
    ready.into_iter().max().unwrap_or(0)
}

/// How many blocks a rank packs.
fn packed(world: usize) -> usize {
    steps(world).map(|step| step.blocks.len()).filter(|blocks| *blocks > 1).sum()
}

/// How many blocks a rank copies to the output: a message that brings only blocks which go no further is received there, unless the
/// output's end cuts it, which is so for one at most.
fn unpacked(world: usize) -> usize {
    let goes_on = |step: &Step, i: usize| i >= 2 * step.distance;
    let at_once = |step: &Step| -> Vec<usize> {
        let pieces = step.pieces().filter(|piece| piece.iter().all(|i| !goes_on(step, *i)));
        pieces.map(<[usize]>::len).collect()
    };
    let at_once: Vec<usize> = steps(world).flat_map(|step| at_once(&step)).collect();
    let cut = at_once.iter().copied().filter(|blocks| *blocks > 1).max().unwrap_or(0);
    world - at_once.iter().sum::<usize>() + cut
}

pub(super) fn build(b: &mut Builder, world: &Group) {
    let n = world.len();
    let own = |i: usize| Place { span: Span::input(ahead(world.me, i, n) as u32), message: 0 };
    let mut place: Vec<Place> = (0..n).map(own).collect();
    let mut messages = 0;
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
        for (i, at) in step.blocks.iter().zip(0..) {
            place[*i] = Place { span: arrived.part(at, 1), message: messages + at / MAX_SPAN + 1 };
        }
        messages += count.div_ceil(MAX_SPAN);
    }
    unpack(b, world, &place);
}

/// Where a block is, and the number of the message that it came in, or 0.
#[derive(Clone, Copy)]
struct Place {
    span: Span,
    message: u32,
}

/// One step.
struct Step {
    distance: usize,
    /// How far the blocks of its message have to go in all, the farthest first.
    blocks: Vec<usize>,
}

impl Step {
    /// The blocks of each of its messages.
    fn pieces(&self) -> impl Iterator<Item = &[usize]> {
        self.blocks.chunks(MAX_SPAN as usize)
    }
}

fn steps(world: usize) -> impl Iterator<Item = Step> {
    (0..log2_ceil(world)).map(move |bit| Step {
        distance: 1 << bit,
        blocks: (1..world).rev().filter(|i| i >> bit & 1 == 1).collect(),
    })
}

/// The blocks of a message side by side; a single one stays where it is.
fn pack(b: &mut Builder, step: &Step, place: &[Place], like: Span) -> Span {
    if let [only] = step.blocks[..] {
        return place[only].span;
    }
    let packed = b.scratch_run(like, step.blocks.len() as u32);
    for (i, at) in step.blocks.iter().zip(0..) {
        b.copy(place[*i].span, packed.part(at, 1));
    }
    packed
}

/// Copies the blocks to the output, those of one message that lie side by side in both at once: the block that has come i
/// places is that of the rank i places before.
fn unpack(b: &mut Builder, world: &Group, place: &[Place]) {
    let n = world.len();
    let mut copies: Vec<(Place, Span)> = Vec::new();
    for i in (0..n).rev() {
        let (from, to) = (place[i], Span::output(behind(world.me, i, n) as u32));
        match copies.last_mut() {
            Some((first, into))
                if first.message == from.message && follows(first.span, from.span) && follows(*into, to) =>
            {
                (first.span.count, into.count) = (first.span.count + 1, into.count + 1);
            }
            _ => copies.push((from, to)),
        }
    }
    copies.into_iter().for_each(|(from, to)| b.copy(from.span, to));
}

/// Whether `next` lies right after `span`.
fn follows(span: Span, next: Span) -> bool {
    span.buffer == next.buffer && span.first + span.count == next.first
}
