//! Shared-memory wires keep the contract: two inboxes and two heaps, each mapped twice, as two processes would.

use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hcomm_transports::shm::handover::{self, Handed, Terms, receive, send};
use hcomm_transports::shm::{Heap, Heaps, Inbox, Segment, segment_bytes, wire_from};
use hcomm_transports::{AnyWire, Doorbell, WireConfig};

use crate::conformance::conformance;
use crate::pair::Pair;

fn pair(config: WireConfig, first: u32) -> Pair {
    connected(config, first, None)
}

/// Bytes of a heap.
const HEAP_BYTES: usize = 32 << 20;

fn connected(config: WireConfig, first: u32, heaps: Option<[Arc<Heap>; 2]>) -> Pair {
    let (here, there) = UnixStream::pair().unwrap();
    let mut own = [0, 1].map(|index| Own::new(config, index));
    for (own, heap) in own.iter_mut().zip(heaps.iter().flatten()) {
        own.heap = Some(heap.clone());
    }
    own[0].hand_over(&here);
    own[1].hand_over(&there);
    let [zero, one] = own;
    let (a, bell_a) = zero.join(&here, first);
    let (b, bell_b) = one.join(&there, first);
    Pair { a, b, bells: Some([bell_a, bell_b]), tick: Box::new(std::thread::yield_now), heaps }
}

/// One rank's part in a handover between two.
pub struct Own {
    terms: Terms,
    index: u32,
    segment: Segment,
    doorbell: Doorbell,
    heap: Option<Arc<Heap>>,
}

impl Own {
    pub fn new(config: WireConfig, index: u32) -> Own {
        let segment = Segment::create(segment_bytes(config, 2).unwrap()).unwrap();
        let doorbell = segment.doorbell().unwrap();
        Own { terms: Terms { config, local_ranks: 2 }, index, segment, doorbell, heap: None }
    }

    pub fn hand_over(&self, stream: &UnixStream) {
        let Own { index, segment, doorbell, .. } = self;
        let own = handover::Own { index: *index, segment, doorbell, heap: self.heap.as_deref() };
        send(stream, self.terms, own, soon()).unwrap();
    }

    pub fn join(self, stream: &UnixStream, first: u32) -> (AnyWire, Doorbell) {
        let wants_heap = self.heap.is_some();
        let Handed { segment, ringer, index, heap } =
            receive(stream, self.terms, wants_heap, soon()).unwrap();
        assert_eq!(index, 1 - self.index);
        let own = Inbox { segment: &self.segment, index: self.index as usize };
        let peer = Inbox { segment: &segment, index: index as usize };
        let heaps = self.heap.zip(heap).map(|(own, peer)| Heaps { own, peer });
        (wire_from(own, peer, ringer, self.terms.config, heaps, first).unwrap(), self.doorbell)
    }
}

fn soon() -> Instant {
    Instant::now() + Duration::from_secs(10)
}

conformance!(pair);

mod heaps {
    use super::*;
    use crate::conformance::conformance;
    use crate::pair::{CONFIG, Source, key};
    use hcomm_transports::{Sent, Wire};

    fn pair(config: WireConfig, first: u32) -> Pair {
        let heaps = [(); 2].map(|()| Heap::of_length(HEAP_BYTES).unwrap());
        connected(config, first, Some(heaps))
    }

    conformance!(pair);

    #[test]
    fn the_suite_lends() {
        let mut pair = pair(CONFIG, 0);
        let mut source = Source::of(pair.heap(), &[7; 4000]);
        assert!(matches!(pair.a.send_from(key(0), &[source.span()], true), Sent::Lent(_)));
    }

    #[test]
    fn a_rank_without_a_heap_is_lent_nothing() {
        let (here, there) = UnixStream::pair().unwrap();
        let [mut with, without] = [0, 1].map(|index| Own::new(CONFIG, index));
        let heap = Heap::of_length(HEAP_BYTES).unwrap();
        with.heap = Some(heap.clone());
        with.hand_over(&here);
        without.hand_over(&there);
        let (mut a, _) = with.join(&here, 0);
        let (b, _) = without.join(&there, 0);
        assert!(!a.lends_heap() && !b.lends_heap());
        let block = heap.allocate(4000).unwrap();
        assert_eq!(a.send_from(key(0), &[block.span()], true), Sent::Done);
    }
}

#[test]
fn inboxes_that_do_not_fit_are_refused() {
    let config = WireConfig { ports: 1, depth: 2, slot_bytes: 128 };
    let small = Segment::create(segment_bytes(config, 2).unwrap()).unwrap();
    let ringer = || Doorbell::new().unwrap().ringer();
    let inbox = |index| Inbox { segment: &small, index };
    let refusal = |own, peer, config| {
        wire_from(inbox(own), inbox(peer), ringer(), config, None, 0).unwrap_err().to_string()
    };
    assert!(refusal(0, 2, config).contains("too few for a region for local rank 2"));
    assert!(refusal(1, 1, config).contains("cannot be joined with itself"));
    assert!(refusal(0, usize::MAX, config).contains("too few"));
    assert!(refusal(0, 1, WireConfig { slot_bytes: 1 << 20, ..config }).contains("too few"));
    assert!(refusal(0, 1, WireConfig { depth: 1, ..config }).contains("1 ports of 1 slots"));
}
