//! Tagged messages between two ranks. Messages of one (pair, direction, tag) arrive in order; they take no part in the order of
//! the collectives.

use std::sync::Arc;

use hcomm_ops::buffer::Borrowed;
use hcomm_ops::{Element, Rank, RawSpan, StableBuffer};
use hcomm_planner::Collective;

use super::Communicator;
use crate::bindings::{Binding, Buffers, InputOnly, OutputOnly};
use crate::domain::Intake;
use crate::domain::p2p::Posted;
use crate::error::{Error, Refused};
use crate::work::{Pending, Work};

impl Communicator {
    /// Sends `buffer` to rank `to`; returns when it may be overwritten. A message that fits a slot is on its way at once: what
    /// becomes of it only the receiver learns. A longer one waits for its receive.
    ///
    /// # Errors
    /// Where the rank does not exist or is lost, or its receive is too small for a longer message.
    pub fn send<T: Element>(&self, buffer: &[T], to: Rank, tag: u32) -> Result<(), Error> {
        let mut pending = self.post_send(InputOnly(Borrowed::from_ref(buffer)), to, tag);
        pending.wait().map(drop).map_err(|failed| failed.error)
    }

    /// Receives a message from rank `from` into the start of `buffer`; returns its elements.
    ///
    /// # Errors
    /// Where the rank does not exist or is lost, or the message is longer than the buffer, which is then untouched.
    pub fn recv<T: Element>(&self, buffer: &mut [T], from: Rank, tag: u32) -> Result<usize, Error> {
        let mut pending = self.post_recv(OutputOnly(Borrowed::from_mut(buffer)), from, tag);
        let operation = pending.operation().cloned();
        pending.wait().map_err(|failed| failed.error)?;
        Ok(operation.map_or(0, |operation| operation.received() as usize / size_of::<T>()))
    }

    /// [`Communicator::send`] of an owned buffer.
    pub fn send_async<I: StableBuffer + 'static>(&self, buffer: I, to: Rank, tag: u32) -> Work<InputOnly<I>> {
        Work::new(self.post_send(InputOnly(buffer), to, tag))
    }

    /// [`Communicator::recv`] into an owned buffer. The message may be shorter; a caller that needs to know sends the length.
    pub fn recv_async<O: StableBuffer + 'static>(
        &self,
        buffer: O,
        from: Rank,
        tag: u32,
    ) -> Work<OutputOnly<O>> {
        Work::new(self.post_recv(OutputOnly(buffer), from, tag))
    }

    pub(super) fn post_send<B: Buffers>(&self, buffers: B, to: Rank, tag: u32) -> Pending<B> {
        self.post(buffers, to, tag, |spans| spans.input, Intake::Send)
    }

    pub(super) fn post_recv<B: Buffers>(&self, buffers: B, from: Rank, tag: u32) -> Pending<B> {
        self.post(buffers, from, tag, |spans| spans.output, Intake::Receive)
    }

    fn post<B: Buffers>(
        &self,
        mut buffers: B,
        peer: Rank,
        tag: u32,
        side: impl FnOnce(crate::bindings::Spans) -> Option<RawSpan>,
        intake: impl FnOnce(Posted) -> Intake,
    ) -> Pending<B> {
        let (rank, world) = (self.rank(), self.world());
        let refused = match peer {
            peer if peer >= world => Some(Refused::Rank { rank: peer, world }),
            peer if peer == rank => Some(Refused::SelfMessage(rank)),
            _ => None,
        };
        let binding = Binding { collective: Collective::Broadcast, rank, world, root: peer };
        let span = match (refused, buffers.spans(binding)) {
            (Some(refused), _) | (None, Err(refused)) => return Pending::refused(refused, buffers),
            (None, Ok(spans)) => side(spans).unwrap_or(RawSpan::empty()),
        };
        let landings = buffers.landings(binding);
        let operation = Arc::new(self.options.operation().landing(rank, landings));
        let domain = &self.inner.domain;
        domain.submit(intake(Posted { peer, tag, span, operation: operation.clone() }));
        Pending::running(Arc::clone(domain), operation, u64::MAX, buffers)
    }
}
