//! Whether a [`Program`] makes sense element by element: sizes, ranges, peers, and steps that are waited for.

use hcomm_ops::Rank;

use super::MAX_CHUNKS;
use super::program::{Block, Gpu, Program, Spot, Step};
use super::words::Side;
use crate::import::slices::{Buffer, Operand};
use crate::import::{ImportError, within};
use crate::plan::Overlay;

/// Chunks that all steps move, counted through: what the later passes take time by.
const MAX_MOVED: u64 = 1 << 19;

/// Chunks that one step moves: an element of each has to fit a slot, however small.
const MAX_COUNT: u64 = 256;

/// Looks at every element.
pub(super) fn check(program: &Program) -> Result<(), ImportError> {
    let (there, said) = (program.gpus.len(), program.outline.world);
    if there != said {
        return Err(ImportError::at("algo", format!("it has {there} gpus; expected ngpus, {said}")));
    }
    let mut chunks = 0;
    for (rank, gpu) in program.gpus.iter().enumerate() {
        chunks += sizes(program, rank, gpu)?;
        within("chunks of all gpus' buffers", chunks, MAX_CHUNKS)?;
        copies(rank, gpu)?;
        blocks(program, rank, gpu)?;
    }
    let mut moved = 0;
    for (spot, gpu, block, step) in program.steps() {
        within(format!("cnt of {spot}"), u64::from(step.count), MAX_COUNT)?;
        moved += u64::from(step.count);
        within("chunks moved by all steps", moved, MAX_MOVED)?;
        operands(spot, gpu, step)?;
        peers(spot, block, step)?;
        dependency(spot, gpu, step)?;
    }
    Ok(())
}

/// Input and output are as large as the collective makes them, or 0 where they lie in the other. Returns the chunks there are.
fn sizes(program: &Program, rank: Rank, gpu: &Gpu) -> Result<u64, ImportError> {
    let in_place = program.overlays.iter().any(|overlay| *overlay != Overlay::Apart);
    let mut all = u64::from(gpu.chunks[Buffer::Scratch as usize]);
    for (buffer, expected) in [Buffer::Input, Buffer::Output].into_iter().zip(program.outline.buffers(rank)) {
        let given = gpu.chunks[buffer as usize];
        all += u64::from(given.max(expected.unwrap_or(0)));
        let Some(expected) = expected.filter(|expected| given != *expected && !(given == 0 && in_place))
        else {
            continue;
        };
        let or_none = if in_place { ", or 0 in place" } else { "" };
        let name = buffer.name();
        return Err(ImportError::at(
            Spot::Gpu(rank),
            format!("{name}_chunks is {given}; expected {expected}{or_none}"),
        ));
    }
    Ok(all)
}

fn copies(rank: Rank, gpu: &Gpu) -> Result<(), ImportError> {
    for (number, (from, to)) in gpu.copies.iter().enumerate() {
        let spot = Spot::Copy(rank, number);
        range(spot, "i_off", gpu, Operand { buffer: Buffer::Input, first: *from }, 1)?;
        range(spot, "o_off", gpu, Operand { buffer: Buffer::Output, first: *to }, 1)?;
    }
    Ok(())
}

/// Peers are other gpus, and no two blocks of a gpu hold the same end of a channel.
fn blocks(program: &Program, rank: Rank, gpu: &Gpu) -> Result<(), ImportError> {
    let mut held = std::collections::BTreeMap::new();
    for (number, block) in gpu.blocks.iter().enumerate() {
        for (name, peer) in [("send", block.send), ("recv", block.recv)] {
            let Some(peer) = peer else { continue };
            let spot = Spot::Block(rank, number);
            if peer == rank {
                return Err(ImportError::at(
                    spot,
                    format!("{name} is {peer}, the gpu itself; expected another, or -1"),
                ));
            }
            if peer >= program.outline.world {
                let last = program.outline.world - 1;
                return Err(ImportError::at(
                    spot,
                    format!("{name} is {peer}; expected a gpu from 0 to {last}, or -1"),
                ));
            }
            if let Some(other) = held.insert((name, peer, block.channel), number) {
                let channel = block.channel;
                let reason = format!(
                    "{name} {peer} on channel {channel} is also tb {other}'s; expected one block per end"
                );
                return Err(ImportError::at(spot, reason));
            }
        }
    }
    Ok(())
}

fn operands(spot: Spot, gpu: &Gpu, step: &Step) -> Result<(), ImportError> {
    if step.count == 0 && !step.kind.is_nop() {
        return Err(ImportError::at(spot, "cnt is 0; expected at least 1"));
    }
    for (side, name) in [(Side::Src, "srcoff"), (Side::Dst, "dstoff")] {
        if step.kind.uses(side) {
            range(spot, name, gpu, step.operand(side), step.count)?;
        }
    }
    Ok(())
}

fn range(spot: Spot, name: &str, gpu: &Gpu, operand: Operand, count: u32) -> Result<(), ImportError> {
    let (first, chunks) = (operand.first, gpu.chunks[operand.buffer as usize]);
    if u64::from(first) + u64::from(count) <= u64::from(chunks) {
        return Ok(());
    }
    let buffer = operand.buffer.name();
    let reason = format!(
        "{name} is {first} and {count} chunks long; expected within buffer {buffer}, which has {chunks}"
    );
    Err(ImportError::at(spot, reason))
}

fn peers(spot: Spot, block: &Block, step: &Step) -> Result<(), ImportError> {
    let missing = match (step.kind.sends && block.send.is_none(), step.kind.receives && block.recv.is_none())
    {
        (true, _) => "sends, but its block's send is -1",
        (_, true) => "receives, but its block's recv is -1",
        _ => return Ok(()),
    };
    Err(ImportError::at(spot, format!("type {} {missing}; expected a gpu", step.kind.name)))
}

/// What is waited for is there, and says when it has finished.
fn dependency(spot: Spot, gpu: &Gpu, step: &Step) -> Result<(), ImportError> {
    let Some((block, dep)) = step.dep else { return Ok(()) };
    let Some(waited) = gpu.blocks.get(block) else {
        let count = gpu.blocks.len();
        return Err(ImportError::at(
            spot,
            format!("depid is {block}; expected a block below {count}, or -1"),
        ));
    };
    if dep >= waited.steps.len() {
        let count = waited.steps.len();
        return Err(ImportError::at(
            spot,
            format!("deps is {dep}; expected a step of tb {block} below {count}"),
        ));
    }
    if !waited.steps[dep..].iter().any(|step| step.flags) {
        let reason = format!(
            "it waits for step {dep} of tb {block}, but neither that step nor a later one has hasdep 1"
        );
        return Err(ImportError::at(spot, reason));
    }
    Ok(())
}
