//! [`State`]: cursors of the lanes, counters of the nodes, and the rules by which they move forward, never back.

use hcomm_ops::{Operand, Rank, RawSpan};
use hcomm_planner::plan::NodeId;
use hcomm_transports::{Arrival, Key, Room, Sent, Ticket, Wire, Word};

use super::fold::{self, Workspace};
use super::{Issue, Observer, PORTS, Progress, WINDOW_CHANNELS, WINDOWS, Wires};
use crate::call::{Call, CallNode, CallSink, CallSource, FEW, Way};
use crate::memory::Memory;

/// What an advance works with; none of it is the execution's own progress.
pub(super) struct Step<'a> {
    pub call: &'a Call,
    pub memory: &'a Memory,
    pub room: &'a mut Workspace,
    pub wires: &'a mut Wires,
}

/// How far an execution has come.
#[derive(Debug, Default)]
pub(super) struct State {
    operation: u32,
    fingerprint: u32,
    first_port: u16,
    lanes: Vec<Cursor>,
    /// Steps (node and tile) issued so far.
    steps: u64,
    /// Sends whose source somebody still reads.
    lent: Vec<Lent>,
    /// Lanes that have not run to their end.
    running: usize,
}

#[derive(Clone, Copy, Debug, Default)]
struct Cursor {
    tile: u32,
    /// Offset of the node within the lane.
    at: u32,
    /// Sinks of a plain send that are done already.
    sent: u32,
}

#[derive(Clone, Copy, Debug)]
struct Lent {
    node: NodeId,
    tile: u32,
    peer: Rank,
    ticket: Ticket,
}

/// What one attempt at a node came to.
enum Attempt {
    /// Issued, with this many bytes.
    Issued(usize),
    /// A message or room is missing.
    Waits,
    /// Another call's message is there.
    Differs(Progress),
}

impl State {
    pub fn start(&mut self, call: &Call, number: u64) {
        self.lanes.resize(call.plan.lanes.len(), Cursor::default());
        self.restart(call, number);
    }

    /// The same call again, as another operation.
    #[inline]
    pub fn restart(&mut self, call: &Call, number: u64) {
        self.operation = number as u32;
        self.fingerprint = call.fingerprint;
        self.first_port = (number % WINDOWS) as u16 * WINDOW_CHANNELS;
        self.lanes.fill(Cursor::default());
        self.steps = 0;
        self.lent.clear();
        self.running = call.running;
    }

    #[inline]
    pub fn follow(&mut self, fingerprint: u32) {
        self.fingerprint = fingerprint;
    }

    pub fn word(&self) -> Word {
        Word { operation: self.operation, fingerprint: self.fingerprint }
    }

    /// Steps (node and tile) issued so far.
    pub fn steps(&self) -> u64 {
        self.steps
    }

    #[inline]
    pub fn advance_round(&mut self, step: &mut Step<'_>, observer: &mut impl Observer) -> Progress {
        if !self.lent.is_empty() {
            self.collect(step.wires);
        }
        let mut moved = false;
        for lane in 0..self.lanes.len() {
            match self.advance_lane(lane, step, observer) {
                Ok(advanced) => moved |= advanced,
                Err(differs) => return differs,
            }
        }
        match (self.running == 0 && self.lent.is_empty(), moved) {
            (true, _) => Progress::Finished,
            (_, true) => Progress::Moved,
            _ => Progress::Blocked,
        }
    }

    pub fn waits_for(&self, call: &Call, wires: &mut Wires) -> Vec<Rank> {
        let mut ranks: Vec<Rank> = self.lent.iter().map(|l| l.peer).collect();
        for lane in 0..self.lanes.len() {
            let Some(id) = self.next_node(call, lane) else { continue };
            let tile = self.lanes[lane].tile;
            if tile < call.nodes[id as usize].trips && self.is_ready(call, id, tile) {
                self.missing(call, id, tile, wires, &mut ranks);
            }
        }
        ranks.sort_unstable();
        ranks.dedup();
        ranks
    }

    /// Takes back the spans that peers have finished reading.
    fn collect(&mut self, wires: &mut Wires) {
        self.lent.retain(|lent| wires[lent.peer].as_mut().is_some_and(|wire| !wire.is_done(lent.ticket)));
    }

    /// The node that a lane has come to.
    #[inline]
    fn next_node(&self, call: &Call, lane: usize) -> Option<NodeId> {
        let (cursor, nodes) = (self.lanes[lane], &call.plan.lanes[lane].nodes);
        (cursor.tile < call.trips && !nodes.is_empty()).then(|| nodes.start + cursor.at)
    }

    /// Issues a lane's next node, if it can be, and passes the nodes before it that skip their tile. Returns whether the
    /// lane has moved.
    #[inline]
    fn advance_lane(
        &mut self,
        lane: usize,
        step: &mut Step<'_>,
        observer: &mut impl Observer,
    ) -> Result<bool, Progress> {
        let mut moved = false;
        while let Some(node) = self.next_node(step.call, lane) {
            let tile = self.lanes[lane].tile;
            if !self.is_ready(step.call, node, tile) {
                return Ok(moved);
            }
            if tile >= step.call.nodes[node as usize].trips {
                self.move_on(step.call, lane);
                moved = true;
                continue;
            }
            observer.attempt();
            return match self.attempt(lane, node, tile, step) {
                Attempt::Issued(bytes) => {
                    self.steps += 1;
                    self.move_on(step.call, lane);
                    observer.issue(Issue { node, tile, bytes });
                    Ok(true)
                }
                Attempt::Waits => Ok(moved),
                Attempt::Differs(differs) => Err(differs),
            };
        }
        Ok(moved)
    }

    /// Moves a lane's cursor to the next node, or to the next tile, or to its end.
    #[inline]
    fn move_on(&mut self, call: &Call, lane: usize) {
        let nodes = &call.plan.lanes[lane].nodes;
        let cursor = &mut self.lanes[lane];
        *cursor = Cursor { at: cursor.at + 1, sent: 0, ..*cursor };
        if cursor.at == nodes.end - nodes.start {
            *cursor = Cursor { tile: cursor.tile + 1, ..Cursor::default() };
            self.running -= usize::from(cursor.tile == call.trips);
        }
    }

    #[inline]
    fn is_ready(&self, call: &Call, id: NodeId, tile: u32) -> bool {
        let deps = call.deps_of(&call.nodes[id as usize]);
        deps.is_empty() || deps.iter().all(|dep| self.is_done(call, *dep, tile))
    }

    /// Whether a node is done for a tile: its lane has passed it, which a node that skips the tile has to wait for like
    /// any other, and nobody reads what it lent.
    #[inline]
    fn is_done(&self, call: &Call, id: NodeId, tile: u32) -> bool {
        let lane = call.nodes[id as usize].lane as usize;
        let (cursor, at) = (self.lanes[lane], id - call.plan.lanes[lane].nodes.start);
        (cursor.tile, cursor.at) > (tile, at) && !self.lent.iter().any(|l| (l.node, l.tile) == (id, tile))
    }

    #[inline]
    fn attempt(&mut self, lane: usize, id: NodeId, tile: u32, step: &mut Step<'_>) -> Attempt {
        let call = step.call;
        let node = &call.nodes[id as usize];
        match node.way {
            Way::Send => self.attempt_send(lane, id, tile, step),
            Way::SmallFold => self.attempt_small_fold(node, step),
            Way::Fold => self.attempt_fold(node, tile, step),
        }
    }

    /// A plain send: the transport may read the span itself. Sinks that found room stay sent while others wait.
    #[inline]
    fn attempt_send(&mut self, lane: usize, id: NodeId, tile: u32, step: &mut Step<'_>) -> Attempt {
        let Step { call, memory, room, wires } = step;
        let node = &call.nodes[id as usize];
        let one;
        let pieces = match fold::only_piece(call, memory, node, tile) {
            Some(piece) => {
                one = [piece];
                &one[..]
            }
            None => room.load_pieces(call, memory, node, tile),
        };
        let sinks = call.sinks_of(node);
        while let Some(&CallSink::Message { peer, channel }) = sinks.get(self.lanes[lane].sent as usize) {
            let peer = peer as Rank;
            let Some(wire) = &mut wires[peer] else { return Attempt::Waits };
            match wire.send_from(self.key(channel), pieces, !call.plan.buffered) {
                Sent::Done => {}
                Sent::Lent(ticket) => self.lent.push(Lent { node: id, tile, peer, ticket }),
                Sent::Full => return Attempt::Waits,
            }
            self.lanes[lane].sent += 1;
        }
        Attempt::Issued(if node.trips == 1 { node.bytes } else { call.message_bytes(node, tile) })
    }

    /// A fold without lists, where every local span lies in one piece.
    #[inline]
    fn attempt_small_fold(&mut self, node: &CallNode, step: &mut Step<'_>) -> Attempt {
        let Step { call, memory, wires, .. } = step;
        let bytes = node.bytes;
        let local =
            |buffer, extents: u32| memory.buffer(buffer).piece(call.extents[extents as usize].start, bytes);
        let mut operands = [Operand { span: RawSpan::empty(), first: false }; FEW];
        let mut targets = [RawSpan::empty(); FEW];
        let (sources, sinks) = (call.sources_of(node), call.sinks_of(node));
        for (operand, source) in operands.iter_mut().zip(sources) {
            *operand = match *source {
                CallSource::Span { buffer, extents, first } => {
                    Operand { span: local(buffer, extents), first }
                }
                CallSource::Message { peer, channel, first } => {
                    let Some(wire) = &mut wires[peer as Rank] else { return Attempt::Waits };
                    match wire.poll(self.key(channel), bytes) {
                        Arrival::Here(span) => Operand { span, first },
                        Arrival::NotYet => return Attempt::Waits,
                        _ => return self.attempt_fold(node, 0, step),
                    }
                }
            };
            if operand.span.len() != bytes {
                return self.attempt_fold(node, 0, step);
            }
        }
        for (target, sink) in targets.iter_mut().zip(sinks) {
            *target = match *sink {
                CallSink::Span { buffer, extents } => local(buffer, extents),
                CallSink::Message { peer, channel } => {
                    let Some(wire) = &mut wires[peer as Rank] else { return Attempt::Waits };
                    match wire.reserve(self.key(channel), bytes) {
                        Room::Slot(slot) => slot.slice(0, bytes),
                        Room::Full => return Attempt::Waits,
                    }
                }
            };
            if target.len() != bytes {
                return self.attempt_fold(node, 0, step);
            }
        }
        call.kernel.fold(&operands[..sources.len()], &targets[..sinks.len()], node.finish);
        self.hand_over(call, node, bytes, wires);
        Attempt::Issued(bytes)
    }

    /// Everything else: looks whether all messages are there and all channels have room, then folds.
    fn attempt_fold(&mut self, node: &CallNode, tile: u32, step: &mut Step<'_>) -> Attempt {
        let Step { call, memory, room, wires } = step;
        let bytes = call.message_bytes(node, tile);
        room.clear();
        for source in call.sources_of(node) {
            let CallSource::Message { peer, channel, .. } = *source else { continue };
            let peer = peer as Rank;
            let Some(wire) = &mut wires[peer] else { return Attempt::Waits };
            match wire.poll(self.key(channel), bytes) {
                Arrival::Here(span) => room.arrived(span),
                Arrival::Landed | Arrival::NotYet => return Attempt::Waits,
                Arrival::Differs { word, bytes: theirs } => {
                    let differs = Progress::Differs { peer, word, bytes: theirs, expected: bytes };
                    return Attempt::Differs(differs);
                }
            }
        }
        for sink in call.sinks_of(node) {
            let CallSink::Message { peer, channel } = *sink else { continue };
            let Some(wire) = &mut wires[peer as Rank] else { return Attempt::Waits };
            match wire.reserve(self.key(channel), bytes) {
                Room::Slot(span) => room.reserved(span),
                Room::Full => return Attempt::Waits,
            }
        }
        room.fold(call, memory, node, tile);
        self.hand_over(call, node, bytes, wires);
        Attempt::Issued(bytes)
    }

    /// Commits what a fold has built and releases what it has read.
    #[inline]
    fn hand_over(&self, call: &Call, node: &CallNode, bytes: usize, wires: &mut Wires) {
        for sink in call.sinks_of(node) {
            if let CallSink::Message { peer, channel } = *sink {
                wires[peer as Rank].iter_mut().for_each(|wire| wire.commit(self.key(channel), bytes));
            }
        }
        for source in call.sources_of(node) {
            if let CallSource::Message { peer, channel, .. } = *source {
                wires[peer as Rank].iter_mut().for_each(|wire| wire.release(self.key(channel).port));
            }
        }
    }

    #[inline]
    fn key(&self, channel: u8) -> Key {
        Key { port: (self.first_port + u16::from(channel)) % PORTS, word: self.word() }
    }

    /// Appends the peers whose message or room a node lacks.
    fn missing(&self, call: &Call, id: NodeId, tile: u32, wires: &mut Wires, ranks: &mut Vec<Rank>) {
        let node = &call.nodes[id as usize];
        let bytes = call.message_bytes(node, tile);
        for source in call.sources_of(node) {
            let CallSource::Message { peer, channel, .. } = *source else { continue };
            let Some(wire) = &mut wires[peer as Rank] else { continue };
            if !matches!(wire.poll(self.key(channel), bytes), Arrival::Here(_)) {
                ranks.push(peer as Rank);
            }
        }
        for sink in call.sinks_of(node) {
            let CallSink::Message { peer, channel } = *sink else { continue };
            let Some(wire) = &mut wires[peer as Rank] else { continue };
            if !matches!(wire.reserve(self.key(channel), bytes), Room::Slot(_)) {
                ranks.push(peer as Rank);
            }
        }
    }
}
