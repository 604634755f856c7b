//! Wires between ranks of one host: rings in sealed segments without a name.
//!
//! Each rank makes one [`Segment`] per communicator, its inbox: a page with its doorbell's `asleep` word, then one region for each
//! other rank on the host. It hands the segment and its eventfd to each of them ([`handover`]); [`wire`] joins two inboxes. Beside the
//! inbox it has a [`Heap`], if it can: long messages that lie in it are read there, and not copied through the inbox.
//! A peer's death is not seen here: the control plane tells it ([`crate::Wire::mark_lost`]).

mod allocated;
pub mod handover;
mod heap;
mod ranges;
mod room;
mod segment;

use std::sync::Arc;

use crate::ring::{self, BadConfig, Ends, Layout, Lends, Region, RingWire};
use crate::{AnyWire, Ringer, WireConfig};
pub use allocated::Allocated;
pub use heap::{Block, Heap, PeerHeap};
pub use room::Room;
pub use segment::{Segment, SegmentError};

/// The first page of a segment holds the `asleep` word.
const REGIONS_AT: usize = 4096;

/// How long the inbox of a rank must be, and how much memory is taken for it at most, that shares the host with `local_ranks - 1` others.
///
/// # Errors
/// Where the dimensions are impossible.
pub fn segment_bytes(config: WireConfig, local_ranks: usize) -> Result<usize, BadConfig> {
    let region = Layout::new(config)?.total;
    region.checked_mul(local_ranks.saturating_sub(1)).map(|all| all + REGIONS_AT).ok_or(BadConfig(config))
}

/// The longest slots, in multiples of 128 bytes, at most `wanted` and at least `least`, with which the inbox of a rank that shares the
/// host with `local_ranks - 1` others takes no more than `bytes`; `least` where there are none.
pub fn slot_bytes_within(
    bytes: u64,
    config: WireConfig,
    local_ranks: usize,
    (least, wanted): (usize, usize),
) -> usize {
    let fits = |slot_bytes: usize| {
        let inbox = segment_bytes(WireConfig { slot_bytes, ..config }, local_ranks);
        inbox.is_ok_and(|inbox| inbox as u64 <= bytes)
    };
    let units = least / 128..wanted.min(1 << 30) / 128;
    if units.is_empty() || fits(units.end * 128) {
        return units.end.max(units.start) * 128;
    }
    // What fits is followed by what does not.
    let (mut fitting, mut too_long) = (units.start, units.end);
    while too_long - fitting > 1 {
        let middle = fitting.midpoint(too_long);
        if fits(middle * 128) { fitting = middle } else { too_long = middle }
    }
    fitting * 128
}

/// An inbox and whose it is.
#[derive(Clone, Copy, Debug)]
pub struct Inbox<'a> {
    /// Its memory.
    pub segment: &'a Segment,
    /// Its owner's number among the ranks of this host, counted from 0.
    pub index: usize,
}

/// The heaps of two ranks that read each other's.
#[derive(Debug)]
pub struct Heaps {
    /// This rank's.
    pub own: Arc<Heap>,
    /// The peer's.
    pub peer: PeerHeap,
}

/// Two inboxes cannot be joined.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JoinError {
    /// The dimensions are impossible.
    #[error(transparent)]
    Config(#[from] BadConfig),
    /// The inbox has no region for that peer.
    #[error(
        "the inbox of local rank {owner} has {bytes} bytes, too few for a region for local rank {peer}, which ends at {end}"
    )]
    TooSmall {
        /// Whose inbox.
        owner: usize,
        /// Its length.
        bytes: usize,
        /// Whose region.
        peer: usize,
        /// Where it would end.
        end: usize,
    },
    /// There is no memory for the little that a wire takes at once.
    #[error("{0}")]
    NoRoom(String),
    /// A rank has no wire to itself.
    #[error("local rank {0} cannot be joined with itself")]
    Same(usize),
}

/// This rank's end of the wire between two inboxes. `ringer` wakes the peer. What lies in `heaps` is lent; both ends have them, or neither.
///
/// # Errors
/// Where the inboxes are not made for these dimensions and ranks.
pub fn wire(
    own: Inbox<'_>,
    peer: Inbox<'_>,
    ringer: Ringer,
    config: WireConfig,
    heaps: Option<Heaps>,
) -> Result<AnyWire, JoinError> {
    wire_from(own, peer, ringer, config, heaps, 0)
}

/// The same, with the ports' sequence numbers starting at `first` (equal at both ends, and both made before either is used).
///
/// # Errors
/// As [`wire`].
#[doc(hidden)]
pub fn wire_from(
    own: Inbox<'_>,
    peer: Inbox<'_>,
    ringer: Ringer,
    config: WireConfig,
    heaps: Option<Heaps>,
    first: u32,
) -> Result<AnyWire, JoinError> {
    let layout = Layout::new(config)?;
    let outbound = region(peer, own.index, layout)?;
    let inbound = region(own, peer.index, layout)?;
    let is_lower = own.index < peer.index;
    let (regions, side) = if is_lower { ([outbound, inbound], 0) } else { ([inbound, outbound], 1) };
    let lends = heaps.map_or(Lends::Nothing, |Heaps { own, peer }| {
        Lends::Heaps(ring::Heaps { own: Arc::clone(own.mapping()), peer: peer.into_mapping() })
    });
    let wire = RingWire::new(Ends { regions, side, ringer, lends, first });
    wire.map(AnyWire::Ring).map_err(|no_room| JoinError::NoRoom(no_room.to_string()))
}

/// The region of an inbox that local rank `sender` sends into.
fn region(inbox: Inbox<'_>, sender: usize, layout: Layout) -> Result<Region, JoinError> {
    let Inbox { segment, index: owner } = inbox;
    let number = match sender.cmp(&owner) {
        std::cmp::Ordering::Less => sender,
        std::cmp::Ordering::Greater => sender - 1,
        std::cmp::Ordering::Equal => return Err(JoinError::Same(owner)),
    };
    let offset = layout.total.saturating_mul(number).saturating_add(REGIONS_AT);
    let end = offset.saturating_add(layout.total);
    if end > segment.bytes() {
        return Err(JoinError::TooSmall { owner, bytes: segment.bytes(), peer: sender, end });
    }
    Ok(Region::new(segment.mapping(), offset, layout))
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONFIG: WireConfig = WireConfig { ports: 33, depth: 2, slot_bytes: 4096 };

    #[test]
    fn an_inbox_stays_within_its_bytes_and_uses_them() {
        for (ranks, bytes) in [(2, 1 << 20), (3, 32 << 20), (8, 32 << 20), (64, 32 << 20), (8, 5_000_000)] {
            let slot_bytes = slot_bytes_within(bytes, CONFIG, ranks, (128, 1 << 30));
            let inbox =
                |slot_bytes| segment_bytes(WireConfig { slot_bytes, ..CONFIG }, ranks).unwrap() as u64;
            assert!(inbox(slot_bytes) <= bytes, "{ranks} ranks: {} of {bytes}", inbox(slot_bytes));
            assert!(inbox(slot_bytes + 128) > bytes, "{ranks} ranks: {slot_bytes} is not the longest");
        }
        assert_eq!(slot_bytes_within(32 << 20, CONFIG, 2, (4096, 128 << 10)), 128 << 10, "as wanted");
        assert_eq!(slot_bytes_within(32 << 20, CONFIG, 500, (4096, 128 << 10)), 4096, "the least");
        assert_eq!(slot_bytes_within(32 << 20, CONFIG, 1, (4096, 128 << 10)), 128 << 10, "alone");
        assert_eq!(slot_bytes_within(32 << 20, CONFIG, 2, (4096, 1000)), 4096, "less is wanted than must be");
    }
}
