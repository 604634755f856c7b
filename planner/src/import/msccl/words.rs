//! MSCCL's vocabulary, for reading and writing: collectives, buffers, types of steps.

pub(crate) use crate::import::slices::Buffer;
use crate::request::Collective;

/// How a collective is written in a file.
#[derive(Debug)]
pub(crate) struct Written {
    /// Its name in a file.
    pub name: &'static str,
    /// What it is.
    pub collective: Collective,
    /// Whether chunks and bytes are counted over the blocks of all ranks, not over one block.
    pub over_all: bool,
}

/// Every collective of MSCCL that hcomm has.
pub(crate) static WRITTEN: [Written; 8] = [
    Written { name: "allreduce", collective: Collective::AllReduce, over_all: false },
    Written { name: "allgather", collective: Collective::AllGather, over_all: true },
    Written { name: "reducescatter", collective: Collective::ReduceScatter, over_all: true },
    Written { name: "broadcast", collective: Collective::Broadcast, over_all: false },
    Written { name: "reduce", collective: Collective::Reduce, over_all: false },
    Written { name: "gather", collective: Collective::Gather, over_all: false },
    Written { name: "scatter", collective: Collective::Scatter, over_all: false },
    Written { name: "alltoall", collective: Collective::AllToAll, over_all: true },
];

impl Written {
    /// The one of that name.
    pub fn named(name: &str) -> Option<&'static Written> {
        WRITTEN.iter().find(|w| w.name == name)
    }

    /// How a collective is written.
    pub fn of(collective: Collective) -> Option<&'static Written> {
        WRITTEN.iter().find(|w| w.collective == collective)
    }

    /// Chunks per loop of `parts` chunks per block.
    pub fn chunks_per_loop(&self, parts: u64, world: u64) -> u64 {
        if self.over_all { parts * world } else { parts }
    }

    /// Bytes of the full buffer per byte that a file counts: gather and scatter are counted by the block.
    pub fn full_per_counted(&self, world: u64) -> u64 {
        match self.collective {
            Collective::Gather | Collective::Scatter => world,
            _ => 1,
        }
    }
}

/// What a type of step does: folds a message and what it reads, stores the result, sends it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct StepKind {
    pub name: &'static str,
    pub receives: bool,
    pub reads: &'static [Side],
    pub writes: bool,
    pub sends: bool,
}

/// Which operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Src,
    Dst,
}

/// Every type of step.
pub(crate) static STEPS: [StepKind; 9] = [
    StepKind { name: "s", receives: false, reads: &[Side::Src], writes: false, sends: true },
    StepKind { name: "r", receives: true, reads: &[], writes: true, sends: false },
    StepKind { name: "rcs", receives: true, reads: &[], writes: true, sends: true },
    StepKind { name: "rrc", receives: true, reads: &[Side::Src], writes: true, sends: false },
    StepKind { name: "rrs", receives: true, reads: &[Side::Src], writes: false, sends: true },
    StepKind { name: "rrcs", receives: true, reads: &[Side::Src], writes: true, sends: true },
    StepKind { name: "cpy", receives: false, reads: &[Side::Src], writes: true, sends: false },
    StepKind { name: "re", receives: false, reads: &[Side::Dst, Side::Src], writes: true, sends: false },
    StepKind { name: "nop", receives: false, reads: &[], writes: false, sends: false },
];

impl StepKind {
    /// Whether it only waits.
    pub fn is_nop(&self) -> bool {
        !self.receives && !self.writes && !self.sends
    }

    /// The operands that it uses.
    pub fn uses(&self, side: Side) -> bool {
        self.reads.contains(&side) || (self.writes && side == Side::Dst)
    }
}
