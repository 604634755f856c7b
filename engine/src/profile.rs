//! [`Recorder`]: node events of a communicator, kept in a preallocated ring while profiling is on.

use std::time::Instant;

use crate::execution::Issue;

/// One node's issue, with its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeEvent {
    /// The operation.
    pub number: u64,
    /// The node and tile; `None` marks the end of the operation.
    pub issue: Option<Issue>,
    /// Nanoseconds since the recorder's origin, when the node had been issued.
    pub at_ns: u64,
}

/// A ring of events; the oldest give way.
#[derive(Debug)]
pub(crate) struct Recorder {
    origin: Instant,
    capacity: usize,
    events: Vec<NodeEvent>,
    next: usize,
}

impl Recorder {
    /// Room for `capacity` events; 0 switches recording off.
    pub fn new(origin: Instant, capacity: usize) -> Self {
        Recorder { origin, capacity, events: Vec::with_capacity(capacity), next: 0 }
    }

    /// Records that a node was issued.
    #[inline]
    pub fn issue(&mut self, number: u64, issue: Issue) {
        if self.capacity > 0 {
            self.push(NodeEvent { number, issue: Some(issue), at_ns: 0 });
        }
    }

    /// Records that an operation ended.
    #[inline]
    pub fn finish(&mut self, number: u64) {
        if self.capacity > 0 {
            self.push(NodeEvent { number, issue: None, at_ns: 0 });
        }
    }

    /// The events, oldest first; the ring is empty afterwards.
    pub fn drain(&mut self) -> Vec<NodeEvent> {
        let mut events = self.events.split_off(self.next.min(self.events.len()));
        events.append(&mut self.events);
        self.next = 0;
        events
    }

    fn push(&mut self, event: NodeEvent) {
        let at_ns = self.origin.elapsed().as_nanos() as u64;
        let event = NodeEvent { at_ns, ..event };
        if self.events.len() < self.capacity {
            self.events.push(event);
            return;
        }
        self.events[self.next] = event;
        self.next = (self.next + 1) % self.capacity;
    }
}
