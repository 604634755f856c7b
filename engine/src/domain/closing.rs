//! The end of a domain: what is in flight ends, what was sent leaves the process, and what peers sent that no call here expected is
//! asked about.

use std::time::{Duration, Instant};

use super::core::Core;
use super::notes::Farewell;
use super::{Domain, Intake};
use crate::error::Failure;

/// How long peers are given to answer, or to let go of memory, when the communicator closes.
const GRACE: Duration = Duration::from_millis(500);

impl Domain {
    /// Waits until nothing is in flight and everything sent has left this process, up to `deadline`; then nothing can start
    /// any more, and what is still in flight fails with `last`. Returns the first failure that the communicator had met before.
    pub fn drain(&self, deadline: Instant, last: &Failure) -> Option<Failure> {
        let Some(mut core) = self.hold(deadline) else {
            self.post(Intake::Abort(last.clone()));
            let grace = Instant::now() + GRACE;
            return self.hold(grace).and_then(|mut core| self.shut(&mut core, grace, last));
        };
        self.settle(&mut core, deadline, &|core| core.is_flushed() || core.broken().is_some());
        self.inspect(&mut core, deadline.min(Instant::now() + GRACE));
        self.shut(&mut core, Instant::now() + GRACE, last)
    }

    /// Drives until nothing is in flight and `and`, up to `deadline`.
    fn settle(&self, core: &mut Core, deadline: Instant, and: &dyn Fn(&mut Core) -> bool) {
        let mut idle = 0;
        loop {
            self.take_in(core);
            let moved = core.round();
            if core.is_idle() && and(core) || Instant::now() >= deadline {
                return;
            }
            idle = if moved { 0 } else { idle + 1 };
            self.pause(core, idle, self.patience, None, &|_| false);
        }
    }

    /// Whether a peer has sent what no call here expected: the calls differed. Asks it which call that was.
    fn inspect(&self, core: &mut Core, deadline: Instant) {
        let Some((peer, number)) = core.leftover().filter(|_| core.broken().is_none()) else { return };
        if core.peers.ask(peer, number) {
            self.settle(core, deadline, &|core| core.broken().is_some() || core.peers.is_gone(peer));
        }
        if core.broken().is_none() {
            let (rank, call) = (core.peers.rank(), self.watch.our_call(number));
            let other_call = match self.watch.farewell_of(peer) {
                Some(Farewell::Well { calls, last_call }) if calls == number + 1 => last_call,
                _ => format!("something else, whose message to rank {rank} was never taken"),
            };
            core.break_from(number, &Failure::CallMismatch { rank, call, other: peer, other_call });
        }
    }

    /// Ends what is still in flight.
    fn shut(&self, core: &mut Core, deadline: Instant, last: &Failure) -> Option<Failure> {
        let failure = core.broken().cloned();
        core.close(last);
        self.settle(core, deadline, &|_| true);
        failure
    }
}
