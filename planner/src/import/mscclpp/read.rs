//! JSON becomes a [`Program`]: sizes agree with the collective, every number is in range, every operation has what it needs.

use super::file::{self, File};
use super::kinds::{Does, KINDS, Kind};
use super::operands::{self, Reader};
use super::program::{Act, Block, Gpu, Op, Program, Spot};
use super::wires::{self, BlockWires, Wires};
use super::{MAX_BLOCKS, MAX_CHUNKS, MAX_FILE_BYTES, MAX_NAMED, MAX_OBJECTS, MAX_OPS, MAX_PIECES, MAX_RANKS};
use crate::buffers::BlockCounts;
use crate::import::msccl::words::{WRITTEN, Written};
use crate::import::slices::{Buffer, Outline};
use crate::import::{ImportError, within};
use crate::plan::{ByteRange, EXPECTED_NAME, check_name};

/// So much of a word of the file is shown in errors.
const LONGEST_NAME: usize = 120;

/// Reads a whole file.
pub(super) fn read(text: &str) -> Result<Program, ImportError> {
    within("bytes of the file", text.len() as u64, MAX_FILE_BYTES)?;
    within("objects of the file", text.bytes().filter(|byte| *byte == b'{').count() as u64, MAX_OBJECTS)?;
    let file: File = serde_json::from_str(text).map_err(|error| unread(text, &error))?;
    check_gpus(&file)?;
    let pieces = pieces(&file)?;
    let outline = outline(&file, pieces)?;
    let mut counters = Vec::new();
    let wires = wires::all(&file.gpus, &mut counters)?;
    let mut chunks = Vec::with_capacity(file.gpus.len());
    for (rank, gpu) in file.gpus.iter().enumerate() {
        chunks.push(sizes(&file, &outline, rank, gpu, pieces)?);
    }
    within("chunks of all gpus' buffers", chunks.iter().flatten().map(|c| u64::from(*c)).sum(), MAX_CHUNKS)?;
    let mut reader = Reader { wires: &wires, chunks: &chunks, pieces, moved: 0 };
    let mut gpus = Vec::with_capacity(file.gpus.len());
    for (rank, gpu) in file.gpus.iter().enumerate() {
        let blocks = gpu.threadblocks.iter().enumerate();
        let blocks: Result<Vec<Block>, ImportError> =
            blocks.map(|(number, block)| read_block(&mut reader, rank, number, block)).collect();
        gpus.push(Gpu { chunks: chunks[rank], blocks: blocks? });
    }
    Ok(Program { outline, in_place: file.inplace, gpus, counters })
}

/// Fields that MSCCL++ has written up to 2024, and no longer since.
const OLD_FIELDS: [&str; 2] = ["inputChunks", "colletive"];

/// What is no JSON of this format, the place said once.
fn unread(text: &str, error: &serde_json::Error) -> ImportError {
    let (line, whole) = (error.line(), error.to_string());
    let place = format!(" at line {line} column {}", error.column());
    let reason = whole.strip_suffix(&place).unwrap_or(&whole);
    let old = OLD_FIELDS.into_iter().find(|field| text.contains(&format!("\"{field}\"")));
    let hint = old.map_or_else(String::new, |field| {
        format!("; the file has '{field}', as MSCCL++ wrote before 2025; expected its layout since then")
    });
    ImportError::Syntax { line, reason: format!("{reason}{hint}") }
}

/// GPUs and blocks are numbered from 0, and there are not too many of them.
fn check_gpus(file: &File) -> Result<(), ImportError> {
    let world = file.gpus.len() as u64;
    within("gpus", world, MAX_RANKS)?;
    if world < 2 {
        return Err(ImportError::at("the plan", format!("it has {world} gpus; expected at least 2")));
    }
    let mut ops = 0;
    for (rank, gpu) in file.gpus.iter().enumerate() {
        if gpu.id != rank as u64 {
            return Err(ImportError::at(
                format!("gpu {rank}"),
                format!("its id is {}; expected {rank}", gpu.id),
            ));
        }
        within(format!("threadblocks of gpu {rank}"), gpu.threadblocks.len() as u64, MAX_BLOCKS)?;
        for (number, block) in gpu.threadblocks.iter().enumerate() {
            if block.id != number as u64 {
                let reason = format!("its id is {}; expected {number}", block.id);
                return Err(ImportError::at(format!("gpu {rank}, threadblock {number}"), reason));
            }
            ops += block.ops.iter().map(|op| 1 + op.ops.len() as u64).sum::<u64>();
            within("operations", ops, MAX_OPS)?;
        }
    }
    Ok(())
}

/// Into how many pieces a chunk is cut, so that each block of a group has whole ones.
fn pieces(file: &File) -> Result<u32, ImportError> {
    let mut pieces = 1;
    for (spot, op) in all_ops(file) {
        let Some(group) = op.tbg_info else { continue };
        if group.tb_id >= group.tbg_size {
            let reason = format!("tb_id {} in a group of {}", group.tb_id, group.tbg_size);
            return Err(ImportError::at(spot, reason));
        }
        within(format!("tbg_size of {spot}"), group.tbg_size, MAX_PIECES)?;
        pieces = least_multiple(pieces, group.tbg_size);
        within(format!("pieces of a chunk that {spot} and those before it need"), pieces, MAX_PIECES)?;
    }
    Ok(pieces as u32)
}

/// The least number that both divide.
fn least_multiple(a: u64, b: u64) -> u64 {
    let (mut x, mut y) = (a, b);
    while y != 0 {
        (x, y) = (y, x % y);
    }
    a / x * b
}

fn all_ops(file: &File) -> impl Iterator<Item = (Spot, &file::Op)> {
    let blocks = file
        .gpus
        .iter()
        .enumerate()
        .flat_map(|(gpu, g)| g.threadblocks.iter().enumerate().map(move |(block, b)| (gpu, block, b)));
    let ops = blocks.flat_map(|(gpu, block, b)| {
        b.ops.iter().enumerate().map(move |(op, o)| (Spot { gpu, block, op, inner: None }, o))
    });
    ops.flat_map(|(spot, op)| {
        let within = op.ops.iter().enumerate();
        let within = within.map(move |(inner, op)| (Spot { inner: Some(inner), ..spot }, op));
        std::iter::once((spot, op)).chain(within)
    })
}

fn outline(file: &File, pieces: u32) -> Result<Outline, ImportError> {
    let wrong = |shown| ImportError::at("name", format!("{shown}; expected {EXPECTED_NAME}"));
    check_name(&file.name).map_err(wrong)?;
    let Some(written) = Written::named(&file.collective) else {
        let names = WRITTEN.each_ref().map(|w| w.name).join(", ");
        let given: String = file.collective.chars().take(LONGEST_NAME).collect();
        return Err(ImportError::at("collective", format!("{given:?}; expected one of {names}")));
    };
    let (name, collective, world) = (file.name.clone(), written.collective, file.gpus.len());
    let (parts, bytes) = (parts(file, written, pieces)?, bytes(file, written)?);
    Ok(Outline { name, world, collective, root: 0, parts, bytes })
}

/// Pieces of chunks in a block, by what GPU 0 says of its input, or of its output where it has no input of its own.
fn parts(file: &File, written: &Written, pieces: u32) -> Result<u32, ImportError> {
    let blocks = BlockCounts::of(written.collective, file.gpus.len(), 0, 0);
    let [input, output] = [blocks.input, blocks.output].map(|blocks| u64::from(blocks.unwrap_or(1)));
    let gpu = &file.gpus[0];
    let (chunks, blocks) =
        if gpu.input_chunks > 0 { (gpu.input_chunks, input) } else { (gpu.output_chunks, output) };
    within("chunks of gpu 0's input or output", chunks, MAX_CHUNKS)?;
    if chunks == 0 || chunks % blocks != 0 {
        let reason =
            format!("{chunks} chunks in {blocks} blocks; expected a multiple, and at least one chunk each");
        return Err(ImportError::at("gpu 0", reason));
    }
    let parts = chunks / blocks * u64::from(pieces);
    within("parts of a block", parts, MAX_CHUNKS)?;
    Ok(parts as u32)
}

/// The sizes that it is for.
fn bytes(file: &File, written: &Written) -> Result<ByteRange, ImportError> {
    let full = |bytes: u64| bytes.saturating_mul(written.full_per_counted(file.gpus.len() as u64));
    let min = full(file.min_message_size);
    match file.max_message_size.filter(|max| *max != u64::MAX).map(full) {
        Some(max) if max < min => {
            let reason = format!("it is for at least {min} and at most {max} bytes");
            Err(ImportError::at("min_message_size", reason))
        }
        max => Ok(ByteRange { min, max }),
    }
}

/// The chunks, cut into pieces, of a GPU's buffers: those of the collective, or none where they lie in one another.
fn sizes(
    file: &File,
    outline: &Outline,
    rank: usize,
    gpu: &file::Gpu,
    pieces: u32,
) -> Result<[u32; 3], ImportError> {
    // Where there is a root, a rank's buffers as if it were one.
    let expected = Outline { root: rank, ..outline.clone() }.buffers(rank).map(|chunks| chunks.unwrap_or(0));
    let mut sizes = [0; 3];
    let given = [gpu.input_chunks, gpu.output_chunks];
    for (buffer, (given, expected)) in
        [Buffer::Input, Buffer::Output].into_iter().zip(given.into_iter().zip(expected))
    {
        within(format!("chunks of buffer {} of gpu {rank}", buffer.name()), given, MAX_CHUNKS)?;
        if given != 0 && given * u64::from(pieces) != u64::from(expected) {
            let expected = expected / pieces;
            let reason = format!("buffer {} has {given} chunks; expected {expected}, or 0", buffer.name());
            return Err(ImportError::at(format!("gpu {rank}"), reason));
        }
        sizes[buffer as usize] = if given != 0 || file.inplace { expected } else { 0 };
    }
    let scratch = gpu.scratch_chunks.saturating_mul(u64::from(pieces));
    within(format!("chunks of the scratch of gpu {rank}"), scratch, MAX_CHUNKS)?;
    sizes[Buffer::Scratch as usize] = scratch as u32;
    Ok(sizes)
}

fn read_block(
    reader: &mut Reader<'_>,
    rank: usize,
    number: usize,
    block: &file::Block,
) -> Result<Block, ImportError> {
    let at = format!("gpu {rank}, threadblock {number}");
    let wires = BlockWires::new(&at, block, &reader.wires[rank])?;
    let mut ops = Vec::with_capacity(block.ops.len());
    for (op, written) in block.ops.iter().enumerate() {
        let spot = Spot { gpu: rank, block: number, op, inner: None };
        let kind = kind(spot, written)?;
        if kind.does != Does::Pipeline {
            ops.push(read_op(reader, &wires, spot, kind, written)?);
            continue;
        }
        for (inner, written) in written.ops.iter().enumerate() {
            let spot = Spot { inner: Some(inner), ..spot };
            let kind = self::kind(spot, written)?;
            if kind.does == Does::Pipeline {
                return Err(ImportError::at(spot, "a pipeline within a pipeline"));
            }
            ops.push(read_op(reader, &wires, spot, kind, written)?);
        }
    }
    Ok(Block { ops })
}

fn kind(spot: Spot, op: &file::Op) -> Result<&'static Kind, ImportError> {
    Kind::named(&op.name).ok_or_else(|| {
        let names = KINDS.each_ref().map(|kind| kind.name).join(", ");
        let name: String = op.name.chars().take(LONGEST_NAME).collect();
        ImportError::at(spot, format!("operation {name:?}; expected one of {names}"))
    })
}

fn read_op(
    reader: &mut Reader<'_>,
    wires: &BlockWires,
    spot: Spot,
    kind: &'static Kind,
    op: &file::Op,
) -> Result<Op, ImportError> {
    let gpu = &reader.wires[spot.gpu];
    within(format!("channels of {spot}"), op.channel_ids.len() as u64, MAX_NAMED)?;
    within(format!("semaphores of {spot}"), op.semaphore_ids.len() as u64, MAX_NAMED)?;
    let act = match kind.does {
        Does::Nothing | Does::Pipeline => Act::Nothing,
        Does::Signal => Act::Raise(signalled(wires, gpu, spot, op)?),
        Does::Wait => Act::Take(awaited(wires, gpu, spot, op)?),
        Does::Acquire => Act::Take(semaphores(gpu, spot, op)?),
        Does::Release => Act::Raise(semaphores(gpu, spot, op)?),
        Does::Barrier => barrier(spot, op)?,
        Does::Move(form) => {
            let moves = operands::moves(reader, wires, spot, kind, form, op)?;
            let raises = if kind.signals { signalled(wires, gpu, spot, op)? } else { Vec::new() };
            Act::Move { moves, raises }
        }
    };
    Ok(Op { spot, kind, act })
}

/// The counters that signals on an operation's channels raise; where nobody is at the other end, there is none.
fn signalled(wires: &BlockWires, gpu: &Wires, spot: Spot, op: &file::Op) -> Result<Vec<usize>, ImportError> {
    let kind = channel_type(spot, op)?;
    let mut counters = Vec::new();
    for id in channel_ids(spot, op)? {
        counters.extend(wires.channel(spot, gpu, kind, *id)?.2);
    }
    Ok(counters)
}

fn awaited(wires: &BlockWires, gpu: &Wires, spot: Spot, op: &file::Op) -> Result<Vec<usize>, ImportError> {
    let kind = channel_type(spot, op)?;
    channel_ids(spot, op)?.iter().map(|id| Ok(wires.channel(spot, gpu, kind, *id)?.1)).collect()
}

/// The type of channel that an operation goes through.
pub(super) fn channel_type(spot: Spot, op: &file::Op) -> Result<usize, ImportError> {
    match &op.channel_type {
        Some(name) => wires::kind(spot, name),
        None => {
            Err(ImportError::at(spot, format!("{} without channel_type; expected memory or port", op.name)))
        }
    }
}

fn channel_ids(spot: Spot, op: &file::Op) -> Result<&[u64], ImportError> {
    match op.channel_ids[..] {
        [] => Err(ImportError::at(spot, format!("{} without channel_ids", op.name))),
        _ => Ok(&op.channel_ids),
    }
}

fn semaphores(gpu: &Wires, spot: Spot, op: &file::Op) -> Result<Vec<usize>, ImportError> {
    if op.semaphore_ids.is_empty() {
        return Err(ImportError::at(spot, format!("{} without semaphore_ids", op.name)));
    }
    let one = |id: &u64| {
        let counter = usize::try_from(*id).ok().and_then(|id| gpu.semaphores.get(id)).copied();
        let reason = || format!("semaphore {id}; its gpu has {}", gpu.semaphores.len());
        counter.ok_or_else(|| ImportError::at(spot, reason()))
    };
    op.semaphore_ids.iter().map(one).collect()
}

fn barrier(spot: Spot, op: &file::Op) -> Result<Act, ImportError> {
    let missing = |field| ImportError::at(spot, format!("barrier without {field}"));
    let barrier = op.barrier_id.ok_or_else(|| missing("barrier_id"))?;
    let blocks = op.num_threadblocks.ok_or_else(|| missing("num_threadblocks"))?;
    if !(1..=MAX_BLOCKS).contains(&blocks) {
        let reason = format!("a barrier of {blocks} threadblocks; expected 1 to {MAX_BLOCKS}");
        return Err(ImportError::at(spot, reason));
    }
    Ok(Act::Meet { barrier, blocks: blocks as usize })
}
