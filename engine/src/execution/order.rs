//! [`Order`]: which nodes may be issued: those whose lane has come to them and whose dependencies are done for the same tile.
//!
//! A call of few nodes with one tile each keeps a bit per node; any other a cursor per lane. Neither moves back.

use hcomm_planner::plan::NodeId;

use super::Progress;
use super::attempt::{Attempt, Hands};
use super::state::Unsettled;
use crate::call::Call;

/// See the module's text.
#[derive(Debug, Default)]
pub(super) struct Order {
    /// By node, where the call has bits for them: issued.
    done: u64,
    /// By lane, else.
    lanes: Vec<Cursor>,
    /// Lanes that have not run to their end.
    running: usize,
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
        if call.bits.is_none() {
            self.lanes.clear();
            self.lanes.resize(call.plan.lanes.len(), Cursor::default());
            self.running = call.running;
        }
    }

    /// Whether all nodes have been issued.
    #[inline]
    pub fn is_over(&self, call: &Call) -> bool {
        match call.bits {
            Some(all) => self.done == all,
            None => self.running == 0,
        }
    }

    /// Tries the next node of every lane, with `attempt`. Returns whether a lane has moved.
    #[inline]
    pub fn round<'a>(
        &mut self,
        call: &Call,
        hands: &mut Hands<'a>,
        mut attempt: impl FnMut(&mut Hands<'a>, NodeId, u32) -> Attempt,
    ) -> Result<bool, Progress> {
        match call.bits {
            Some(all) => self.round_of_bits(all, call, hands, &mut attempt),
            None => self.round_of_lanes(call, hands, &mut attempt),
        }
    }

    /// The nodes that nothing but a message, or room for one, holds back.
    pub fn next(&self, call: &Call, unsettled: &Unsettled) -> Vec<(NodeId, u32)> {
        if let Some(all) = call.bits {
            let mut nodes = 0..call.nodes.len() as NodeId;
            let is_next = |id: &NodeId| {
                let bit = all & 1 << id & !self.done;
                bit != 0 && self.may_come(call, *id, self.done, unsettled)
            };
            return nodes.by_ref().filter(is_next).map(|id| (id, 0)).collect();
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
    fn round_of_bits<'a>(
        &mut self,
        all: u64,
        call: &Call,
        hands: &mut Hands<'a>,
        attempt: &mut impl FnMut(&mut Hands<'a>, NodeId, u32) -> Attempt,
    ) -> Result<bool, Progress> {
        let before = self.done;
        let mut open = all & !before;
        while open != 0 {
            let id = open.trailing_zeros();
            open &= open - 1;
            if !self.may_come(call, id, before, hands.unsettled) {
                continue;
            }
            match attempt(hands, id, 0) {
                Attempt::Issued(_) => self.done |= 1 << id,
                Attempt::Waits => {}
                Attempt::Differs(differs) => return Err(differs),
            }
        }
        Ok(self.done != before)
    }

    /// Whether the node before it on its lane was issued by `before`, and its dependencies are done.
    #[inline]
    fn may_come(&self, call: &Call, id: NodeId, before: u64, unsettled: &Unsettled) -> bool {
        let node = &call.nodes[id as usize];
        node.lane_bit & !before == 0
            && node.dep_bits & !self.done == 0
            && (unsettled.lent.is_empty()
                || call.deps_of(node).iter().all(|dep| unsettled.is_settled(*dep, 0)))
    }

    fn round_of_lanes<'a>(
        &mut self,
        call: &Call,
        hands: &mut Hands<'a>,
        attempt: &mut impl FnMut(&mut Hands<'a>, NodeId, u32) -> Attempt,
    ) -> Result<bool, Progress> {
        let mut moved = false;
        for lane in 0..self.lanes.len() {
            moved |= self.advance_lane(lane, call, hands, attempt)?;
        }
        Ok(moved)
    }

    /// Issues a lane's next node, if it can be, and passes the nodes before it that skip their tile. Returns whether the
    /// lane has moved.
    #[inline]
    fn advance_lane<'a>(
        &mut self,
        lane: usize,
        call: &Call,
        hands: &mut Hands<'a>,
        attempt: &mut impl FnMut(&mut Hands<'a>, NodeId, u32) -> Attempt,
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
            return match attempt(hands, node, tile) {
                Attempt::Issued(_) => {
                    self.move_on(call, lane);
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
