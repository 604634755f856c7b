//! The two words' protocol by which a sleeper is never missed; [`crate::Doorbell`] adds the eventfd to it.
//!
//! `asleep` is 1 while somebody sleeps, or is about to, and 0 otherwise.
//!
//! * Sleeper: exchange `asleep` to 1, full fence, look once more at everything that it waits for, then wait for the eventfd.
//! * Sender: publish (with an exchange), full fence, read `asleep`; where it is 1, exchange it to 0, and who gets the 1
//!   writes the eventfd.
//!
//! Whatever the interleaving, either the sleeper's second look sees what was published, or the sender's read sees the 1: each
//! side writes, fences, and then reads what the other wrote. Two senders cannot both get the 1, so a nap costs one write.

use crate::sync::{AtomicU32, Ordering, fence, fence_after_exchange};

/// Says "about to sleep"; what follows is the second look.
#[inline]
pub(crate) fn arm(asleep: &AtomicU32) {
    asleep.swap(1, Ordering::SeqCst);
    fence_after_exchange();
}

/// Takes it back.
#[inline]
pub(crate) fn disarm(asleep: &AtomicU32) {
    asleep.store(0, Ordering::Relaxed);
}

/// Whether the caller has to wake the sleeper, who may have missed what the caller published with any kind of store.
#[inline]
#[must_use]
pub(crate) fn claim(asleep: &AtomicU32) -> bool {
    fence(Ordering::SeqCst);
    is_set(asleep)
}

/// The same directly after an atomic exchange that published.
#[inline]
#[must_use]
pub(crate) fn claim_after_exchange(asleep: &AtomicU32) -> bool {
    fence_after_exchange();
    is_set(asleep)
}

#[inline]
fn is_set(asleep: &AtomicU32) -> bool {
    asleep.load(Ordering::Relaxed) != 0 && asleep.swap(0, Ordering::AcqRel) != 0
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

    fn by_exchange(shared: &Shared) {
        shared.published.fetch_add(1, Ordering::SeqCst);
        shared.strike_if(claim_after_exchange(&shared.asleep));
    }

    #[test]
    fn loom_an_exchange_is_seen_or_wakes() {
        explore(vec![by_exchange]);
    }

    #[test]
    fn loom_two_publishers_wake_once() {
        explore(vec![by_exchange, by_exchange]);
    }

    #[test]
    fn loom_a_store_is_seen_or_wakes() {
        explore(vec![|shared| {
            shared.published.store(1, Ordering::Release);
            shared.strike_if(claim(&shared.asleep));
        }]);
    }
}
