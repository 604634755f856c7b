//! Node events of a communicator: a [`Recorder`] keeps them in a preallocated ring while profiling is on, a [`Profile`] is what it
//! kept, and [`Profile::trace_events`] turns that into a timeline that Perfetto and Chrome open.

use std::collections::{TryReserveError, VecDeque};
use std::sync::Arc;

use hcomm_planner::LaneKind;
use rustix::time::{ClockId, clock_gettime};
use serde_json::{Value, json};

use self::trace::{Slice, events};

use crate::call::Call;
use crate::execution::Issue;

mod trace;

/// One node's run for one tile, or the end of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeEvent {
    /// The operation.
    pub number: u64,
    /// The node and tile; `None` marks the end of the operation.
    pub issue: Option<Issue>,
    /// Nanoseconds of the host's monotonic clock at which the node began to move bytes.
    pub from_ns: u64,
    /// When it had.
    pub to_ns: u64,
}

/// What a communicator has recorded.
#[derive(Clone, Debug, Default)]
pub struct Profile {
    /// Oldest first.
    pub events: Vec<NodeEvent>,
    /// The operations that the events belong to, by number, with the time of their start.
    pub calls: Vec<(u64, u64, Arc<Call>)>,
}

/// The host's monotonic clock in nanoseconds: the same for all processes of a host.
pub fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

impl Profile {
    /// The timeline as events of the Chrome trace format: process `rank`, one slice per operation, and one thread per lane with a
    /// slice per node and tile. Slices of one thread never overlap, as viewers require: what was in flight at the same time
    /// has threads of its own.
    pub fn trace_events(&self, rank: usize) -> Vec<Value> {
        events(self.events.iter().filter_map(|event| self.slice(event)).collect(), rank)
    }

    fn slice(&self, event: &NodeEvent) -> Option<Slice> {
        let (_, began_ns, call) = self.calls.iter().rev().find(|(number, ..)| *number == event.number)?;
        let Some(issue) = event.issue else {
            return Some(Slice {
                lane: None,
                row: "operations".to_owned(),
                name: format!("#{} {}", event.number, call.describe()),
                from_ns: *began_ns,
                to_ns: event.to_ns.max(*began_ns),
                args: json!({"algorithm": call.plan.algorithm}),
            });
        };
        let node = call.plan.nodes.get(issue.node as usize)?;
        let lane = call.plan.lanes.get(node.lane as usize)?;
        Some(Slice {
            lane: Some(node.lane as usize),
            row: format!("lane {}: {}", node.lane, lane_name(lane.kind)),
            name: format!("{:?} n{} t{}", call.plan.kind_of(node), issue.node, issue.tile),
            from_ns: event.from_ns,
            to_ns: event.to_ns.max(event.from_ns),
            args: json!({
                "operation": event.number, "bytes": issue.bytes, "tile": issue.tile,
                "node": issue.node, "plan": format!("{:016x}", call.plan.id),
            }),
        })
    }
}

/// A ring of events; the oldest give way.
#[derive(Debug)]
pub(crate) struct Recorder {
    capacity: usize,
    events: VecDeque<NodeEvent>,
    calls: VecDeque<(u64, u64, Arc<Call>)>,
    began_ns: u64,
}

/// Operations that a recorder remembers.
const MAX_CALLS: usize = 4096;

impl Recorder {
    /// Room for `capacity` events; 0 switches recording off.
    ///
    /// # Errors
    /// Where there is no memory for so many.
    pub fn new(capacity: usize) -> Result<Self, TryReserveError> {
        let (mut events, calls) = (VecDeque::new(), VecDeque::new());
        events.try_reserve_exact(capacity)?;
        Ok(Recorder { capacity, events, calls, began_ns: 0 })
    }

    /// Whether anything is recorded.
    pub fn is_on(&self) -> bool {
        self.capacity > 0
    }

    /// Records that an operation has started.
    #[inline]
    pub fn start(&mut self, number: u64, call: &Arc<Call>) {
        if self.capacity > 0 {
            if self.calls.len() == MAX_CALLS {
                self.calls.pop_front();
            }
            self.calls.push_back((number, now_ns(), call.clone()));
        }
    }

    /// A node is about to be tried.
    #[inline]
    pub fn attempt(&mut self) {
        if self.capacity > 0 {
            self.began_ns = now_ns();
        }
    }

    /// The node tried last has been issued.
    #[inline]
    pub fn issue(&mut self, number: u64, issue: Issue) {
        if self.capacity > 0 {
            self.push(NodeEvent { number, issue: Some(issue), from_ns: self.began_ns, to_ns: now_ns() });
        }
    }

    /// Records that an operation ended.
    #[inline]
    pub fn finish(&mut self, number: u64) {
        if self.capacity > 0 {
            let now = now_ns();
            self.push(NodeEvent { number, issue: None, from_ns: now, to_ns: now });
        }
    }

    /// All that it has kept; it is empty afterwards, but for operations that still run.
    pub fn take(&mut self) -> Profile {
        let events: Vec<NodeEvent> = self.events.drain(..).collect();
        let calls = self.calls.iter().cloned().collect();
        let ended = |number: &u64| events.iter().any(|e| e.number == *number && e.issue.is_none());
        self.calls.retain(|(number, ..)| !ended(number));
        Profile { events, calls }
    }

    fn push(&mut self, event: NodeEvent) {
        if self.events.len() == self.capacity {
            self.events.pop_front();
        }
        self.events.push_back(event);
    }
}

fn lane_name(kind: LaneKind) -> String {
    match kind {
        LaneKind::Worker { index } => format!("worker {index}"),
        LaneKind::Shm { peer } => format!("shm, rank {peer}"),
        LaneKind::Socket { peer } => format!("socket, rank {peer}"),
        LaneKind::Stream { gpu, priority } => format!("stream, GPU {gpu}, priority {priority}"),
        LaneKind::QueuePair { nic, peer } => format!("queue pair, NIC {nic}, rank {peer}"),
    }
}
