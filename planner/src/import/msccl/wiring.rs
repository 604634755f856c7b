//! [`Wiring`]: which send meets which receive. The n-th message that a block sends on (source, destination, channel) is the n-th that
//! the other end's block receives; a pair's channels are numbered anew without gaps.

use std::collections::BTreeMap;

use hcomm_ops::Rank;

use super::program::{Program, Spot};
use crate::import::{ImportError, within};
use crate::plan::MAX_CHANNELS;

/// A channel in use.
#[derive(Clone, Debug, Default)]
pub(super) struct Fifo {
    pub source: Rank,
    pub destination: Rank,
    /// Among those of the pair.
    pub index: u8,
    /// Where its messages come from, in order.
    sends: Vec<Spot>,
    receives: Vec<Spot>,
}

/// The channels, and what each block holds of them.
#[derive(Clone, Debug)]
pub(super) struct Wiring {
    pub fifos: Vec<Fifo>,
    /// Per gpu and block: the channel it sends on, and the one it receives from.
    ends: Vec<Vec<[Option<usize>; 2]>>,
}

impl Wiring {
    /// Matches a program that `check` has passed.
    pub fn new(program: &Program) -> Result<Wiring, ImportError> {
        let fifos = used(program);
        matched(program, &fifos)?;
        let mut wiring = Wiring {
            fifos: Vec::new(),
            ends: program.gpus.iter().map(|gpu| vec![[None; 2]; gpu.blocks.len()]).collect(),
        };
        let mut pairs: BTreeMap<(Rank, Rank), u64> = BTreeMap::new();
        for ((source, destination, _), fifo) in fifos {
            let count = pairs.entry((source, destination)).or_default();
            *count += 1;
            let what = format!("channels from gpu {source} to gpu {destination}");
            within(what, *count, MAX_CHANNELS as u64)?;
            wiring.add(Fifo { source, destination, index: (*count - 1) as u8, ..fifo });
        }
        Ok(wiring)
    }

    /// The channel that a block sends on.
    pub fn sends_on(&self, gpu: Rank, block: usize) -> Option<usize> {
        self.ends[gpu][block][0]
    }

    /// The channel that a block receives from.
    pub fn receives_from(&self, gpu: Rank, block: usize) -> Option<usize> {
        self.ends[gpu][block][1]
    }

    /// Where the n-th message of a channel comes from.
    pub fn sender(&self, fifo: usize, nth: usize) -> Option<Spot> {
        self.fifos[fifo].sends.get(nth).copied()
    }

    /// The gpu and block that receive a channel's messages.
    pub fn receiver(&self, fifo: usize) -> Option<(Rank, usize)> {
        match self.fifos[fifo].receives.first() {
            Some(Spot::Step(gpu, block, _)) => Some((*gpu, *block)),
            _ => None,
        }
    }

    /// The most channels of a pair.
    pub fn widest(&self) -> u8 {
        self.fifos.iter().map(|fifo| fifo.index + 1).max().unwrap_or(1)
    }

    fn add(&mut self, fifo: Fifo) {
        let number = self.fifos.len();
        for (end, spot) in [(0, fifo.sends.first()), (1, fifo.receives.first())] {
            if let Some(Spot::Step(gpu, block, _)) = spot {
                self.ends[*gpu][*block][end] = Some(number);
            }
        }
        self.fifos.push(fifo);
    }
}

/// The channels on which a message passes.
fn used(program: &Program) -> BTreeMap<(Rank, Rank, u32), Fifo> {
    let mut fifos: BTreeMap<(Rank, Rank, u32), Fifo> = BTreeMap::new();
    for (spot, _, block, step) in program.steps() {
        let Spot::Step(gpu, ..) = spot else { continue };
        if let Some(peer) = block.send.filter(|_| step.kind.sends) {
            fifos.entry((gpu, peer, block.channel)).or_default().sends.push(spot);
        }
        if let Some(peer) = block.recv.filter(|_| step.kind.receives) {
            fifos.entry((peer, gpu, block.channel)).or_default().receives.push(spot);
        }
    }
    fifos
}

/// Each channel has as many receives as sends, of the same lengths.
fn matched(program: &Program, fifos: &BTreeMap<(Rank, Rank, u32), Fifo>) -> Result<(), ImportError> {
    let count = |spot: &Spot| match spot {
        Spot::Step(gpu, block, step) => program.gpus[*gpu].blocks[*block].steps[*step].count,
        _ => 0,
    };
    for ((source, destination, channel), fifo) in fifos {
        let (sent, received) = (fifo.sends.len(), fifo.receives.len());
        if sent != received {
            let reason = format!(
                "it sends {sent} messages to gpu {destination} on channel {channel}, which receives {received} from it"
            );
            return Err(ImportError::at(Spot::Gpu(*source), reason));
        }
        let mut pairs = fifo.sends.iter().zip(&fifo.receives);
        if let Some((send, receive)) = pairs.find(|(send, receive)| count(send) != count(receive)) {
            let reason = format!("it receives {} chunks, but {send} sends {}", count(receive), count(send));
            return Err(ImportError::at(receive, reason));
        }
    }
    Ok(())
}
