//! [`Handover`]: who drives. A monitor around the communicator's core: whoever holds the core drives, the others sleep here.
//!
//! Protocol. The core is either parked here or held by one thread.
//! - `take` moves it out, if it is parked and nothing stands against it.
//! - `put_back` parks it again and wakes those who may need it: every sleeping waiter (each looks whether its operation is
//!   done, one of the others takes the core), or, where there are none and operations remain, the background driver.
//! - `wait` sleeps until the caller's operation is done or the core is parked; it counts as a waiter meanwhile, so that
//!   the background driver, which looks at `is_wanted` between rounds, gives the core up.
//! - `announce` is called by the holder after it has completed operations.
//!
//! All conditions are read and written under one mutex, so no wake is lost; it is held for a few instructions only.

#[cfg(loom)]
use loom::sync::{Condvar, Mutex, MutexGuard};
#[cfg(not(loom))]
use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::Duration;

/// The core, or the place where it will be put back.
#[derive(Debug)]
pub struct Handover<T> {
    parked: Mutex<Parked<T>>,
    waiters: Condvar,
    driver: Condvar,
}

#[derive(Debug)]
struct Parked<T> {
    core: Option<Box<T>>,
    waiting: usize,
    /// Operations remain in the parked core.
    work_left: bool,
    /// Something was put into the inbox while the core was away.
    pending: bool,
    /// The background driver sleeps in `next_shift`.
    driver_asleep: bool,
    closed: bool,
}

/// What a wait came to.
#[derive(Debug)]
pub enum Turn<T> {
    /// The caller holds the core and must drive.
    Drive(Box<T>),
    /// Look again: the operation may be done, or the patience is over.
    Look,
}

/// What the background driver is to do.
#[derive(Debug)]
pub enum Shift<T> {
    /// Drive until nothing is left or somebody else wants the core.
    Drive(Box<T>),
    /// The core is elsewhere or idle; look again.
    Idle,
    /// The communicator is closed.
    Over,
}

impl<T> Handover<T> {
    /// A parked core.
    pub fn new(core: T) -> Self {
        let parked = Parked {
            core: Some(Box::new(core)),
            waiting: 0,
            work_left: false,
            pending: false,
            driver_asleep: false,
            closed: false,
        };
        Handover { parked: Mutex::new(parked), waiters: Condvar::new(), driver: Condvar::new() }
    }

    /// Takes the core, if nobody holds it.
    #[must_use = "who takes the core must put it back"]
    pub fn take(&self) -> Option<Box<T>> {
        self.lock().take()
    }

    /// Parks the core. `work_left`: operations remain unfinished.
    pub fn put_back(&self, core: Box<T>, work_left: bool) {
        let mut parked = self.lock();
        parked.core = Some(core);
        parked.work_left = work_left || parked.pending;
        if parked.waiting > 0 {
            self.waiters.notify_all();
        } else {
            self.pass_on(&parked);
        }
    }

    /// Sleeps until `is_done`, until the core can be taken, or for `patience`.
    pub fn wait(&self, is_done: impl Fn() -> bool, patience: Duration) -> Turn<T> {
        let mut parked = self.lock();
        if is_done() {
            return Turn::Look;
        }
        if parked.core.is_none() {
            parked.waiting += 1;
            parked = wait_timeout(&self.waiters, parked, patience);
            parked.waiting -= 1;
        }
        if is_done() {
            self.pass_on(&parked);
            return Turn::Look;
        }
        parked.take().map_or(Turn::Look, Turn::Drive)
    }

    /// Tells the waiters to look at their operations.
    pub fn announce(&self) {
        if self.lock().waiting > 0 {
            self.waiters.notify_all();
        }
    }

    /// Whether a thread sleeps here that would drive.
    pub fn is_wanted(&self) -> bool {
        self.lock().waiting > 0
    }

    /// Says that something was put into the inbox, so that somebody looks at it.
    pub fn leave_work(&self) {
        let mut parked = self.lock();
        parked.pending = true;
        parked.work_left = true;
        self.pass_on(&parked);
    }

    /// For the background driver: sleeps until there is work and nobody to do it, or for `patience`.
    pub fn next_shift(&self, patience: Duration) -> Shift<T> {
        let mut parked = self.lock();
        if !parked.closed && !parked.is_unattended() && !patience.is_zero() {
            parked.driver_asleep = true;
            parked = wait_timeout(&self.driver, parked, patience);
            parked.driver_asleep = false;
        }
        if parked.closed {
            return Shift::Over;
        }
        if !parked.is_unattended() {
            return Shift::Idle;
        }
        parked.take().map_or(Shift::Idle, Shift::Drive)
    }

    /// Ends the background driver.
    pub fn close(&self) {
        self.lock().closed = true;
        self.driver.notify_all();
        self.waiters.notify_all();
    }

    /// A waiter that leaves without driving sees to it that somebody does.
    fn pass_on(&self, parked: &Parked<T>) {
        if parked.driver_asleep && parked.is_unattended() {
            self.driver.notify_one();
        }
    }

    #[cfg(not(loom))]
    fn lock(&self) -> MutexGuard<'_, Parked<T>> {
        self.parked.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    #[cfg(loom)]
    fn lock(&self) -> MutexGuard<'_, Parked<T>> {
        self.parked.lock().expect("loom's mutex is not poisoned")
    }
}

impl<T> Parked<T> {
    fn take(&mut self) -> Option<Box<T>> {
        let core = self.core.take();
        self.pending &= core.is_none();
        core
    }

    /// Whether work is left and nobody holds the core or waits for it.
    fn is_unattended(&self) -> bool {
        self.core.is_some() && self.work_left && self.waiting == 0
    }
}

#[cfg(not(loom))]
fn wait_timeout<'a, T>(
    condvar: &Condvar,
    parked: MutexGuard<'a, Parked<T>>,
    patience: Duration,
) -> MutexGuard<'a, Parked<T>> {
    condvar.wait_timeout(parked, patience).unwrap_or_else(std::sync::PoisonError::into_inner).0
}

#[cfg(loom)]
fn wait_timeout<'a, T>(
    condvar: &Condvar,
    parked: MutexGuard<'a, Parked<T>>,
    _: Duration,
) -> MutexGuard<'a, Parked<T>> {
    condvar.wait(parked).expect("loom's mutex is not poisoned")
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
                        if let Turn::Drive(mut core) = handover.wait(is_done, Duration::MAX) {
                            *core += 1;
                            // A round of progress completes everybody's operation.
                            done.store(3, Ordering::Release);
                            handover.announce();
                            handover.put_back(core, false);
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
                    let took = take_in(&inbox);
                    let work_left = *inbox.lock().expect("not poisoned") > 0;
                    handover.put_back(core, work_left);
                    // The driver below is to end as well.
                    if took > 0 {
                        handover.close();
                    }
                })
            };
            loop {
                match handover.next_shift(Duration::MAX) {
                    Shift::Drive(core) => {
                        let took = take_in(&inbox);
                        handover.put_back(core, false);
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
                                handover.put_back(core, left);
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
                if let Turn::Drive(core) = handover.wait(|| false, Duration::MAX) {
                    let left = *core < 2;
                    handover.put_back(core, left);
                    break;
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
                            Shift::Drive(core) => handover.put_back(core, false),
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
                            Shift::Drive(core) => return handover.put_back(core, false),
                            Shift::Idle => loom::thread::yield_now(),
                            Shift::Over => return,
                        }
                    }
                })
            };
            let core = handover.take();
            if let Some(core) = core {
                handover.put_back(core, true);
            }
            driver.join().expect("the driver ends");
        });
    }
}
