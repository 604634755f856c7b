//! What can go wrong: [`Refused`] at submission, [`Failure`] while an operation runs, and the wrappers that users meet.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use hcomm_ops::buffer::Malformed;
use hcomm_ops::{DType, Rank};
use hcomm_planner::verify::{FoldOrder, VerifyError};
use hcomm_planner::{ByteRange, Overlay, PinError, PlanError, RequestError};
use hcomm_transports::shm::SegmentError;

/// Why a call was refused before anything was sent. The caller's arguments are at fault; nothing was written.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Refused {
    /// The request contradicts itself or the communicator.
    #[error(transparent)]
    Request(#[from] RequestError),
    /// No plan for the request.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// A text that is no pin of an algorithm.
    #[error("'{text}' pins no algorithm; expected the name of one, or {expected}")]
    Pins {
        /// The text.
        text: String,
        /// What a pin looks like.
        expected: String,
    },
    /// A pin that cannot be followed.
    #[error(transparent)]
    Pin(#[from] Box<PinError>),
    /// A buffer has the wrong size.
    #[error("the {which} buffer has {elements} elements of {dtype}, but this call needs {expected}")]
    BufferSize {
        /// `input` or `output`.
        which: &'static str,
        /// Elements that it has.
        elements: u64,
        /// Elements that it needs.
        expected: u64,
        /// Their type.
        dtype: DType,
    },
    /// Buffers of different element types in one call.
    #[error("the input is {input} and the output is {output}; a call has one data type")]
    DTypesDiffer {
        /// Of the input.
        input: DType,
        /// Of the output.
        output: DType,
    },
    /// Two buffers of the call share bytes in a way that is neither apart nor in place.
    #[error("buffers overlap without being in place; give buffers apart, or call in place")]
    Overlap,
    /// A buffer that was lent to be read only stands where the call would write it.
    #[error("the call would write a buffer that was lent for reading only")]
    ReadOnly,
    /// A buffer whose type is only known at run time holds bytes that are no elements of it.
    #[error(transparent)]
    NoElement(Malformed),
    /// A rank outside the communicator.
    #[error("rank {rank} does not exist; the world has {world} ranks, 0 to {last}", last = world - 1)]
    Rank {
        /// The rank given.
        rank: Rank,
        /// Ranks there are.
        world: usize,
    },
    /// A plan that was compiled for another rank or world.
    #[error("the plan is rank {plan_rank}'s of {plan_world}, submitted on rank {rank} of {world}")]
    ForeignPlan {
        /// Whose slice it is.
        plan_rank: Rank,
        /// Its world.
        plan_world: usize,
        /// The submitting rank.
        rank: Rank,
        /// The communicator's world.
        world: usize,
    },
    /// A plan that contradicts itself.
    #[error("the plan cannot be run: {0}")]
    Malformed(String),
    /// A deterministic call by a plan that is not known to fold as that asks.
    #[error(
        "the plan '{algorithm}' is proved to fold {proved}, and a deterministic reduction of {dtype} is folded {needed}"
    )]
    FoldOrder {
        /// The plan.
        algorithm: String,
        /// What was proved of it.
        proved: FoldOrder,
        /// The type of the elements.
        dtype: DType,
        /// What was asked for.
        needed: FoldOrder,
    },
    /// A plan that keeps more beside the buffers than any call needs.
    #[error(
        "the plan '{algorithm}' needs {bytes} bytes of scratch; expected at most {limit}, what the buffers of all ranks have"
    )]
    Scratch {
        /// The plan.
        algorithm: String,
        /// Bytes that it needs.
        bytes: u64,
        /// Bytes that it may need.
        limit: u64,
    },
    /// A slice that is not as it was made, and so was never proved with the others.
    #[error(
        "the plan '{algorithm}' has been changed since it was made; import the slices of all ranks, or prove them anew"
    )]
    ChangedPlan {
        /// The plan.
        algorithm: String,
    },
    /// A plan that the counts, or the staging, do not suit.
    #[error("node {node} of the plan by '{algorithm}' cannot be run: {reason}")]
    Unfit {
        /// Who made the plan.
        algorithm: String,
        /// The node.
        node: usize,
        /// What is wrong.
        reason: &'static str,
    },
    /// A plan that is not right for buffers that lie as these do.
    #[error("the plan '{algorithm}' is right only {right}, and this call is {given}")]
    Overlay {
        /// The plan.
        algorithm: String,
        /// How it may be called.
        right: Overlay,
        /// How it is called.
        given: &'static str,
    },
    /// A plan that is meant for other sizes.
    #[error("the plan '{algorithm}' is for {range}, and this call has {bytes}")]
    PlanBytes {
        /// The plan.
        algorithm: String,
        /// What it is for.
        range: ByteRange,
        /// Bytes of this call's full buffer.
        bytes: u64,
    },
    /// A plan that is wrong. A fault of hcomm, or of a plan made by hand.
    #[error("the plan by '{algorithm}' fails its proof: {fault}")]
    Unproved {
        /// Who made the plan.
        algorithm: String,
        /// What the verifier found.
        fault: VerifyError,
    },
    /// A plan that needs a resource which no transport here drives.
    #[error(
        "the plan has a lane on {lane}, which needs the {needs} transport; this build runs host lanes only"
    )]
    Lane {
        /// The lane.
        lane: String,
        /// The transport that would run it.
        needs: &'static str,
    },
    /// The communicator cannot start operations any more.
    #[error("the communicator is no longer usable: {0}")]
    Unusable(Failure),
}

/// Why an operation that had been submitted ended without its result.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// A peer died, or more than one. Survivors can make a new communicator among themselves.
    #[error("{}; {call} cannot finish without {}", Dead(*.rank, .cause, .others), if .others.is_empty() { "it" } else { "them" })]
    PeerLost {
        /// Who; of several the lowest.
        rank: Rank,
        /// How it is known.
        cause: String,
        /// The others that are known to be dead, and how.
        others: Vec<(Rank, String)>,
        /// The operation.
        call: String,
    },
    /// A peer closed its communicator before this call.
    #[error("rank {rank} closed its communicator after {last} calls{}; {call} needs it", Because(.because))]
    PeerLeft {
        /// Who.
        rank: Rank,
        /// Collective calls that it made.
        last: u64,
        /// The error because of which it did, where it said so.
        because: Option<String>,
        /// The operation.
        call: String,
    },
    /// Two ranks made different calls. A fault of the program.
    #[error("the ranks' calls differ: rank {rank} called {call}, but rank {other} called {other_call}")]
    CallMismatch {
        /// This rank.
        rank: Rank,
        /// Its call.
        call: String,
        /// The other rank.
        other: Rank,
        /// The other's call.
        other_call: String,
    },
    /// A peer's call was refused, so that it takes no part.
    #[error("rank {rank} refused a call ({reason}); {call} needs it")]
    PeerRefused {
        /// Who.
        rank: Rank,
        /// This rank's call of the same number.
        call: String,
        /// The peer's call, where it can be named, and its error.
        reason: String,
    },
    /// The deadline passed.
    #[error("{call} did not finish within {}; {waiting}", Seconds(*.elapsed))]
    Deadline {
        /// The operation.
        call: String,
        /// How long it ran.
        elapsed: Duration,
        /// What it waited for.
        waiting: String,
    },
    /// Another rank gave up, and this operation needed it.
    #[error("rank {rank} aborted the communicator: {cause}")]
    Aborted {
        /// Who.
        rank: Rank,
        /// Its own failure.
        cause: String,
    },
    /// A message does not fit where it is to go.
    #[error(
        "a message of {bytes} bytes from rank {rank} with tag {tag} does not fit the receive buffer of {room} bytes"
    )]
    MessageSize {
        /// The sender.
        rank: Rank,
        /// Its tag.
        tag: u32,
        /// Bytes sent.
        bytes: u64,
        /// Bytes there are.
        room: u64,
    },
    /// A message's elements are of another type than its receive takes. A fault of the program.
    #[error("rank {from} sent {sent} with tag {tag}, but rank {to} receives it as {received}")]
    MessageType {
        /// The sender.
        from: Rank,
        /// The receiver.
        to: Rank,
        /// The message's tag.
        tag: u32,
        /// The type sent.
        sent: DType,
        /// The type that the receive takes.
        received: DType,
    },
    /// A shared buffer is in use by another operation that this one does not come `after`.
    #[error("{call} started while another operation uses the same buffer; order them with `after`")]
    BufferBusy {
        /// The operation.
        call: String,
    },
    /// An operation that this one comes after has failed.
    #[error("an operation that {call} comes after has failed: {cause}")]
    Predecessor {
        /// The operation.
        call: String,
        /// The other's failure.
        cause: String,
    },
    /// The call was refused, so that what comes after it cannot start.
    #[error("the call was refused: {reason}")]
    Refused {
        /// Why.
        reason: String,
    },
    /// The communicator was closed on this rank.
    #[error("the communicator was closed")]
    Closed,
    /// The communicator had failed before this call.
    #[error("this communicator failed earlier: {0}")]
    Earlier(Arc<Failure>),
}

impl Failure {
    /// What it means for the calls that come after it.
    pub(crate) fn for_later_calls(&self) -> Failure {
        match self {
            Failure::Closed | Failure::Earlier(_) => self.clone(),
            failed => Failure::Earlier(Arc::new(failed.clone())),
        }
    }

    /// The failure itself, where this is one of a call that came after it.
    pub fn root(&self) -> &Failure {
        match self {
            Failure::Earlier(failure) => failure.root(),
            failure => failure,
        }
    }
}

/// The error of a blocking call.
#[derive(Clone, thiserror::Error)]
pub enum Error {
    /// Refused at submission; nothing was written.
    #[error(transparent)]
    Refused(#[from] Refused),
    /// Failed while it ran; output buffers may be partly written.
    #[error(transparent)]
    Failed(#[from] Failure),
    /// There is no memory for a buffer that was asked for. The communicator goes on.
    #[error("a buffer cannot be allocated: {0}")]
    Memory(Arc<SegmentError>),
}

/// The sentence, since that is what a `main` that returns the error shows.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The error of an operation that owns its buffers: gives them back.
#[derive(Clone, thiserror::Error)]
#[error("{error}")]
pub struct WorkError<B> {
    /// What went wrong.
    pub error: Error,
    /// The buffers; output among them is partly written where `error` is [`Error::Failed`].
    pub buffer: B,
}

impl<B> From<WorkError<B>> for Error {
    fn from(failed: WorkError<B>) -> Error {
        failed.error
    }
}

impl<B> fmt::Debug for WorkError<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorkError").field("error", &self.error).finish_non_exhaustive()
    }
}

/// A duration in seconds for messages.
pub(crate) struct Seconds(pub Duration);

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.1} s", self.0.as_secs_f64())
    }
}

/// Ranks in words.
pub(crate) struct Ranks<'a>(pub &'a [Rank]);

impl fmt::Display for Ranks<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let comma = |at: usize| if at > 0 { ", " } else { "" };
        self.0.iter().enumerate().try_for_each(|(at, rank)| write!(f, "{}{rank}", comma(at)))
    }
}

/// Who is dead, and how that is known.
struct Dead<'a>(Rank, &'a str, &'a [(Rank, String)]);

impl fmt::Display for Dead<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Dead(first, cause, others) = self;
        let Some((last, between)) = others.split_last() else {
            return write!(f, "rank {first} is lost ({cause})");
        };
        write!(f, "ranks {first}")?;
        between.iter().try_for_each(|(rank, _)| write!(f, ", {rank}"))?;
        write!(f, " and {} are lost (rank {first}: {cause}", last.0)?;
        others.iter().try_for_each(|(rank, cause)| write!(f, "; rank {rank}: {cause}"))?;
        f.write_str(")")
    }
}

/// The error because of which a rank has left, if there was one.
struct Because<'a>(&'a Option<String>);

impl fmt::Display for Because<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(error) => write!(f, ", ending by an error ({error})"),
            None => Ok(()),
        }
    }
}
