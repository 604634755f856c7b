//! [`Blocks`]: the thread blocks of one rank: one for every channel end, or for two that are tied; and one, later more, for steps without messages.

use super::lower::{Lowered, Step};
use crate::plan::{Channel, Direction};

/// A thread block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Block {
    pub send: Option<Channel>,
    pub recv: Option<Channel>,
}

impl Block {
    /// The number of its channels.
    pub fn channel(&self) -> u8 {
        self.send.or(self.recv).map_or(0, |channel| channel.index)
    }
}

/// See the module.
#[derive(Clone, Debug)]
pub(super) struct Blocks {
    pub list: Vec<Block>,
    /// Of each channel end.
    of_channel: Vec<usize>,
    /// Where steps without messages go.
    local: Option<usize>,
}

impl Blocks {
    /// A block for every end.
    pub fn new(lowered: &Lowered<'_>) -> Blocks {
        let mut blocks = Blocks { list: Vec::new(), of_channel: Vec::new(), local: None };
        for (number, channel) in lowered.plan.channels.iter().enumerate() {
            let tied = lowered.ties[number].filter(|other| (*other as usize) < number);
            let block = tied.map_or(blocks.list.len(), |other| blocks.of_channel[other as usize]);
            if block == blocks.list.len() {
                blocks.list.push(Block::default());
            }
            match channel.direction {
                Direction::Out => blocks.list[block].send = Some(*channel),
                Direction::In => blocks.list[block].recv = Some(*channel),
            }
            blocks.of_channel.push(block);
        }
        blocks
    }

    /// The block of a step.
    pub fn of(&mut self, step: &Step) -> usize {
        match step.receives.or(step.sends) {
            Some(channel) => self.of_channel[channel as usize],
            None => self.local.unwrap_or_else(|| self.open_local()),
        }
    }

    /// Whether a block holds no channel, so that another may go on for it.
    pub fn is_local(&self, block: usize) -> bool {
        Some(block) == self.local
    }

    /// Another block for steps without messages.
    pub fn open_local(&mut self) -> usize {
        self.local = Some(self.list.len());
        self.list.push(Block::default());
        self.list.len() - 1
    }
}
