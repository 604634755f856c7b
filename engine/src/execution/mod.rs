//! [`Execution`]: one operation in flight. Lanes with cursors, nodes with counters; it moves forward when asked and never waits.
//!
//! Sans-IO: the wires are passed in, time is the caller's. A node is issued when its lane has come to it, its dependencies are
//! done for the same tile, its messages have arrived and its outgoing channels have room. `order` says what may come next, `attempt`
//! carries it out, `fold` moves the bytes, `state` keeps how far it has come.

mod attempt;
mod fold;
mod order;
mod short;
mod state;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use hcomm_ops::{Rank, StableBuffer};
use hcomm_planner::Plan;
use hcomm_planner::plan::NodeId;
use hcomm_transports::{AnyWire, Wire, Word};

use crate::bindings::Spans;
use crate::call::Call;
use crate::memory::Memory;

/// Sets of ports that a communicator has on every wire: operation n uses window n modulo this, and the ones after it where
/// its plan has more channels than one window.
pub const WINDOWS: u64 = 8;

/// Ports of a window, a channel each.
pub const WINDOW_CHANNELS: u16 = 4;

/// Ports of all windows.
pub const PORTS: u16 = WINDOWS as u16 * WINDOW_CHANNELS;

/// The windows that operation `number` needs for its plan's channels.
#[inline]
pub(crate) fn windows(number: u64, plan: &Plan) -> impl Iterator<Item = usize> + Clone + use<> {
    let count = u64::from(u16::from(plan.channels_per_pair).div_ceil(WINDOW_CHANNELS)).max(1);
    (0..count).map(move |i| ((number + i) % WINDOWS) as usize)
}

/// The wires of a rank, by peer.
pub type Wires = [Option<AnyWire>];

/// Why an execution cannot move on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// At least one node was issued.
    Moved,
    /// Every lane waits for a peer, or for an acknowledgement.
    Blocked,
    /// All nodes are done: the buffers belong to the caller again.
    Finished,
    /// The next message from a peer belongs to another call.
    Differs {
        /// The peer.
        peer: Rank,
        /// What its message says it is.
        word: Word,
        /// The bytes that it says it has.
        bytes: u64,
        /// The bytes that this rank expects.
        expected: usize,
    },
}

/// A node's issue, as profiling sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Issue {
    /// The node.
    pub node: NodeId,
    /// Its tile.
    pub tile: u32,
    /// Bytes of the message or span.
    pub bytes: usize,
}

/// Watches an execution, for profiling.
pub trait Observer {
    /// A node is about to be tried.
    fn attempt(&mut self) {}

    /// The node tried last has been issued.
    fn issue(&mut self, _: Issue) {}
}

/// Nobody watches.
impl Observer for () {}

/// One operation in flight.
#[derive(Debug)]
pub struct Execution {
    call: Arc<Call>,
    memory: Memory,
    state: state::State,
    room: fold::Workspace,
    /// The plan's own room, which `memory` names.
    scratch: Vec<u8>,
}

impl Execution {
    /// An execution of `call` as operation `number`; `bind` gives it its buffers.
    pub fn new(call: Arc<Call>, number: u64) -> Self {
        let (memory, state, room) = Default::default();
        let mut execution = Execution { call, memory, state, room, scratch: Vec::new() };
        execution.begin(number);
        execution
    }

    /// Takes up another operation with the same allocations.
    pub fn restart(&mut self, call: Arc<Call>, number: u64) {
        self.call = call;
        self.begin(number);
    }

    /// Takes up the same call again.
    #[inline]
    pub fn repeat(&mut self, number: u64) {
        self.state.start(&self.call, number);
    }

    /// Bytes of input and output that it was given.
    #[inline]
    pub fn bound_bytes(&self) -> (u64, u64) {
        (self.memory.input.bytes(), self.memory.output.bytes())
    }

    /// Gives it the caller's buffers, whose sizes have been checked against the call.
    #[inline]
    pub fn bind(&mut self, spans: &Spans) {
        spans.enter(&mut self.memory);
    }

    /// Replaces the call's fingerprint in its messages by one that stands for all calls before it as well.
    #[inline]
    pub fn follow(&mut self, fingerprint: u32) {
        self.state.follow(fingerprint);
    }

    /// What its messages say they are.
    pub fn word(&self) -> Word {
        self.state.word()
    }

    /// The call that this is.
    pub fn call(&self) -> &Arc<Call> {
        &self.call
    }

    /// Moves every lane as far as it goes.
    pub fn advance(&mut self, wires: &mut Wires, observer: &mut impl Observer) -> Progress {
        let mut moved = false;
        loop {
            match self.advance_round(wires, observer) {
                Progress::Moved => moved = true,
                Progress::Blocked if moved => return Progress::Moved,
                other => return other,
            }
        }
    }

    /// Issues at most one node on each lane, so that a more urgent execution can go between.
    #[inline]
    pub fn advance_round(&mut self, wires: &mut Wires, observer: &mut impl Observer) -> Progress {
        let mut step = state::Step { call: &self.call, memory: &self.memory, room: &mut self.room, wires };
        self.state.advance_round(&mut step, observer)
    }

    /// The ranks that it waits for now: for a message, for room, or for an acknowledgement.
    pub fn waits_for(&mut self, wires: &mut Wires) -> Vec<Rank> {
        let mut step = state::Step { call: &self.call, memory: &self.memory, room: &mut self.room, wires };
        self.state.waits_for(&mut step)
    }

    /// Steps (node and tile) done.
    pub fn steps(&self) -> u64 {
        self.state.steps(&self.call)
    }

    /// Where it stands, in words: "3 of 8 steps done".
    pub fn position(&self) -> String {
        let total: u64 = self.call.nodes.iter().map(|n| u64::from(n.trips)).sum();
        format!("{} of {total} steps done", self.state.steps(&self.call))
    }

    /// Ends all use of its memory by wires. Returns false while a peer is in the middle of reading; ask again.
    #[must_use]
    pub fn revoke(&mut self, wires: &mut Wires) -> bool {
        let operation = self.state.word().operation;
        let mut all = true;
        for wire in wires.iter_mut().flatten() {
            all &= wire.revoke(operation);
        }
        all
    }

    fn begin(&mut self, number: u64) {
        self.state.start(&self.call, number);
        let needed = self.call.scratch_bytes as usize;
        if self.scratch.len() < needed {
            self.scratch = vec![0; needed];
        }
        self.memory.scratch.set(self.scratch.span());
    }
}
