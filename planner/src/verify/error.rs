//! [`VerifyError`]: what a plan does wrong, and where: the shortest chain of nodes that shows it.

use std::fmt;

use hcomm_ops::Rank;

use crate::export::words;
use crate::plan::{NodeId, Plan};

/// A node in an error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct At {
    /// Whose slice.
    pub rank: Rank,
    /// The node.
    pub node: NodeId,
    /// What it does, in words.
    pub what: String,
}

impl At {
    pub(super) fn new(plan: &Plan, node: NodeId) -> At {
        At { rank: plan.rank, node, what: words::node(plan, &plan.nodes[node as usize]) }
    }
}

impl fmt::Display for At {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rank {} node {} ({})", self.rank, self.node, self.what)
    }
}

/// Nodes that wait for, or feed, one another; each with what leads to the next, such as "waits for the message of", or with nothing.
/// Where the last one has such words too, they lead to the first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Chain(pub Vec<(At, String)>);

impl fmt::Display for Chain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, (at, why)) in self.0.iter().enumerate() {
            let leads_here = i > 0 && !self.0[i - 1].1.is_empty();
            let before = if i == 0 {
                ""
            } else if leads_here {
                " "
            } else {
                " and "
            };
            write!(f, "{before}{at}")?;
            if !why.is_empty() {
                write!(f, "{} {why}", if leads_here { ", which" } else { "" })?;
            }
        }
        let is_circle = self.0.last().is_some_and(|(_, why)| !why.is_empty());
        f.write_str(if is_circle { " the first of these" } else { "" })
    }
}

/// Why a plan is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VerifyError {
    /// The slices are not those of one plan.
    #[error("not the slices of one plan: {0}")]
    Slices(String),
    /// A slice contradicts itself.
    #[error("the slice of rank {rank} is malformed: {reason}")]
    Malformed {
        /// Whose slice.
        rank: Rank,
        /// What is wrong.
        reason: String,
    },
    /// A channel on which more is sent than received, or less.
    #[error(
        "channel {index} from rank {source_rank} to rank {destination} has {sent} messages sent and {received} received per tile"
    )]
    Unmatched {
        /// The sender.
        source_rank: Rank,
        /// The receiver.
        destination: Rank,
        /// Which channel.
        index: u8,
        /// Messages sent.
        sent: usize,
        /// Messages received.
        received: usize,
    },
    /// A message that is not as long as its receiver expects.
    #[error("message {nth} of its channel from {sender} to {receiver}: {difference}")]
    MessageSize {
        /// Which message, from 0.
        nth: usize,
        /// Who sends it.
        sender: At,
        /// Who receives it.
        receiver: At,
        /// The chunks sent and those expected, in words.
        difference: String,
    },
    /// Nodes that wait for one another, however much room the channels have.
    #[error("nodes wait for one another in a circle: {0}")]
    Cycle(Chain),
    /// Nodes that wait for one another as the channels are full.
    #[error("deadlock with channels {depth} deep: {chain}")]
    Deadlock {
        /// Messages that a channel holds.
        depth: usize,
        /// The circle.
        chain: Chain,
    },
    /// A plan that is not marked buffered, but stands still where a peer reads the sender's own bytes.
    #[error(
        "deadlock where a send is done only once it is received, and the plan is not marked buffered: {0}"
    )]
    NeedsCopying(Chain),
    /// Two nodes that nothing orders, one of which writes what the other touches.
    #[error("{first} and {second} touch {chunk} in no given order{mode}", mode = in_place_words(*in_place))]
    Race {
        /// One node.
        first: At,
        /// The other.
        second: At,
        /// The chunk.
        chunk: String,
        /// Whether input and output share bytes.
        in_place: bool,
    },
    /// A chunk that is overwritten when the peer may still be reading it.
    #[error("{writer} overwrites {chunk} before {reader} is done with it{mode}", mode = in_place_words(*in_place))]
    OverwrittenInUse {
        /// The node that lends the chunk.
        reader: At,
        /// The node that overwrites it.
        writer: At,
        /// The chunk.
        chunk: String,
        /// Whether input and output share bytes.
        in_place: bool,
    },
    /// A node whose sources and sinks partly overlap.
    #[error("{at} stores over a part of what it reads or stores{mode}", mode = in_place_words(*in_place))]
    SelfOverlap {
        /// The node.
        at: At,
        /// Whether input and output share bytes.
        in_place: bool,
    },
    /// A node that reads what nobody has written.
    #[error("{at} reads {chunk}, which nothing has written")]
    ReadsNothing {
        /// The node.
        at: At,
        /// The chunk.
        chunk: String,
    },
    /// A contribution that goes into a fold twice.
    #[error("the contribution of rank {contributor} is counted twice: {chain}")]
    DoubleCount {
        /// Whose contribution.
        contributor: Rank,
        /// The fold, and where its two operands come from.
        chain: Chain,
    },
    /// A fold of things that do not belong together.
    #[error("{at} folds {what}")]
    MixedFold {
        /// The node.
        at: At,
        /// What, in words.
        what: String,
    },
    /// An output chunk that ends with something else than it should.
    #[error("output chunk {chunk} of rank {rank} is {found}, expected {expected}{mode}{by}", mode = in_place_words(*in_place), by = by_words(chain))]
    WrongResult {
        /// Whose output.
        rank: Rank,
        /// Which chunk.
        chunk: u32,
        /// What it is.
        found: String,
        /// What it should be.
        expected: String,
        /// Whether input and output share bytes.
        in_place: bool,
        /// The nodes that it came through, the last one first.
        chain: Chain,
    },
    /// Two ranks of an all_reduce that fold in different orders, and so may round differently.
    #[error("chunk {chunk} is {first} on rank {first_rank} but {second} on rank {second_rank}")]
    OrderDiffers {
        /// Which chunk.
        chunk: u32,
        /// One rank.
        first_rank: Rank,
        /// Its expression.
        first: String,
        /// The other.
        second_rank: Rank,
        /// Its expression.
        second: String,
    },
    /// A mark for average or pre-multiplied sum in the wrong place.
    #[error("{at} {what}")]
    WrongMark {
        /// The node.
        at: At,
        /// What is wrong.
        what: String,
    },
}

impl VerifyError {
    /// The nodes that show it, in the order in which the text names them.
    pub fn nodes(&self) -> Vec<&At> {
        match self {
            VerifyError::MessageSize { sender: a, receiver: b, .. }
            | VerifyError::Race { first: a, second: b, .. }
            | VerifyError::OverwrittenInUse { writer: a, reader: b, .. } => vec![a, b],
            VerifyError::SelfOverlap { at, .. }
            | VerifyError::ReadsNothing { at, .. }
            | VerifyError::MixedFold { at, .. }
            | VerifyError::WrongMark { at, .. } => vec![at],
            VerifyError::Cycle(chain)
            | VerifyError::NeedsCopying(chain)
            | VerifyError::Deadlock { chain, .. }
            | VerifyError::DoubleCount { chain, .. }
            | VerifyError::WrongResult { chain, .. } => chain.0.iter().map(|(at, _)| at).collect(),
            VerifyError::Slices(_)
            | VerifyError::Malformed { .. }
            | VerifyError::Unmatched { .. }
            | VerifyError::OrderDiffers { .. } => Vec::new(),
        }
    }
}

fn by_words(chain: &Chain) -> String {
    match chain.0.len() {
        0 => String::new(),
        1 => format!("; by {chain}"),
        _ => format!("; {chain}"),
    }
}

fn in_place_words(in_place: bool) -> &'static str {
    if in_place { " (in place)" } else { "" }
}
