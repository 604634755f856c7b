//! The algorithms: a file each, and the one list of them.
//!
//! An algorithm writes one rank's operations in program order; which messages it exchanges follows from [`Call`] alone,
//! which all ranks know. Passes fuse and place what it writes.

mod binomial;
mod bruck;
mod bruck_exchange;
mod chain;
mod direct;
mod dissemination;
mod double_tree;
mod group;
mod halving;
mod halving_doubling;
mod hierarchical;
mod knomial;
mod knomial_tree;
mod local;
mod multi_ring;
mod neighbour_exchange;
mod one_shot;
mod pairwise;
mod pat;
mod rails;
mod recursive_doubling;
mod recursive_halving;
mod reduce_broadcast;
mod ring;
mod rings;
mod runs;
mod scatter_all_gather;
mod step;
mod swing;
mod swing_peers;
mod tally;
mod tree;
mod trees;
mod two_shot;
mod uneven_hosts;

use hcomm_ops::{DType, Rank, ReduceOp};

use crate::choose::Work;
use crate::graph::{Builder, Graph};
use crate::plan::MAX_CHANNELS;
use crate::request::{Collective, Request};
use crate::topology::Topology;
use crate::verify::FoldOrder;

/// What the counts of a call look like to all ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Variant {
    /// All blocks are equally long.
    Even,
    /// Every rank knows every block's length.
    Listed,
    /// Each rank knows the lengths of its own blocks only.
    Local,
}

/// What all ranks know of a call, counts aside.
#[derive(Clone, Copy, Debug)]
pub struct Call<'a> {
    /// What is asked for.
    pub collective: Collective,
    /// Element type.
    pub dtype: DType,
    /// Reduction.
    pub op: ReduceOp,
    /// The special rank, or 0.
    pub root: Rank,
    /// What the counts look like.
    pub variant: Variant,
    /// Ranks.
    pub world: usize,
    /// Where they are.
    pub topology: &'a Topology,
    /// The result must be the left fold over the ranks, in a reduction whose bits depend on the order.
    pub deterministic: bool,
    /// Channels that the algorithm spreads its bytes over, within [`Algorithm::channels`].
    pub channels: u8,
    /// The two algorithms that it is made of, where it is made of two.
    pub pair: Option<Pair>,
}

/// The registry names of the two algorithms that a composed one is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Pair {
    /// The first, or inner one.
    pub first: &'static str,
    /// The second, or outer one.
    pub second: &'static str,
}

impl std::fmt::Display for Pair {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{},{}", self.first, self.second)
    }
}

impl<'a> Call<'a> {
    /// The common part of a request, on one channel.
    pub fn new(request: &Request, world: usize, topology: &'a Topology) -> Call<'a> {
        let variant = request.counts.variant();
        let Request { collective, dtype, op, root, .. } = *request;
        let deterministic = request.deterministic && !op.is_exact(dtype);
        Call { collective, dtype, op, root, variant, world, topology, deterministic, channels: 1, pair: None }
    }

    /// The same, over so many channels.
    pub fn with_channels(self, channels: u8) -> Call<'a> {
        Call { channels, ..self }
    }

    /// The same, by two other algorithms.
    pub fn with_pair(self, pair: Option<Pair>) -> Call<'a> {
        Call { pair, ..self }
    }
}

/// The parameters of a plan: equal on all ranks, and part of its id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Chunks per block.
    pub parts: u32,
    /// Channels per pair and direction.
    pub channels: u8,
    /// Most chunks in one message.
    pub span_chunks: u32,
    /// Right only where a message is copied as it is sent.
    pub buffered: bool,
    /// Right only for equally long blocks.
    pub even: bool,
    /// Hash of what else the messages depend on, such as which ranks share a host.
    pub salt: u64,
}

impl Layout {
    /// `parts` chunks per block and one channel.
    pub const fn of(parts: usize) -> Layout {
        Layout { parts: parts as u32, channels: 1, span_chunks: 1, buffered: false, even: false, salt: 0 }
    }
}

/// One entry of the registry.
#[derive(Debug)]
pub struct Algorithm {
    /// Its name, as pinned by a request and shown in drawings.
    pub name: &'static str,
    /// One sentence on how it works.
    pub doc: &'static str,
    /// The collectives it carries out.
    pub collectives: &'static [Collective],
    /// The numbers of channels that the planner chooses among, ascending, at least one; a request may name any from the first to
    /// the last, over all of which it can spread its bytes.
    pub channels: &'static [u8],
    /// For one that is made of two others, the pairs that the planner chooses among; a request may pin any other.
    pub pairs: &'static [Pair],
    /// Whether a reduction is the left fold over the ranks in the accumulate type, as `deterministic` asks. As what it
    /// refuses, this may not depend on the root: one choice is made for all.
    pub rank_order: fn(&Call<'_>) -> bool,
    /// Why it cannot serve a call of one of its collectives, if so.
    pub refuses: fn(&Call<'_>) -> Option<String>,
    /// Its parameters for a call.
    pub layout: fn(&Call<'_>) -> Layout,
    /// What it costs, for the cost model; the world has at least two ranks.
    pub work: fn(&Call<'_>) -> Work,
    /// Writes one rank's program; the world has at least two ranks.
    build: fn(&Call<'_>, Rank, &mut Builder),
}

/// Every algorithm. To add one: a file here, and its line in this list.
pub static ALGORITHMS: &[Algorithm] = &[
    one_shot::ALGORITHM,
    two_shot::ALGORITHM,
    tree::ALGORITHM,
    direct::ALGORITHM,
    pairwise::ALGORITHM,
    dissemination::ALGORITHM,
    recursive_doubling::ALGORITHM,
    binomial::ALGORITHM,
    knomial::ALGORITHM,
    chain::ALGORITHM,
    double_tree::ALGORITHM,
    swing::ALGORITHM,
    scatter_all_gather::ALGORITHM,
    neighbour_exchange::ALGORITHM,
    bruck::ALGORITHM,
    pat::ALGORITHM,
    recursive_halving::ALGORITHM,
    halving_doubling::ALGORITHM,
    ring::ALGORITHM,
    multi_ring::ALGORITHM,
    reduce_broadcast::ALGORITHM,
    hierarchical::ALGORITHM,
];

impl Algorithm {
    /// The algorithm of that name.
    pub fn named(name: &str) -> Option<&'static Algorithm> {
        ALGORITHMS.iter().find(|a| a.name == name)
    }

    /// Whether it can serve a call; the error says why not.
    pub fn supports(&self, call: &Call<'_>) -> Result<(), String> {
        if !self.collectives.contains(&call.collective) {
            let names = self.collectives.iter().map(|c| c.name()).collect::<Vec<_>>().join(", ");
            return Err(format!("does {names}, not {}", call.collective));
        }
        let (fewest, most) = (self.channels[0], self.channels[self.channels.len() - 1]);
        if !(fewest..=most).contains(&call.channels) {
            let range = if fewest == most { fewest.to_string() } else { format!("{fewest} to {most}") };
            let plural = if most == 1 { "" } else { "s" };
            return Err(format!("runs over {range} channel{plural}, not {}", call.channels));
        }
        if self.pairs.is_empty() != call.pair.is_none() {
            let made = if self.pairs.is_empty() { "is not made of" } else { "is made of" };
            return Err(format!("{made} two other algorithms"));
        }
        if let Some(reason) = (self.refuses)(call) {
            return Err(reason);
        }
        if call.deterministic && call.collective.reduces() && call.world > 1 && !(self.rank_order)(call) {
            return Err(self.disorder(call));
        }
        let layout = self.layout(call);
        if layout.even && call.variant != Variant::Even {
            return Err("needs blocks of equal length".to_owned());
        }
        let rounds = call.collective.reduces() && !call.op.is_exact(call.dtype) && call.world > 1;
        if rounds && is_eight_bit_float(call.dtype) {
            let roundings = self.work(call).roundings;
            if roundings > 1 {
                return Err(format!("rounds an element {roundings} times, and {} allows once", call.dtype));
            }
        }
        Ok(())
    }

    /// Why its reduction is not the one that a deterministic call asks for.
    fn disorder(&self, call: &Call<'_>) -> String {
        if (self.rank_order)(&Call { dtype: DType::F64, ..*call }) {
            let (dtype, roundings) = (call.dtype, self.work(call).roundings);
            return format!("rounds an element to {dtype} {roundings} times, and deterministic allows once");
        }
        "does not fold in rank order, as deterministic asks".to_owned()
    }

    /// Its parameters for a call it supports.
    pub fn layout(&self, call: &Call<'_>) -> Layout {
        if call.world == 1 { Layout::of(1) } else { (self.layout)(call) }
    }

    /// How its plans of a call fold, whatever the type: the least order by which it may serve the deterministic calls that it says it does.
    pub(crate) fn fold_order(&self, call: &Call<'_>) -> FoldOrder {
        let of = |dtype| call.world == 1 || (self.rank_order)(&Call { dtype, ..*call });
        match (of(DType::F64), of(DType::BF16)) {
            (_, true) => FoldOrder::AtOnce,
            (true, false) => FoldOrder::RankByRank,
            (false, false) => FoldOrder::Any,
        }
    }

    /// What it costs for a call it supports.
    pub fn work(&self, call: &Call<'_>) -> Work {
        if call.world == 1 { Work::default() } else { (self.work)(call) }
    }

    /// One rank's program, not yet fused or placed.
    pub(crate) fn build(&self, call: &Call<'_>, rank: Rank) -> Graph {
        let layout = self.layout(call);
        debug_assert!(usize::from(layout.channels) <= MAX_CHANNELS);
        let mut builder = Builder::new(call.collective, call.world, rank, call.root, layout.parts);
        match call.world {
            1 => local::build(&mut builder),
            _ => (self.build)(call, rank, &mut builder),
        }
        builder.build()
    }
}

/// Whether a type is only reduced by plans that round an element once.
pub(crate) fn is_eight_bit_float(dtype: DType) -> bool {
    matches!(dtype, DType::F8E4M3 | DType::F8E5M2)
}

/// Whether a type is folded in a wider one.
pub(crate) fn is_narrow(dtype: DType) -> bool {
    matches!(dtype, DType::F16 | DType::BF16) || is_eight_bit_float(dtype)
}

/// For algorithms that spread nothing.
const ONE_CHANNEL: &[u8] = &[1];

/// For algorithms that are made of no others.
const NO_PAIRS: &[Pair] = &[];

/// Every fold takes the ranks in order, all at once.
fn in_rank_order(_: &Call<'_>) -> bool {
    true
}

/// Folds as they come, which only two ranks cannot tell from rank order.
fn only_of_two(call: &Call<'_>) -> bool {
    call.world == 2
}

/// Refuses nothing.
fn serves_all(_: &Call<'_>) -> Option<String> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_distinct_and_every_collective_has_an_algorithm() {
        for (i, a) in ALGORITHMS.iter().enumerate() {
            assert!(ALGORITHMS[..i].iter().all(|b| b.name != a.name), "{} twice", a.name);
            assert!(a.doc.ends_with('.'), "{}", a.name);
        }
        for collective in Collective::ALL {
            assert!(ALGORITHMS.iter().any(|a| a.collectives.contains(&collective)), "{collective}");
        }
    }
}
