//! Asymmetric fences: nearly free for those who publish often, dear for those who are about to sleep.
//!
//! Two sides that each write a word and then read the other's word need a full fence in between, or both may miss the
//! other's write. Here the frequent side calls [`light`], which only holds the compiler back, and the rare one
//! [`heavy`], for which the kernel makes every thread of every registered process pass a full fence (`membarrier`). Each `light` thus lies
//! wholly before or wholly after every `heavy`, as if it had been a fence.
//!
//! Where the kernel refuses, both are full fences. A process must know whether the *other* side's `heavy` reaches it: for words that
//! processes share, the sleeper says so in the word itself (see `bell`); within one process both sides know alike.

#[cfg(not(loom))]
pub use self::asymmetric::{heavy, is_asymmetric, light};
#[cfg(loom)]
pub use self::symmetric::{heavy, is_asymmetric, light};

#[cfg(not(loom))]
mod asymmetric {
    use std::sync::atomic::{AtomicU8, Ordering, compiler_fence, fence};

    use rustix::thread::{MembarrierCommand, MembarrierQuery, membarrier, membarrier_query};

    /// Whether this process is registered with the kernel, as it is from the first fence on: one of the three below.
    static STATE: AtomicU8 = AtomicU8::new(UNKNOWN);
    const UNKNOWN: u8 = 0;
    const REGISTERED: u8 = 1;
    const REFUSED: u8 = 2;

    /// Whether `heavy` reaches other processes, and `light` costs nothing.
    #[inline]
    pub fn is_asymmetric() -> bool {
        STATE.load(Ordering::Relaxed) == REGISTERED || register()
    }

    /// Asks the kernel, unless it has refused. Threads that ask at once get the same answer.
    #[cold]
    fn register() -> bool {
        if STATE.load(Ordering::Relaxed) == REFUSED {
            return false;
        }
        let needed = MembarrierQuery::GLOBAL_EXPEDITED | MembarrierQuery::REGISTER_GLOBAL_EXPEDITED;
        let is_registered = membarrier_query().contains(needed)
            && membarrier(MembarrierCommand::RegisterGlobalExpedited).is_ok()
            && membarrier(MembarrierCommand::GlobalExpedited).is_ok();
        STATE.store(if is_registered { REGISTERED } else { REFUSED }, Ordering::Relaxed);
        is_registered
    }

    /// Between what was written before and what is read after, for the side that comes by often.
    #[inline]
    pub fn light() {
        if is_asymmetric() { compiler_fence(Ordering::SeqCst) } else { fence(Ordering::SeqCst) }
    }

    /// The same for the side that is about to sleep.
    pub fn heavy() {
        fence(Ordering::SeqCst);
        // A registered process may always ask.
        if is_asymmetric() {
            let _ = membarrier(MembarrierCommand::GlobalExpedited);
        }
        fence(Ordering::SeqCst);
    }
}

/// What loom explores: full fences on both sides, which is what the kernel's barrier amounts to.
#[cfg(loom)]
mod symmetric {
    use loom::sync::atomic::{Ordering, fence};

    /// The fences below do what the kernel would.
    pub fn is_asymmetric() -> bool {
        true
    }

    /// A full fence.
    pub fn light() {
        fence(Ordering::SeqCst);
    }

    /// A full fence.
    pub fn heavy() {
        fence(Ordering::SeqCst);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::Barrier;
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    /// The pattern that fences are for, many times over: one of the two sees the other.
    #[test]
    fn of_two_sides_one_sees_the_other() {
        let rounds = 20_000;
        let (light_side, heavy_side) = (AtomicU32::new(0), AtomicU32::new(0));
        let (light_saw, heavy_saw) = (AtomicU32::new(0), AtomicU32::new(0));
        let barrier = Barrier::new(2);
        let spin_until = |word: &AtomicU32, round| while word.load(Ordering::Acquire) < round {};
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for round in 1..=rounds {
                    light_side.store(round, Ordering::Release);
                    light();
                    light_saw.store(heavy_side.load(Ordering::Relaxed), Ordering::Relaxed);
                    if round % 64 == 0 {
                        barrier.wait();
                        barrier.wait();
                    }
                    spin_until(&heavy_side, round);
                }
            });
            for round in 1..=rounds {
                heavy_side.store(round, Ordering::Release);
                heavy();
                heavy_saw.store(light_side.load(Ordering::Relaxed), Ordering::Relaxed);
                if round % 64 == 0 {
                    barrier.wait();
                    let saw = (light_saw.load(Ordering::Relaxed), heavy_saw.load(Ordering::Relaxed));
                    assert!(saw.0 == round || saw.1 == round, "in round {round} the two saw {saw:?}");
                    barrier.wait();
                }
                spin_until(&light_side, round);
            }
        });
    }
}
