//! Shared-memory wires keep the contract: two inboxes, each mapped twice, as two processes would.

use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use hcomm_transports::shm::handover::{Handed, Terms, receive, send};
use hcomm_transports::shm::{Inbox, Segment, segment_bytes, wire_from};
use hcomm_transports::{AnyWire, Doorbell, WireConfig};

use crate::conformance::conformance;
use crate::pair::Pair;

fn pair(config: WireConfig, first: u32) -> Pair {
    let (here, there) = UnixStream::pair().unwrap();
    let own = [0, 1].map(|index| Own::new(config, index));
    own[0].hand_over(&here);
    own[1].hand_over(&there);
    let [zero, one] = own;
    let (a, bell_a) = zero.join(&here, first);
    let (b, bell_b) = one.join(&there, first);
    Pair { a, b, bells: Some([bell_a, bell_b]), tick: Box::new(std::thread::yield_now) }
}

/// One rank's part in a handover between two.
pub struct Own {
    terms: Terms,
    index: u32,
    segment: Segment,
    doorbell: Doorbell,
}

impl Own {
    pub fn new(config: WireConfig, index: u32) -> Own {
        let segment = Segment::create(segment_bytes(config, 2).unwrap()).unwrap();
        let doorbell = segment.doorbell().unwrap();
        Own { terms: Terms { config, local_ranks: 2 }, index, segment, doorbell }
    }

    pub fn hand_over(&self, stream: &UnixStream) {
        send(stream, self.terms, self.index, &self.segment, &self.doorbell, soon()).unwrap();
    }

    pub fn join(self, stream: &UnixStream, first: u32) -> (AnyWire, Doorbell) {
        let Handed { segment, ringer, index } = receive(stream, self.terms, soon()).unwrap();
        assert_eq!(index, 1 - self.index);
        let own = Inbox { segment: &self.segment, index: self.index as usize };
        let peer = Inbox { segment: &segment, index: index as usize };
        (wire_from(own, peer, ringer, self.terms.config, first).unwrap(), self.doorbell)
    }
}

fn soon() -> Instant {
    Instant::now() + Duration::from_secs(10)
}

conformance!(pair);

#[test]
fn inboxes_that_do_not_fit_are_refused() {
    let config = WireConfig { ports: 1, depth: 2, slot_bytes: 128 };
    let small = Segment::create(segment_bytes(config, 2).unwrap()).unwrap();
    let ringer = || Doorbell::new().unwrap().ringer();
    let inbox = |index| Inbox { segment: &small, index };
    let refusal =
        |own, peer, config| wire_from(inbox(own), inbox(peer), ringer(), config, 0).unwrap_err().to_string();
    assert!(refusal(0, 2, config).contains("too few for a region for local rank 2"));
    assert!(refusal(1, 1, config).contains("cannot be joined with itself"));
    assert!(refusal(0, usize::MAX, config).contains("too few"));
    assert!(refusal(0, 1, WireConfig { slot_bytes: 1 << 20, ..config }).contains("too few"));
    assert!(refusal(0, 1, WireConfig { depth: 1, ..config }).contains("1 ports of 1 slots"));
}
