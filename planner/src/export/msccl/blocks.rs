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
    /// A block for every end; or, to need fewer (`pairs`), for a sending and a receiving one of the same number.
    pub fn new(lowered: &Lowered<'_>, pairs: bool) -> Blocks {
        let mut blocks = Blocks { list: Vec::new(), of_channel: Vec::new(), local: None };
        let mut ties = lowered.ties.clone();
        if pairs {
            pair(&lowered.plan.channels, &mut ties, |a, b| a.peer == b.peer);
            pair(&lowered.plan.channels, &mut ties, |_, _| true);
        }
        for (number, channel) in lowered.plan.channels.iter().enumerate() {
            let tied = ties[number].filter(|other| (*other as usize) < number);
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

/// Ties ends that are free: one way with the other way of the same number, where `may` says so.
fn pair(channels: &[Channel], ties: &mut [Option<u32>], may: impl Fn(&Channel, &Channel) -> bool) {
    for (number, channel) in channels.iter().enumerate() {
        let fits = |other: &usize| {
            let end = &channels[*other];
            let other_way = end.direction != channel.direction && end.index == channel.index;
            ties[*other].is_none() && other_way && may(channel, end)
        };
        let other = (number + 1..channels.len()).find(fits).filter(|_| ties[number].is_none());
        if let Some(other) = other {
            ties[number] = Some(other as u32);
            ties[other] = Some(number as u32);
        }
    }
}
