//! [`Request`]: everything of a call that all ranks know and that decides the result.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use hcomm_ops::{DType, Rank, ReduceOp};

use crate::algorithm::Variant;

/// The collectives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Collective {
    /// Every rank ends with the reduction of all inputs. Input and output: `count` elements.
    AllReduce,
    /// Every rank ends with all inputs, in rank order. Input: `count`; output: `world x count`.
    AllGather,
    /// Rank r ends with block r of the reduction. Input: `world x count`; output: `count`.
    ReduceScatter,
    /// Every rank ends with the root's input. Input (at the root) and output: `count`.
    Broadcast,
    /// The root ends with the reduction of all inputs. Input and output (at the root): `count`.
    Reduce,
    /// The root ends with all inputs, in rank order. Input: `count`; output (at the root): `world x count`.
    Gather,
    /// Rank r ends with block r of the root's input. Input (at the root): `world x count`; output: `count`.
    Scatter,
    /// Block j of rank i becomes block i of rank j. Input and output: `world x count`.
    AllToAll,
    /// No data: returns after every rank has called. `count` is 0.
    Barrier,
}

impl Collective {
    /// Every collective, in declaration order.
    pub const ALL: [Collective; 9] = [
        Collective::AllReduce,
        Collective::AllGather,
        Collective::ReduceScatter,
        Collective::Broadcast,
        Collective::Reduce,
        Collective::Gather,
        Collective::Scatter,
        Collective::AllToAll,
        Collective::Barrier,
    ];

    /// The name used on the command line and in errors, such as `all_reduce`.
    pub const fn name(self) -> &'static str {
        match self {
            Collective::AllReduce => "all_reduce",
            Collective::AllGather => "all_gather",
            Collective::ReduceScatter => "reduce_scatter",
            Collective::Broadcast => "broadcast",
            Collective::Reduce => "reduce",
            Collective::Gather => "gather",
            Collective::Scatter => "scatter",
            Collective::AllToAll => "all_to_all",
            Collective::Barrier => "barrier",
        }
    }

    /// Whether it combines elements, so that a [`ReduceOp`] matters.
    pub const fn reduces(self) -> bool {
        matches!(self, Collective::AllReduce | Collective::ReduceScatter | Collective::Reduce)
    }

    /// Whether one rank is special.
    pub const fn is_rooted(self) -> bool {
        matches!(self, Collective::Broadcast | Collective::Reduce | Collective::Gather | Collective::Scatter)
    }
}

impl fmt::Display for Collective {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A name that is no [`Collective`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown collective '{0}'; expected one of {names}", names = Collective::ALL.map(Collective::name).join(", "))]
pub struct UnknownCollective(pub String);

impl FromStr for Collective {
    type Err = UnknownCollective;

    fn from_str(name: &str) -> Result<Self, UnknownCollective> {
        Collective::ALL
            .into_iter()
            .find(|c| c.name() == name)
            .ok_or_else(|| UnknownCollective(name.to_owned()))
    }
}

/// How many elements a call moves.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Counts {
    /// `count` elements per block (see [`Collective`] for which buffers have one block and which `world`).
    Even(u64),
    /// all_gather_v and reduce_scatter_v: block r has `counts[r]` elements; every rank gives the same list.
    Listed(Arc<[u64]>),
    /// gather_v, scatter_v and all_to_all_v: each rank knows only its own blocks. `input[b]` and `output[b]` are the
    /// elements of the local buffers' blocks (empty where this rank has no such buffer). They are local: only
    /// the world size is common knowledge.
    Local {
        /// Elements of each block of this rank's input.
        input: Arc<[u64]>,
        /// Elements of each block of this rank's output.
        output: Arc<[u64]>,
    },
}

impl Counts {
    /// What they look like to all ranks.
    pub fn variant(&self) -> Variant {
        match self {
            Counts::Even(_) => Variant::Even,
            Counts::Listed(_) => Variant::Listed,
            Counts::Local { .. } => Variant::Local,
        }
    }
}

/// A call, less its buffers.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Request {
    /// What is asked for.
    pub collective: Collective,
    /// Element type.
    pub dtype: DType,
    /// Reduction; `Sum` and ignored where the collective does not reduce.
    pub op: ReduceOp,
    /// Elements.
    pub counts: Counts,
    /// The special rank; 0 where there is none.
    pub root: Rank,
    /// A pinned algorithm, by its registry name, or `NAME:CHANNELS`; `None` lets the planner choose.
    pub algorithm: Option<Arc<str>>,
    /// The result is the left fold over the ranks in the accumulate type, rounded once, whatever the algorithm.
    pub deterministic: bool,
}

impl Request {
    /// A call of even counts by the planner's own choice of algorithm.
    pub fn new(collective: Collective, dtype: DType, op: ReduceOp, count: u64) -> Self {
        Request {
            collective,
            dtype,
            op,
            counts: Counts::Even(count),
            root: 0,
            algorithm: None,
            deterministic: false,
        }
    }

    /// The same with another root.
    pub fn with_root(self, root: Rank) -> Self {
        Request { root, ..self }
    }

    /// The same with a pinned algorithm.
    pub fn with_algorithm(self, name: &str) -> Self {
        Request { algorithm: Some(name.into()), ..self }
    }

    /// The same, folded in rank order.
    pub fn deterministic(self) -> Self {
        Request { deterministic: true, ..self }
    }
}

/// The blocks of a rank's buffers: elements of each block, `None` where the rank has no such buffer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blocks {
    /// The input's blocks.
    pub input: Option<Vec<u64>>,
    /// The output's blocks.
    pub output: Option<Vec<u64>>,
}

impl Request {
    /// The blocks of rank `rank`'s buffers in a world of `world`.
    ///
    /// The counts must have been checked against the collective and the world (see `check`).
    pub fn blocks(&self, rank: Rank, world: usize) -> Blocks {
        let at_root = rank == self.root;
        let every = || match &self.counts {
            Counts::Even(count) => vec![*count; world],
            Counts::Listed(counts) => counts.to_vec(),
            Counts::Local { .. } => Vec::new(),
        };
        if let Counts::Local { input, output } = &self.counts {
            let some = |blocks: &Arc<[u64]>| (!blocks.is_empty()).then(|| blocks.to_vec());
            return Blocks { input: some(input), output: some(output) };
        }
        let own = || vec![every()[rank]];
        let (input, output) = match self.collective {
            Collective::AllReduce | Collective::Barrier => (Some(own()), Some(own())),
            Collective::AllGather => (Some(own()), Some(every())),
            Collective::ReduceScatter => (Some(every()), Some(own())),
            Collective::Broadcast => (at_root.then(own), Some(own())),
            Collective::Reduce => (Some(own()), at_root.then(own)),
            Collective::Gather => (Some(own()), at_root.then(every)),
            Collective::Scatter => (at_root.then(every), Some(own())),
            Collective::AllToAll => (Some(every()), Some(every())),
        };
        Blocks { input, output }
    }
}
