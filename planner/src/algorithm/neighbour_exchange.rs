//! Neighbour exchange: ranks pair up, 0 with 1, 2 with 3 and so on, and exchange blocks; from then on every rank exchanges
//! with its two neighbours in turn, and gives each the two blocks that it got last from the other.
//!
//! After the first step both ranks of a pair have the pair's blocks, which stay together. So pair p gets the blocks of the pairs
//! p - 1, p + 1, p - 2, p + 2 and so on: its even rank first those from the left, its odd rank first those from the right.
//!
//! Steps: n/2. Bytes sent per rank: (n - 1)/n of the buffer. Only neighbours talk, half as often as on a ring. The world must
//! be even.

use hcomm_ops::Rank;

use super::group::{ahead, behind};
use super::tally::Tally;
use super::{Algorithm, Call, Layout, NO_PAIRS, ONE_CHANNEL, only_of_two};
use crate::choose::Work;
use crate::graph::Builder;
use crate::plan::Span;
use crate::request::Collective;
use crate::shape::BufferKind;

pub(super) const ALGORITHM: Algorithm = Algorithm {
    name: "neighbour_exchange",
    doc: "Every rank exchanges two blocks with one neighbour, then with the other, in turn.",
    collectives: &[Collective::AllGather],
    channels: ONE_CHANNEL,
    pairs: NO_PAIRS,
    rank_order: only_of_two,
    refuses,
    layout: |call| Layout { span_chunks: if call.world == 2 { 1 } else { 2 }, ..Layout::of(1) },
    work,
    build,
};

fn refuses(call: &Call<'_>) -> Option<String> {
    (call.world % 2 == 1 && call.world > 1)
        .then(|| format!("needs an even number of ranks, not {}", call.world))
}

fn work(call: &Call<'_>) -> Work {
    let (steps, n) = (call.world / 2, call.world);
    let mut tally = Tally::new(call);
    for rank in 0..2 * steps {
        // With the partner at steps 0, 2, 4 and so on, with the other neighbour in between.
        let (with_partner, others) = (steps.div_ceil(2), steps / 2);
        tally.messages(rank, rank ^ 1, with_partner, 2 * with_partner - 1);
        tally.messages(rank, neighbour(n, rank, 1), others, 2 * others);
    }
    tally.work(steps, n).copying(1.0 / n as f64)
}

fn build(call: &Call<'_>, rank: Rank, b: &mut Builder) {
    let world = call.world;
    b.copy(Span::input(0), Span::output(rank as u32));
    let partner = rank ^ 1;
    b.send(partner, 0, Span::input(0));
    b.recv(partner, 0, Span::output(partner as u32));
    let mut latest = rank / 2;
    for step in 1..world / 2 {
        let other = neighbour(world, rank, step);
        let next = pair_at(world / 2, rank, step);
        b.send(other, 0, pair(latest));
        b.recv(other, 0, pair(next));
        latest = next;
    }
}

/// Whom a rank exchanges with at a step after the first: even ranks with the left one, then the right one; odd ranks the
/// other way round.
fn neighbour(world: usize, rank: Rank, step: usize) -> Rank {
    if (rank + step) % 2 == 1 { behind(rank, 1, world) } else { ahead(rank, 1, world) }
}

/// The pair whose blocks a rank gets at a step after the first.
fn pair_at(pairs: usize, rank: Rank, step: usize) -> usize {
    let away = step.div_ceil(2);
    if (rank + step) % 2 == 1 { behind(rank / 2, away, pairs) } else { ahead(rank / 2, away, pairs) }
}

fn pair(pair: usize) -> Span {
    Span::new(BufferKind::Output, 2 * pair as u32, 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_pair_up_and_give_what_they_got_last() {
        for world in (4..40).step_by(2) {
            for rank in 0..world {
                for step in 1..world / 2 {
                    let other = neighbour(world, rank, step);
                    assert_eq!(neighbour(world, other, step), rank, "step {step} of {world}");
                    let had = if step == 1 { other / 2 } else { pair_at(world / 2, other, step - 1) };
                    assert_eq!(pair_at(world / 2, rank, step), had, "rank {rank}, step {step} of {world}");
                }
            }
        }
    }
}
