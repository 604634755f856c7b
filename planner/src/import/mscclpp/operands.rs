//! An operation's operands: which chunks of which GPUs' buffers it moves, checked against the list of operations.

use hcomm_ops::Rank;

use super::file::{Chunks, Group, Op};
use super::kinds::{Form, Kind, Operands, Side};
use super::program::{Move, Place, Spot};
use super::wires::{self, BlockWires, Wires};
use super::{MAX_MOVED, read};
use crate::import::slices::{Buffer, Operand};
use crate::import::{ImportError, within};

/// What operands are read against.
pub(super) struct Reader<'a> {
    pub wires: &'a [Wires],
    /// By rank: chunks of its buffers, cut into pieces.
    pub chunks: &'a [[u32; 3]],
    /// Pieces of a chunk of the file.
    pub pieces: u32,
    /// Chunks moved by all operations so far.
    pub moved: u64,
}

/// What an operation moves.
pub(super) fn moves(
    reader: &mut Reader<'_>,
    wires: &BlockWires,
    spot: Spot,
    kind: &Kind,
    form: Form,
    op: &Op,
) -> Result<Vec<Move>, ImportError> {
    check_counts(spot, kind, "src_buff", &kind.sources, op.src_buff.len())?;
    check_counts(spot, kind, "dst_buff", &kind.sinks, op.dst_buff.len())?;
    let side = SideReader { reader, wires, spot, op };
    let sources = side.places(&kind.sources, &op.src_buff, kind.packets_from)?;
    let sinks = side.places(&kind.sinks, &op.dst_buff, kind.packets_to)?;
    side.check_peers(kind, &sinks)?;
    check_packets(spot, &sources)?;
    let moves = match form {
        Form::Each => each(spot, sources, sinks)?,
        Form::Fan | Form::Fold => vec![one_move(spot, sources, sinks)?],
    };
    for one in &moves {
        let places = one.sources.iter().chain(&one.sinks).map(|place| place.ranks.len() as u64);
        reader.moved += u64::from(one.count) * places.sum::<u64>();
        within("chunks moved by all operations", reader.moved, MAX_MOVED)?;
    }
    Ok(moves)
}

/// A place and how long it is.
struct Sized {
    place: Place,
    count: u32,
}

/// Packets are read where the runtime looks for them.
fn check_packets(spot: Spot, sources: &[Sized]) -> Result<(), ImportError> {
    let mut buffers = sources.iter().filter(|source| source.place.packets).map(|s| s.place.operand.buffer);
    match buffers.find(|buffer| *buffer != Buffer::Scratch) {
        Some(buffer) => {
            let reason = format!("it reads packets of buffer {}; packets lie in s", buffer.name());
            Err(ImportError::at(spot, reason))
        }
        None => Ok(()),
    }
}

/// A move for each source and the sink in its place.
fn each(spot: Spot, sources: Vec<Sized>, sinks: Vec<Sized>) -> Result<Vec<Move>, ImportError> {
    if sources.len() != sinks.len() {
        let reason = format!("{} sources and {} sinks; expected as many", sources.len(), sinks.len());
        return Err(ImportError::at(spot, reason));
    }
    let pairs = sources.into_iter().zip(sinks);
    pairs.map(|(source, sink)| one_move(spot, vec![source], vec![sink])).collect()
}

fn one_move(spot: Spot, sources: Vec<Sized>, sinks: Vec<Sized>) -> Result<Move, ImportError> {
    let count = sources.first().map_or(0, |source| source.count);
    if let Some(other) = sources.iter().chain(&sinks).find(|place| place.count != count) {
        let reason = format!("it moves {count} and {} pieces of chunks; expected as many", other.count);
        return Err(ImportError::at(spot, reason));
    }
    let places = |list: Vec<Sized>| list.into_iter().map(|sized| sized.place).collect();
    Ok(Move { sources: places(sources), sinks: places(sinks), count })
}

fn check_counts(
    spot: Spot,
    kind: &Kind,
    field: &str,
    operands: &Operands,
    given: usize,
) -> Result<(), ImportError> {
    let least = operands.heads.len().max(1);
    let fits = given >= least && (operands.rest.is_some() || given == operands.heads.len());
    if fits {
        return Ok(());
    }
    let or_more = if operands.rest.is_some() { " or more" } else { "" };
    let reason = format!("{} with {given} entries in {field}; expected {least}{or_more}", kind.name);
    Err(ImportError::at(spot, reason))
}

struct SideReader<'r, 'a> {
    reader: &'r Reader<'a>,
    wires: &'r BlockWires,
    spot: Spot,
    op: &'r Op,
}

impl SideReader<'_, '_> {
    fn places(
        &self,
        operands: &Operands,
        list: &[Chunks],
        packets: Option<usize>,
    ) -> Result<Vec<Sized>, ImportError> {
        let mut places = Vec::with_capacity(list.len());
        for (i, chunks) in list.iter().enumerate() {
            let side = operands.side(i).unwrap_or(Side::Local);
            let packets = packets.is_some_and(|first| i >= first);
            places.push(self.place(side, chunks, packets)?);
        }
        Ok(places)
    }

    fn place(&self, side: Side, chunks: &Chunks, packets: bool) -> Result<Sized, ImportError> {
        let (spot, gpu) = (self.spot, &self.reader.wires[self.spot.gpu]);
        let (ranks, buffer) = match (side, &chunks.buffer, chunks.buffer_id, chunks.switch_channel_id) {
            (Side::Local, Some(name), None, None) => (vec![spot.gpu], wires::buffer(spot, name)?),
            (Side::Remote, None, Some(id), None) => {
                let kind = read::channel_type(spot, self.op)?;
                let (rank, buffer) = self.wires.remote(spot, gpu, kind, id)?;
                (vec![rank], buffer)
            }
            (Side::Switch, None, None, Some(id)) => {
                let (buffer, ranks) = self.wires.switch(spot, gpu, id)?;
                (ranks, buffer)
            }
            _ => return Err(ImportError::at(spot, format!("an operand without {} alone", field(side)))),
        };
        let (first, count) = self.range(chunks, buffer, &ranks)?;
        let operand = Operand { buffer, first };
        Ok(Sized { place: Place { ranks, operand, packets }, count })
    }

    /// The block's share of an operand, in pieces of chunks.
    fn range(&self, chunks: &Chunks, buffer: Buffer, ranks: &[Rank]) -> Result<(u32, u32), ImportError> {
        let (index, size) = (chunks.index, chunks.size);
        if size == 0 {
            return Err(ImportError::at(self.spot, "an operand of size 0; expected at least 1"));
        }
        let pieces = u64::from(self.reader.pieces);
        for rank in ranks {
            let has = u64::from(self.reader.chunks[*rank][buffer as usize]) / pieces;
            if index.checked_add(size).is_none_or(|end| end > has) {
                let name = buffer.name();
                let reason = format!(
                    "chunks {index} to {} of buffer {name} of gpu {rank}, which has {has}",
                    index.saturating_add(size - 1)
                );
                return Err(ImportError::at(self.spot, reason));
            }
        }
        let Group { tb_id, tbg_size } = self.op.tbg_info.unwrap_or(Group { tb_id: 0, tbg_size: 1 });
        // Sizes are within the buffers, and `pieces` is a multiple of every group's size.
        let share = size * pieces / tbg_size;
        Ok(((index * pieces + tb_id * share) as u32, share as u32))
    }

    /// Where sinks are reached through channels that the operation names, those lead there.
    fn check_peers(&self, kind: &Kind, sinks: &[Sized]) -> Result<(), ImportError> {
        if kind.sinks.side(0) != Some(Side::Remote) || self.op.channel_ids.is_empty() {
            return Ok(());
        }
        let gpu = &self.reader.wires[self.spot.gpu];
        let channels = read::channel_type(self.spot, self.op)?;
        if self.op.channel_ids.len() != sinks.len() {
            let reason =
                format!("{} channels and {} sinks; expected as many", self.op.channel_ids.len(), sinks.len());
            return Err(ImportError::at(self.spot, reason));
        }
        for (id, sink) in self.op.channel_ids.iter().zip(sinks) {
            let (peer, ..) = self.wires.channel(self.spot, gpu, channels, *id)?;
            if sink.place.ranks != [peer] {
                let reason = format!(
                    "channel {id} leads to gpu {peer}, and its buffer is gpu {}'s",
                    sink.place.ranks[0]
                );
                return Err(ImportError::at(self.spot, reason));
            }
        }
        Ok(())
    }
}

/// The field that says where an operand is.
fn field(side: Side) -> &'static str {
    match side {
        Side::Local => "type",
        Side::Remote => "buffer_id",
        Side::Switch => "switch_channel_id",
    }
}
