//! [`Operation`]: what the submitter and the driver share of one operation: its outcome, who is told of it, its urgency.

use std::any::Any;
use std::sync::atomic::{AtomicI32, AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::Duration;

use hcomm_ops::Rank;
use hcomm_ops::buffer::{Landing, Takeoff};
use hcomm_transports::Ringer;

use crate::contained::contained;
use crate::error::{Failure, Refused};
use crate::statistics::Measure;

/// Shared between a `Work` and the communicator's core.
#[derive(Debug, Default)]
pub(crate) struct Operation {
    /// [`RUNNING`], [`WELL`] or [`FAILED`].
    state: AtomicU8,
    priority: AtomicI32,
    /// Nanoseconds; 0: the communicator's.
    deadline_ns: AtomicU64,
    /// Bytes that a receive has got.
    received: AtomicU64,
    /// The rank that they came from, plus one; 0 for what has received nothing.
    sender: AtomicUsize,
    /// Open until the last handle on the operation goes.
    span: Option<tracing::Span>,
    ending: Mutex<Ending>,
}

const RUNNING: u8 = 0;
const WELL: u8 = 1;
const FAILED: u8 = 2;

#[derive(Default)]
struct Ending {
    outcome: Option<Result<(), Failure>>,
    waker: Option<Waker>,
    /// Buffers of a `Work` that was dropped: freed when the operation ends.
    orphan: Option<Box<dyn Any + Send>>,
    /// What most operations do without.
    rest: Option<Box<Rest>>,
}

/// What else there is to do at the end.
#[derive(Default)]
struct Rest {
    /// What is to be done with its inputs before it begins, and the rank that does it.
    takeoff: Option<(Rank, Takeoff)>,
    /// What is still to be done with its outputs before it ends well, and the rank that does it.
    landing: Option<(Rank, Landing)>,
    /// What is to be entered when it ends.
    measure: Option<Measure>,
    /// Drivers of operations that come after this one.
    followers: Vec<Ringer>,
    /// What runs when it has ended, in order.
    calls: Vec<EndCall>,
}

/// What is done before others learn of the end.
type Due = (Option<(Rank, Landing)>, Option<Measure>);

/// Whose code a trace runs.
const SUBSCRIBER: &str = "a subscriber of traces";

/// What a user asked to be run at the end.
type EndCall = Box<dyn FnOnce() + Send>;

impl std::fmt::Debug for Ending {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ending").field("outcome", &self.outcome).finish_non_exhaustive()
    }
}

impl Operation {
    /// One that has ended because its call was refused.
    pub fn refused(refused: &Refused) -> Self {
        let operation = Operation::default();
        operation.complete(Err(Failure::Refused { reason: refused.to_string() }));
        operation
    }

    /// The operation within a span of the user's trace.
    pub fn within(self, span: tracing::Span) -> Self {
        Operation { span: Some(span), ..self }
    }

    /// The operation with what is to be done with its inputs, on this rank, before it begins.
    pub fn taking_off(self, rank: Rank, takeoff: Option<Takeoff>) -> Self {
        if let Some(takeoff) = takeoff {
            self.ending().rest().takeoff = Some((rank, takeoff));
        }
        self
    }

    /// The operation with what is to be done with its outputs, on this rank, before it ends well.
    pub fn landing(self, rank: Rank, landing: Option<Landing>) -> Self {
        if let Some(landing) = landing {
            self.ending().rest().landing = Some((rank, landing));
        }
        self
    }

    /// The operation, whose end is to be entered in the statistics.
    pub fn measured(self, measure: Option<Measure>) -> Self {
        if measure.is_some() {
            self.ending().rest().measure = measure;
        }
        self
    }

    pub fn is_done(&self) -> bool {
        self.state.load(Ordering::Acquire) != RUNNING
    }

    /// Makes one that has ended a new one, for its allocation.
    pub fn renew(&mut self) {
        *self.ending.get_mut().unwrap_or_else(PoisonError::into_inner) = Ending::default();
        *self.state.get_mut() = RUNNING;
        *self.priority.get_mut() = 0;
        *self.deadline_ns.get_mut() = 0;
        *self.received.get_mut() = 0;
        *self.sender.get_mut() = 0;
        self.span = None;
    }

    /// How it ended; `None` while it runs.
    pub fn outcome(&self) -> Option<Result<(), Failure>> {
        match self.state.load(Ordering::Acquire) {
            RUNNING => None,
            WELL => Some(Ok(())),
            _ => self.ending().outcome.clone(),
        }
    }

    /// Does what is to be done with its inputs, if that has not been done.
    pub fn take_off(&self) -> Result<(), Failure> {
        let takeoff = self.ending().rest.as_mut().and_then(|rest| rest.takeoff.take());
        takeoff.map_or(Ok(()), |(rank, takeoff)| run_of_buffer(rank, takeoff, "the takeoff of a buffer"))
    }

    /// Does what is still to be done with its outputs, if that has not been done.
    pub fn land(&self) -> Result<(), Failure> {
        let landing = self.ending().rest.as_mut().and_then(|rest| rest.landing.take());
        landing.map_or(Ok(()), land)
    }

    /// Ends it: finishes its outputs where it went well, frees orphaned buffers, wakes who awaits it and runs what was left to
    /// be run. What of this is the user's may panic: the end is complete all the same.
    pub fn complete(&self, outcome: Result<(), Failure>) {
        let entered = self.span.as_ref().map(|span| contained(SUBSCRIBER, || span.enter()));
        let mut ending = self.ending();
        let outcome = match ending.take_due() {
            None => outcome,
            Some(due) => {
                drop(ending);
                let landed = self.settle(due, outcome);
                ending = self.ending();
                landed
            }
        };
        let is_failed = outcome.is_err();
        ending.outcome = Some(outcome);
        self.state.store(if is_failed { FAILED } else { WELL }, Ordering::Release);
        let (waker, orphan, rest) = (ending.waker.take(), ending.orphan.take(), ending.rest.take());
        drop(ending);
        if let Some(rest) = &rest {
            rest.followers.iter().for_each(Ringer::ring);
        }
        // Each of them is the user's; those that come after one that panics are run as well.
        if let Some(entered) = entered {
            let _ = contained(SUBSCRIBER, || tracing::trace!(failed = is_failed, "operation ended"));
            let _ = contained(SUBSCRIBER, || drop(entered));
        }
        if let Some(orphan) = orphan {
            let _ = contained("what drops a buffer", || drop(orphan));
        }
        if let Some(waker) = waker {
            let _ = contained("a waker", || waker.wake());
        }
        if let Some(rest) = rest {
            let run = |call| contained("a call at the end of an operation", call);
            rest.calls.into_iter().map(run).for_each(drop);
        }
    }

    /// Does what comes before others learn of the end, and says how it ended.
    #[cold]
    fn settle(&self, (landing, measure): Due, outcome: Result<(), Failure>) -> Result<(), Failure> {
        let outcome = match (outcome, landing) {
            (Ok(()), Some(landing)) => land(landing),
            (outcome, landing) => {
                let _ = contained("what drops a landing", || drop(landing));
                outcome
            }
        };
        if let Some(measure) = measure {
            measure.end(self.received.load(Ordering::Relaxed), outcome.is_ok());
        }
        outcome
    }

    /// Has `call` run when it ends, or at once where it has ended. Returns whether it is still to be run.
    pub fn notify(&self, call: EndCall) -> bool {
        let mut ending = self.ending();
        if ending.outcome.is_none() {
            ending.rest().calls.push(call);
            return true;
        }
        drop(ending);
        call();
        false
    }

    /// Registers who to wake. Returns false where the operation is done already.
    pub fn register(&self, waker: &Waker) -> bool {
        let ending = self.ending();
        if ending.outcome.is_some() {
            return false;
        }
        if ending.waker.as_ref().is_some_and(|known| known.will_wake(waker)) {
            return true;
        }
        // Cloning and dropping are the executor's code, which may use this operation: not while it is locked.
        drop(ending);
        let waker = waker.clone();
        let mut ending = self.ending();
        if ending.outcome.is_some() {
            drop(ending);
            return false;
        }
        let replaced = ending.waker.replace(waker);
        drop(ending);
        drop(replaced);
        true
    }

    /// Rings when it ends, for a driver whose operations come after it.
    pub fn follow(&self, ringer: Ringer) {
        let mut ending = self.ending();
        if ending.outcome.is_none() {
            ending.rest().followers.push(ringer);
        }
    }

    /// Takes over the buffers of a `Work` that is dropped while the operation runs; drops them at once where it is done.
    pub fn adopt(&self, buffers: Box<dyn Any + Send>) {
        let mut ending = self.ending();
        if ending.outcome.is_none() {
            ending.orphan = Some(buffers);
            let forgotten = ending.waker.take();
            drop(ending);
            drop(forgotten);
        }
    }

    pub fn priority(&self) -> i32 {
        self.priority.load(Ordering::Relaxed)
    }

    pub fn set_priority(&self, priority: i32) {
        self.priority.store(priority, Ordering::Relaxed);
    }

    /// This operation's own deadline, if it has one.
    pub fn deadline(&self) -> Option<Duration> {
        let ns = self.deadline_ns.load(Ordering::Relaxed);
        (ns > 0).then(|| Duration::from_nanos(ns))
    }

    pub fn set_deadline(&self, deadline: Duration) {
        let ns = u64::try_from(deadline.as_nanos()).unwrap_or(u64::MAX).max(1);
        self.deadline_ns.store(ns, Ordering::Relaxed);
    }

    /// What a receive that has ended well has got: from whom, and how many bytes. `None` for anything else.
    pub fn received(&self) -> Option<(Rank, u64)> {
        if self.state.load(Ordering::Acquire) != WELL {
            return None;
        }
        let sender = self.sender.load(Ordering::Relaxed).checked_sub(1)?;
        Some((sender, self.received.load(Ordering::Relaxed)))
    }

    /// To be called before it completes.
    pub fn set_received(&self, from: Rank, bytes: u64) {
        self.received.store(bytes, Ordering::Relaxed);
        self.sender.store(from + 1, Ordering::Relaxed);
    }

    fn ending(&self) -> MutexGuard<'_, Ending> {
        self.ending.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Ending {
    fn rest(&mut self) -> &mut Rest {
        self.rest.get_or_insert_default()
    }

    #[inline]
    fn take_due(&mut self) -> Option<Due> {
        let rest = self.rest.as_mut()?;
        Some((rest.landing.take(), rest.measure.take()))
    }
}

/// Does what a buffer still had to do.
#[cold]
fn land((rank, landing): (Rank, Landing)) -> Result<(), Failure> {
    run_of_buffer(rank, landing, "the landing of a buffer")
}

fn run_of_buffer(rank: Rank, run: impl FnOnce(), what: &'static str) -> Result<(), Failure> {
    contained(what, run).map_err(|_| Failure::Aborted { rank, cause: format!("{what} panicked") })
}
