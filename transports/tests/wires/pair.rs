//! [`Pair`]: two connected ends as the suite drives them, and the messages that it sends.

use std::sync::Arc;
use std::time::{Duration, Instant};

use hcomm_ops::{RawSpan, StableBuffer};
use hcomm_transports::shm::{Block, Heap};
use hcomm_transports::{AnyWire, Arrival, Doorbell, Key, Room, Sent, Wire, WireConfig, Word};

/// What the suite uses unless a test is about something else.
pub const CONFIG: WireConfig = WireConfig { ports: 3, depth: 3, slot_bytes: 4096 };

/// How long anything may take before it counts as hanging.
const PATIENCE: Duration = Duration::from_secs(20);

/// Two connected ends.
pub struct Pair {
    pub a: AnyWire,
    pub b: AnyWire,
    /// Where each end's rank sleeps; `None` where the transport has no real time.
    pub bells: Option<[Doorbell; 2]>,
    /// Lets time pass: called whenever both ends wait.
    pub tick: Box<dyn FnMut()>,
    /// Where each end's messages must lie to be lent; anywhere where there are none.
    pub heaps: Option<[Arc<Heap>; 2]>,
}

/// Bytes that are offered to be lent.
pub enum Source {
    Own(Vec<u8>),
    InHeap(Block),
}

impl Source {
    /// A copy of `bytes` in a heap, if there is one.
    pub fn of(heap: Option<&Arc<Heap>>, bytes: &[u8]) -> Source {
        let Some(heap) = heap else { return Source::Own(bytes.to_vec()) };
        let block = heap.allocate(bytes.len()).unwrap();
        block.span().write(bytes);
        Source::InHeap(block)
    }

    pub fn span(&mut self) -> RawSpan {
        match self {
            Source::Own(bytes) => bytes.span(),
            Source::InHeap(block) => block.span(),
        }
    }

    /// Overwrites all of it.
    pub fn fill(&mut self, byte: u8) {
        let span = self.span();
        span.write(&vec![byte; span.len()]);
    }
}

impl Pair {
    /// Asks until there is an answer, moving bytes and letting time pass in between.
    pub fn until<T>(
        &mut self,
        what: &str,
        mut ask: impl FnMut(&mut AnyWire, &mut AnyWire) -> Option<T>,
    ) -> T {
        let start = Instant::now();
        loop {
            if let Some(answer) = ask(&mut self.a, &mut self.b) {
                return answer;
            }
            let moved = self.a.progress() | self.b.progress();
            if !moved {
                (self.tick)();
            }
            assert!(start.elapsed() < PATIENCE, "nothing happened while waiting for {what}");
        }
    }

    /// Lets everything under way arrive, as far as that can be told from outside.
    pub fn settle(&mut self) {
        for _ in 0..100 {
            self.a.progress();
            self.b.progress();
            (self.tick)();
        }
    }

    /// Sends by copy from end `a`, waiting for room.
    pub fn send(&mut self, key: Key, bytes: &[u8]) {
        let mut bytes = bytes.to_vec();
        self.until("room", |a, _| match a.send_from(key, &[bytes.span()], false) {
            Sent::Done => Some(()),
            Sent::Full => None,
            Sent::Lent(_) => panic!("lent although it may not"),
        });
        bytes.fill(0xEE);
    }

    /// Receives at end `b` and releases.
    pub fn receive(&mut self, key: Key, bytes: usize) -> Vec<u8> {
        let mut got = Vec::new();
        self.until("a message", |_, b| match b.take(key, bytes, |span| got = span.to_vec()) {
            Arrival::NotYet => None,
            Arrival::Here(_) => Some(()),
            other => panic!("unexpected {other:?}"),
        });
        got
    }

    /// Waits for the next message at end `b`.
    pub fn arrive(&mut self, key: Key, bytes: usize) -> RawSpan {
        self.until("a message", |_, b| match b.poll(key, bytes) {
            Arrival::NotYet => None,
            Arrival::Here(span) => Some(span),
            other => panic!("unexpected {other:?}"),
        })
    }

    /// The other way round.
    pub fn swap(self) -> Pair {
        let bells = self.bells.map(|[a, b]| [b, a]);
        let heaps = self.heaps.map(|[a, b]| [b, a]);
        Pair { a: self.b, b: self.a, bells, tick: self.tick, heaps }
    }

    /// Where end `a`'s messages must lie to be lent.
    pub fn heap(&self) -> Option<&Arc<Heap>> {
        self.heaps.as_ref().map(|[a, _]| a)
    }
}

/// A key of operation 7 of one call.
pub fn key(port: u16) -> Key {
    keyed(port, 7)
}

/// A key of some operation of one call.
pub fn keyed(port: u16, operation: u32) -> Key {
    Key { port, word: Word { operation, fingerprint: 0xC0FF_EE00 } }
}

/// A message that differs in every byte's neighbourhood and with every seed.
pub fn message(seed: u32, bytes: usize) -> Vec<u8> {
    let mut state = u64::from(seed).wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut byte = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    };
    (0..bytes).map(|_| byte()).collect()
}

/// The slot for the next message.
pub fn slot(wire: &mut AnyWire, key: Key, bytes: usize) -> Option<RawSpan> {
    match wire.reserve(key, bytes) {
        Room::Slot(span) => Some(span),
        Room::Full => None,
    }
}
