//! [`Work`]: an operation in flight, as its submitter holds it. A future of the buffers, which needs no runtime.

use std::any::Any;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::future::FusedFuture;
use hcomm_ops::Rank;

use crate::bindings::Buffers;
use crate::domain::Domain;
use crate::error::{Error, Failure, Refused, WorkError};
use crate::operation::Operation;

/// Polls that wake themselves before the operation is left to the background driver.
const EAGER_POLLS: u32 = 2000;

/// An operation that owns its buffers and gives them back when it ends.
///
/// # Cancel safety
/// Dropping a `Work` does not cancel the operation: peers count on it. It goes on, keeps its buffers, and frees them
/// when it ends.
#[must_use = "an operation goes on when its Work is dropped, but its result is lost"]
pub struct Work<B: Buffers + 'static>(Pending<B>);

/// A [`Work`] whose buffers may be borrowed: what a scope hands out. Dropped with its buffers, it waits for the operation, so
/// that no borrow ends before.
pub(crate) struct Pending<B: Buffers> {
    buffers: Option<B>,
    state: State,
    polls: u32,
}

/// What a receive got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received {
    /// The sender.
    pub rank: Rank,
    /// Bytes of the message; the rest of the buffer is untouched.
    pub bytes: u64,
}

enum State {
    Refused(Refused),
    Running { domain: Arc<Domain>, operation: Arc<Operation>, number: u64 },
}

/// Names an operation that others may come after.
#[derive(Clone, Debug)]
pub struct Ticket(pub(crate) Arc<Operation>);

impl Ticket {
    /// Whether it has ended, well or not.
    pub fn is_done(&self) -> bool {
        self.0.is_done()
    }
}

/// Anything that stands for a submitted operation.
pub trait Predecessor {
    /// The operation.
    fn ticket(&self) -> Ticket;
}

impl<B: Buffers + 'static> Work<B> {
    pub(crate) fn new(pending: Pending<B>) -> Self {
        Work(pending)
    }

    /// Whether it has ended, well or not.
    pub fn is_done(&self) -> bool {
        self.0.is_done()
    }

    /// Its place in the communicator's order of calls; `None` where it was refused.
    pub fn number(&self) -> Option<u64> {
        self.0.number()
    }

    /// Changes its urgency among the operations in flight on this rank; higher goes first, 0 is usual.
    pub fn priority(self, priority: i32) -> Self {
        self.set_priority(priority);
        self
    }

    /// [`Work::priority`] by reference.
    pub fn set_priority(&self, priority: i32) {
        if let Some(operation) = self.0.operation() {
            operation.set_priority(priority);
        }
    }

    /// Changes how long it may take before it fails.
    pub fn deadline(self, deadline: Duration) -> Self {
        if let State::Running { operation, .. } = &self.0.state {
            operation.set_deadline(deadline);
        }
        self
    }

    /// What a receive got; `None` while it runs, where it has failed, and for anything but a receive.
    pub fn received(&self) -> Option<Received> {
        let (rank, bytes) = self.0.operation()?.received()?;
        Some(Received { rank, bytes })
    }

    /// What went wrong; `None` while it runs, or where it has ended well.
    pub fn error(&self) -> Option<Error> {
        self.0.error()
    }

    /// Has `call` run when it has ended, well or not: at once, on this thread, where it has, otherwise on whatever thread ends it,
    /// which drives the communicator and must not be blocked; nor may a call wait for an operation there. Several calls
    /// run in the order in which they were left. They run also where the `Work` has been dropped. Until then the
    /// operation goes on in the background.
    ///
    /// A panic of a call that runs later is caught, and reported as an event of `tracing`.
    pub fn notify(&self, call: impl FnOnce() + Send + 'static) {
        self.0.notify(Box::new(call));
    }

    /// Waits for it for no longer than about `limit`, driving the communicator meanwhile (or asleep while another thread
    /// drives). Returns whether it has ended, well or not; where it has not, it goes on in the background. A limit of zero
    /// makes one round of progress.
    pub fn wait_at_most(&self, limit: Duration) -> bool {
        self.0.wait_at_most(limit)
    }

    /// Waits for it, driving the communicator meanwhile.
    ///
    /// # Errors
    /// Gives the buffers back with what went wrong.
    pub fn wait(mut self) -> Result<B::Returned, WorkError<B::Returned>> {
        self.0.wait()
    }
}

impl<B: Buffers> Pending<B> {
    pub fn refused(refused: Refused, buffers: B) -> Self {
        Pending { buffers: Some(buffers), state: State::Refused(refused), polls: 0 }
    }

    pub fn running(domain: Arc<Domain>, operation: Arc<Operation>, number: u64, buffers: B) -> Self {
        Pending { buffers: Some(buffers), state: State::Running { domain, operation, number }, polls: 0 }
    }

    pub fn is_done(&self) -> bool {
        match &self.state {
            State::Refused(_) => true,
            State::Running { operation, .. } => operation.is_done(),
        }
    }

    pub fn number(&self) -> Option<u64> {
        match &self.state {
            State::Refused(_) => None,
            State::Running { number, .. } => Some(*number),
        }
    }

    /// The operation; `None` where it was refused.
    pub fn operation(&self) -> Option<&Arc<Operation>> {
        match &self.state {
            State::Refused(_) => None,
            State::Running { operation, .. } => Some(operation),
        }
    }

    pub fn ticket(&self) -> Ticket {
        match &self.state {
            State::Refused(refused) => Ticket(Arc::new(Operation::refused(refused))),
            State::Running { operation, .. } => Ticket(operation.clone()),
        }
    }

    /// How it ended badly.
    pub fn error(&self) -> Option<Error> {
        match &self.state {
            State::Refused(refused) => Some(Error::Refused(refused.clone())),
            State::Running { operation, .. } => operation.outcome()?.err().map(Error::Failed),
        }
    }

    /// Has a call run at the end.
    pub fn notify(&self, call: Box<dyn FnOnce() + Send>) {
        match &self.state {
            State::Refused(_) => call(),
            State::Running { domain, operation, .. } => {
                if operation.notify(call) {
                    domain.leave_to_driver();
                }
            }
        }
    }

    /// Waits for a limited time; whether it has ended.
    pub fn wait_at_most(&self, limit: Duration) -> bool {
        match &self.state {
            State::Refused(_) => true,
            State::Running { domain, operation, .. } => domain.wait_at_most(operation, limit),
        }
    }

    /// Waits; a second call finds no buffers and must not happen: both callers consume or take them once.
    pub fn wait(&mut self) -> Result<B::Returned, WorkError<B::Returned>> {
        let outcome = match &self.state {
            State::Refused(refused) => Err(Error::Refused(refused.clone())),
            State::Running { domain, operation, .. } => domain.wait(operation).map_err(Error::Failed),
        };
        self.hand_back(outcome)
    }

    fn hand_back(&mut self, outcome: Result<(), Error>) -> Result<B::Returned, WorkError<B::Returned>> {
        let buffers = self.buffers.take().expect("a Work is not polled after it was ready");
        let buffer = buffers.into_returned();
        match outcome {
            Ok(()) => Ok(buffer),
            Err(error) => Err(WorkError { error, buffer }),
        }
    }

    /// Lets the buffers go without waiting: whoever calls this sees to it that they outlive the operation.
    pub fn disclaim(mut self) {
        self.buffers = None;
    }

    /// One round of progress, never a spin. A young operation wakes its own waker, so that any executor polls it
    /// again; an older one is the background driver's.
    fn poll(&mut self, context: &Context<'_>) -> Poll<Result<B::Returned, WorkError<B::Returned>>> {
        let outcome = match &self.state {
            State::Refused(refused) => Some(Err(Error::Refused(refused.clone()))),
            State::Running { domain, operation, .. } => {
                if !operation.is_done() {
                    domain.nudge();
                }
                operation.outcome().map(|outcome| outcome.map_err(Error::Failed))
            }
        };
        match outcome {
            Some(outcome) => Poll::Ready(self.hand_back(outcome)),
            None => self.pend(context),
        }
    }

    fn pend(&mut self, context: &Context<'_>) -> Poll<Result<B::Returned, WorkError<B::Returned>>> {
        self.polls += 1;
        if self.polls < EAGER_POLLS {
            context.waker().wake_by_ref();
        } else if let State::Running { domain, operation, .. } = &self.state {
            if !operation.register(context.waker()) {
                context.waker().wake_by_ref();
            }
            domain.leave_to_driver();
        }
        Poll::Pending
    }
}

impl<B: Buffers> Drop for Pending<B> {
    fn drop(&mut self) {
        if let (Some(_), State::Running { domain, operation, .. }) = (&self.buffers, &self.state) {
            let _ = domain.wait(operation);
        }
    }
}

impl<B: Buffers + Unpin + 'static> Future for Work<B> {
    type Output = Result<B::Returned, WorkError<B::Returned>>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.0.poll(context)
    }
}

impl<B: Buffers + Unpin + 'static> FusedFuture for Work<B> {
    fn is_terminated(&self) -> bool {
        self.0.buffers.is_none()
    }
}

impl<B: Buffers + 'static> Drop for Work<B> {
    fn drop(&mut self) {
        let Some(buffers) = self.0.buffers.take() else { return };
        if let State::Running { domain, operation, .. } = &self.0.state {
            // Somebody drives it even where the waker that goes now panics.
            domain.leave_to_driver();
            operation.adopt(Box::new(SendBox(buffers)) as Box<dyn Any + Send>);
        }
    }
}

/// Buffers are `Send`; a box of them is what an operation adopts.
struct SendBox<B>(#[allow(dead_code)] B);

impl<B: Buffers + 'static> Predecessor for Work<B> {
    fn ticket(&self) -> Ticket {
        self.0.ticket()
    }
}

impl Predecessor for Ticket {
    fn ticket(&self) -> Ticket {
        self.clone()
    }
}

impl<B: Buffers + 'static> std::fmt::Debug for Work<B> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Work")
            .field("number", &self.number())
            .field("done", &self.is_done())
            .finish_non_exhaustive()
    }
}

/// What `outcome` means for a caller that owns no buffers.
pub(crate) fn plain(outcome: Result<(), Failure>) -> Result<(), Error> {
    outcome.map_err(Error::Failed)
}
