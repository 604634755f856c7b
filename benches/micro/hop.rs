//! One hop of a link: a message goes to another thread and comes back, through the same contract that the executor uses; half of the
//! time is a hop. Shared memory is handed over as between processes.

use std::os::unix::net::UnixStream;
use std::thread;
use std::time::{Duration, Instant};

use hcomm::StableBuffer;
use hcomm::transports::shm::handover::{Own, Terms, receive, send};
use hcomm::transports::shm::{Inbox, Segment, segment_bytes, wire};
use hcomm::transports::{AnyWire, Arrival, Doorbell, Key, Sent, Wire, WireConfig, Word, inproc};

use crate::clock::median;
use crate::place::pin;
use crate::table::{Table, size_text};

const CONFIG: WireConfig = WireConfig { ports: 1, depth: 4, slot_bytes: 64 << 10 };
const KEY: Key = Key { port: 0, word: Word { operation: 1, fingerprint: 2 } };
const SIZES: [usize; 4] = [8, 1 << 10, 8 << 10, 64 << 10];
const WARM: usize = 500;
const TRIPS: usize = 4000;
const PATIENCE: Duration = Duration::from_secs(10);
const SPINS: u32 = 1 << 16;

/// A kind of link and how its two ends are made.
struct Link {
    name: &'static str,
    ends: fn() -> [End; 2],
}

/// The doorbell and the segment live as long as the wire does.
struct End {
    wire: AnyWire,
    _keep: (Doorbell, Option<Segment>),
}

const LINKS: &[Link] = &[Link { name: "inproc", ends: threads }, Link { name: "shm", ends: shared_memory }];

pub fn run() -> Table {
    let row = |link: &Link, bytes| {
        vec![link.name.to_owned(), size_text(bytes), format!("{:.0}", hop_ns(link, bytes))]
    };
    let rows = LINKS.iter().flat_map(|link| SIZES.map(|bytes| row(link, bytes))).collect();
    Table { heading: "One hop of a message, copied in and out", columns: &["link", "bytes", "ns"], rows }
}

fn hop_ns(link: &Link, bytes: usize) -> f64 {
    let [mut near, mut far] = (link.ends)();
    thread::scope(|scope| {
        scope.spawn(move || {
            pin(1);
            let mut buffer = vec![0_u8; bytes];
            (0..WARM + TRIPS).for_each(|_| {
                take(&mut far.wire, &mut buffer);
                give(&mut far.wire, &mut buffer);
            });
        });
        // On a thread of its own too, so that this one is not pinned for what comes after.
        scope.spawn(move || pinned_trips(&mut near.wire, bytes)).join().expect("the messages came back")
    })
}

fn pinned_trips(wire: &mut AnyWire, bytes: usize) -> f64 {
    pin(0);
    let mut times = Vec::with_capacity(TRIPS);
    let (mut sent, mut back) = (vec![0_u8; bytes], vec![0_u8; bytes]);
    for trip in 0..WARM + TRIPS {
        sent.iter_mut().step_by(64).enumerate().for_each(|(line, byte)| *byte = (trip + line) as u8);
        let start = Instant::now();
        give(wire, &mut sent);
        take(wire, &mut back);
        let time = start.elapsed();
        assert_eq!(sent, back, "trip {trip} of {bytes} bytes");
        if trip >= WARM {
            times.push(time.as_nanos() as f64 / 2.0);
        }
    }
    median(times)
}

fn give(wire: &mut AnyWire, bytes: &mut Vec<u8>) {
    let sent = wire.send_from(KEY, &[bytes.span()], false);
    assert_eq!(sent, Sent::Done, "a port of {} slots holds one message", CONFIG.depth);
}

/// Waits for the next message and copies it out.
fn take(wire: &mut AnyWire, bytes: &mut Vec<u8>) {
    let (mut spins, mut since) = (0_u32, None);
    loop {
        match wire.poll(KEY, bytes.len()) {
            Arrival::Here(span) => {
                bytes.span().copy_from(span);
                return wire.release(KEY.port);
            }
            Arrival::NotYet => std::hint::spin_loop(),
            other => panic!("{other:?} where a message of {} bytes was to come", bytes.len()),
        }
        spins += 1;
        if spins.is_multiple_of(SPINS) {
            thread::yield_now();
            assert!(since.get_or_insert_with(Instant::now).elapsed() < PATIENCE, "no message came");
        }
    }
}

fn threads() -> [End; 2] {
    let ranks = inproc::mesh(2, CONFIG).expect("two ranks fit");
    let mut ends = ranks.into_iter().enumerate().map(|(rank, mut endpoint)| {
        let wire = endpoint.wires[1 - rank].take().expect("every rank has a wire to every other");
        End { wire, _keep: (endpoint.doorbell, None) }
    });
    [(); 2].map(|()| ends.next().expect("two ranks"))
}

fn shared_memory() -> [End; 2] {
    let terms = Terms { config: CONFIG, local_ranks: 2 };
    let (here, there) = UnixStream::pair().expect("a pair of sockets");
    let segments = [0, 1].map(|_| {
        let bytes = segment_bytes(CONFIG, 2).expect("possible dimensions");
        Segment::create(bytes).expect("room for a segment")
    });
    let bells = [0, 1].map(|rank| segments[rank].doorbell().expect("an eventfd"));
    let deadline = Instant::now() + PATIENCE;
    for (stream, rank) in [(&here, 0), (&there, 1)] {
        let own = Own { index: rank as u32, segment: &segments[rank], doorbell: &bells[rank], heap: None };
        send(stream, terms, own, deadline).expect("handed over");
    }
    let handed = [&here, &there].map(|stream| receive(stream, terms, false, deadline).expect("taken"));
    let mut parts = segments.into_iter().zip(bells).zip(handed).enumerate();
    [(); 2].map(|()| {
        let (index, ((segment, bell), peer)) = parts.next().expect("two ranks");
        let own = Inbox { segment: &segment, index };
        let inbox = Inbox { segment: &peer.segment, index: peer.index as usize };
        let wire = wire(own, inbox, peer.ringer, CONFIG, None).expect("inboxes that fit");
        End { wire, _keep: (bell, Some(segment)) }
    })
}
