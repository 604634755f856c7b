//! [`Local`]: this rank's share in the memory of its host, and the handing over of it to one peer after another.

use std::os::unix::net::UnixStream as StdStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hcomm_ops::Rank;
use tokio::net::UnixStream;
use tokio::time::timeout_at;

use super::context::Context;
use super::error::JoinError;
use super::roster::Member;
use crate::shm::handover::{self, Handed, Own, Terms};
use crate::shm::{self, Heap, Heaps, Inbox, Segment};
use crate::{AnyWire, Doorbell, WireConfig};

/// How long the few bytes of a handover may take once the first of them is there.
const AT_ONCE: Duration = Duration::from_secs(1);

/// An inbox that the ranks of this host send into, and the heap that they read.
#[derive(Debug)]
pub(super) struct Local {
    /// The ranks that may share memory, in order; the same list on each of them.
    ranks: Vec<Rank>,
    index: u32,
    terms: Terms,
    segment: Segment,
    doorbell: Doorbell,
    /// `None` where none can be made: then all messages go through the inboxes.
    heap: Option<Arc<Heap>>,
}

/// Why this rank and another do not share memory, as far as that can be told without trying.
pub(super) fn why_not_shm(context: &Context, members: &[Member], peer: Rank) -> Option<String> {
    let why_not =
        |rank: Rank| members[rank].doors.unix.as_ref().err().map(|why| format!("rank {rank} {why}"));
    let apart = || members[context.rank].host.why_no_unix_socket(&members[peer].host);
    why_not(context.rank.min(peer)).or_else(|| why_not(context.rank.max(peer))).or_else(apart)
}

impl Local {
    /// Makes the inbox, where there is another rank to share memory with.
    pub(super) fn new(
        context: &Context,
        members: &[Member],
        config: WireConfig,
    ) -> Result<Option<Local>, JoinError> {
        let own = context.rank;
        let is_near = |&rank: &Rank| rank == own || why_not_shm(context, members, rank).is_none();
        let ranks: Vec<Rank> = (0..members.len()).filter(is_near).collect();
        let Some(index) = ranks.iter().position(|&rank| rank == own).filter(|_| ranks.len() > 1) else {
            return Ok(None);
        };
        let no_memory = |cause: String| JoinError::Memory { rank: own, cause };
        let bytes = shm::segment_bytes(config, ranks.len()).map_err(|error| no_memory(error.to_string()))?;
        let segment = Segment::create(bytes).map_err(|error| {
            let all = (bytes as u64).saturating_mul(ranks.len() as u64);
            let host = format!("the {} ranks of its host may need {all} for this communicator", ranks.len());
            no_memory(format!("{error}; {host}"))
        })?;
        let doorbell = segment.doorbell().map_err(|error| no_memory(error.to_string()))?;
        let terms = Terms { config, local_ranks: ranks.len() as u32 };
        let heap = Heap::create(ranks.len()).ok();
        Ok(Some(Local { ranks, index: index as u32, terms, segment, doorbell, heap }))
    }

    /// Where this rank sleeps, and its heap.
    pub(super) fn into_parts(self) -> (Doorbell, Option<Arc<Heap>>) {
        (self.doorbell, self.heap)
    }

    /// Gives a peer this rank's inbox and takes the peer's, over a connection that has proved the token.
    pub(super) async fn hand_over(
        &self,
        stream: UnixStream,
        peer: Rank,
        until: tokio::time::Instant,
    ) -> Result<(UnixStream, AnyWire), String> {
        let Some(expected) = self.ranks.iter().position(|&rank| rank == peer) else {
            return Err(format!("rank {peer} is not among those that share memory here: {:?}", self.ranks));
        };
        let Local { terms, index, segment, doorbell, heap, .. } = self;
        let own = Own { index: *index, segment, doorbell, heap: heap.as_deref() };
        let send = |stream: &StdStream| handover::send(stream, *terms, own, soon());
        let (stream, ()) = blocking(stream, send)?;
        match timeout_at(until, stream.readable()).await {
            Ok(readable) => readable.map_err(|error| error.to_string())?,
            Err(_) => return Err(format!("rank {peer} handed over no memory before the deadline")),
        }
        let (stream, handed) =
            blocking(stream, |stream| handover::receive(stream, *terms, heap.is_some(), soon()))?;
        if handed.index as usize != expected {
            return Err(format!("rank {peer} says it is local rank {}, not {expected}", handed.index));
        }
        let wire = self.wire(handed).map_err(|error| error.to_string())?;
        Ok((stream, wire))
    }

    fn wire(&self, handed: Handed) -> Result<AnyWire, shm::JoinError> {
        let own = Inbox { segment: &self.segment, index: self.index as usize };
        let peer = Inbox { segment: &handed.segment, index: handed.index as usize };
        let heaps = self.heap.clone().zip(handed.heap).map(|(own, peer)| Heaps { own, peer });
        shm::wire(own, peer, handed.ringer, self.terms.config, heaps)
    }
}

/// Lets a call have the socket that may block for a moment: the bytes that it waits for are there or on their way within this host.
fn blocking<T, E: std::fmt::Display>(
    stream: UnixStream,
    call: impl FnOnce(&StdStream) -> Result<T, E>,
) -> Result<(UnixStream, T), String> {
    let failed = |error: std::io::Error| error.to_string();
    let stream = stream.into_std().map_err(failed)?;
    stream.set_nonblocking(false).map_err(failed)?;
    let outcome = call(&stream).map_err(|error| error.to_string())?;
    stream.set_nonblocking(true).map_err(failed)?;
    Ok((UnixStream::from_std(stream).map_err(failed)?, outcome))
}

fn soon() -> Instant {
    Instant::now() + AT_ONCE
}
