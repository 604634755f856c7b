//! [`Order`]: which nodes may be issued: those whose lane has come to them and whose dependencies are done for the same tile.
//!
//! A call of few nodes with one tile each keeps a bit per node; any other a cursor per lane. Neither moves back.

use hcomm_planner::plan::NodeId;

use super::attempt::{Attempt, Hands};
use super::state::Unsettled;
use super::{Issue, Observer, Progress};
use crate::call::{Call, Short};

/// See the module's text.
#[derive(Debug, Default)]
pub(super) struct Order {
    /// By node, where the call has bits for them: issued.
    done: u64,
    /// By lane, else.
    lanes: Vec<Cursor>,
    /// Lanes that have not run to their end.
    running: usize,
    /// Steps (node and tile) that they have made.
    steps: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Cursor {
    tile: u32,
    /// Offset of the node within the lane.
    at: u32,
}

impl Order {
    #[inline]
    pub fn start(&mut self, call: &Call) {
        self.done = 0;
        if call.short.is_none() {
            self.lanes.clear();
            self.lanes.resize(call.plan.lanes.len(), Cursor::default());
            self.running = call.running;
            self.steps = 0;
        }
    }

    /// Whether all nodes have been issued.
    #[inline]
    pub fn is_over(&self, call: &Call) -> bool {
        match &call.short {
            Some(short) => self.done == short.all,
            None => self.running == 0,
        }
    }

    /// Steps (node and tile) issued so far.
    pub fn steps(&self, call: &Call) -> u64 {
        if call.short.is_some() { u64::from(self.done.count_ones()) } else { self.steps }
    }

    /// Tries the next node of every lane. Returns whether a lane has moved.
    #[inline]
    pub fn round(
        &mut self,
        call: &Call,
        hands: &mut Hands<'_>,
        observer: &mut impl Observer,
    ) -> Result<bool, Progress> {
        match &call.short {
            Some(short) => self.round_of_bits(short, call, hands, observer),
            None => self.round_of_lanes(call, hands, observer),
        }
    }

    /// The nodes that nothing but a message, or room for one, holds back.
    pub fn next(&self, call: &Call, unsettled: &Unsettled) -> Vec<(NodeId, u32)> {
        if let Some(short) = &call.short {
            let is_next = |id: &NodeId| {
                self.done & 1 << id == 0 && self.may_come(short, call, *id, self.done, unsettled)
            };
            return (0..call.nodes.len() as NodeId).filter(is_next).map(|id| (id, 0)).collect();
        }
        let lanes =
            (0..self.lanes.len()).filter_map(|lane| Some((self.at(call, lane)?, self.lanes[lane].tile)));
        lanes
            .filter(|(id, tile)| {
                *tile < call.nodes[*id as usize].trips && self.is_ready(call, *id, *tile, unsettled)
            })
            .collect()
    }

    #[inline]
    fn round_of_bits(
        &mut self,
        short: &Short,
        call: &Call,
        hands: &mut Hands<'_>,
        observer: &mut impl Observer,
    ) -> Result<bool, Progress> {
        let before = self.done;
        let mut open = short.all & !before;
        while open != 0 {
            let id = open.trailing_zeros();
            open &= open - 1;
            if !self.may_come(short, call, id, before, hands.unsettled) {
                continue;
            }
            observer.attempt();
            match hands.attempt_short(id, &short.nodes[id as usize]) {
                Attempt::Issued(bytes) => {
                    self.done |= 1 << id;
                    observer.issue(Issue { node: id, tile: 0, bytes });
                }
                Attempt::Waits => {}
                Attempt::Differs(differs) => return Err(differs),
            }
        }
        Ok(self.done != before)
    }

    /// Whether the node before it on its lane was issued by `before`, and its dependencies are done.
    #[inline]
    fn may_come(&self, short: &Short, call: &Call, id: NodeId, before: u64, unsettled: &Unsettled) -> bool {
        let node = &short.nodes[id as usize];
        node.lane_bit & !before == 0
            && node.dep_bits & !self.done == 0
            && (unsettled.lent.is_empty() || self.deps_are_settled(call, id, unsettled))
    }

    fn deps_are_settled(&self, call: &Call, id: NodeId, unsettled: &Unsettled) -> bool {
        call.deps_of(&call.nodes[id as usize]).iter().all(|dep| unsettled.is_settled(*dep, 0))
    }

    #[inline(never)]
    fn round_of_lanes(
        &mut self,
        call: &Call,
        hands: &mut Hands<'_>,
        observer: &mut impl Observer,
    ) -> Result<bool, Progress> {
        let mut moved = false;
        for lane in 0..self.lanes.len() {
            moved |= self.advance_lane(lane, call, hands, observer)?;
        }
        Ok(moved)
    }

    /// Issues a lane's next node, if it can be, and passes the nodes before it that skip their tile. Returns whether the
    /// lane has moved.
    #[inline]
    fn advance_lane(
        &mut self,
        lane: usize,
        call: &Call,
        hands: &mut Hands<'_>,
        observer: &mut impl Observer,
    ) -> Result<bool, Progress> {
        let mut moved = false;
        while let Some(node) = self.at(call, lane) {
            let tile = self.lanes[lane].tile;
            if !self.is_ready(call, node, tile, hands.unsettled) {
                return Ok(moved);
            }
            if tile >= call.nodes[node as usize].trips {
                self.move_on(call, lane);
                moved = true;
                continue;
            }
            observer.attempt();
            return match hands.attempt(node, tile) {
                Attempt::Issued(bytes) => {
                    self.steps += 1;
                    self.move_on(call, lane);
                    observer.issue(Issue { node, tile, bytes });
                    Ok(true)
                }
                Attempt::Waits => Ok(moved),
                Attempt::Differs(differs) => Err(differs),
            };
        }
        Ok(moved)
    }

    /// The node that a lane has come to.
    #[inline]
    fn at(&self, call: &Call, lane: usize) -> Option<NodeId> {
        let (cursor, nodes) = (self.lanes[lane], &call.plan.lanes[lane].nodes);
        (cursor.tile < call.trips && !nodes.is_empty()).then(|| nodes.start + cursor.at)
    }

    /// Moves a lane's cursor to the next node, or to the next tile, or to its end.
    #[inline]
    fn move_on(&mut self, call: &Call, lane: usize) {
        let nodes = &call.plan.lanes[lane].nodes;
        let cursor = &mut self.lanes[lane];
        cursor.at += 1;
        if cursor.at == nodes.end - nodes.start {
            *cursor = Cursor { tile: cursor.tile + 1, at: 0 };
            self.running -= usize::from(cursor.tile == call.trips);
        }
    }

    #[inline]
    fn is_ready(&self, call: &Call, id: NodeId, tile: u32, unsettled: &Unsettled) -> bool {
        let deps = call.deps_of(&call.nodes[id as usize]);
        deps.is_empty() || deps.iter().all(|dep| self.is_done(call, *dep, tile, unsettled))
    }

    /// Whether a node is done for a tile: its lane has passed it, which a node that skips the tile has to wait for like
    /// any other, and nobody reads what it lent.
    #[inline]
    fn is_done(&self, call: &Call, id: NodeId, tile: u32, unsettled: &Unsettled) -> bool {
        let lane = call.nodes[id as usize].lane as usize;
        let (cursor, at) = (self.lanes[lane], id - call.plan.lanes[lane].nodes.start);
        (cursor.tile, cursor.at) > (tile, at) && unsettled.is_settled(id, tile)
    }
}
