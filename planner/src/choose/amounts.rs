//! [`Amounts`]: how much of each thing that has a price a call takes, and [`Demand`], from which they follow for any size and tile.
//!
//! A call's time is that of its busiest rank, and of what that rank waits for. A rank repeats its program for every tile; so
//!
//! - the *steps* of the first tile wait for one another, and each takes a latency;
//! - every *message* of every tile takes processor time;
//! - in later tiles a message that waits for one before it *waits* again, but less: other tiles are under way;
//! - the rank's *bytes* pass over its links, and where the steps are more than its own messages (a chain, a tree), the last rank
//!   has its first tile only after that tile has passed over all of them.

use super::{Candidate, PerLink, Work};
use crate::algorithm::Call;
use crate::request::Collective;
use crate::shape;
use crate::topology::LinkClass;

/// What a call takes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Amounts {
    /// Messages that wait for one another.
    pub steps: PerLink,
    /// Messages of the busiest rank, in all tiles.
    pub messages: PerLink,
    /// Messages in tiles after the first that wait for another of the same tile.
    pub waits: PerLink,
    /// Bytes over the busiest link, and those that it waits for.
    pub bytes: PerLink,
    /// Bytes folded.
    pub reduced_bytes: f64,
    /// Bytes copied beside that.
    pub copied_bytes: f64,
}

impl Amounts {
    /// The amounts in the order of `Prices`, of one class of link. Where all links are of one class these are all amounts.
    pub fn to_array(&self, class: LinkClass) -> [f64; super::Prices::COUNT] {
        let links = [self.steps, self.messages, self.waits, self.bytes].map(|amount| amount.of(class));
        let [steps, messages, waits, bytes] = links;
        [steps, messages, waits, bytes, self.reduced_bytes, self.copied_bytes]
    }
}

/// A candidate's work, and how the bytes of a call fall into its messages.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Demand {
    /// What it asks of the busiest rank.
    pub work: Work,
    /// Chunks of the full buffer.
    chunks: u64,
    /// Most chunks in one message.
    span_chunks: u32,
}

impl Demand {
    /// The demand of a candidate that supports the call.
    pub fn new(candidate: &Candidate, call: &Call<'_>) -> Demand {
        if call.world == 1 {
            let work = Work { copied: 1.0, ..Work::default() };
            return Demand { work, chunks: 1, span_chunks: 1 };
        }
        let layout = candidate.algorithm.layout(&candidate.apply(call));
        let chunks = blocks(call) * u64::from(layout.parts.max(1));
        Demand { work: candidate.work(call), chunks, span_chunks: layout.span_chunks }
    }

    /// How many tiles a buffer of `bytes` is moved in.
    pub fn tiles(&self, bytes: u64, tile_bytes: u64) -> u64 {
        // What a tile is cut to for elements that do not divide 128 matters to nobody here.
        let tile = shape::tile_bytes(tile_bytes, self.span_chunks, 1);
        shape::trip_count(bytes.div_ceil(self.chunks), tile)
    }

    /// What a call on a full buffer of `bytes` takes.
    pub fn at(&self, bytes: u64, tile_bytes: u64) -> Amounts {
        let tiles = self.tiles(bytes, tile_bytes) as f64;
        let (bytes, work) = (bytes as f64, &self.work);
        let per_tile = bytes / tiles;
        let sent = work.sent.local + work.sent.remote;
        let mut amounts = Amounts { steps: work.steps, ..Amounts::default() };
        let mut late_bytes = 0.0;
        for class in [LinkClass::Local, LinkClass::Remote] {
            let (steps, messages) = (work.steps.of(class), work.messages.of(class));
            let own = steps.min(messages);
            let hop = if messages > 0.0 { work.sent.of(class) / messages } else { 0.0 };
            let late = (steps * hop - work.sent.of(class)).max(0.0) * per_tile;
            amounts.messages.set(class, tiles * messages + (steps - own));
            amounts.waits.set(class, (tiles - 1.0) * own);
            amounts.bytes.set(class, work.sent.of(class) * bytes + late);
            late_bytes += late;
        }
        let folded_on_the_way = if sent > 0.0 { late_bytes * work.reduced / sent } else { 0.0 };
        amounts.reduced_bytes = work.reduced * bytes + folded_on_the_way;
        amounts.copied_bytes = work.copied * bytes;
        amounts
    }
}

/// Blocks of the larger buffer.
fn blocks(call: &Call<'_>) -> u64 {
    match call.collective {
        Collective::AllReduce | Collective::Broadcast | Collective::Reduce | Collective::Barrier => 1,
        _ => call.world as u64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::choose::Class;
    use crate::topology::Topology;

    fn demand(name: &str, collective: Collective, topology: &Topology) -> Demand {
        let candidate = Candidate::all().find(|c| c.algorithm.name == name).expect("a registered algorithm");
        Demand::new(&candidate, &Class::plain(collective).example(topology))
    }

    #[test]
    fn a_ring_of_four_is_counted() {
        let topology = Topology::single_host(4);
        let ring = demand("ring", Collective::AllReduce, &topology);
        let amounts = ring.at(4 << 20, 64 << 10);
        assert_eq!(ring.tiles(4 << 20, 64 << 10), 16);
        assert_eq!((amounts.steps.local, amounts.messages.local, amounts.waits.local), (6.0, 96.0, 90.0));
        assert_eq!((amounts.bytes.local, amounts.reduced_bytes), (6291456.0, 3145728.0));
        assert_eq!(amounts.bytes.remote, 0.0);
    }

    #[test]
    fn a_chain_waits_for_its_first_tile_on_every_link() {
        let topology = Topology::single_host(8);
        let chain = demand("chain", Collective::Broadcast, &topology);
        let (long, short) = (chain.at(1 << 20, 1 << 20), chain.at(1 << 20, 1 << 16));
        assert_eq!(long.bytes.local, 7.0 * 1048576.0);
        assert_eq!(short.bytes.local, 1048576.0 + 6.0 * 65536.0);
        assert_eq!((long.messages.local, short.messages.local), (7.0, 22.0));
        assert_eq!((long.waits.local, short.waits.local), (0.0, 15.0));
    }

    #[test]
    fn no_bytes_are_one_tile() {
        let topology = Topology::single_host(4);
        let amounts = demand("ring", Collective::AllGather, &topology).at(0, 64 << 10);
        assert_eq!((amounts.steps.local, amounts.messages.local, amounts.bytes.local), (3.0, 3.0, 0.0));
    }
}
