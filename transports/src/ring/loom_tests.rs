//! loom explores the ring's protocol: publication, credit, bodies that change hands, calling back.
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p hcomm-transports --lib --release -- loom`
//!
//! Payloads are stood for by loom's cells, which report an access that the protocol's words do not order.

use hcomm_ops::{RawSpan, StableBuffer};
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;

use super::receiver::{Found, Receiver, Shown};
use super::sender::{Reader, Sender, Slot};
use super::stock::Stock;
use super::{Layout, Lending, Region};
use crate::sync::{AtomicU32, Ordering};
use crate::{Key, WireConfig, Word};

/// Few slots, so that few messages lap the ring; bodies as large as those for which returns are looked at at once.
const CONFIG: WireConfig = WireConfig { ports: 1, depth: 2, slot_bytes: 4096 };

/// A payload; loom checks that its accesses are ordered.
struct Cell(UnsafeCell<u32>);

// SAFETY: loom reports a pair of accesses that are not ordered, which is what the tests are for.
unsafe impl Sync for Cell {}

impl Cell {
    fn new() -> Cell {
        Cell(UnsafeCell::new(0))
    }

    fn write(&self, value: u32) {
        // SAFETY: loom fails the test where this is not exclusive.
        self.0.with_mut(|cell| unsafe { *cell = value });
    }

    fn read(&self) -> u32 {
        // SAFETY: loom fails the test where somebody writes meanwhile.
        self.0.with(|cell| unsafe { *cell })
    }
}

/// The payloads of both directions.
struct Cells {
    inline: [Vec<Cell>; 2],
    bodies: Vec<Cell>,
}

/// One end of a wire, without the doorbell.
struct End {
    side: usize,
    sender: Sender,
    receiver: Receiver,
    stock: Stock,
    cells: Arc<Cells>,
}

fn pair(first: u32) -> [End; 2] {
    let layout = Layout::new(CONFIG).unwrap();
    let regions = [Region::new(layout), Region::new(layout)];
    let inline = || (0..layout.slots()).map(|_| Cell::new()).collect();
    let bodies = (0..layout.bodies()).map(|_| Cell::new()).collect();
    let cells = Arc::new(Cells { inline: [inline(), inline()], bodies });
    [0, 1].map(|side| End {
        side,
        sender: Sender::new(regions[side].clone(), first),
        receiver: Receiver::new(regions[1 - side].clone(), first, Lending::Addresses),
        stock: Stock::new(&layout, side as u32),
        cells: Arc::clone(&cells),
    })
}

fn key(operation: u32) -> Key {
    Key { port: 0, word: Word { operation, fingerprint: 0 } }
}

impl End {
    /// Sends a number as a message of `bytes`, if there is room.
    fn try_send(&mut self, sent: &mut u32, value: u32, bytes: usize) -> bool {
        if !self.sender.has_room(0, &mut self.stock).unwrap() {
            return false;
        }
        let slot =
            self.sender.reserve(0, bytes, &mut self.stock).unwrap().expect("a port with room has a body");
        match slot {
            Slot::Inline(_) => self.cells.inline[self.side][*sent as usize % 2].write(value),
            Slot::Body(body) => self.cells.bodies[body as usize].write(value),
        }
        self.sender.commit(key(value), bytes, self.receiver.released(0), &mut self.stock);
        *sent += 1;
        true
    }

    fn send(&mut self, sent: &mut u32, value: u32, bytes: usize) {
        while !self.try_send(sent, value, bytes) {
            thread::yield_now();
        }
    }

    fn try_receive(&mut self, value: u32, bytes: usize) -> bool {
        let shown = match self.receiver.poll(key(value), bytes, &self.stock).unwrap() {
            Found::NotYet => return false,
            Found::Opened => {
                self.sender.open(0).unwrap();
                return self.try_receive(value, bytes);
            }
            Found::Here(shown) => shown,
            other => panic!("unexpected {other:?}"),
        };
        self.sender.learn(0, self.receiver.credit(0), &mut self.stock);
        let got = match shown {
            Shown::Inline(slot) => self.cells.inline[1 - self.side][slot].read(),
            Shown::Body(body) => self.cells.bodies[body as usize].read(),
            Shown::Lent(_) | Shown::Read => panic!("nothing is lent"),
        };
        assert_eq!(got, value);
        let may_keep = self.sender.has_stock_room(&mut self.stock).unwrap();
        self.receiver.release(0, &mut self.stock, may_keep).unwrap();
        true
    }

    /// Looks for message 0, on a port that may just have been opened.
    fn look(&mut self, bytes: usize) -> Found {
        match self.receiver.poll(key(0), bytes, &self.stock).unwrap() {
            Found::Opened => self.receiver.poll(key(0), bytes, &self.stock).unwrap(),
            found => found,
        }
    }

    fn receive(&mut self, value: u32, bytes: usize) {
        while !self.try_receive(value, bytes) {
            thread::yield_now();
        }
    }
}

fn explore(test: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(test);
}

/// Slots are used again only when they were released, across the wrap of the counters.
#[test]
fn loom_inline_messages_lap_the_ring() {
    explore(|| {
        let [mut a, mut b] = pair(u32::MAX - 1);
        let sender = thread::spawn(move || {
            let mut sent = 0;
            (0..4).for_each(|n| a.send(&mut sent, n, 8));
        });
        (0..4).for_each(|n| b.receive(n, 8));
        sender.join().unwrap();
    });
}

/// One-sided traffic of bodies: what the receiver may not keep comes back, and is used again.
#[test]
fn loom_bodies_come_back() {
    explore(|| {
        let [mut a, mut b] = pair(0);
        let sender = thread::spawn(move || {
            let mut sent = 0;
            (0..5).for_each(|n| a.send(&mut sent, n, 4096));
        });
        (0..5).for_each(|n| b.receive(n, 4096));
        sender.join().unwrap();
    });
}

/// Where one end holds all that it may and the rest waits in its returns, the other still finds bodies for its ports.
#[test]
fn loom_an_end_finds_a_body_for_a_port_that_is_not_full() {
    explore(|| {
        let [mut a, mut b] = pair(0);
        let (mut from_a, mut from_b) = (0, 0);
        // All but what the ports need is with `a`, and what `b` sends now comes back to it through the returns.
        for n in 0..2 {
            b.send(&mut from_b, n, 4096);
            a.receive(n, 4096);
        }
        let other = thread::spawn(move || {
            (2..4).for_each(|n| b.send(&mut from_b, n, 4096));
            (0..2).for_each(|n| b.receive(n, 4096));
        });
        (2..4).for_each(|n| a.receive(n, 4096));
        (0..2).for_each(|n| a.send(&mut from_a, n, 4096));
        other.join().unwrap();
    });
}

/// Both ends send and receive: a body that was received is filled and sent back.
#[test]
fn loom_bodies_change_hands() {
    explore(|| {
        let [mut a, mut b] = pair(0);
        let other = thread::spawn(move || {
            let mut sent = 0;
            for n in 0..2 {
                a.send(&mut sent, n, 4096);
                a.receive(n, 4096);
            }
        });
        let mut sent = 0;
        for n in 0..2 {
            b.send(&mut sent, n, 4096);
            b.receive(n, 4096);
        }
        other.join().unwrap();
    });
}

/// A span that was called back is never read after; one that is read is not called back.
#[test]
fn loom_calling_back_excludes_reading() {
    explore(|| {
        let [mut a, mut b] = pair(0);
        let lent = Arc::new(Cell::new());
        let seen = Arc::clone(&lent);
        let reader = thread::spawn(move || {
            if let Found::Here(Shown::Lent(_)) = b.look(2000) {
                assert_eq!(seen.read(), 1);
                assert!(b.receiver.end_reading(0), "a thread's claim stands");
                b.receiver.release(0, &mut b.stock, true).unwrap();
            }
            b
        });
        lent.write(1);
        a.sender.open(0).unwrap();
        a.sender.lend(key(0), (stand_in(), 0), 0, &mut a.stock).unwrap();
        let back = a.sender.revoke(&mut a.stock, Reader::Thread, |_| true).unwrap();
        if back {
            lent.write(2);
        }
        reader.join().unwrap();
        assert!(
            a.sender.revoke(&mut a.stock, Reader::Thread, |_| true).unwrap(),
            "what is back stays back, what was read is done"
        );
    });
}

/// A reader in another process, from which a span is taken whatever it does, never makes anything of what was written after.
#[test]
fn loom_taking_from_under_a_reader_is_noticed() {
    explore(|| {
        let [mut a, mut b] = pair(0);
        // Not a cell: that the two meet here is what the protocol allows, and what the reader must find out.
        let lent = Arc::new(AtomicU32::new(1));
        let seen = Arc::clone(&lent);
        let reader = thread::spawn(move || {
            if let Ok(Found::Here(Shown::Lent(_))) = b.receiver.poll(key(0), 2000, &b.stock) {
                let read = seen.load(Ordering::Relaxed);
                if b.receiver.end_reading(0) {
                    assert_eq!(read, 1);
                }
            }
        });
        a.sender.lend(key(0), (stand_in(), 0), 0, &mut a.stock).unwrap();
        assert!(a.sender.revoke(&mut a.stock, Reader::Process, |_| true).unwrap(), "at once");
        lent.store(2, Ordering::Relaxed);
        reader.join().unwrap();
    });
}

/// A span that the reader gave up is free.
#[test]
fn loom_a_reader_gives_up() {
    explore(|| {
        let [mut a, mut b] = pair(0);
        let lent = Arc::new(Cell::new());
        let seen = Arc::clone(&lent);
        lent.write(1);
        a.sender.open(0).unwrap();
        a.sender.lend(key(0), (stand_in(), 0), 0, &mut a.stock).unwrap();
        let reader = thread::spawn(move || {
            if let Found::Here(Shown::Lent(_)) = b.look(2000) {
                assert_eq!(seen.read(), 1);
                b.receiver.give_up(|_| true);
            }
        });
        while !a.sender.revoke(&mut a.stock, Reader::Thread, |_| true).unwrap() {
            thread::yield_now();
        }
        lent.write(2);
        reader.join().unwrap();
    });
}

/// Long enough to be lent; nothing reads it.
fn stand_in() -> RawSpan {
    vec![0_u8; 2000].span()
}
