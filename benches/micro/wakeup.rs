//! One wake-up: from the ring of a doorbell to its sleeper being awake on another processor; and a ring where nobody sleeps, which every
//! message pays for.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use hcomm::transports::{Doorbell, Ringer};

use crate::clock::{median, median_ns};
use crate::place::pin;
use crate::table::Table;

const WAKES: usize = 400;
/// Long enough for the other to fall asleep.
const NAP: Duration = Duration::from_micros(200);
const PATIENCE: Duration = Duration::from_secs(10);

pub fn run() -> Table {
    let row = |what: &str, ns: f64| vec![what.to_owned(), format!("{ns:.1}")];
    let rows = vec![row("asleep to awake", wake_ns()), row("ring where nobody sleeps", idle_ring_ns())];
    Table { heading: "The doorbell", columns: &["what", "ns"], rows }
}

fn idle_ring_ns() -> f64 {
    let bell = Doorbell::new().expect("an eventfd");
    let ringer = bell.ringer();
    let ns = median_ns(|| ringer.ring());
    bell.arm();
    let start = Instant::now();
    bell.sleep(&[], NAP);
    assert!(start.elapsed() >= NAP, "a ring from before the sleep woke it");
    ns
}

fn wake_ns() -> f64 {
    let bell = Doorbell::new().expect("an eventfd");
    let (ringer, rung) = (bell.ringer(), AtomicUsize::new(0));
    let (awake, wakes) = mpsc::channel();
    thread::scope(|scope| {
        let rung = &rung;
        scope.spawn(move || {
            pin(1);
            (1..=WAKES)
                .for_each(|wake| awake.send(sleep_until(&bell, rung, wake)).expect("the ringer waits"));
        });
        let rings = scope.spawn(move || {
            pin(0);
            median((1..=WAKES).map(|wake| ring(&ringer, rung, wake, &wakes)).collect())
        });
        rings.join().expect("every ring woke the sleeper")
    })
}

/// Sleeps until `rung` says so; when it awoke.
fn sleep_until(bell: &Doorbell, rung: &AtomicUsize, wake: usize) -> Instant {
    while rung.load(Ordering::Acquire) < wake {
        bell.arm();
        if rung.load(Ordering::Acquire) < wake {
            bell.sleep(&[], PATIENCE);
        }
        bell.disarm();
    }
    Instant::now()
}

fn ring(ringer: &Ringer, rung: &AtomicUsize, wake: usize, wakes: &mpsc::Receiver<Instant>) -> f64 {
    thread::sleep(NAP);
    let start = Instant::now();
    rung.store(wake, Ordering::Release);
    ringer.ring();
    let awake = wakes.recv_timeout(PATIENCE / 2).expect("the ring woke the sleeper, not its time limit");
    awake.saturating_duration_since(start).as_nanos() as f64
}
