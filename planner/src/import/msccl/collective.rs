//! MSCCL's names of the collectives, and how its sizes relate to hcomm's.

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
