//! [`Handover`]: who drives. Whoever holds the communicator's core drives, the others sleep here.
//!
//! Protocol. The core lies in a mutex; who has locked it is the driver, and nobody ever waits for that lock.
//!
//! | field | written by | meaning |
//! |---|---|---|
//! | `core` | who has locked it | |
//! | `held` | who has locked `core`, before it unlocks and after it has locked | a hint for those who do not want the lock |
//! | `work_left` | who has locked `core` | operations remain in the core as it was put back |
//! | `pending` | who posts (true), the driver (false) | something was put into the inbox since it was last emptied |
//! | `turns` | who has locked `core` | how often it was taken |
//! | `waiting` | waiters, with the monitor locked | threads in `wait` |
//! | monitor | who has locked it | whether the background driver sleeps, whether all is over |
//!
//! - `take` locks the core if nobody has.
//! - Putting it back wakes those who may need it: every sleeping waiter (each looks whether its operation is done, one of the
//!   others takes the core), or, where there are none and work remains, the background driver.
//! - `wait` sleeps until the caller's operation is done or the core is put back; it counts as a waiter meanwhile, so that
//!   the background driver, which looks at `is_wanted` between rounds, gives the core up.
//! - The background driver leaves work alone while somebody else comes back to it: it drives where the core has not been taken
//!   since it last looked, or where it was asked to.
//! - `announce` is called by the holder after it has completed operations.
//!
//! No wake is lost. A waiter, with the monitor locked, raises `waiting`, fences, and then looks at `held` and at its operation;
//! a holder lowers `held`, or completes the operation, fences, and then looks at `waiting`: one of the two sees the other, and
//! the holder that sees a waiter locks the monitor, which it gets when the waiter sleeps. Posting and putting back are the
//! same with `pending` and `held`. Waiters and posters fence heavily, holders lightly (`hcomm_transports::fence`). Between the
//! lowering of `held` and the unlocking a waiter may find the core locked: it looks again. A call that finds the core free and
//! leaves no work takes this one lock and no more.

#[cfg(loom)]
use loom::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
#[cfg(loom)]
use loom::sync::{Condvar, Mutex as CoreMutex, Mutex, MutexGuard as CoreGuard, MutexGuard};
#[cfg(not(loom))]
use parking_lot::{Mutex as CoreMutex, MutexGuard as CoreGuard};
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};
#[cfg(not(loom))]
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
#[cfg(not(loom))]
use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::Duration;

use hcomm_transports::fence;

/// The core, and the place to wait for it.
#[derive(Debug)]
pub struct Handover<T> {
    core: CoreMutex<T>,
    held: AtomicBool,
    work_left: AtomicBool,
    pending: AtomicBool,
    turns: AtomicU32,
    waiting: AtomicUsize,
    monitor: Mutex<Monitor>,
    waiters: Condvar,
    driver: Condvar,
}

#[derive(Debug, Default)]
struct Monitor {
    /// The background driver sleeps in `next_shift`.
    driver_asleep: bool,
    /// What `turns` was when the background driver last looked.
    seen_turns: u32,
    closed: bool,
}

/// The core in the hands of one thread. Dropping it puts it back as one that may have work left.
#[derive(Debug)]
pub struct Lease<'a, T> {
    handover: &'a Handover<T>,
    core: Option<CoreGuard<'a, T>>,
}

/// What a wait came to.
#[derive(Debug)]
pub enum Turn<'a, T> {
    /// The caller holds the core and must drive.
    Drive(Lease<'a, T>),
    /// Look again: the operation may be done, or the patience is over.
    Look,
}

/// What the background driver is to do.
#[derive(Debug)]
pub enum Shift<'a, T> {
    /// Drive until nothing is left or somebody else wants the core.
    Drive(Lease<'a, T>),
    /// The core is elsewhere or idle; look again.
    Idle,
    /// The communicator is closed.
    Over,
}

impl<T> Handover<T> {
    /// A core that nobody holds.
    pub fn new(core: T) -> Self {
        Handover {
            core: CoreMutex::new(core),
            held: AtomicBool::new(false),
            work_left: AtomicBool::new(false),
            pending: AtomicBool::new(false),
            turns: AtomicU32::new(0),
            waiting: AtomicUsize::new(0),
            monitor: Mutex::new(Monitor::default()),
            waiters: Condvar::new(),
            driver: Condvar::new(),
        }
    }

    /// The core, if nobody holds it.
    #[inline]
    pub fn take(&self) -> Option<Lease<'_, T>> {
        let core = try_lock(&self.core)?;
        self.held.store(true, Ordering::Relaxed);
        self.turns.store(self.turns.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
        Some(Lease { handover: self, core: Some(core) })
    }

    /// Sleeps until `is_done`, until the core can be taken, or for `patience`.
    pub fn wait(&self, is_done: impl Fn() -> bool, patience: Duration) -> Turn<'_, T> {
        if let Some(core) = self.take() {
            return Turn::Drive(core);
        }
        let mut monitor = lock(&self.monitor);
        self.waiting.fetch_add(1, Ordering::Relaxed);
        fence::heavy();
        if self.held.load(Ordering::Relaxed) && !is_done() {
            monitor = wait_timeout(&self.waiters, monitor, patience);
        }
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        if is_done() {
            self.pass_on(&monitor);
            return Turn::Look;
        }
        drop(monitor);
        self.take().map_or(Turn::Look, Turn::Drive)
    }

    /// Tells the waiters to look at their operations.
    pub fn announce(&self) {
        fence::light();
        if self.is_wanted() {
            let _monitor = lock(&self.monitor);
            self.waiters.notify_all();
        }
    }

    /// Whether a thread sleeps here that would drive.
    #[inline]
    pub fn is_wanted(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) > 0
    }

    /// Says that something was put into the inbox, or that an operation is nobody's any more, so that somebody looks.
    pub fn leave_work(&self) {
        self.pending.store(true, Ordering::Release);
        fence::heavy();
        self.pass_on(&lock(&self.monitor));
    }

    /// For the holder: whether something may have come into the inbox since this was last asked.
    #[inline]
    pub fn take_pending(&self) -> bool {
        self.has_pending() && self.pending.swap(false, Ordering::Acquire)
    }

    /// The same without taking note of it.
    #[inline]
    pub fn has_pending(&self) -> bool {
        self.pending.load(Ordering::Relaxed)
    }

    /// For the background driver: sleeps until there is work and nobody to do it, or for `patience`.
    pub fn next_shift(&self, patience: Duration) -> Shift<'_, T> {
        let mut monitor = lock(&self.monitor);
        if !monitor.closed && !self.is_unattended() && !patience.is_zero() {
            monitor.driver_asleep = true;
            monitor = wait_timeout(&self.driver, monitor, patience);
            monitor.driver_asleep = false;
        }
        if monitor.closed {
            return Shift::Over;
        }
        let turns = self.turns.load(Ordering::Relaxed);
        let is_left = std::mem::replace(&mut monitor.seen_turns, turns) == turns || self.has_pending();
        if !self.is_unattended() || !is_left {
            return Shift::Idle;
        }
        drop(monitor);
        self.take().map_or(Shift::Idle, Shift::Drive)
    }

    /// Ends the background driver.
    pub fn close(&self) {
        lock(&self.monitor).closed = true;
        self.driver.notify_all();
        self.waiters.notify_all();
    }

    /// Wakes who may need the core that was put back.
    #[cold]
    fn wake(&self) {
        let monitor = lock(&self.monitor);
        if self.is_wanted() {
            self.waiters.notify_all();
        } else {
            self.pass_on(&monitor);
        }
    }

    /// Who leaves work without driving sees to it that somebody does.
    fn pass_on(&self, monitor: &Monitor) {
        if monitor.driver_asleep && self.is_unattended() {
            self.driver.notify_one();
        }
    }

    /// Whether work is left and nobody holds the core or waits for it.
    fn is_unattended(&self) -> bool {
        let is_work = self.work_left.load(Ordering::Relaxed) || self.has_pending();
        is_work && !self.held.load(Ordering::Relaxed) && !self.is_wanted()
    }
}

impl<T> Lease<'_, T> {
    /// Puts the core back. `work_left`: operations remain unfinished.
    #[inline]
    pub fn put_back(self, work_left: bool) {
        let mut lease = ManuallyDrop::new(self);
        if let Some(core) = lease.core.take() {
            Lease::unlock(lease.handover, core, work_left);
        }
    }

    #[inline]
    fn unlock(handover: &Handover<T>, core: CoreGuard<'_, T>, work_left: bool) {
        handover.work_left.store(work_left, Ordering::Relaxed);
        handover.held.store(false, Ordering::Release);
        fence::light();
        let is_awaited = handover.has_pending() || handover.is_wanted();
        drop(core);
        if work_left || is_awaited {
            handover.wake();
        }
    }
}

impl<T> Deref for Lease<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        self.core.as_ref().expect("held until it is put back")
    }
}

impl<T> DerefMut for Lease<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        self.core.as_mut().expect("held until it is put back")
    }
}

impl<T> Drop for Lease<'_, T> {
    fn drop(&mut self) {
        if let Some(core) = self.core.take() {
            Lease::unlock(self.handover, core, true);
        }
    }
}

#[cfg(not(loom))]
#[inline]
fn try_lock<T>(core: &CoreMutex<T>) -> Option<CoreGuard<'_, T>> {
    core.try_lock()
}

#[cfg(loom)]
fn try_lock<T>(core: &CoreMutex<T>) -> Option<CoreGuard<'_, T>> {
    core.try_lock().ok()
}

#[cfg(not(loom))]
fn lock(monitor: &Mutex<Monitor>) -> MutexGuard<'_, Monitor> {
    monitor.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

#[cfg(loom)]
fn lock(monitor: &Mutex<Monitor>) -> MutexGuard<'_, Monitor> {
    monitor.lock().expect("loom's mutex is not poisoned")
}

#[cfg(not(loom))]
fn wait_timeout<'a>(
    condvar: &Condvar,
    monitor: MutexGuard<'a, Monitor>,
    patience: Duration,
) -> MutexGuard<'a, Monitor> {
    condvar.wait_timeout(monitor, patience).unwrap_or_else(std::sync::PoisonError::into_inner).0
}

#[cfg(loom)]
fn wait_timeout<'a>(
    condvar: &Condvar,
    monitor: MutexGuard<'a, Monitor>,
    _: Duration,
) -> MutexGuard<'a, Monitor> {
    condvar.wait(monitor).expect("loom's mutex is not poisoned")
}

/// `RUSTFLAGS="--cfg loom" cargo test -p hcomm-engine --lib --release -- loom`
#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use loom::sync::Arc;
    use loom::sync::atomic::{AtomicUsize, Ordering};

    /// Explores all runs with few preemptions: with three threads there are too many others.
    fn bounded_model(run: impl Fn() + Sync + Send + 'static) {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(3);
        builder.check(run);
    }

    /// Two waiters and the driver: each operation is done by whoever holds the core; nobody sleeps for ever.
    #[test]
    fn every_waiter_ends() {
        loom::model(|| {
            let handover = Arc::new(Handover::new(0_usize));
            let done = Arc::new(AtomicUsize::new(0));
            let waiter = |bit: usize, handover: Arc<Handover<usize>>, done: Arc<AtomicUsize>| {
                move || {
                    let is_done = || done.load(Ordering::Acquire) & bit != 0;
                    while !is_done() {
                        match handover.wait(is_done, Duration::MAX) {
                            Turn::Drive(mut core) => {
                                *core += 1;
                                // A round of progress completes everybody's operation.
                                done.store(3, Ordering::Release);
                                handover.announce();
                                core.put_back(false);
                            }
                            Turn::Look => loom::thread::yield_now(),
                        }
                    }
                }
            };
            let other = loom::thread::spawn(waiter(1, handover.clone(), done.clone()));
            waiter(2, handover.clone(), done.clone())();
            other.join().expect("the waiter ends");
        });
    }

    /// What is put into the inbox while another holds the core is seen by somebody: the holder, or the driver after it.
    #[test]
    fn an_inbox_is_never_forgotten() {
        bounded_model(|| {
            let handover = Arc::new(Handover::new(()));
            let inbox = Arc::new(Mutex::new(0_usize));
            let take_in = |inbox: &Mutex<usize>| std::mem::take(&mut *inbox.lock().expect("not poisoned"));
            let poster = {
                let (handover, inbox) = (handover.clone(), inbox.clone());
                loom::thread::spawn(move || {
                    *inbox.lock().expect("not poisoned") = 1;
                    handover.leave_work();
                })
            };
            let holder = {
                let (handover, inbox) = (handover.clone(), inbox.clone());
                loom::thread::spawn(move || {
                    let Some(core) = handover.take() else { return };
                    let took = if handover.take_pending() { take_in(&inbox) } else { 0 };
                    core.put_back(false);
                    // The driver below is to end as well.
                    if took > 0 {
                        handover.close();
                    }
                })
            };
            loop {
                match handover.next_shift(Duration::MAX) {
                    Shift::Drive(core) => {
                        let took = if handover.take_pending() { take_in(&inbox) } else { 0 };
                        core.put_back(false);
                        if took > 0 {
                            break;
                        }
                    }
                    Shift::Idle => loom::thread::yield_now(),
                    Shift::Over => break,
                }
            }
            poster.join().expect("the poster ends");
            holder.join().expect("the holder ends");
        });
    }

    /// The driver gives the core up to a waiter, and goes on when that one leaves work behind.
    #[test]
    fn the_driver_and_a_waiter_take_turns() {
        loom::model(|| {
            let handover = Arc::new(Handover::new(0_usize));
            handover.leave_work();
            let driver = {
                let handover = handover.clone();
                loom::thread::spawn(move || {
                    loop {
                        match handover.next_shift(Duration::MAX) {
                            Shift::Drive(mut core) => {
                                *core += 1;
                                let left = *core < 2;
                                core.put_back(left);
                                if !left {
                                    return;
                                }
                            }
                            Shift::Idle => loom::thread::yield_now(),
                            Shift::Over => return,
                        }
                    }
                })
            };
            loop {
                match handover.wait(|| false, Duration::MAX) {
                    Turn::Drive(core) => {
                        let left = *core < 2;
                        core.put_back(left);
                        break;
                    }
                    Turn::Look => loom::thread::yield_now(),
                }
            }
            driver.join().expect("the driver ends");
        });
    }

    /// A communicator that closes ends its driver, whatever the driver is doing.
    #[test]
    fn close_ends_the_driver() {
        loom::model(|| {
            let handover = Arc::new(Handover::new(()));
            let driver = {
                let handover = handover.clone();
                loom::thread::spawn(move || {
                    loop {
                        match handover.next_shift(Duration::MAX) {
                            Shift::Drive(core) => {
                                handover.take_pending();
                                core.put_back(false);
                            }
                            Shift::Idle => loom::thread::yield_now(),
                            Shift::Over => return,
                        }
                    }
                })
            };
            handover.leave_work();
            handover.close();
            driver.join().expect("the driver ends");
        });
    }

    /// Work left behind by a waiter is taken up by the driver.
    #[test]
    fn work_left_is_taken_up() {
        loom::model(|| {
            let handover = Arc::new(Handover::new(()));
            let driver = {
                let handover = handover.clone();
                loom::thread::spawn(move || {
                    loop {
                        match handover.next_shift(Duration::MAX) {
                            Shift::Drive(core) => return core.put_back(false),
                            Shift::Idle => loom::thread::yield_now(),
                            Shift::Over => return,
                        }
                    }
                })
            };
            let core = handover.take();
            if let Some(core) = core {
                core.put_back(true);
            }
            driver.join().expect("the driver ends");
        });
    }
}
