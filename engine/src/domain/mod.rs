//! [`Domain`]: one communicator's progress. Calls enter here as operations; whoever waits drives them all; what nobody waits for
//! is driven in the background.
//!
//! - `handover`: who drives. `core`: what is driven. `driver`: the background thread.
//! - `watch`, `notes`, `peers`: the control plane's side: what other ranks do, and who is gone.
//! - `p2p`: tagged messages.

pub(crate) mod core;
mod driver;
mod handover;
mod notes;
pub(crate) mod p2p;
pub(crate) mod peers;
pub(crate) mod watch;

use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender};
use hcomm_ops::buffer::Claim;
use hcomm_transports::{Event, Lost, Ringer, Wire};

use self::core::{Core, Local, Submission};
use self::handover::{Handover, Shift, Turn};
use self::notes::Note;
use self::p2p::Posted;
use self::peers::Gone;
use self::watch::{News, Watch};
use crate::bindings::Spans;
use crate::call::Call;
use crate::error::Failure;
use crate::execution::{Execution, Progress};
use crate::operation::Operation;
use crate::profile::Profile;

/// Something on its way to whoever drives.
pub(crate) enum Intake {
    /// A collective call, or the number of a refused one.
    Collective(Submission),
    /// A closure between operations.
    Local(Local),
    /// A tagged send.
    Send(Posted),
    /// A tagged receive.
    Receive(Posted),
    /// End everything.
    Abort(Failure),
}

/// What an operation comes after, and what it must hold.
#[derive(Debug, Default)]
pub(crate) struct Order {
    /// Operations that must end well before it starts.
    pub after: Vec<Arc<Operation>>,
    /// Claims on shared buffers.
    pub claims: Vec<Claim>,
}

/// How long a waiting thread tries before it sleeps.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patience {
    /// Rounds of `pause`.
    pub spins: u32,
    /// Rounds of `sched_yield` after those.
    pub yields: u32,
}

/// The longest sleep before deadlines are looked at again.
const NAP: Duration = Duration::from_millis(50);

/// Rounds between two looks at the clock while spinning or yielding.
const ROUNDS_PER_CLOCK: u32 = 4096;

/// See the module's text.
pub(crate) struct Domain {
    handover: Handover<Core>,
    inbox: (Sender<Intake>, Receiver<Intake>),
    pub watch: Arc<Watch>,
    ringer: Ringer,
    patience: Patience,
}

impl Domain {
    pub fn new(core: Core, watch: Arc<Watch>, patience: Patience) -> Self {
        let ringer = core.endpoint.doorbell.ringer();
        Domain {
            handover: Handover::new(core),
            inbox: crossbeam_channel::unbounded(),
            watch,
            ringer,
            patience,
        }
    }

    /// Runs a call to its end on the caller's stack where nothing else is in flight, and through the table where
    /// something is. `bind` enters the buffers.
    pub fn run(&self, call: &Arc<Call>, spans: &Spans) -> Result<(), Failure> {
        let number = self.watch.record(call.fingerprint);
        let Some(mut core) = self.handover.take() else {
            let operation = Arc::new(Operation::default());
            self.post(Intake::Collective(Submission::new(number, call, spans, &operation)));
            return self.wait(&operation);
        };
        self.take_in(&mut core);
        if !core.is_idle() || !core.admits(number) {
            let operation = Arc::new(Operation::default());
            self.accept(&mut core, Intake::Collective(Submission::new(number, call, spans, &operation)));
            return self.finish(core, &operation);
        }
        core.pass(number);
        let mut execution = execution_in(&mut core, call, number);
        execution.bind(spans);
        core.recorder.start(number, call);
        if self.run_inline(&mut core, &mut execution, number) {
            core.recorder.finish(number);
            core.keep(execution);
            let work_left = core.has_work();
            self.handover.put_back(core, work_left);
            return Ok(());
        }
        let operation = Arc::new(Operation::default());
        core.insert(number, execution, operation.clone());
        self.finish(core, &operation)
    }

    /// Submits an operation and makes a first round of progress. Returns its number.
    pub fn start(&self, call: &Arc<Call>, spans: &Spans, operation: &Arc<Operation>, order: Order) -> u64 {
        let number = self.watch.record(call.fingerprint);
        let submission = Submission::new(number, call, spans, operation);
        self.submit(Intake::Collective(Submission {
            after: order.after,
            claims: order.claims,
            ..submission
        }));
        number
    }

    /// Takes the number of a call that was refused, and tells the peers.
    pub fn refuse(&self, reason: &str) {
        let number = self.watch.record(0);
        self.watch.refuse(number, reason);
        let operation = Arc::new(Operation::default());
        let submission =
            Submission { number, execution: None, operation, after: Vec::new(), claims: Vec::new() };
        let mut core = self.hold();
        self.take_in(&mut core);
        core.peers.tell_all(&Note::Refused { number, reason: reason.to_owned() });
        core.submit(submission);
        self.release(core);
    }

    /// Gives something to whoever drives; drives a round itself if nobody does.
    pub fn submit(&self, intake: Intake) {
        match self.handover.take() {
            Some(mut core) => {
                self.take_in(&mut core);
                self.accept(&mut core, intake);
                core.round();
                self.release(core);
            }
            None => self.post(intake),
        }
    }

    /// Makes one round of progress, if nobody else is doing so.
    pub fn nudge(&self) {
        if let Some(mut core) = self.handover.take() {
            self.take_in(&mut core);
            core.round();
            self.release(core);
        }
    }

    /// Leaves an operation to the background driver.
    pub fn leave_to_driver(&self) {
        self.handover.leave_work();
    }

    /// Drives, or sleeps while another drives, until the operation is done.
    pub fn wait(&self, operation: &Operation) -> Result<(), Failure> {
        let mut patience = Duration::from_micros(100);
        loop {
            if let Some(outcome) = operation.outcome() {
                return outcome;
            }
            match self.handover.wait(|| operation.is_done(), patience) {
                Turn::Drive(core) => return self.finish(core, operation),
                Turn::Look => {
                    self.ringer.ring();
                    patience = NAP;
                }
            }
        }
    }

    /// Waits until nothing is in flight and everything sent has left this process, up to `deadline`. Returns the first
    /// failure that the communicator has met.
    pub fn drain(&self, deadline: Instant) -> Option<Failure> {
        let mut core = self.hold();
        let mut idle = 0;
        loop {
            self.take_in(&mut core);
            let moved = core.round();
            let flushed = core.is_idle() && core.is_flushed();
            if flushed || core.broken().is_some() && core.is_idle() || Instant::now() >= deadline {
                break;
            }
            idle = if moved { 0 } else { idle + 1 };
            self.pause(&mut core, idle, &|| false);
        }
        let failure = core.broken().cloned();
        self.handover.put_back(core, false);
        failure
    }

    /// What was recorded since the last call.
    pub fn profile(&self) -> Profile {
        let mut core = self.hold();
        let profile = core.recorder.take();
        self.release(core);
        profile
    }

    /// Ends the background driver.
    pub fn close(&self) {
        self.handover.close();
    }

    /// Sees to it that somebody looks at news of the control plane.
    pub fn rouse(&self) {
        self.handover.leave_work();
    }

    /// Holds the core, waiting for whoever has it.
    fn hold(&self) -> Box<Core> {
        loop {
            if let Turn::Drive(core) = self.handover.wait(|| false, Duration::from_millis(1)) {
                return core;
            }
            self.ringer.ring();
        }
    }

    fn release(&self, core: Box<Core>) {
        let work_left = core.has_work() || !self.inbox.1.is_empty();
        self.handover.put_back(core, work_left);
    }

    /// Puts something into the inbox of whoever holds the core.
    fn post(&self, intake: Intake) {
        // The receiver lives as long as the sender: both are here.
        let _ = self.inbox.0.send(intake);
        self.handover.leave_work();
        self.ringer.ring();
    }

    /// Spins on one operation that runs outside the table. Returns whether it finished; where it did not, it goes on in
    /// the table.
    fn run_inline(&self, core: &mut Core, execution: &mut Execution, number: u64) -> bool {
        let mut idle = 0;
        loop {
            match core.advance_alone(execution, number) {
                Progress::Finished => return true,
                Progress::Moved => idle = 0,
                Progress::Differs { .. } => return false,
                Progress::Blocked if idle < self.patience.spins => {
                    idle += 1;
                    std::hint::spin_loop();
                }
                Progress::Blocked if idle < self.patience.spins + self.patience.yields => {
                    idle += 1;
                    std::thread::yield_now();
                }
                Progress::Blocked => return false,
            }
            if self.watch.wants_attention() {
                return false;
            }
        }
    }

    /// Drives until an operation is done, then parks the core.
    fn finish(&self, mut core: Box<Core>, operation: &Operation) -> Result<(), Failure> {
        self.drive(&mut core, self.patience, &|| operation.is_done());
        self.release(core);
        operation.outcome().unwrap_or(Err(Failure::Closed))
    }

    /// Rounds of progress until `until`, with the waits that `patience` allows in between.
    fn drive(&self, core: &mut Core, patience: Patience, until: &dyn Fn() -> bool) {
        let mut idle = 0;
        loop {
            self.take_in(core);
            let moved = core.round();
            if moved {
                self.handover.announce();
                idle = 0;
            } else {
                idle += 1;
            }
            if until() {
                return;
            }
            if !moved {
                self.pause_with(core, idle, patience, until);
            }
        }
    }

    fn pause(&self, core: &mut Core, idle: u32, until: &dyn Fn() -> bool) {
        self.pause_with(core, idle, self.patience, until);
    }

    fn pause_with(&self, core: &mut Core, idle: u32, patience: Patience, until: &dyn Fn() -> bool) {
        if idle % ROUNDS_PER_CLOCK == 0 {
            core.check_time(Instant::now());
        }
        if idle <= patience.spins {
            std::hint::spin_loop();
        } else if idle - patience.spins <= patience.yields {
            std::thread::yield_now();
        } else {
            self.sleep(core, until);
        }
    }

    /// Sleeps on the doorbell, after one more look at everything.
    fn sleep(&self, core: &mut Core, until: &dyn Fn() -> bool) {
        core.endpoint.doorbell.arm();
        self.take_in(core);
        if core.round() || until() || !self.inbox.1.is_empty() || self.watch.wants_attention() {
            core.endpoint.doorbell.disarm();
            self.handover.announce();
            return;
        }
        core.endpoint.doorbell.sleep(&core.endpoint.wires, NAP);
        core.check_time(Instant::now());
    }

    /// Takes in what other threads and the control plane have left.
    fn take_in(&self, core: &mut Core) {
        for intake in self.inbox.1.try_iter() {
            self.accept(core, intake);
        }
        if self.watch.has_news() {
            for news in self.watch.news() {
                self.learn(core, news);
            }
        }
    }

    fn accept(&self, core: &mut Core, intake: Intake) {
        match intake {
            Intake::Collective(submission) => core.submit(submission),
            Intake::Local(local) => core.submit_local(local),
            Intake::Send(posted) => core.p2p.send(posted),
            Intake::Receive(posted) => core.p2p.receive(posted),
            Intake::Abort(failure) => {
                core.peers.abort(0, &failure);
                core.abort(&failure);
            }
        }
    }

    fn learn(&self, core: &mut Core, news: News) {
        match news {
            News::Event(Event::Lost { rank, cause }) => core.lose(rank, &cause.clone(), Gone::Lost(cause)),
            News::Event(Event::Left { rank, last }) => core.lose(rank, "it closed", Gone::Left(last)),
            News::Event(Event::Message { .. }) => {}
            News::Note(rank, Note::NotYet { doing, .. } | Note::Same { doing, .. }) => {
                core.peers.note_doing(rank, doing);
            }
            News::Note(rank, Note::Refused { number, reason }) => {
                let call = self.watch.our_call(number);
                core.refused_by(number, rank, call, reason);
            }
            News::Note(rank, Note::Aborted { number, cause }) => {
                core.peers.mark(rank, Gone::Aborted(number, cause))
            }
            News::Note(_, Note::Ask { .. }) => {}
            News::Note(other, Note::Differs { number, call: other_call })
            | News::Mismatch { number, other, other_call } => {
                let (rank, call) = (core.peers.rank(), self.watch.our_call(number));
                core.fail_number(number, Failure::CallMismatch { rank, call, other, other_call });
            }
        }
    }
}

impl Core {
    /// Takes note that a rank is gone.
    fn lose(&mut self, rank: hcomm_ops::Rank, cause: &str, gone: Gone) {
        if let Some(Some(wire)) = self.endpoint.wires.get_mut(rank) {
            wire.mark_lost(Lost { cause: cause.to_owned() });
        }
        self.peers.mark(rank, gone);
    }
}

fn execution_in(core: &mut Core, call: &Arc<Call>, number: u64) -> Execution {
    match core.spare() {
        Some(mut execution) => {
            execution.restart(call.clone(), number);
            execution
        }
        None => Execution::new(call.clone(), number),
    }
}

impl Submission {
    /// A call that comes after nothing.
    fn new(number: u64, call: &Arc<Call>, spans: &Spans, operation: &Arc<Operation>) -> Self {
        let mut execution = Execution::new(call.clone(), number);
        execution.bind(spans);
        Submission {
            number,
            execution: Some(execution),
            operation: operation.clone(),
            after: Vec::new(),
            claims: Vec::new(),
        }
    }
}

/// What the background thread does, shift by shift.
impl Domain {
    /// Sleeps until there is work that nobody attends to, then drives until none is left or somebody else wants to.
    /// Returns whether it drove; `None` once the communicator is closed.
    fn shift(&self, patience: Duration) -> Option<bool> {
        match self.handover.next_shift(patience) {
            Shift::Over => None,
            Shift::Idle => Some(false),
            Shift::Drive(core) => {
                self.drive_in_background(core);
                Some(true)
            }
        }
    }

    fn drive_in_background(&self, mut core: Box<Core>) {
        let patience = Patience { spins: 0, yields: 2 };
        let mut idle = 0;
        loop {
            self.take_in(&mut core);
            let moved = core.round();
            if moved {
                self.handover.announce();
            }
            idle = if moved { 0 } else { idle + 1 };
            if !core.has_work() || self.handover.is_wanted() {
                return self.release(core);
            }
            if !moved {
                self.pause_with(&mut core, idle, patience, &|| self.handover.is_wanted());
            }
        }
    }
}
