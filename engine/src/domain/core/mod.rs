//! [`Core`]: everything that the driver moves: wires, the table of operations, their admission and urgency. It is held by
//! one thread at a time (see `handover`) and never waits; time is an argument.

mod admission;
mod clock;
mod failing;
mod held;
mod repeat;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hcomm_ops::Rank;
use hcomm_ops::buffer::Claim;
use hcomm_planner::request::Counts;
use hcomm_transports::{AnyWire, Endpoint, Wire};
use slab::Slab;

pub(crate) use self::admission::Submission;
pub(crate) use self::held::End;

use super::p2p::PointToPoint;
use super::peers::Peers;
use crate::call::Call;
use crate::contained::contained;
use crate::error::Failure;
use crate::execution::{Execution, Issue, Observer, Progress, WINDOWS, windows};
use crate::operation::Operation;
use crate::profile::Recorder;
use crate::statistics::Ledger;

/// Work between operations that the driver does itself: a closure that comes after others.
pub(crate) struct Local {
    /// What to do.
    pub run: Box<dyn FnOnce() + Send>,
    /// Shared with the submitter.
    pub operation: Arc<Operation>,
    /// Operations that must end well before.
    pub after: Vec<Arc<Operation>>,
}

/// One admitted or waiting operation.
struct Entry {
    number: u64,
    execution: Box<Execution>,
    operation: Arc<Operation>,
    after: Vec<Arc<Operation>>,
    claims: Vec<Claim>,
    begun: bool,
    /// When it was first looked at.
    since: Option<Instant>,
    /// Steps done, and since when no more of them.
    still: Option<(u64, Instant)>,
    /// When peers were last asked what they are doing, and whether the user was warned.
    asked: Option<Instant>,
    warned: bool,
    /// Which of a peer's calls is thought to be the first that differs from this rank's.
    suspect: Option<(Rank, u64)>,
    /// It has failed; it ends when no peer reads its memory any more.
    failed: Option<Failure>,
}

/// Limits that the core applies, from the settings.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Of an operation without its own.
    pub deadline: Duration,
    /// Before the user is warned.
    pub stall_warning: Duration,
}

/// Executions kept after they have ended.
const MAX_SPARE: usize = 8;

/// Rounds of tiles between two looks at the inbox and the control plane, and bytes of the longest message of each: an urgent
/// call that has just been submitted waits for no more than these.
const TILES_PER_ROUND: usize = 32;
const BYTES_PER_ROUND: usize = 128 << 10;

/// See the module's text.
pub(crate) struct Core {
    pub endpoint: Endpoint,
    pub peers: Peers,
    pub p2p: PointToPoint,
    held: held::Held,
    pub recorder: Recorder,
    pub ledger: Arc<Ledger>,
    limits: Limits,
    entries: Slab<Entry>,
    /// Admitted, most urgent first.
    running: Vec<usize>,
    /// Submitted, by number.
    waiting: BTreeMap<u64, Submission>,
    locals: Vec<Local>,
    /// The number to be admitted next.
    next: u64,
    /// Hash of the calls admitted so far: every message carries it, so that a call which differs is found at the next
    /// message, of whatever call.
    chain: u32,
    /// The first call, of those that ended last, whose counts only their ranks know.
    unchecked: Option<u64>,
    /// Whether an operation occupies the window.
    occupied: [bool; WINDOWS as usize],
    /// Executions that ended, to be repeated, or for their allocations; the oldest first.
    #[allow(clippy::vec_box, reason = "they are moved in and out, and are large")]
    spare: Vec<Box<Execution>>,
    /// Operations of executions that were repeated, for their allocations, once nobody else holds them.
    operations: Vec<Arc<Operation>>,
    /// The first failure; later operations fail with it.
    broken: Option<(u64, Failure)>,
    /// Whether a wire needs system calls to move bytes.
    has_sockets: bool,
    /// As the core was put back, nothing was in flight, nothing had gone wrong, and nothing was recorded.
    calm: bool,
}

impl Core {
    pub fn new(endpoint: Endpoint, peers: Peers, recorder: Recorder, limits: Limits, first: u64) -> Self {
        let has_sockets = endpoint.wires.iter().flatten().any(|wire| wire.poll_fd().is_some());
        let world = endpoint.wires.len();
        Core {
            endpoint,
            held: held::Held::default(),
            p2p: PointToPoint::new(peers.rank(), world),
            peers,
            recorder,
            ledger: Arc::new(Ledger::new(world)),
            limits,
            entries: Slab::new(),
            running: Vec::new(),
            waiting: BTreeMap::new(),
            locals: Vec::new(),
            next: first,
            chain: 0,
            unchecked: None,
            occupied: [false; WINDOWS as usize],
            spare: Vec::new(),
            operations: Vec::new(),
            broken: None,
            has_sockets,
            calm: false,
        }
    }

    /// Whether nothing is in flight, so that a caller may run its operation on its own stack.
    pub fn is_idle(&self) -> bool {
        self.entries.is_empty()
            && self.waiting.is_empty()
            && self.locals.is_empty()
            && self.are_messages_idle()
    }

    /// Whether operations remain that somebody must drive, or bytes that sockets have not taken yet.
    pub fn has_work(&self) -> bool {
        !self.is_idle() || self.has_unsent()
    }

    /// Whether bytes of operations, even of some that have ended here, are still in this process's memory.
    #[inline]
    pub fn has_unsent(&self) -> bool {
        self.has_sockets && self.sockets_have_unsent()
    }

    fn sockets_have_unsent(&self) -> bool {
        let unsent =
            |wire: &AnyWire| wire.poll_fd().is_some_and(|(_, queued)| queued) || wire.next_wakeup().is_some();
        self.endpoint.wires.iter().flatten().any(unsent)
    }

    /// Why later operations cannot start.
    pub fn broken(&self) -> Option<&Failure> {
        self.broken.as_ref().map(|(_, failure)| failure)
    }

    /// An execution of a call, with the allocations of the one that ended longest ago, once there are enough of them.
    pub fn execution(&mut self, call: &Arc<Call>, number: u64) -> Box<Execution> {
        if self.spare.len() < MAX_SPARE {
            return Box::new(Execution::new(call.clone(), number));
        }
        let mut execution = self.spare.remove(0);
        execution.restart(call.clone(), number);
        execution
    }

    /// Takes note of an operation that has ended well. Of a call whose counts only their ranks know, peers may have sent more
    /// than was expected: that is looked for when the next call ends, by when it has arrived.
    #[inline]
    pub fn ended(&mut self, number: u64, execution: Box<Execution>) {
        let is_local = matches!(execution.call().request.counts, Counts::Local { .. });
        if let Some(local) = self.unchecked.filter(|_| !is_local) {
            self.check_lengths(local);
        }
        self.unchecked = if is_local { Some(self.unchecked.unwrap_or(number)) } else { None };
        self.keep(execution);
    }

    /// Keeps an execution's allocations.
    fn keep(&mut self, execution: Box<Execution>) {
        if self.spare.len() < MAX_SPARE {
            self.spare.push(execution);
        }
    }

    /// Takes a closure in.
    pub fn submit_local(&mut self, local: Local) {
        self.follow(&local.after);
        self.locals.push(local);
    }

    /// One round: everything that can move moves, most urgent first, a tile at a time. Returns whether anything moved.
    pub fn round(&mut self) -> bool {
        let mut moved = self.has_sockets && self.move_sockets();
        moved |= self.run_locals();
        moved |= self.release_held();
        moved |= self.p2p.advance(&mut self.endpoint.wires, &self.peers);
        if let Some(failure) = self.p2p.take_loss() {
            self.break_from(self.next, &failure);
        }
        self.sort();
        let (mut at, mut tiles, mut bytes) = (0, 0, 0);
        while at < self.running.len() && tiles < TILES_PER_ROUND && bytes < BYTES_PER_ROUND {
            let key = self.running[at];
            let longest = self.entries[key].execution.call().longest_message;
            if self.advance(key) {
                (moved, tiles, at) = (true, tiles + 1, 0);
                bytes += longest;
            } else {
                at += 1;
            }
        }
        moved | self.reap()
    }

    /// Advances an operation outside the table by one node per lane.
    #[inline]
    pub fn advance_alone(&mut self, execution: &mut Execution, number: u64) -> Progress {
        if self.has_sockets {
            self.move_sockets();
        }
        execution.advance(&mut self.endpoint.wires, &mut Recording { number, recorder: &mut self.recorder })
    }

    /// Whether everything sent has left this process.
    pub fn is_flushed(&mut self) -> bool {
        let peers = &self.peers;
        let wires = self.endpoint.wires.iter_mut().enumerate();
        wires
            .filter(|(rank, _)| !peers.is_gone(*rank))
            .all(|(_, wire)| wire.as_mut().is_none_or(Wire::is_flushed))
    }

    /// Asks to be woken when operations end that others here come after: they may be another communicator's.
    fn follow(&self, after: &[Arc<Operation>]) {
        after.iter().for_each(|operation| operation.follow(self.endpoint.doorbell.ringer()));
    }

    fn move_sockets(&mut self) -> bool {
        self.endpoint.wires.iter_mut().flatten().fold(false, |moved, wire| wire.progress() | moved)
    }

    /// Most urgent first: highest priority, then lowest number.
    fn sort(&mut self) {
        let entries = &self.entries;
        let urgency = |key: &usize| (-entries[*key].operation.priority(), entries[*key].number);
        if !self.running.is_sorted_by_key(urgency) {
            self.running.sort_by_key(urgency);
        }
    }

    /// Advances one operation by at most a node per lane. Returns whether it moved.
    fn advance(&mut self, key: usize) -> bool {
        let entry = &mut self.entries[key];
        if entry.failed.is_some() {
            return false;
        }
        if !entry.begun {
            match entry.begin() {
                Ok(false) => return false,
                Ok(true) if !self.peers.has_refused(entry.number) => {}
                outcome => {
                    self.not_begun(key, outcome.err());
                    return true;
                }
            }
        }
        let entry = &mut self.entries[key];
        let mut recording = Recording { number: entry.number, recorder: &mut self.recorder };
        match entry.execution.advance_round(&mut self.endpoint.wires, &mut recording) {
            Progress::Moved => true,
            Progress::Finished => self.finish(key),
            Progress::Blocked => self.blame(key),
            Progress::Differs { peer, word, bytes, expected } => {
                self.differs(key, peer, (word, bytes), expected)
            }
        }
    }

    fn finish(&mut self, key: usize) -> bool {
        // What lands needs the claims.
        let entry = &self.entries[key];
        let landed = if entry.claims.is_empty() { Ok(()) } else { entry.operation.land() };
        let entry = self.remove(key);
        self.recorder.finish(entry.number);
        entry.operation.complete(landed);
        self.ended(entry.number, entry.execution);
        self.admit();
        true
    }

    fn remove(&mut self, key: usize) -> Entry {
        let mut entry = self.entries.remove(key);
        entry.release_claims();
        self.running.retain(|k| *k != key);
        windows(entry.number, &entry.execution.call().plan).for_each(|window| self.occupied[window] = false);
        entry
    }

    fn run_locals(&mut self) -> bool {
        let mut any = false;
        let mut at = 0;
        while at < self.locals.len() {
            match predecessors(&self.locals[at].after) {
                Ok(false) => {
                    at += 1;
                    continue;
                }
                Ok(true) => {
                    let local = self.locals.remove(at);
                    let outcome = contained("a local closure", local.run).map_err(|_| {
                        let (rank, cause) = (self.peers.rank(), "a local closure panicked".to_owned());
                        Failure::Aborted { rank, cause }
                    });
                    local.operation.complete(outcome);
                }
                Err(cause) => {
                    let call = "a local closure".to_owned();
                    let local = self.locals.remove(at);
                    let _ = contained("what drops a local closure", || drop(local.run));
                    local.operation.complete(Err(Failure::Predecessor { call, cause }));
                }
            }
            any = true;
        }
        any
    }
}

/// Events of one operation on their way to the recorder.
struct Recording<'a> {
    number: u64,
    recorder: &'a mut Recorder,
}

impl Observer for Recording<'_> {
    #[inline]
    fn attempt(&mut self) {
        self.recorder.attempt();
    }

    #[inline]
    fn issue(&mut self, issue: Issue) {
        self.recorder.issue(self.number, issue);
    }
}

impl Entry {
    /// Starts it when all that it comes after has ended and its buffers are free. Returns whether it has begun.
    fn begin(&mut self) -> Result<bool, Failure> {
        let call = || self.execution.call().describe();
        match predecessors(&self.after) {
            Ok(false) => return Ok(false),
            Ok(true) => {}
            Err(cause) => {
                self.claims.clear();
                return Err(Failure::Predecessor { call: call(), cause });
            }
        }
        if let Some(taken) = self.claims.iter().position(|claim| !claim.take()) {
            self.claims.drain(..taken).for_each(|claim| claim.give_back());
            self.claims.clear();
            return Err(Failure::BufferBusy { call: call() });
        }
        self.after.clear();
        self.begun = true;
        self.operation.take_off()?;
        Ok(true)
    }

    /// Gives the shared buffers back, if it had begun.
    fn release_claims(&mut self) {
        let begun = self.begun;
        self.claims.drain(..).filter(|_| begun).for_each(|claim| claim.give_back());
    }
}

/// Whether all have ended well; an error where one has failed.
fn predecessors(after: &[Arc<Operation>]) -> Result<bool, String> {
    for operation in after {
        match operation.outcome() {
            None => return Ok(false),
            Some(Err(failure)) => return Err(failure.to_string()),
            Some(Ok(())) => {}
        }
    }
    Ok(true)
}
