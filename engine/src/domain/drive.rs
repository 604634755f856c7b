//! Driving: rounds of progress with the waits in between, and what is taken in on the way.

use std::time::{Duration, Instant};

use hcomm_ops::Rank;
use hcomm_transports::{Event, Lost, Wire};

use super::core::{Core, End, Submission};
use super::handover::Shift;
use super::notes::{Farewell, Note};
use super::peers::{GaveUp, Gone, Goodbye};
use super::watch::News;
use super::{Domain, Held, Intake, Patience};
use crate::error::Failure;
use crate::execution::Progress;
use crate::operation::Operation;

/// The longest sleep before deadlines are looked at again.
pub(super) const NAP: Duration = Duration::from_millis(50);

/// How long a call that has ended may wait for sockets to take its bytes.
const PUSH: Duration = Duration::from_secs(1);

/// Looks for a message before the first pause between two of them.
const BARE_SPINS: u32 = 16;

/// Rounds between two looks at the clock.
const ROUNDS_PER_CLOCK: u32 = 4096;

/// The same where the caller waits for a limited time only.
const ROUNDS_PER_END: u32 = 64;

impl Domain {
    /// Spins on one operation that runs outside the table. Returns whether it finished; where it did not, it goes on in
    /// the table.
    #[inline]
    pub(super) fn spin(&self, mut advance: impl FnMut() -> Progress) -> bool {
        let Patience { spins, yields } = self.patience;
        let mut idle = 0;
        loop {
            match advance() {
                Progress::Finished => return true,
                Progress::Moved => idle = 0,
                Progress::Differs { .. } => return false,
                Progress::Blocked if idle < spins => {
                    idle += 1;
                    // A pause costs as much as a small message takes.
                    if idle > BARE_SPINS {
                        std::hint::spin_loop();
                    }
                }
                Progress::Blocked if idle < spins + yields => {
                    idle += 1;
                    std::thread::yield_now();
                }
                Progress::Blocked => return false,
            }
            if self.watch.wants_attention() || self.handover.has_pending() {
                return false;
            }
        }
    }

    /// Drives until an operation is done, then parks the core.
    pub(super) fn finish(&self, mut core: Held<'_>, operation: &Operation) -> Result<(), Failure> {
        self.drive(&mut core, self.patience, None, &|_| operation.is_done());
        self.push_out(&mut core);
        operation.outcome().unwrap_or(Err(Failure::Closed))
    }

    /// Sees what has been sent out of this process's memory, so that the process may end; not while other operations
    /// are in flight, and not for long.
    pub(super) fn push_out(&self, core: &mut Core) {
        if core.is_idle() && core.has_unsent() {
            let deadline = Instant::now() + PUSH;
            self.drive(core, self.patience, None, &|core| !core.has_unsent() || Instant::now() >= deadline);
        }
    }

    /// Drives until an operation is done or about `end`, then puts the core back.
    pub(super) fn finish_before(&self, mut core: Held<'_>, operation: &Operation, end: Instant) {
        self.drive(&mut core, self.patience, Some(end), &|_| operation.is_done());
        if operation.is_done() {
            self.push_out(&mut core);
        }
    }

    /// Rounds of progress until `until`, or about `end`, with the waits that `patience` allows in between.
    fn drive(
        &self,
        core: &mut Core,
        patience: Patience,
        end: Option<Instant>,
        until: &dyn Fn(&Core) -> bool,
    ) {
        let (mut idle, mut rounds) = (0, 0_u32);
        while !until(core) {
            self.take_in(core);
            if core.round() {
                self.handover.announce();
                idle = 0;
            } else {
                idle += 1;
                self.pause(core, idle, patience, end, until);
            }
            rounds = rounds.wrapping_add(1);
            // Whoever yields or sleeps does not mind the clock.
            let is_time = idle > patience.spins || rounds % ROUNDS_PER_END == 0;
            if end.is_some_and(|end| is_time && Instant::now() >= end) {
                return;
            }
            if rounds % ROUNDS_PER_CLOCK == 0 {
                core.check_time(Instant::now());
            }
        }
    }

    /// What an idle round is followed by: a spin, a yield, or sleep.
    pub(super) fn pause(
        &self,
        core: &mut Core,
        idle: u32,
        patience: Patience,
        end: Option<Instant>,
        until: &dyn Fn(&Core) -> bool,
    ) {
        if idle <= patience.spins {
            std::hint::spin_loop();
        } else if idle - patience.spins <= patience.yields {
            std::thread::yield_now();
        } else {
            self.sleep(core, end, until);
        }
    }

    /// Sleeps on the doorbell, after one more look at everything, no longer than to `end`.
    fn sleep(&self, core: &mut Core, end: Option<Instant>, until: &dyn Fn(&Core) -> bool) {
        core.endpoint.doorbell.arm();
        self.take_in(core);
        core.notice_losses(Instant::now());
        if core.round() || until(core) || self.handover.has_pending() || self.watch.wants_attention() {
            core.endpoint.doorbell.disarm();
            self.handover.announce();
            return;
        }
        let nap = end.map_or(NAP, |end| end.saturating_duration_since(Instant::now()).min(NAP));
        core.endpoint.doorbell.sleep(&core.endpoint.wires, nap);
        core.check_time(Instant::now());
    }

    /// Takes in what other threads and the control plane have left.
    pub(super) fn take_in(&self, core: &mut Core) {
        if self.handover.take_pending() {
            for intake in self.inbox.1.try_iter() {
                self.accept(core, intake);
            }
        }
        if self.watch.has_news() {
            for news in self.watch.news() {
                self.learn(core, news);
            }
        }
    }

    pub(super) fn accept(&self, core: &mut Core, intake: Intake) {
        match intake {
            Intake::Collective(submission) => core.submit(*submission),
            Intake::Refused { number, reason } => {
                core.peers.tell_all(&Note::Refused { number, reason });
                core.submit(Submission::refused(number));
            }
            Intake::Local(local) => core.submit_local(local),
            Intake::Send(posted) | Intake::Receive(posted) | Intake::ReceiveAny(posted)
                if core.broken().is_some() =>
            {
                let failure = core.broken().map_or(Failure::Closed, Failure::for_later_calls);
                posted.operation.complete(Err(failure));
            }
            Intake::Send(posted) => core.post(End::Send, posted),
            Intake::Receive(posted) => core.post(End::Receive, posted),
            Intake::ReceiveAny(posted) => core.post(End::ReceiveAny, posted),
            Intake::Notice => {}
            Intake::Abort(failure) => {
                core.peers.abort(0, &failure);
                core.abort(&failure);
            }
        }
    }

    fn learn(&self, core: &mut Core, news: News) {
        match news {
            News::Event(Event::Lost { rank, cause }) => core.lose(rank, &cause.clone(), Gone::Lost(cause)),
            News::Event(Event::Left { rank, last, words }) => {
                let because = Farewell::decode(&words).because();
                core.lose(rank, "it closed", Gone::Left(Goodbye { last, because }));
            }
            News::Event(Event::Message { .. }) => {}
            News::Note(rank, Note::NotYet { doing, .. }) => core.peers.note_doing(rank, doing),
            News::Note(rank, Note::Same { number, doing }) => {
                core.peers.note_doing(rank, doing);
                core.clear_suspect(rank, number);
            }
            // Both passed over it.
            News::Note(rank, Note::Refused { number, .. }) if self.watch.has_refused(number) => {
                core.clear_suspect(rank, number);
            }
            News::Note(rank, Note::Refused { number, reason }) => {
                let call = self.watch.our_call(number);
                core.refused_by(number, rank, call, reason);
            }
            News::Note(rank, Note::Aborted { number, origin, cause }) => {
                let gave_up = GaveUp { from: number, origin: origin as Rank, cause };
                core.peers.mark(rank, Gone::GaveUp(gave_up));
            }
            News::Note(_, Note::Ask { .. }) => {}
            News::Note(other, Note::Differs { number, call: other_call })
            | News::Mismatch { number, other, other_call } => {
                let (rank, call) = (core.peers.rank(), self.watch.our_call(number));
                core.fail_number(number, Failure::CallMismatch { rank, call, other, other_call });
            }
        }
    }

    /// Sleeps until there is work that nobody attends to, then drives until none is left or somebody else wants to.
    /// Returns whether it drove; `None` once the communicator is closed.
    pub(super) fn shift(&self, patience: Duration) -> Option<bool> {
        match self.handover.next_shift(patience) {
            Shift::Over => None,
            Shift::Idle => Some(false),
            Shift::Drive(core) => {
                self.drive_in_background(Held::new(core));
                Some(true)
            }
        }
    }

    fn drive_in_background(&self, mut core: Held<'_>) {
        // A peer that moves bytes too answers within a few yields; for anything longer the processor is the program's.
        let patience = Patience { spins: 25, yields: 20 };
        self.take_in(&mut core);
        core.round();
        self.handover.announce();
        self.drive(&mut core, patience, None, &|core| !core.has_work() || self.handover.is_wanted());
    }
}

impl Core {
    /// Takes note that a rank is gone.
    fn lose(&mut self, rank: Rank, cause: &str, gone: Gone) {
        if let Some(Some(wire)) = self.endpoint.wires.get_mut(rank) {
            wire.mark_lost(Lost { cause: cause.to_owned() });
        }
        self.peers.mark(rank, gone);
    }
}
