//! What the conformance suite cannot see from outside: which memory a ring uses, and what a hostile peer can do to it.

use std::collections::BTreeSet;
use std::sync::Arc;

use hcomm_ops::{RawSpan, StableBuffer};

use super::layout::SPARE;
use super::{Ends, Heaps, Layout, Lends, Region, RingWire};
use crate::mapping::Mapping;
use crate::wire::REVOKED_BYTES;
use crate::{Arrival, Doorbell, Key, Lost, Room, Sent, Wire, WireConfig, Word};

const CONFIG: WireConfig = WireConfig { ports: 33, depth: 4, slot_bytes: 8192 };

fn pair(config: WireConfig) -> ([RingWire; 2], Arc<Mapping>) {
    pair_with(config, [Lends::Nothing, Lends::Nothing])
}

/// Two ends that read each other's heaps, which are returned by side. Both ends see the same pages here.
fn pair_of_heaps(config: WireConfig, bytes: usize) -> ([RingWire; 2], Arc<Mapping>, [Arc<Mapping>; 2]) {
    let heaps = [(); 2].map(|()| Mapping::anonymous(bytes).unwrap());
    let lends =
        [0, 1].map(|side| Lends::Heaps(Heaps { own: heaps[side].clone(), peer: heaps[1 - side].clone() }));
    let (wires, mapping) = pair_with(config, lends);
    (wires, mapping, heaps)
}

fn pair_with(config: WireConfig, lends: [Lends; 2]) -> ([RingWire; 2], Arc<Mapping>) {
    let layout = Layout::new(config).unwrap();
    let mapping = Mapping::anonymous(2 * layout.total).unwrap();
    let ringer = Doorbell::new().unwrap().ringer();
    let region = |side: usize| Region::new(&mapping, side * layout.total, layout);
    let mut sides = 0..2;
    let wires = lends.map(|lends| {
        let (regions, side) = ([region(0), region(1)], sides.next().unwrap());
        RingWire::new(Ends { regions, side, ringer: ringer.clone(), lends, first: 0 }).unwrap()
    });
    (wires, mapping)
}

fn key(port: u16) -> Key {
    Key { port, word: Word { operation: 1, fingerprint: 2 } }
}

/// Sends one message and gives the address at which it was built.
fn send(wire: &mut RingWire, port: u16, bytes: usize) -> usize {
    let Room::Slot(slot) = wire.reserve(key(port), bytes) else { panic!("port {port} is full") };
    wire.commit(key(port), bytes);
    slot.as_ptr() as usize
}

fn receive(wire: &mut RingWire, port: u16, bytes: usize) {
    assert!(matches!(wire.poll(key(port), bytes), Arrival::Here(_)));
    wire.release(port);
}

#[test]
fn an_exchange_writes_what_it_read_last() {
    let ([mut a, mut b], _) = pair(CONFIG);
    let mut written = BTreeSet::new();
    for round in 0..1000_u16 {
        let port = round % 33;
        written.extend([send(&mut a, port, 8192), send(&mut b, port, 8192)]);
        receive(&mut a, port, 8192);
        receive(&mut b, port, 8192);
    }
    assert_eq!(written.len(), 2, "two bodies serve an exchange on all ports");
}

#[test]
fn one_sided_traffic_uses_few_bodies() {
    for (bytes, most) in [(1200, SPARE + 2 * 4), (8192, SPARE + 2)] {
        let ([mut a, mut b], _) = pair(CONFIG);
        let mut written = BTreeSet::new();
        for _ in 0..1000 {
            written.insert(send(&mut a, 0, bytes));
            receive(&mut b, 0, bytes);
        }
        assert!(written.len() <= most, "{} bodies for one port of {bytes}-byte messages", written.len());
    }
}

#[test]
fn a_message_in_a_body_goes_back_without_a_copy() {
    let ([mut a, mut b], _) = pair(CONFIG);
    for round in 0..1000_u16 {
        let (there, back) = (round % 33, (round + 1) % 33);
        let address = send(&mut a, there, 8192);
        assert!(matches!(b.poll(key(there), 8192), Arrival::Here(_)));
        assert!(b.can_pass_back(there, back), "round {round}");
        assert!(b.pass_back(there, key(back), 8192), "round {round}");
        let Arrival::Here(span) = a.poll(key(back), 8192) else { panic!("round {round}") };
        assert_eq!(span.as_ptr() as usize, address);
        a.release(back);
    }
    send(&mut a, 0, 8);
    assert!(matches!(b.poll(key(0), 8), Arrival::Here(_)));
    assert!(!b.can_pass_back(0, 1), "a header stays where it is");
    assert!(!b.pass_back(0, key(1), 8), "a header stays where it is");
}

#[test]
fn passing_back_returns_bodies_that_may_not_be_kept() {
    let ([mut a, mut b], _) = pair(CONFIG);
    for _ in 0..20 {
        send(&mut a, 1, 1200);
        receive(&mut b, 1, 1200);
    }
    for port in 2..33 {
        for _ in 0..4 {
            send(&mut a, 0, 1200);
            assert!(matches!(b.poll(key(0), 1200), Arrival::Here(_)));
            assert!(b.pass_back(0, key(port), 1200));
        }
    }
    for port in 1..33 {
        (0..4).for_each(|_| assert_ne!(send(&mut a, port, 8192), 0));
    }
    assert_eq!((a.lost(), b.lost()), (None, None));
}

fn lost() -> Lost {
    Lost { cause: "its process was killed (signal 9)".into() }
}

/// Sends a span that may be lent.
fn lend(wire: &mut RingWire, span: RawSpan) -> Sent {
    wire.send_from(key(0), &[span], true)
}

#[test]
fn what_lies_in_the_heap_is_read_there_and_nothing_else() {
    let ([mut a, mut b], _, [heap, _]) = pair_of_heaps(CONFIG, 1 << 16);
    assert!(a.lends_heap());
    let inside = heap.span(1000, 8000);
    inside.write(b"in the heap");
    let Sent::Lent(ticket) = lend(&mut a, inside) else { panic!("a span of the heap is lent") };
    let Arrival::Here(here) = b.poll(key(0), 8000) else { panic!("it has come") };
    assert_eq!(here.as_ptr(), inside.as_ptr());
    assert!(!b.can_pass_back(0, 1) && !b.pass_back(0, key(1), 8000), "what is lent is never written");
    assert!(!a.is_done(ticket) && !a.is_flushed());
    b.release(0);
    assert!(a.is_done(ticket) && a.is_flushed());
    let mut outside = vec![1_u8; 8000];
    let past_the_end = heap.span((1 << 16) - 4000, 4000);
    for copied in [outside.span(), heap.span(0, 1024)] {
        assert_eq!(lend(&mut a, copied), Sent::Done, "{copied:?}");
        receive(&mut b, 0, copied.len());
    }
    assert!(matches!(lend(&mut a, past_the_end), Sent::Lent(_)), "up to the last byte");
    receive(&mut b, 0, 4000);
    assert_eq!(a.send_from(key(0), &[inside], false), Sent::Done, "what may not be lent is copied");
    assert_eq!(
        a.send_from(key(0), &[heap.span(0, 2000), heap.span(9000, 2000)], true),
        Sent::Done,
        "in pieces"
    );
}

#[test]
fn a_process_that_reads_holds_nobody_up() {
    let ([mut a, mut b], _, [heap, _]) = pair_of_heaps(CONFIG, 1 << 16);
    assert!(matches!(lend(&mut a, heap.span(0, 5000)), Sent::Lent(_)));
    assert!(matches!(lend(&mut a, heap.span(8192, 5000)), Sent::Lent(_)));
    assert!(matches!(b.poll(key(0), 5000), Arrival::Here(_)));
    assert!(b.end_reading(0), "it cannot go on yet");
    assert!(matches!(b.poll(key(0), 5000), Arrival::Here(_)), "what was not released is shown again");
    assert!(a.revoke(1) && a.is_flushed(), "taken back from under the reader");
    assert!(!b.end_reading(0), "what it has read is worth nothing");
    for _ in 0..2 {
        let late = b.poll(key(0), 5000);
        assert!(matches!(late, Arrival::Differs { bytes: REVOKED_BYTES, .. }), "{late:?}");
    }
}

#[test]
fn a_peer_that_is_gone_reads_no_more() {
    let ([mut a, mut b], _, [heap, _]) = pair_of_heaps(CONFIG, 1 << 16);
    assert!(matches!(lend(&mut a, heap.span(0, 5000)), Sent::Lent(_)));
    assert!(matches!(lend(&mut a, heap.span(8192, 5000)), Sent::Lent(_)));
    assert!(matches!(b.poll(key(0), 5000), Arrival::Here(_)));
    assert!(!a.is_flushed(), "the peer is reading");
    a.mark_lost(lost());
    assert!(a.is_flushed() && a.revoke(1) && a.is_flushed());
    assert!(!b.end_reading(0));
    let late = b.poll(key(0), 5000);
    assert!(matches!(late, Arrival::Differs { bytes: REVOKED_BYTES, .. }), "{late:?}");
}

#[test]
fn a_thread_that_reads_keeps_its_claim_when_its_rank_is_lost() {
    let ([mut a, mut b], _) = pair_with(CONFIG, [Lends::WithinProcess, Lends::WithinProcess]);
    let mut source = vec![1_u8; 5000];
    assert!(matches!(lend(&mut a, source.span()), Sent::Lent(_)));
    assert!(matches!(b.poll(key(0), 5000), Arrival::Here(_)));
    a.mark_lost(lost());
    assert!(!a.revoke(1) && !a.is_flushed());
    assert!(b.end_reading(0));
    b.release(0);
    assert!(a.revoke(1) && a.is_flushed());
}

/// Writes anything anywhere in both regions, as a hostile peer can.
struct Vandal {
    mapping: Arc<Mapping>,
    heaps: [Arc<Mapping>; 2],
    state: u64,
}

impl Vandal {
    fn next(&mut self) -> u64 {
        self.state =
            self.state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.state >> 20
    }

    /// A number that is likely to be taken for something.
    fn lie(&mut self) -> u32 {
        let (kind, value) = (self.next() % 5, self.next() as u32);
        match kind {
            0 if self.next().is_multiple_of(2) => value | place_of_lent(),
            0 => value,
            1 => value % 4,
            2 => value % 64,
            3 => u32::MAX - value % 4,
            _ => (value % 64) << 16,
        }
    }

    /// Strikes one of the words of the region at `start`, headers more often than not.
    fn strike(&mut self, start: usize, layout: &Layout) {
        let anywhere = self.next() as usize % (layout.bodies_at / 4) * 4;
        let header = self.next() as usize % 4 * super::layout::HEADER + self.next() as usize % 5 * 4;
        let at = start
            + match self.next() % 9 {
                0..=2 => anywhere,
                3 => layout.returns_at,
                _ => header,
            };
        let lie = self.lie();
        let word = self.mapping.at(at, 4).cast::<crate::sync::AtomicU32>();
        // SAFETY: inside the mapping and aligned; the wires access the words atomically too, or as plain bytes of payload in
        // this same thread.
        unsafe { word.as_ref() }.store(lie, crate::sync::Ordering::Relaxed);
    }
}

#[test]
fn nothing_that_a_peer_writes_makes_a_panic() {
    let config = WireConfig { ports: 2, depth: 2, slot_bytes: 2048 };
    let layout = Layout::new(config).unwrap();
    let mut losses = BTreeSet::new();
    for seed in 0..2000 {
        // As large as it gets: what lies behind it is not mapped, or nobody's to read.
        let ([mut wire, mut peer], mapping, heaps) = pair_of_heaps(config, 4096);
        let mut vandal = Vandal { mapping, heaps, state: seed };
        for _ in 0..300 {
            if vandal.next().is_multiple_of(3) {
                let region = vandal.next() as usize % 2 * layout.total;
                vandal.strike(region, &layout);
            }
            step(&mut peer, &mut vandal, 1);
            step(&mut wire, &mut vandal, 0);
        }
        let cause = wire.lost().map(|lost| lost.cause.split(':').next().unwrap_or_default().to_owned());
        losses.insert(cause.unwrap_or_default());
    }
    for kind in ["impossible cursor", "impossible header", "impossible count", "does not own", "it lent"] {
        assert!(losses.iter().any(|cause| cause.contains(kind)), "no {kind} among {losses:?}");
    }
}

/// The upper half of the length of a lent message.
fn place_of_lent() -> u32 {
    u32::from(super::place::LENT) << 16
}

/// One random call.
fn step(wire: &mut RingWire, random: &mut Vandal, side: usize) {
    let (port, bytes) =
        ((random.next() % 2) as u16, [0, 8, 1128, 1129, 2000, 2048][random.next() as usize % 6]);
    let arrival = wire.poll(key(port), bytes);
    let here = matches!(arrival, Arrival::Here(_));
    if let Arrival::Here(span) = arrival {
        // Wherever it is said to lie, it can be read.
        assert_eq!(span.to_vec().len(), bytes);
    }
    match random.next() % 7 {
        0 if here => wire.release(port),
        1 if here => drop(wire.pass_back(port, key(1 - port), bytes)),
        6 => drop(wire.take(key(port), bytes, |span| assert_eq!(span.len(), bytes))),
        2 => drop(wire.is_flushed() && wire.revoke(1)),
        3 => drop(wire.is_done(crate::Ticket { port, sent: random.lie() })),
        4 => drop(wire.send_from(key(port), &[random.heaps[side].span(0, 2000)], true)),
        _ => {
            let sent = wire.send_from(key(port), &[vec![1_u8; bytes].span()], true);
            assert!(matches!(sent, Sent::Done | Sent::Full));
        }
    }
}

/// What a test does to a wire.
#[derive(Clone, Copy, Debug)]
enum Deed {
    /// Shows where the next message is to be built.
    Reserve(u16),
    Send(u16, usize),
    Release(u16),
    /// From a port to a port.
    PassBack(u16, u16),
    /// Asks whether that could be done.
    AskToPass(u16, u16),
}

/// As many ports as are used below, more slots than spare bodies.
const MANY_SLOTS: WireConfig = WireConfig { ports: 3, depth: 6, slot_bytes: 4096 };

fn deeds() -> impl proptest::strategy::Strategy<Value = Vec<(usize, Deed, usize)>> {
    use proptest::prelude::*;
    let port = || 0..MANY_SLOTS.ports;
    let deed = prop_oneof![
        1 => port().prop_map(Deed::Reserve),
        6 => (port(), prop_oneof![Just(4096_usize), Just(1200), Just(8)]).prop_map(|(port, bytes)| Deed::Send(port, bytes)),
        5 => port().prop_map(Deed::Release),
        2 => (port(), port()).prop_map(|(from, to)| Deed::PassBack(from, to)),
        1 => (port(), port()).prop_map(|(from, to)| Deed::AskToPass(from, to)),
    ];
    // Runs of the same deed by the same end bring a wire to where all bodies are with one end.
    prop::collection::vec((0..2_usize, deed, 1..40_usize), 1..60)
}

/// Both ends and what is under way: by the end that sent it and the port, the lengths.
struct Both {
    ends: [RingWire; 2],
    under_way: [[std::collections::VecDeque<usize>; 3]; 2],
}

impl Both {
    fn new() -> Both {
        Both { ends: pair(MANY_SLOTS).0, under_way: Default::default() }
    }

    fn act(&mut self, end: usize, deed: Deed) {
        match deed {
            Deed::Reserve(port) => drop(self.reserve(end, port, 4096)),
            Deed::Send(port, bytes) => {
                if self.reserve(end, port, bytes) {
                    self.ends[end].commit(key(port), bytes);
                    self.under_way[end][usize::from(port)].push_back(bytes);
                }
            }
            Deed::Release(port) => {
                if self.see(end, port) {
                    self.ends[end].release(port);
                    self.under_way[1 - end][usize::from(port)].pop_front();
                }
            }
            Deed::PassBack(from, to) => self.pass_back(end, from, to),
            Deed::AskToPass(from, to) => {
                let _ = self.see(end, from) && self.ends[end].can_pass_back(from, to);
            }
        }
        assert_eq!(self.ends.each_ref().map(|end| end.lost().cloned()), [None, None]);
    }

    /// The promise: a port that is not full finds room.
    fn reserve(&mut self, end: usize, port: u16, bytes: usize) -> bool {
        let is_full = self.under_way[end][usize::from(port)].len() == MANY_SLOTS.depth as usize;
        let room = self.ends[end].reserve(key(port), bytes);
        assert_eq!(matches!(room, Room::Full), is_full, "end {end}, port {port}, {bytes} bytes: {room:?}");
        !is_full
    }

    fn see(&mut self, end: usize, port: u16) -> bool {
        let Some(&bytes) = self.under_way[1 - end][usize::from(port)].front() else { return false };
        assert!(matches!(self.ends[end].poll(key(port), bytes), Arrival::Here(_)));
        true
    }

    fn pass_back(&mut self, end: usize, from: u16, to: u16) {
        let may = self.see(end, from) && self.ends[end].can_pass_back(from, to);
        let bytes = self.under_way[1 - end][usize::from(from)].front().copied().unwrap_or_default();
        if may && self.ends[end].pass_back(from, key(to), bytes) {
            self.under_way[1 - end][usize::from(from)].pop_front();
            self.under_way[end][usize::from(to)].push_back(bytes);
        }
    }
}

proptest::proptest! {
    #[test]
    fn an_end_always_finds_a_body_for_a_port_that_is_not_full(deeds in deeds()) {
        let mut both = Both::new();
        for (end, deed, times) in deeds {
            (0..times).for_each(|_| both.act(end, deed));
        }
        // Whatever came before, both ends can fill all their ports.
        for end in [0, 1] {
            for port in 0..MANY_SLOTS.ports {
                while both.reserve(end, port, 4096) {
                    both.act(end, Deed::Send(port, 4096));
                }
            }
        }
    }
}

#[test]
fn the_returns_of_an_end_count_as_its_own() {
    let mut both = Both::new();
    // All that end 0 may keep goes to it; then all slots at once, released when it may keep no more.
    for _ in 0..80 {
        both.act(1, Deed::Send(0, 4096));
        both.act(0, Deed::Release(0));
    }
    (0..18).for_each(|n| both.act(1, Deed::Send(n % 3, 4096)));
    (0..18).for_each(|n| both.act(0, Deed::Release(n % 3)));
    // Now all goes the other way, one at a time.
    for _ in 0..200 {
        both.act(0, Deed::Send(0, 4096));
        assert_eq!(both.under_way[0][0].len(), 1);
        both.act(1, Deed::Release(0));
    }
}

#[test]
fn room_is_taken_by_who_first_uses_it() {
    let file = rustix::fs::memfd_create("test", rustix::fs::MemfdFlags::empty()).unwrap();
    let layout = Layout::new(CONFIG).unwrap();
    rustix::fs::ftruncate(&file, 2 * layout.total as u64).unwrap();
    let mapping = Mapping::of_file(std::os::fd::AsFd::as_fd(&file), 2 * layout.total, true).unwrap();
    let taken = || rustix::fs::fstat(&file).unwrap().st_blocks as usize * 512;
    let ringer = Doorbell::new().unwrap().ringer();
    let region = |side: usize| Region::new(&mapping, side * layout.total, layout);
    let [mut a, mut b] = [0, 1].map(|side| {
        let (regions, ringer) = ([region(0), region(1)], ringer.clone());
        RingWire::new(Ends { regions, side, ringer, lends: Lends::Nothing, first: 0 }).unwrap()
    });
    let front = 2 * (layout.front().len() + 2 * 4096);
    assert!(taken() <= front, "{} bytes for two fronts of at most {front}", taken());
    // Looking takes nothing, wherever one looks.
    for port in 0..33 {
        assert_eq!(b.poll(key(port), 0), Arrival::NotYet);
        assert!(!b.may_have(port) && b.take(key(port), 0, |_| ()) == Arrival::NotYet);
    }
    let before = taken();
    assert!(before <= front);
    send(&mut a, 20, 8);
    assert_eq!(b.poll(key(7), 8), Arrival::NotYet, "another port has been opened");
    receive(&mut b, 20, 8);
    let a_port = 2 * (layout.headers(20).len() + 2 * 4096);
    assert!(taken() > before && taken() <= before + a_port, "{} after {before}", taken());
    let before = taken();
    send(&mut a, 20, 8192);
    receive(&mut b, 20, 8192);
    assert!((before + 8192..=before + 3 * 4096).contains(&taken()), "one body, {} after {before}", taken());
    (0..100).for_each(|_| {
        send(&mut b, 20, 8192);
        receive(&mut a, 20, 8192);
    });
    assert!(taken() <= before + 3 * 4096 + (SPARE + 2) * 8192, "few bodies serve one port: {}", taken());
}
