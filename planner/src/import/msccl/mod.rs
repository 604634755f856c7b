//! MSCCL's XML: thread blocks whose steps send, receive, reduce and copy chunks.
//!
//! `xml` (with `algo`) reads the text into a `Program`, `check` looks at each element, `wiring` matches sends with receives, `order` carries the
//! steps out on symbols (`gate`: who is waited for), and `slices` makes plans of what comes of it.
//! A thread block becomes a lane, a step a node; a `nop` only adds to what the next step of its block waits for.

mod algo;
mod attributes;
mod check;
#[cfg(test)]
mod fault_tests;
mod gate;
mod order;
mod program;
#[cfg(test)]
mod tests;
mod wiring;
pub(crate) mod words;
#[cfg(test)]
mod wrong_tests;
mod xml;

use super::slices::{self, Buffer};
use super::{Format, ImportError, prove, seal};
use crate::plan::{Overlay, Plan};
use program::Program;
use wiring::Wiring;

/// The format.
pub(super) const FORMAT: Format = Format {
    name: "MSCCL XML",
    sign: "XML",
    recognises: |text| text.trim_start().starts_with('<'),
    read: import,
};

/// Longest file.
const MAX_FILE_BYTES: u64 = 16 << 20;

/// Most gpus.
const MAX_RANKS: u64 = 256;

/// Most chunks, in all buffers of all gpus.
const MAX_CHUNKS: u64 = 1 << 18;

/// Most thread blocks of one gpu.
const MAX_BLOCKS: u64 = 128;

/// Most steps of all gpus.
const MAX_STEPS: u64 = 1 << 16;

/// Most steps of one gpu, copies before the steps included; what is proved of a gpu takes memory in proportion to their square.
const MAX_GPU_STEPS: u64 = 1 << 13;

/// Most `copy` elements of one gpu.
const MAX_COPIES: u64 = 1 << 12;

/// Reads and proves a file.
pub(super) fn import(text: &str) -> Result<Vec<Plan>, ImportError> {
    let program = xml::read(text)?;
    check::check(&program)?;
    let wiring = Wiring::new(&program)?;
    let mut refused = None;
    for overlay in overlays(&program) {
        match called(&program, &wiring, overlay) {
            Ok(plans) => return Ok(plans),
            Err(error) => refused = refused.or(Some(error)),
        }
    }
    Err(refused.unwrap_or_else(|| ImportError::at("algo", "it can be called in no way")))
}

/// The ways of calling to try: those that the file claims; where a buffer lies in the other, only in place makes sense.
fn overlays(program: &Program) -> Vec<Overlay> {
    let rank_is_aliased = |(rank, gpu): (usize, &program::Gpu)| {
        let expected = program.outline.buffers(rank);
        let given = [Buffer::Input, Buffer::Output].map(|buffer| gpu.chunks[buffer as usize]);
        expected.iter().zip(given).any(|(expected, given)| expected.is_some() && given == 0)
    };
    match program.overlays[..] {
        [_] => program.overlays.clone(),
        _ if program.gpus.iter().enumerate().any(rank_is_aliased) => vec![Overlay::InPlace],
        _ => program.overlays.clone(),
    }
}

/// The plan, called in one way.
fn called(program: &Program, wiring: &Wiring, overlay: Overlay) -> Result<Vec<Plan>, ImportError> {
    let ordered = order::run(program, wiring, overlay)?;
    let fifos = wiring.fifos();
    let build = |buffered| slices::freeze(&program.outline, &fifos, overlay, &ordered, buffered);
    let mut plans = prove(build, |at| slices::name(&ordered, at))?;
    seal(&mut plans);
    Ok(plans)
}
