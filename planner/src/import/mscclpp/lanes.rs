//! [`Lanes`]: what one rank's nodes run on. Each block has a lane; each block of another rank has one here for what it writes, and one for what
//! it reads, as soon as it does so. [`Fifos`]: the channels between lanes.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

use hcomm_ops::Rank;

use crate::import::slices::Fifo;
use crate::import::{ImportError, within};
use crate::plan::{LaneKind, MAX_CHANNELS};

/// Most lanes of one rank.
const MAX_LANES: u64 = 1 << 11;

/// Whose operations a lane carries out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Carries {
    /// Those of a block of the rank itself.
    Own(usize),
    /// What a block of another rank writes here.
    Written(usize),
    /// What a block of another rank reads here.
    Read(usize),
}

impl Carries {
    fn block(self) -> usize {
        let (Carries::Own(block) | Carries::Written(block) | Carries::Read(block)) = self;
        block
    }
}

/// A rank's lanes. Lane 0 is what comes before all operations.
#[derive(Clone, Debug)]
pub(super) struct Lanes {
    rank: Rank,
    numbers: HashMap<Carries, usize>,
    /// By lane: the block whose operations made its nodes, and those, as (operation, node).
    made: Vec<(usize, Vec<(u32, usize)>)>,
    /// By lane and other lane: the node of the other that one of the lane's has waited for last.
    waited: HashMap<(usize, usize), usize>,
    /// What carries a lane out that works for an operation of a switch.
    pub kinds: BTreeMap<usize, LaneKind>,
}

/// The lane of what comes before all operations.
pub(super) const FIRST_LANE: usize = 0;

impl Lanes {
    /// Those of a rank whose own blocks are `blocks` among the blocks of all ranks; they come first.
    pub fn new(rank: Rank, blocks: Range<usize>) -> Lanes {
        let numbers = blocks.clone().zip(1..).map(|(block, lane)| (Carries::Own(block), lane)).collect();
        let made = std::iter::once(usize::MAX).chain(blocks).map(|block| (block, Vec::new())).collect();
        Lanes { rank, numbers, made, waited: HashMap::new(), kinds: BTreeMap::new() }
    }

    /// The number of a lane.
    pub fn number(&mut self, carries: Carries) -> Result<usize, ImportError> {
        if let Some(number) = self.numbers.get(&carries) {
            return Ok(*number);
        }
        let number = self.made.len();
        within(format!("lanes of gpu {}", self.rank), number as u64 + 1, MAX_LANES)?;
        self.numbers.insert(carries, number);
        self.made.push((carries.block(), Vec::new()));
        Ok(number)
    }

    /// Says that a lane works on the rank's GPU.
    pub fn put_on_gpu(&mut self, lane: usize) {
        self.kinds.insert(lane, LaneKind::Stream { gpu: self.rank as u32, priority: 0 });
    }

    /// Notes that an operation has made a node.
    pub fn add(&mut self, lane: usize, op: u32, node: usize) {
        self.made[lane].1.push((op, node));
    }

    /// What the next node of a lane has to wait for: the last node of each other lane that a block's operations have made, of which `knows`
    /// says how many are done, unless an earlier node of the lane has waited for it.
    pub fn wait(&mut self, lane: usize, knows: impl Fn(usize) -> u32) -> Vec<usize> {
        let mut nodes = Vec::new();
        for (other, (block, made)) in self.made.iter().enumerate().filter(|(other, _)| *other != lane) {
            let done = match other {
                FIRST_LANE => made.len(),
                _ => made.partition_point(|(op, _)| *op < knows(*block)),
            };
            let Some((_, last)) = made[..done].last() else { continue };
            if self.waited.insert((lane, other), *last) != Some(*last) {
                nodes.push(*last);
            }
        }
        nodes.sort_unstable();
        nodes
    }
}

/// One end of a channel: a lane of a rank.
pub(super) type End = (Rank, usize);

/// All channels: one for each pair of lanes that pass messages.
#[derive(Clone, Debug, Default)]
pub(super) struct Fifos {
    pub list: Vec<Fifo>,
    numbers: HashMap<(End, End), usize>,
    of_pair: HashMap<(Rank, Rank), u64>,
}

impl Fifos {
    /// The channel from one lane to another.
    pub fn number(&mut self, from: End, to: End) -> Result<usize, ImportError> {
        if let Some(number) = self.numbers.get(&(from, to)) {
            return Ok(*number);
        }
        let (source, destination) = (from.0, to.0);
        let count = self.of_pair.entry((source, destination)).or_default();
        *count += 1;
        let what = format!("threadblocks that move chunks from gpu {source} to gpu {destination}");
        within(what, *count, MAX_CHANNELS as u64)?;
        let number = self.list.len();
        self.list.push(Fifo { source, destination, index: (*count - 1) as u8 });
        self.numbers.insert((from, to), number);
        Ok(number)
    }
}
