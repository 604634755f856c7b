//! [`CustomError`]: why a program of one's own is no plan. The text names the step and the value; the program is to be corrected.

use hcomm_ops::Rank;

use crate::plan::{EXPECTED_NAME, MAX_CHANNELS};
use crate::request::Collective;
use crate::verify::VerifyError;

/// Why [`super::PlanBuilder::build`] gives no plan.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CustomError {
    /// A name that drawings and errors cannot show.
    #[error("a plan named {shown}; expected {EXPECTED_NAME}")]
    Name {
        /// As much of it as can be shown.
        shown: String,
    },
    /// No ranks.
    #[error("a plan for a world of 0 ranks; expected at least 1")]
    EmptyWorld,
    /// A root that is no rank, or where none is special.
    #[error("root {root} of {collective} in a world of {world}; expected {expected}")]
    Root {
        /// The collective.
        collective: Collective,
        /// The root given.
        root: Rank,
        /// Ranks.
        world: usize,
        /// In words.
        expected: &'static str,
    },
    /// Too few or too many chunks.
    #[error("{parts} parts per block of {collective} in a world of {world}; expected at least 1, and at most {limit} chunks in all ranks' buffers together", limit = super::MAX_CHUNKS)]
    Parts {
        /// The collective.
        collective: Collective,
        /// The parts given.
        parts: usize,
        /// Ranks.
        world: usize,
    },
    /// A topology of another world.
    #[error("a topology of {given} ranks for a plan of {world}; expected {world}")]
    TopologySize {
        /// Ranks of the topology.
        given: usize,
        /// Ranks of the plan.
        world: usize,
    },
    /// A step that makes no sense where it stands.
    #[error("step {number}, {step}: {fault}")]
    Step {
        /// Which step of the program, from 0.
        number: usize,
        /// The step in words.
        step: String,
        /// What is wrong with it.
        fault: StepFault,
    },
    /// Steps that make sense one by one, but are not the collective.
    #[error("the plan '{name}' is not {collective}: {fault}")]
    Wrong {
        /// The plan.
        name: String,
        /// What it should do.
        collective: Collective,
        /// What it does instead.
        fault: Box<VerifyError>,
    },
}

/// What is wrong with a step. Places are in words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StepFault {
    /// A rank that is not in the world.
    #[error("rank {rank} in a world of {world}")]
    Rank {
        /// The rank given.
        rank: Rank,
        /// Ranks.
        world: usize,
    },
    /// A place of no chunks.
    #[error("{place} has no chunks")]
    NoChunks {
        /// The place.
        place: String,
    },
    /// A buffer that the rank does not have.
    #[error("{place}, which has no such buffer in {collective} with root {root}")]
    NoBuffer {
        /// The place.
        place: String,
        /// The collective.
        collective: Collective,
        /// The root.
        root: Rank,
    },
    /// Chunks past the end of a buffer.
    #[error("{place}, which has {has} chunks there")]
    Chunk {
        /// The place.
        place: String,
        /// How many chunks there are, or may be.
        has: usize,
    },
    /// A channel that no pair has.
    #[error("channel {channel}; a pair of ranks has {MAX_CHANNELS}, from 0")]
    Channel {
        /// The channel given.
        channel: usize,
    },
    /// More stages than are told apart.
    #[error("stage {stage}; expected at most {limit} of them", limit = super::MAX_STAGES)]
    Stage {
        /// The stage, from 0.
        stage: usize,
    },
    /// Nothing to fold.
    #[error("it has no source")]
    NoSource,
    /// An input is only read.
    #[error("it writes {place}; an input is only read")]
    WritesInput {
        /// The place.
        place: String,
    },
    /// Places of different numbers of chunks.
    #[error("{a} and {b} differ in their number of chunks")]
    Counts {
        /// One place.
        a: String,
        /// The other.
        b: String,
    },
    /// Chunks of different lengths.
    #[error(
        "{a} holds part {part_a} of a block and {b} part {part_b}, which are not equally long for every count"
    )]
    Lengths {
        /// One chunk.
        a: String,
        /// Which part.
        part_a: u32,
        /// The other.
        b: String,
        /// Which part.
        part_b: u32,
    },
    /// A fold where nothing is reduced.
    #[error("it folds, and {collective} reduces nothing")]
    Folds {
        /// The collective.
        collective: Collective,
    },
    /// A chunk that no earlier step has written.
    #[error("nothing has been written to {chunk} before")]
    Unwritten {
        /// The chunk.
        chunk: String,
    },
    /// A step onto itself, or onto a part of itself.
    #[error("{source_place} and {sink_place} overlap")]
    Overlap {
        /// What it reads.
        source_place: String,
        /// What it writes.
        sink_place: String,
    },
    /// An input that is gone by then, where input and output are one buffer.
    #[error(
        "{input} is read after {output} was written, which is the same memory where a rank calls in place"
    )]
    GoneInPlace {
        /// The input chunk.
        input: String,
        /// The output chunk that lies on it.
        output: String,
    },
    /// More than a world of one needs.
    #[error("in a world of 1 the plan is a copy of the input to the output")]
    Alone,
}
