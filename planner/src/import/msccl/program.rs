//! [`Program`]: what an MSCCL file says, as it says it. `xml` fills it, `check` looks whether it makes sense, `order` runs it.

use std::fmt;

use hcomm_ops::Rank;

use crate::import::slices::{Operand, Outline, Use};
use crate::plan::Overlay;

use super::words::{Side, StepKind};

/// A whole file.
#[derive(Clone, Debug)]
pub(super) struct Program {
    /// Its name, collective and sizes. It has as many gpus as it says once it has been checked.
    pub outline: Outline,
    /// Channels that it says it uses, if it does.
    pub channels: Option<u32>,
    /// How it may be called, as far as it says; the first that is proved counts.
    pub overlays: Vec<Overlay>,
    pub gpus: Vec<Gpu>,
}

/// One rank's part.
#[derive(Clone, Debug)]
pub(super) struct Gpu {
    /// Chunks of its buffers; input and output may be 0 where they lie in the other.
    pub chunks: [u32; 3],
    /// Input and output chunks to copy before the steps.
    pub copies: Vec<(u32, u32)>,
    pub blocks: Vec<Block>,
}

/// A thread block: steps that are carried out in order.
#[derive(Clone, Debug)]
pub(super) struct Block {
    pub send: Option<Rank>,
    pub recv: Option<Rank>,
    pub channel: u32,
    pub steps: Vec<Step>,
}

/// One step.
#[derive(Clone, Copy, Debug)]
pub(super) struct Step {
    pub kind: &'static StepKind,
    pub src: Operand,
    pub dst: Operand,
    /// Chunks moved together; 0 where nothing moves.
    pub count: u32,
    /// Block and step of the same gpu that must have finished.
    pub dep: Option<(usize, usize)>,
    /// Tells waiting blocks when it has finished.
    pub flags: bool,
}

impl Step {
    pub fn operand(&self, side: Side) -> Operand {
        match side {
            Side::Src => self.src,
            Side::Dst => self.dst,
        }
    }
}

/// An element, for errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Spot {
    Gpu(Rank),
    Copy(Rank, usize),
    Block(Rank, usize),
    Step(Rank, usize, usize),
}

impl fmt::Display for Spot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Spot::Gpu(gpu) => write!(f, "gpu {gpu}"),
            Spot::Copy(gpu, copy) => write!(f, "gpu {gpu}, copy {copy}"),
            Spot::Block(gpu, block) => write!(f, "gpu {gpu}, tb {block}"),
            Spot::Step(gpu, block, step) => write!(f, "gpu {gpu}, tb {block}, step {step}"),
        }
    }
}

impl Gpu {
    /// The chunks that its steps read and write.
    pub fn uses(&self) -> Vec<Use> {
        let steps = self.blocks.iter().flat_map(|block| &block.steps);
        let sides = steps.flat_map(|step| [(step, Side::Src), (step, Side::Dst)]);
        let used = sides.filter(|(step, side)| step.kind.uses(*side));
        used.map(|(step, side)| Use {
            operand: step.operand(side),
            count: step.count,
            writes: side == Side::Dst && step.kind.writes,
        })
        .collect()
    }
}

impl Program {
    /// Every step with where it stands.
    pub fn steps(&self) -> impl Iterator<Item = (Spot, &Gpu, &Block, &Step)> {
        let gpus = self.gpus.iter().enumerate();
        let blocks =
            gpus.flat_map(|(gpu, g)| g.blocks.iter().enumerate().map(move |(b, block)| (gpu, g, b, block)));
        blocks.flat_map(|(gpu, g, b, block)| {
            let steps = block.steps.iter().enumerate();
            steps.map(move |(s, step)| (Spot::Step(gpu, b, s), g, block, step))
        })
    }
}
