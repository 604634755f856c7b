//! Dissemination barrier: in round k rank r tells rank r + 2^k that it, and all it has heard of, have arrived.
//!
//! Steps: ceil(lg n). Bytes: none, but every message is sent. A rank that has heard in all rounds has heard of everyone.
//!
//! What has been heard is written as a fold of empty messages, which gives the rounds their order.

use hcomm_ops::Rank;

use super::group::{ahead, behind, log2_ceil};
use super::tally::Tally;
use super::{Algorithm, Call, Layout, NO_PAIRS, ONE_CHANNEL, only_of_two, serves_all};
use crate::choose::Work;
use crate::graph::Builder;
use crate::plan::Span;
use crate::request::Collective;

pub(super) const ALGORITHM: Algorithm = Algorithm {
    name: "dissemination",
    doc: "In round k every rank tells the one 2^k places on who has arrived.",
    collectives: &[Collective::Barrier],
    channels: ONE_CHANNEL,
    pairs: NO_PAIRS,
    rank_order: only_of_two,
    refuses: serves_all,
    layout: |call| Layout { buffered: call.world == 2, ..Layout::of(1) },
    work,
    build,
};

fn work(call: &Call<'_>) -> Work {
    let rounds = log2_ceil(call.world);
    let mut tally = Tally::new(call);
    for round in 0..rounds {
        (0..call.world).for_each(|rank| tally.message(rank, ahead(rank, 1 << round, call.world), 0));
    }
    tally.work(rounds as usize, 1)
}

fn build(call: &Call<'_>, rank: Rank, b: &mut Builder) {
    let rounds = log2_ceil(call.world);
    let mut heard = Span::input(0);
    for round in 0..rounds {
        let (to, from) = (ahead(rank, 1 << round, call.world), behind(rank, 1 << round, call.world));
        b.send(to, 0, heard);
        let news = b.scratch(heard);
        b.recv(from, 0, news);
        let all = if round + 1 == rounds { Span::output(0) } else { b.scratch(heard) };
        b.reduce(&[heard, news], all);
        heard = all;
    }
}
