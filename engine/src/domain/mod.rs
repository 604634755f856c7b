//! [`Domain`]: one communicator's progress. Calls enter here as operations; whoever waits drives them all; what nobody waits for
//! is driven in the background.
//!
//! - `handover`: who drives. `core`: what is driven. `drive`: how. `driver`: the background thread.
//! - `watch`, `notes`, `peers`, `standing`: the control plane's side: what other ranks do, and who is gone.
//! - `waiting`, `closing`: waits for an operation, and for the end of them all.
//! - `p2p`: tagged messages.

#[cfg(test)]
mod broken_tests;
mod closing;
pub(crate) mod core;
mod drive;
mod driver;
pub(crate) mod endings;
mod handover;
pub(crate) mod notes;
pub(crate) mod p2p;
pub(crate) mod peers;
#[cfg(test)]
mod simulated;
mod standing;
mod waiting;
pub(crate) mod watch;

use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender};
use hcomm_ops::buffer::Claim;
use hcomm_transports::Ringer;

use self::core::{Core, Local, Submission};
use self::handover::{Handover, Lease, Turn};
use self::p2p::Posted;
use self::watch::Watch;
use crate::bindings::Spans;
use crate::call::{Call, Outline};
use crate::error::Failure;
use crate::execution::{Execution, Progress};
use crate::operation::Operation;
use crate::profile::Profile;
use crate::statistics::Ledger;

/// Something on its way to whoever drives.
pub(crate) enum Intake {
    /// A collective call.
    Collective(Box<Submission>),
    /// A call that was refused: its number passes, and peers are told.
    Refused {
        /// Its number.
        number: u64,
        /// Why.
        reason: String,
    },
    /// A closure between operations.
    Local(Local),
    /// A tagged send.
    Send(Posted),
    /// A tagged receive.
    Receive(Posted),
    /// A tagged receive from any rank.
    ReceiveAny(Posted),
    /// End everything.
    Abort(Failure),
    /// Nothing, but the core is put back anew: whether calls are recorded has changed.
    Notice,
}

/// What an operation comes after, and what it must hold.
#[derive(Debug, Default)]
pub(crate) struct Order {
    /// Operations that must end well before it starts.
    pub after: Vec<Arc<Operation>>,
    /// Claims on shared buffers.
    pub claims: Vec<Claim>,
}

/// The core in the hands of one thread; put back in every exit. Where the thread unwinds meanwhile, all that is in flight has ended, and
/// nobody uses its memory any more, before anything that lies further up the stack is dropped.
struct Held<'a> {
    lease: Option<Lease<'a, Core>>,
    /// The thread unwound already, as a destructor that waits does: its panic is none of the core's.
    was_panicking: bool,
}

impl<'a> Held<'a> {
    #[inline]
    fn new(lease: Lease<'a, Core>) -> Self {
        Held { lease: Some(lease), was_panicking: std::thread::panicking() }
    }

    /// Puts the core back as it was taken: calm.
    #[inline]
    fn put_back_calm(self) {
        if let Some(lease) = ManuallyDrop::new(self).lease.take() {
            lease.put_back(false);
        }
    }
}

impl Deref for Held<'_> {
    type Target = Core;

    #[inline]
    fn deref(&self) -> &Core {
        self.lease.as_ref().expect("held until it is dropped")
    }
}

impl DerefMut for Held<'_> {
    #[inline]
    fn deref_mut(&mut self) -> &mut Core {
        self.lease.as_mut().expect("held until it is dropped")
    }
}

impl Drop for Held<'_> {
    #[inline]
    fn drop(&mut self) {
        let Some(mut core) = self.lease.take() else { return };
        if !self.was_panicking && std::thread::panicking() {
            core.end_in_panic();
        }
        core.note_calm();
        let work_left = core.has_work();
        core.put_back(work_left);
    }
}

/// How long a waiting thread tries before it sleeps.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patience {
    /// Rounds of `pause`.
    pub spins: u32,
    /// Rounds of `sched_yield` after those.
    pub yields: u32,
}

/// See the module's text.
pub(crate) struct Domain {
    handover: Handover<Core>,
    inbox: (Sender<Intake>, Receiver<Intake>),
    pub watch: Arc<Watch>,
    pub ledger: Arc<Ledger>,
    ringer: Ringer,
    patience: Patience,
}

impl Domain {
    pub fn new(core: Core, watch: Arc<Watch>, patience: Patience) -> Self {
        let (ringer, ledger) = (core.endpoint.doorbell.ringer(), core.ledger.clone());
        Domain {
            ledger,
            handover: Handover::new(core),
            inbox: crossbeam_channel::unbounded(),
            watch,
            ringer,
            patience,
        }
    }

    /// Runs a call to its end on the caller's stack where nothing else is in flight, and through the table where
    /// something is.
    pub fn run(&self, call: &Arc<Call>, spans: &Spans) -> Result<(), Failure> {
        let number = self.watch.record(call.fingerprint);
        let Some(mut core) = self.take() else {
            let operation = Arc::new(Operation::default());
            self.post(Intake::Collective(Box::new(Submission::new(number, call, spans, &operation))));
            return self.wait(&operation);
        };
        self.take_in(&mut core);
        let execution = core.execution(call, number);
        self.run_held(execution, number, spans, core)
    }

    /// Makes one of the calls that ended last again, if it is among them and nothing else is going on. A failure is boxed, so that what
    /// is returned fits registers.
    #[inline]
    pub fn run_again(&self, outline: &Outline, spans: &Spans) -> Option<Result<(), Box<Failure>>> {
        let (mut core, at) = self.take_calm(outline, spans)?;
        let number = self.watch.record(core.ended_call(at).fingerprint);
        if !core.repeat(at, number, spans) {
            let execution = core.take_ended(at);
            return Some(self.submit_held(core, execution, number).map_err(Box::new));
        }
        if !self.spin(|| core.advance_again(at)) {
            let execution = core.take_ended(at);
            return Some(self.go_on(core, execution, number).map_err(Box::new));
        }
        if core.has_unsent() {
            self.push_out(&mut core);
        } else {
            core.put_back_calm();
        }
        Some(Ok(()))
    }

    /// The same without waiting: the operation and its number.
    pub fn start_again(&self, outline: &Outline, spans: &Spans) -> Option<(Arc<Operation>, u64)> {
        let (mut core, at) = self.take_calm(outline, spans)?;
        let number = self.watch.record(core.ended_call(at).fingerprint);
        let operation = core.operation();
        if !core.repeat(at, number, spans) {
            let execution = Some(core.take_ended(at));
            core.submit(Submission { execution, ..Submission::empty(number, &operation) });
            core.round();
        } else if core.advance_again(at) == Progress::Finished {
            operation.complete(Ok(()));
        } else {
            let execution = core.take_ended(at);
            core.insert(number, execution, operation.clone());
        }
        Some((operation, number))
    }

    /// The core, if nothing else is going on, and the place of an execution that is to be repeated.
    #[inline]
    fn take_calm(&self, outline: &Outline, spans: &Spans) -> Option<(Held<'_>, usize)> {
        let core = self.take()?;
        if !core.is_calm() || self.handover.has_pending() || self.watch.wants_attention() {
            return None;
        }
        let at = core.find_ended(outline, spans)?;
        Some((core, at))
    }

    /// The core comes last, so that in a panic it is dropped first: then peers have let go of the execution's memory.
    fn run_held(
        &self,
        mut execution: Box<Execution>,
        number: u64,
        spans: &Spans,
        mut core: Held<'_>,
    ) -> Result<(), Failure> {
        execution.bind(spans);
        if !core.is_idle() || !core.admits(number, execution.call()) {
            return self.submit_held(core, execution, number);
        }
        core.pass(number, &mut execution);
        core.recorder.start(number, execution.call());
        if self.spin(|| core.advance_alone(&mut execution, number)) {
            core.recorder.finish(number);
            core.ended(number, execution);
            self.push_out(&mut core);
            return Ok(());
        }
        self.go_on(core, execution, number)
    }

    /// Goes on in the table with an operation that has begun outside.
    fn go_on(&self, mut core: Held<'_>, execution: Box<Execution>, number: u64) -> Result<(), Failure> {
        let operation = Arc::new(Operation::default());
        core.insert(number, execution, operation.clone());
        self.finish(core, &operation)
    }

    /// Runs an operation in the table.
    fn submit_held(&self, mut core: Held<'_>, execution: Box<Execution>, number: u64) -> Result<(), Failure> {
        let operation = Arc::new(Operation::default());
        let execution = Some(execution);
        let submission = Submission { execution, ..Submission::empty(number, &operation) };
        self.accept(&mut core, Intake::Collective(Box::new(submission)));
        self.finish(core, &operation)
    }

    /// Submits an operation and makes a first round of progress. Returns its number.
    pub fn start(&self, call: &Arc<Call>, spans: &Spans, operation: &Arc<Operation>, order: Order) -> u64 {
        let number = self.watch.record(call.fingerprint);
        let Order { after, claims } = order;
        let Some(mut core) = self.take() else {
            let submission = Submission { after, claims, ..Submission::new(number, call, spans, operation) };
            self.post(Intake::Collective(Box::new(submission)));
            return number;
        };
        self.take_in(&mut core);
        let mut execution = core.execution(call, number);
        execution.bind(spans);
        let execution = Some(execution);
        core.submit(Submission { execution, after, claims, ..Submission::empty(number, operation) });
        core.round();
        number
    }

    /// Takes the number of a call that was refused, and tells the peers.
    pub fn refuse(&self, reason: &str) {
        let number = self.watch.record(watch::NO_CALL);
        self.watch.refuse(number, reason);
        self.submit(Intake::Refused { number, reason: reason.to_owned() });
    }

    /// Gives something to whoever drives; drives a round itself if nobody does.
    pub fn submit(&self, intake: Intake) {
        match self.take() {
            Some(mut core) => {
                self.take_in(&mut core);
                self.accept(&mut core, intake);
                core.round();
            }
            None => self.post(intake),
        }
    }

    /// Makes one round of progress, if nobody else is doing so.
    pub fn nudge(&self) {
        if let Some(mut core) = self.take() {
            self.take_in(&mut core);
            core.round();
        }
    }

    /// Leaves an operation to the background driver.
    pub fn leave_to_driver(&self) {
        self.handover.leave_work();
    }

    /// What was recorded since the last call; nothing where the driver does not let go within a second.
    pub fn profile(&self) -> Profile {
        let core = self.hold(Instant::now() + Duration::from_secs(1));
        core.map(|mut core| core.recorder.take()).unwrap_or_default()
    }

    /// Switches the recording of statistics; what is submitted from now on goes by it.
    pub fn record_statistics(&self, on: bool) {
        self.ledger.switch(on);
        self.submit(Intake::Notice);
    }

    /// Ends the background driver.
    pub fn close(&self) {
        self.handover.close();
    }

    /// Sees to it that somebody looks at news of the control plane.
    pub fn rouse(&self) {
        self.handover.leave_work();
    }

    /// The core, if nobody holds it.
    #[inline]
    fn take(&self) -> Option<Held<'_>> {
        self.handover.take().map(Held::new)
    }

    /// The core, after waiting for whoever has it.
    fn hold(&self, deadline: Instant) -> Option<Held<'_>> {
        loop {
            if let Turn::Drive(core) = self.handover.wait(|| false, Duration::from_millis(1)) {
                return Some(Held::new(core));
            }
            if Instant::now() >= deadline {
                return None;
            }
            self.ringer.ring();
        }
    }

    /// Puts something into the inbox of whoever holds the core.
    fn post(&self, intake: Intake) {
        // The receiver lives as long as the sender: both are here.
        let _ = self.inbox.0.send(intake);
        self.handover.leave_work();
        self.ringer.ring();
    }
}

impl Submission {
    /// A number that passes without an operation.
    fn refused(number: u64) -> Self {
        Submission::empty(number, &Arc::default())
    }

    /// A call that comes after nothing.
    fn new(number: u64, call: &Arc<Call>, spans: &Spans, operation: &Arc<Operation>) -> Self {
        let mut execution = Box::new(Execution::new(call.clone(), number));
        execution.bind(spans);
        Submission { execution: Some(execution), ..Submission::empty(number, operation) }
    }

    fn empty(number: u64, operation: &Arc<Operation>) -> Self {
        Submission {
            number,
            execution: None,
            operation: operation.clone(),
            after: Vec::new(),
            claims: Vec::new(),
            since: None,
        }
    }
}
