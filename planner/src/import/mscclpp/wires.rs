//! [`Wires`]: one GPU's channels and remote buffers, and which of them a block calls by which number.
//!
//! A block numbers the channels of each type that it lists, and so does it with the remote buffers that it reaches through that type.
//! The k-th channel of a type from one GPU to another is the other end of the k-th one back.

use std::collections::HashMap;

use hcomm_ops::Rank;

use super::file::{Block, Channels, Gpu};
use super::program::{Counter, Spot};
use crate::import::slices::Buffer;
use crate::import::{ImportError, within};

/// Most channels of one gpu.
const MAX_CHANNELS: u64 = 1 << 12;

/// Types of channels between two GPUs, as the file spells them.
const TYPES: [&str; 2] = ["memory", "port"];

/// One GPU's.
#[derive(Clone, Debug, Default)]
pub(super) struct Wires {
    /// By type: the peer of each channel.
    peers: [Vec<Rank>; 2],
    /// By type and channel: the counter that waits take from.
    inbound: [Vec<usize>; 2],
    /// By type and channel: the counter that signals raise, unless nobody is at the other end.
    outbound: [Vec<Option<usize>>; 2],
    switches: Vec<(Buffer, Vec<Rank>)>,
    remotes: Vec<(Rank, Buffer)>,
    pub semaphores: Vec<usize>,
}

/// Those of all GPUs. Adds a counter for every end of a channel and every semaphore.
pub(super) fn all(gpus: &[Gpu], counters: &mut Vec<Counter>) -> Result<Vec<Wires>, ImportError> {
    let mut all = Vec::with_capacity(gpus.len());
    for (rank, gpu) in gpus.iter().enumerate() {
        all.push(Wires::new(rank, gpu, gpus.len(), counters)?);
    }
    let ends = ends(&all);
    for (rank, wires) in all.iter_mut().enumerate() {
        for kind in 0..TYPES.len() {
            let other = |(peer, nth)| ends.get(&(peer, kind, rank, nth)).copied();
            wires.outbound[kind] = numbered(&wires.peers[kind]).map(other).collect();
        }
    }
    Ok(all)
}

/// One end of a channel: its GPU, type, peer, and which of those to that peer it is.
type End = (Rank, usize, Rank, usize);

/// The counters of all ends.
fn ends(all: &[Wires]) -> HashMap<End, usize> {
    let mut ends = HashMap::new();
    for (rank, wires) in all.iter().enumerate() {
        for kind in 0..TYPES.len() {
            for ((peer, nth), counter) in numbered(&wires.peers[kind]).zip(&wires.inbound[kind]) {
                ends.insert((rank, kind, peer, nth), *counter);
            }
        }
    }
    ends
}

/// Each peer of a list, with how many of the same come before it.
fn numbered(peers: &[Rank]) -> impl Iterator<Item = (Rank, usize)> {
    let mut seen: HashMap<Rank, usize> = HashMap::new();
    peers.iter().map(move |peer| {
        let nth = seen.entry(*peer).or_default();
        *nth += 1;
        (*peer, *nth - 1)
    })
}

impl Wires {
    fn new(rank: Rank, gpu: &Gpu, world: usize, counters: &mut Vec<Counter>) -> Result<Wires, ImportError> {
        let mut wires = Wires::default();
        for (number, channels) in gpu.channels.iter().enumerate() {
            wires.add_channels(rank, number, channels, world)?;
        }
        let channels = wires.peers.iter().map(Vec::len).sum::<usize>() + wires.switches.len();
        within(format!("channels of gpu {rank}"), channels as u64, MAX_CHANNELS)?;
        for (number, remote) in gpu.remote_buffers.iter().enumerate() {
            let at = format!("gpu {rank}, remote buffer {number}");
            wires.remotes.push((peer_of(&at, remote.rank, rank, world)?, buffer(&at, &remote.buffer)?));
        }
        within(format!("semaphores of gpu {rank}"), gpu.semaphores.len() as u64, MAX_CHANNELS)?;
        let mut add = |initial| {
            counters.push(Counter { initial });
            counters.len() - 1
        };
        for kind in 0..TYPES.len() {
            wires.inbound[kind] = wires.peers[kind].iter().map(|_| add(0)).collect();
        }
        wires.semaphores = gpu.semaphores.iter().map(|semaphore| add(semaphore.init_value)).collect();
        Ok(wires)
    }

    fn add_channels(
        &mut self,
        rank: Rank,
        number: usize,
        channels: &Channels,
        world: usize,
    ) -> Result<(), ImportError> {
        let at = format!("gpu {rank}, channels {number}");
        match channels.channel_type.as_str() {
            "switch" => self.add_switch(&at, channels, world),
            "none" => Ok(()),
            name => {
                let kind = kind(&at, name)?;
                for peer in &channels.connected_to {
                    self.peers[kind].push(peer_of(&at, *peer, rank, world)?);
                }
                Ok(())
            }
        }
    }

    fn add_switch(&mut self, at: &str, channels: &Channels, world: usize) -> Result<(), ImportError> {
        let Some(name) = &channels.buffer_type else {
            return Err(ImportError::at(at, "a switch channel without buffer_type; expected i, o or s"));
        };
        let buffer = buffer(at, name)?;
        for group in &channels.rank_groups {
            let mut ranks: Vec<Rank> = Vec::new();
            for rank in &group.ranks {
                let is_new = *rank < world as u64 && !ranks.contains(&(*rank as Rank));
                if !is_new {
                    let reason =
                        format!("rank {rank} in a group of a switch; expected each once, below {world}");
                    return Err(ImportError::at(at, reason));
                }
                ranks.push(*rank as Rank);
            }
            if ranks.is_empty() {
                return Err(ImportError::at(at, "a group of a switch without ranks"));
            }
            self.switches.push((buffer, ranks));
        }
        Ok(())
    }
}

/// What a block calls its GPU's channels and buffers.
#[derive(Clone, Debug, Default)]
pub(super) struct BlockWires {
    channels: [Vec<usize>; 2],
    switches: Vec<usize>,
    remotes: [Vec<usize>; 2],
}

impl BlockWires {
    /// A block's lists, each number of which its GPU has.
    pub fn new(at: &str, block: &Block, gpu: &Wires) -> Result<BlockWires, ImportError> {
        let mut wires = BlockWires::default();
        for list in &block.channels {
            let (into, there) = match list.channel_type.as_str() {
                "switch" => (&mut wires.switches, gpu.switches.len()),
                "none" => continue,
                name => {
                    let kind = kind(at, name)?;
                    (&mut wires.channels[kind], gpu.peers[kind].len())
                }
            };
            let what = format!("{} channel", list.channel_type);
            add_numbers(at, &what, &list.channel_ids, there, into)?;
        }
        for list in &block.remote_buffer_refs {
            let kind = kind(at, &list.access_channel_type)?;
            let there = gpu.remotes.len();
            add_numbers(at, "remote buffer", &list.remote_buffer_ids, there, &mut wires.remotes[kind])?;
        }
        Ok(wires)
    }

    /// The peer of a channel, the counter that its waits take from, and the one that its signals raise.
    pub fn channel(
        &self,
        spot: Spot,
        gpu: &Wires,
        kind: usize,
        id: u64,
    ) -> Result<(Rank, usize, Option<usize>), ImportError> {
        let what = format!("{} channel", TYPES[kind]);
        let channel = nth(spot, &what, &self.channels[kind], id)?;
        Ok((gpu.peers[kind][channel], gpu.inbound[kind][channel], gpu.outbound[kind][channel]))
    }

    /// A buffer of another GPU, reached through a type of channel.
    pub fn remote(
        &self,
        spot: Spot,
        gpu: &Wires,
        kind: usize,
        id: u64,
    ) -> Result<(Rank, Buffer), ImportError> {
        let what = format!("remote buffer through {} channels", TYPES[kind]);
        Ok(gpu.remotes[nth(spot, &what, &self.remotes[kind], id)?])
    }

    /// The buffer of a switch channel, and the GPUs that have it.
    pub fn switch(&self, spot: Spot, gpu: &Wires, id: u64) -> Result<(Buffer, Vec<Rank>), ImportError> {
        Ok(gpu.switches[nth(spot, "switch channel", &self.switches, id)?].clone())
    }
}

/// Number of a type of channel between two GPUs.
pub(super) fn kind(at: impl ToString, name: &str) -> Result<usize, ImportError> {
    TYPES
        .iter()
        .position(|kind| *kind == name)
        .ok_or_else(|| ImportError::at(at, format!("channel type {name:?}; expected {}", TYPES.join(" or "))))
}

/// A buffer by its letter.
pub(super) fn buffer(at: impl ToString, name: &str) -> Result<Buffer, ImportError> {
    let named = Buffer::NAMES.iter().find(|(letter, _)| *letter == name);
    named
        .map(|(_, buffer)| *buffer)
        .ok_or_else(|| ImportError::at(at, format!("buffer type {name:?}; expected i, o or s")))
}

fn peer_of(at: &str, peer: u64, rank: Rank, world: usize) -> Result<Rank, ImportError> {
    if peer < world as u64 && peer != rank as u64 {
        return Ok(peer as Rank);
    }
    Err(ImportError::at(at, format!("rank {peer}; expected another gpu below {world}")))
}

fn add_numbers(
    at: &str,
    what: &str,
    ids: &[u64],
    there: usize,
    into: &mut Vec<usize>,
) -> Result<(), ImportError> {
    within(format!("{what}s of {at}"), ids.len() as u64, MAX_CHANNELS)?;
    for id in ids {
        if *id >= there as u64 {
            return Err(ImportError::at(at, format!("{what} {id}; its gpu has {there}")));
        }
        into.push(*id as usize);
    }
    Ok(())
}

fn nth(spot: Spot, what: &str, list: &[usize], id: u64) -> Result<usize, ImportError> {
    usize::try_from(id).ok().and_then(|id| list.get(id)).copied().ok_or_else(|| {
        ImportError::at(spot, format!("{what} {id}; its threadblock has {} of them", list.len()))
    })
}
