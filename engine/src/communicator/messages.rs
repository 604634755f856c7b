//! Tagged messages between two ranks, which may be the same. Messages of one (pair, direction, tag) arrive in order; they take no part in the
//! order of the collectives. A message's elements have one type at both ends.

use std::sync::Arc;

use hcomm_ops::buffer::Borrowed;
use hcomm_ops::{DType, Element, Rank, RawSpan, StableBuffer};
use hcomm_planner::Collective;

use super::Communicator;
use crate::bindings::{Binding, Buffers, InputOnly, OutputOnly, Spans};
use crate::domain::Intake;
use crate::domain::p2p::Posted;
use crate::error::{Error, Refused};
use crate::operation::Operation;
use crate::statistics::Subject;
use crate::work::{Pending, Work};

impl Communicator {
    /// Sends `buffer` to rank `to`; returns when it may be overwritten. A message that fits a slot is on its way at once while the receiver
    /// keeps less than 4 MiB of this rank's messages that it has not received yet, 64 bytes counted for each beside its own: what becomes of it only the receiver learns.
    /// Others wait for their receive, and do not keep messages of other tags waiting.
    ///
    /// # Errors
    /// Where the rank does not exist or is lost; for a message that waits, where its receive is too small or of another type.
    pub fn send<T: Element>(&self, buffer: &[T], to: Rank, tag: u32) -> Result<(), Error> {
        let mut pending = self.post_send(InputOnly(Borrowed::from_ref(buffer)), to, tag);
        pending.wait().map(drop).map_err(|failed| failed.error)
    }

    /// Receives a message from rank `from` into the start of `buffer`; returns its elements.
    ///
    /// # Errors
    /// Where the rank does not exist or is lost, or the message is longer than the buffer or of another type: the buffer is then untouched,
    /// and the message is gone.
    pub fn recv<T: Element>(&self, buffer: &mut [T], from: Rank, tag: u32) -> Result<usize, Error> {
        let mut pending = self.post_recv(OutputOnly(Borrowed::from_mut(buffer)), from, tag);
        let operation = pending.operation().cloned();
        pending.wait().map_err(|failed| failed.error)?;
        Ok(received::<T>(operation.as_deref()).1)
    }

    /// Receives the first message with `tag` that is there, from whichever rank; returns the sender and the elements. The ranks are looked
    /// at in turn. Receives of a tag, these and those that name a rank, are given messages in the order in which they were
    /// posted, and each rank's messages come in order.
    ///
    /// # Errors
    /// Where the message is longer than the buffer, or of another type: the buffer is then untouched. Where all other ranks are gone, or
    /// the deadline passes: it says which ranks could have sent.
    pub fn recv_any<T: Element>(&self, buffer: &mut [T], tag: u32) -> Result<(Rank, usize), Error> {
        let mut pending = self.post_recv_any(OutputOnly(Borrowed::from_mut(buffer)), tag);
        let operation = pending.operation().cloned();
        pending.wait().map_err(|failed| failed.error)?;
        Ok(received::<T>(operation.as_deref()))
    }

    /// [`Communicator::send`] of an owned buffer.
    pub fn send_async<I: StableBuffer + 'static>(&self, buffer: I, to: Rank, tag: u32) -> Work<InputOnly<I>> {
        Work::new(self.post_send(InputOnly(buffer), to, tag))
    }

    /// [`Communicator::recv`] into an owned buffer. The message may be shorter: [`Work::received`] says how long it is.
    pub fn recv_async<O: StableBuffer + 'static>(
        &self,
        buffer: O,
        from: Rank,
        tag: u32,
    ) -> Work<OutputOnly<O>> {
        Work::new(self.post_recv(OutputOnly(buffer), from, tag))
    }

    /// [`Communicator::recv_any`] into an owned buffer; [`Work::received`] says whose message came, and how long it is.
    pub fn recv_any_async<O: StableBuffer + 'static>(&self, buffer: O, tag: u32) -> Work<OutputOnly<O>> {
        Work::new(self.post_recv_any(OutputOnly(buffer), tag))
    }

    /// [`Communicator::send`] of the input of any buffers.
    pub fn send_call<B: Buffers + 'static>(&self, buffers: B, to: Rank, tag: u32) -> Work<B> {
        Work::new(self.post_send(buffers, to, tag))
    }

    /// [`Communicator::recv`] into the output of any buffers; from whichever rank sends first where none is given.
    pub fn recv_call<B: Buffers + 'static>(&self, buffers: B, from: Option<Rank>, tag: u32) -> Work<B> {
        Work::new(match from {
            Some(from) => self.post_recv(buffers, from, tag),
            None => self.post_recv_any(buffers, tag),
        })
    }

    pub(super) fn post_send<B: Buffers>(&self, buffers: B, to: Rank, tag: u32) -> Pending<B> {
        match self.refuse_peer(to) {
            Some(refused) => Pending::refused(refused, buffers),
            None => self.post(buffers, to, tag, Side::Send, Intake::Send),
        }
    }

    pub(super) fn post_recv<B: Buffers>(&self, buffers: B, from: Rank, tag: u32) -> Pending<B> {
        match self.refuse_peer(from) {
            Some(refused) => Pending::refused(refused, buffers),
            None => self.post(buffers, from, tag, Side::Receive, Intake::Receive),
        }
    }

    fn post_recv_any<B: Buffers>(&self, buffers: B, tag: u32) -> Pending<B> {
        self.post(buffers, self.rank(), tag, Side::Receive, Intake::ReceiveAny)
    }

    /// Why no message passes between this rank and that one. One to itself does.
    fn refuse_peer(&self, peer: Rank) -> Option<Refused> {
        let world = self.world();
        (peer >= world).then_some(Refused::Rank { rank: peer, world })
    }

    fn post<B: Buffers>(
        &self,
        mut buffers: B,
        peer: Rank,
        tag: u32,
        side: Side,
        intake: impl FnOnce(Posted) -> Intake,
    ) -> Pending<B> {
        let (rank, world) = (self.rank(), self.world());
        let binding = Binding { collective: Collective::Broadcast, rank, world, root: peer };
        let span = match buffers.spans(binding) {
            Err(refused) => return Pending::refused(refused, buffers),
            Ok(spans) => side.of(&spans),
        };
        let landing = buffers.landing(binding);
        let takeoff = buffers.takeoff().and_then(|takeoff| self.take_off(takeoff, &buffers));
        let domain = &self.inner.domain;
        let dtype = buffers.dtype().ok().flatten().unwrap_or(DType::U8);
        let measure = domain.ledger.measure(|| side.subject(dtype, span));
        let operation =
            self.options.operation().taking_off(rank, takeoff).landing(rank, landing).measured(measure);
        let operation = Arc::new(operation);
        let after = self.options.after.clone();
        domain.submit(intake(Posted { peer, tag, span, dtype, operation: operation.clone(), after }));
        Pending::running(Arc::clone(domain), operation, u64::MAX, buffers)
    }
}

/// Which side of a message a call is.
#[derive(Clone, Copy)]
enum Side {
    Send,
    Receive,
}

impl Side {
    /// The bytes that it sends, or the room for what it receives.
    fn of(self, spans: &Spans) -> RawSpan {
        let span = match self {
            Side::Send => spans.input,
            Side::Receive => spans.output,
        };
        span.unwrap_or(RawSpan::empty())
    }

    fn subject(self, dtype: DType, span: RawSpan) -> Subject {
        match self {
            Side::Send => Subject::Send(dtype, span.len() as u64),
            Side::Receive => Subject::Receive(dtype),
        }
    }
}

/// From whom a receive that has ended well got its message, and the elements of it.
fn received<T: Element>(operation: Option<&Operation>) -> (Rank, usize) {
    let (from, bytes) = operation.and_then(Operation::received).unwrap_or_default();
    (from, bytes as usize / size_of::<T>())
}
