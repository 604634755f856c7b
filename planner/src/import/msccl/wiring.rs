//! [`Wiring`]: which send meets which receive. The n-th message that a block sends on (source, destination, channel) is the n-th that
//! the other end's block receives; a pair's channels are numbered anew without gaps.

use std::collections::BTreeMap;

use hcomm_ops::Rank;

use super::program::{Program, Spot};
use crate::import::slices::Fifo;
use crate::import::{ImportError, within};
use crate::plan::MAX_CHANNELS;

/// A channel in use, and its messages.
#[derive(Clone, Debug, Default)]
pub(super) struct Wire {
    fifo: Fifo,
    /// Where its messages come from, in order.
    sends: Vec<Spot>,
    receives: Vec<Spot>,
}

/// The channels, and what each block holds of them.
#[derive(Clone, Debug)]
pub(super) struct Wiring {
    wires: Vec<Wire>,
    /// Per gpu and block: the channel it sends on, and the one it receives from.
    ends: Vec<Vec<[Option<usize>; 2]>>,
}

impl Wiring {
    /// Matches a program that `check` has passed.
    pub fn new(program: &Program) -> Result<Wiring, ImportError> {
        let wires = used(program);
        matched(program, &wires)?;
        let mut wiring = Wiring {
            wires: Vec::new(),
            ends: program.gpus.iter().map(|gpu| vec![[None; 2]; gpu.blocks.len()]).collect(),
        };
        let mut pairs: BTreeMap<(Rank, Rank), u64> = BTreeMap::new();
        for ((source, destination, _), wire) in wires {
            let count = pairs.entry((source, destination)).or_default();
            *count += 1;
            let what = format!("channels from gpu {source} to gpu {destination}");
            within(what, *count, MAX_CHANNELS as u64)?;
            let index = (*count - 1) as u8;
            wiring.add(Wire { fifo: Fifo { source, destination, index }, ..wire });
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
        self.wires[fifo].sends.get(nth).copied()
    }

    /// The gpu and block that receive a channel's messages.
    pub fn receiver(&self, fifo: usize) -> Option<(Rank, usize)> {
        match self.wires[fifo].receives.first() {
            Some(Spot::Step(gpu, block, _)) => Some((*gpu, *block)),
            _ => None,
        }
    }

    /// The channels, by number.
    pub fn fifos(&self) -> Vec<Fifo> {
        self.wires.iter().map(|wire| wire.fifo).collect()
    }

    fn add(&mut self, wire: Wire) {
        let number = self.wires.len();
        for (end, spot) in [(0, wire.sends.first()), (1, wire.receives.first())] {
            if let Some(Spot::Step(gpu, block, _)) = spot {
                self.ends[*gpu][*block][end] = Some(number);
            }
        }
        self.wires.push(wire);
    }
}

/// The channels on which a message passes.
fn used(program: &Program) -> BTreeMap<(Rank, Rank, u32), Wire> {
    let mut wires: BTreeMap<(Rank, Rank, u32), Wire> = BTreeMap::new();
    for (spot, _, block, step) in program.steps() {
        let Spot::Step(gpu, ..) = spot else { continue };
        if let Some(peer) = block.send.filter(|_| step.kind.sends) {
            wires.entry((gpu, peer, block.channel)).or_default().sends.push(spot);
        }
        if let Some(peer) = block.recv.filter(|_| step.kind.receives) {
            wires.entry((peer, gpu, block.channel)).or_default().receives.push(spot);
        }
    }
    wires
}

/// Each channel has as many receives as sends, of the same lengths.
fn matched(program: &Program, wires: &BTreeMap<(Rank, Rank, u32), Wire>) -> Result<(), ImportError> {
    let count = |spot: &Spot| match spot {
        Spot::Step(gpu, block, step) => program.gpus[*gpu].blocks[*block].steps[*step].count,
        _ => 0,
    };
    for ((source, destination, channel), wire) in wires {
        let (sent, received) = (wire.sends.len(), wire.receives.len());
        if sent != received {
            let reason = format!(
                "it sends {sent} messages to gpu {destination} on channel {channel}, which receives {received} from it"
            );
            return Err(ImportError::at(Spot::Gpu(*source), reason));
        }
        let mut pairs = wire.sends.iter().zip(&wire.receives);
        if let Some((send, receive)) = pairs.find(|(send, receive)| count(send) != count(receive)) {
            let reason = format!("it receives {} chunks, but {send} sends {}", count(receive), count(send));
            return Err(ImportError::at(receive, reason));
        }
    }
    Ok(())
}
