//! Pairwise all_to_all: at step s ranks r and (s - r) mod n exchange their blocks for one another.
//!
//! Steps: n (n - 1 of them exchange). Bytes sent per rank: (n - 1)/n of the buffer. The pairing is symmetric, so that in
//! place block j leaves for rank j before rank j's block takes its room; as both ends do the same, that needs copying paths.

use hcomm_ops::Rank;

use super::group::behind;
use super::tally::all_pairs;
use super::{Algorithm, Call, Layout, NO_PAIRS, ONE_CHANNEL, only_of_two, serves_all};
use crate::choose::Work;
use crate::graph::Builder;
use crate::plan::Span;
use crate::request::Collective;

pub(super) const ALGORITHM: Algorithm = Algorithm {
    name: "pairwise",
    doc: "Ranks pair up, another pair at each step, and exchange blocks.",
    collectives: &[Collective::AllToAll],
    channels: ONE_CHANNEL,
    pairs: NO_PAIRS,
    rank_order: only_of_two,
    refuses: serves_all,
    layout: |_| Layout { buffered: true, ..Layout::of(1) },
    work,
    build,
};

fn work(call: &Call<'_>) -> Work {
    all_pairs(call, 1, 1, 1).copying(1.0 / call.world as f64)
}

fn build(call: &Call<'_>, rank: Rank, b: &mut Builder) {
    for step in 0..call.world {
        let peer = behind(step, rank, call.world);
        let (out, into) = (Span::input(peer as u32), Span::output(peer as u32));
        if peer == rank {
            b.copy(out, into);
        } else {
            b.send(peer, 0, out);
            b.recv(peer, 0, into);
        }
    }
}
