//! The two words' protocol by which a sleeper is never missed; [`crate::Doorbell`] adds the eventfd to it.
//!
//! `asleep` has two bits. `ASLEEP`: somebody sleeps, or is about to. `FENCED`, set once by the owner before anybody else sees the word:
//! its `heavy` fences do not reach other processes, so senders have to make full ones.
//!
//! * Sleeper: set `ASLEEP`, heavy fence, look once more at everything that it waits for, then wait for the eventfd.
//! * Sender: publish, light fence, read `asleep`. 0, the usual: done. `FENCED`: full fence, read again. `ASLEEP`: take the
//!   bit, and who gets it writes the eventfd.
//!
//! Whatever the interleaving, either the sleeper's second look sees what was published, or the sender's read sees the bit: each
//! side writes, fences, and then reads what the other wrote. Two senders cannot both get the bit, so a nap costs one write.

use crate::fence;
use crate::sync::{AtomicU32, Ordering};

const ASLEEP: u32 = 1;
const FENCED: u32 = 2;

/// By the owner, before anybody else sees the word.
#[cfg(not(loom))]
pub(crate) fn set_up(asleep: &AtomicU32) {
    set_up_for(asleep, fence::is_asymmetric());
}

fn set_up_for(asleep: &AtomicU32, is_asymmetric: bool) {
    asleep.store(if is_asymmetric { 0 } else { FENCED }, Ordering::Release);
}

/// Says "about to sleep"; what follows is the second look.
#[inline]
pub(crate) fn arm(asleep: &AtomicU32) {
    asleep.fetch_or(ASLEEP, Ordering::SeqCst);
    fence::heavy();
}

/// Takes it back.
#[inline]
pub(crate) fn disarm(asleep: &AtomicU32) {
    asleep.fetch_and(!ASLEEP, Ordering::Relaxed);
}

/// Whether the caller has to wake the sleeper, who may have missed what the caller published.
#[inline]
#[must_use]
pub(crate) fn claim(asleep: &AtomicU32) -> bool {
    fence::light();
    asleep.load(Ordering::Relaxed) != 0 && claim_bit(asleep)
}

#[cold]
fn claim_bit(asleep: &AtomicU32) -> bool {
    full_fence();
    asleep.load(Ordering::Relaxed) & ASLEEP != 0 && asleep.fetch_and(!ASLEEP, Ordering::AcqRel) & ASLEEP != 0
}

fn full_fence() {
    #[cfg(loom)]
    loom::sync::atomic::fence(Ordering::SeqCst);
    #[cfg(not(loom))]
    std::sync::atomic::fence(Ordering::SeqCst);
}

/// `RUSTFLAGS="--cfg loom" cargo test -p hcomm-transports --lib --release -- loom`
#[cfg(all(test, loom))]
mod loom_tests {
    use loom::sync::Arc;
    use loom::thread;

    use super::*;

    /// What two threads share: a published word, `asleep`, and the number of times that the eventfd was written.
    #[derive(Default)]
    struct Shared {
        published: AtomicU32,
        asleep: AtomicU32,
        strikes: AtomicU32,
    }

    impl Shared {
        fn strike_if(&self, must: bool) {
            if must {
                self.strikes.fetch_add(1, Ordering::SeqCst);
            }
        }
    }

    fn explore(publishers: Vec<fn(&Shared)>) {
        loom::model(move || {
            let shared = Arc::new(Shared::default());
            let threads: Vec<_> = publishers
                .iter()
                .map(|&publish| {
                    let shared = Arc::clone(&shared);
                    thread::spawn(move || publish(&shared))
                })
                .collect();
            arm(&shared.asleep);
            let seen = shared.published.load(Ordering::Acquire);
            threads.into_iter().for_each(|thread| thread.join().unwrap());
            let strikes = shared.strikes.load(Ordering::SeqCst);
            let all = publishers.len() as u32;
            assert!(seen == all || strikes > 0, "saw {seen} of {all} and was not woken");
            assert!(strikes <= 1, "one nap, one strike");
        });
    }

    fn by_addition(shared: &Shared) {
        shared.published.fetch_add(1, Ordering::Release);
        shared.strike_if(claim(&shared.asleep));
    }

    #[test]
    fn loom_two_publishers_wake_once() {
        explore(vec![by_addition, by_addition]);
    }

    #[test]
    fn loom_a_store_is_seen_or_wakes() {
        explore(vec![|shared| {
            shared.published.store(1, Ordering::Release);
            shared.strike_if(claim(&shared.asleep));
        }]);
    }
}
