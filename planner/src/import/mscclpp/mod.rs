//! MSCCL++'s execution plans: thread blocks whose operations write and read the memory of other GPUs, and signals that say when.
//!
//! `read` makes a `Program` of the JSON (`file`: its fields; `kinds`: its operations; `wires`: its channels and buffers), `run` carries the
//! program out on symbols (`clock`: what each block knows of the others; `lanes`: what the nodes run on), and `slices` makes
//! plans of what comes of it.
//!
//! **One-sided becomes two-sided.** A put is a send in the lane of the block that puts, and a receive on the rank that is written to, in
//! a lane of its own for each block that writes there: so the owner's blocks take no part in it, as in the file. It waits for all that
//! the putting block knows the owner to have done by then; and whoever learns of the put, by a signal and wait, a barrier, a semaphore or
//! the packets themselves, waits for the receive. A read is the same with the roles changed. So signals become dependencies: they carry no
//! bytes, and the order that they make is kept on the rank whose memory it protects.
//!
//! Packets (data and flag together) are chunks whose readers wait for their writer. A pipeline's operations are carried out once: a plan is
//! a loop over tiles in any case. Operations of a switch, which reads and writes the memory of several GPUs at once, are sends, folds and
//! receives on `Stream` lanes: they can be proved and drawn, and running them is refused by name.

mod clock;
mod file;
mod kinds;
mod lanes;
mod operands;
mod program;
mod read;
mod run;
mod storehouse;
#[cfg(test)]
mod tests;
mod wires;

use super::slices;
use super::{Format, ImportError, prove, seal};
use crate::plan::{Overlay, Plan};
use program::Program;

/// The format. hcomm's own JSON has slices where this has GPUs.
pub(super) const FORMAT: Format =
    Format { name: "MSCCL++ JSON", sign: "an object with \"gpus\"", recognises, read: import };

fn recognises(text: &str) -> bool {
    text.trim_start().starts_with('{') && text.contains("\"gpus\"") && !text.contains("\"slices\"")
}

/// Longest file.
const MAX_FILE_BYTES: u64 = 16 << 20;

/// Most objects of the JSON: operations, operands and the like.
const MAX_OBJECTS: u64 = 1 << 19;

/// Most gpus.
const MAX_RANKS: u64 = 256;

/// Most chunks in all buffers of all gpus, cut as finely as groups of blocks share them.
const MAX_CHUNKS: u64 = 1 << 18;

/// Most blocks of one gpu.
const MAX_BLOCKS: u64 = 256;

/// Most operations of all gpus.
const MAX_OPS: u64 = 1 << 16;

/// Most chunks moved by all operations: what is done here takes time by it.
const MAX_MOVED: u64 = 1 << 19;

/// Most channels or semaphores that one operation names.
const MAX_NAMED: u64 = 256;

/// Most nodes of all gpus.
const MAX_NODES: u64 = 1 << 17;

/// Most nodes of one gpu; what is proved of a gpu takes memory in proportion to their square.
const MAX_GPU_NODES: u64 = 1 << 13;

/// Most pieces that a chunk may be cut into for groups of blocks.
const MAX_PIECES: u64 = 64;

/// Reads and proves a file.
pub(super) fn import(text: &str) -> Result<Vec<Plan>, ImportError> {
    let program = read::read(text)?;
    let mut refused = None;
    for root in roots(&program) {
        for overlay in overlays(&program) {
            match called(&program, root, overlay) {
                Ok(plans) => return Ok(plans),
                Err(error) if overlay != Overlay::Either => refused = refused.or(Some(error)),
                Err(_) => {}
            }
        }
    }
    Err(refused.unwrap_or_else(|| ImportError::at("the plan", "it has no gpus")))
}

/// A file does not say its root: it is the first rank with which it is right.
fn roots(program: &Program) -> std::ops::Range<usize> {
    if program.outline.collective.is_rooted() { 0..program.outline.world } else { 0..1 }
}

/// The ways of calling to try: both, then the one that the file claims. What writes its input makes sense in place only.
fn overlays(program: &Program) -> Vec<Overlay> {
    match (program.in_place, program.writes_input()) {
        (true, true) => vec![Overlay::InPlace],
        (true, false) => vec![Overlay::Either, Overlay::InPlace],
        (false, _) => vec![Overlay::Either, Overlay::Apart],
    }
}

/// The plan, called in one way.
fn called(program: &Program, root: usize, overlay: Overlay) -> Result<Vec<Plan>, ImportError> {
    let done = run::run(program, root, overlay)?;
    let build = |buffered| slices::freeze(&done.outline, &done.fifos, overlay, &done.ordered, buffered);
    let mut plans = prove(build, |at| slices::name(&done.ordered, at))?;
    seal(&mut plans);
    Ok(plans)
}
