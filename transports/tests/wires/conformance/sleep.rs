//! Sleepers are woken: by messages, by releases, by ringers, by time.

use std::time::{Duration, Instant};

use hcomm_transports::{AnyWire, Arrival, Doorbell, Sent, Wire};

use super::Connect;
use crate::pair::{CONFIG, Pair, key};

/// Longer than any test takes, so that a missed wake shows as a failure and not as a delay.
const LONG: Duration = Duration::from_secs(30);
const ROUNDS: u32 = 300;

/// One end with a rank's loop around it.
struct Rank {
    wires: Vec<Option<AnyWire>>,
    doorbell: Doorbell,
}

impl Rank {
    /// Sleeps, without ever spinning, until there is an answer.
    fn wait<T>(&mut self, mut ask: impl FnMut(&mut AnyWire) -> Option<T>) -> T {
        let start = Instant::now();
        loop {
            if let Some(answer) = self.look(&mut ask) {
                return answer;
            }
            self.doorbell.arm();
            if let Some(answer) = self.look(&mut ask) {
                self.doorbell.disarm();
                return answer;
            }
            self.doorbell.sleep(&self.wires, LONG);
            assert!(start.elapsed() < LONG, "a wake was missed");
        }
    }

    fn look<T>(&mut self, ask: &mut impl FnMut(&mut AnyWire) -> Option<T>) -> Option<T> {
        let wire = self.wires[0].as_mut().expect("there is one");
        while wire.progress() {}
        let answer = ask(wire);
        while wire.progress() {}
        answer
    }

    fn send(&mut self, port: u16) {
        self.wait(|wire| match wire.send_from(key(port), &[], false) {
            Sent::Full => None,
            _ => Some(()),
        });
    }

    fn receive(&mut self, port: u16) {
        self.wait(|wire| match wire.poll(key(port), 0) {
            Arrival::NotYet => None,
            Arrival::Here(_) => {
                wire.release(port);
                Some(())
            }
            other => panic!("unexpected {other:?}"),
        });
    }
}

/// The two ranks of a pair, where its transport has real time.
fn ranks(pair: Pair) -> Option<[Rank; 2]> {
    let [a, b] = pair.bells?;
    Some([Rank { wires: vec![Some(pair.a)], doorbell: a }, Rank { wires: vec![Some(pair.b)], doorbell: b }])
}

/// Two ranks that sleep at every step play ping-pong.
pub fn a_message_wakes(connect: Connect) {
    let Some([mut a, mut b]) = ranks(connect(CONFIG, 0)) else { return };
    let other = std::thread::spawn(move || {
        for _ in 0..ROUNDS {
            b.receive(0);
            b.send(1);
        }
        b
    });
    for _ in 0..ROUNDS {
        a.send(0);
        a.receive(1);
    }
    other.join().unwrap();
}

/// A sender that sleeps because its port is full is woken by a release.
pub fn a_release_wakes(connect: Connect) {
    let Some([mut a, mut b]) = ranks(connect(CONFIG, 0)) else { return };
    let other = std::thread::spawn(move || {
        (0..ROUNDS).for_each(|_| b.receive(0));
        b
    });
    (0..ROUNDS).for_each(|_| a.send(0));
    other.join().unwrap();
}

/// A thread of the same process rings.
pub fn a_ringer_wakes(connect: Connect) {
    let Some([mut a, _b]) = ranks(connect(CONFIG, 0)) else { return };
    let ringer = a.doorbell.ringer();
    let turns = std::sync::Arc::new(std::sync::atomic::AtomicU32::new(0));
    let seen = std::sync::Arc::clone(&turns);
    let other = std::thread::spawn(move || {
        for turn in 1..=ROUNDS {
            seen.store(turn, std::sync::atomic::Ordering::Relaxed);
            ringer.ring();
            if turn % 10 == 0 {
                std::thread::yield_now();
            }
        }
    });
    a.wait(|_| (turns.load(std::sync::atomic::Ordering::Relaxed) == ROUNDS).then_some(()));
    other.join().unwrap();
}

/// Sleep ends by itself.
pub fn a_timeout_wakes(connect: Connect) {
    let Some([a, _b]) = ranks(connect(CONFIG, 0)) else { return };
    let start = Instant::now();
    for _ in 0..3 {
        a.doorbell.arm();
        a.doorbell.sleep(&a.wires, Duration::from_millis(5));
    }
    assert!(start.elapsed() < LONG);
}
