//! The same collectives as futures that own their buffers. They are submitted when called, in the order of the calls, and go on
//! whether or not they are polled; `.await` or [`Work::wait`] gives the buffers back.
//!
//! Nothing here returns an error at once: what is refused comes out of the [`Work`].

use hcomm_ops::{Rank, ReduceOp, StableBuffer};
use hcomm_planner::Collective;

use super::{Ask, Communicator};
use crate::bindings::{Apart, Buffers, InPlace, InputOnly, Nothing, OutputOnly};
use crate::work::Work;

impl Communicator {
    /// [`Communicator::all_reduce`] on an owned buffer.
    pub fn all_reduce_async<B: StableBuffer + 'static>(&self, buffer: B, op: ReduceOp) -> Work<InPlace<B>> {
        self.call(&Ask::new(Collective::AllReduce).op(op), InPlace(buffer))
    }

    /// [`Communicator::all_reduce_into`] on owned buffers.
    pub fn all_reduce_into_async<I, O>(&self, input: I, output: O, op: ReduceOp) -> Work<Apart<I, O>>
    where
        I: StableBuffer + 'static,
        O: StableBuffer + 'static,
    {
        self.call(&Ask::new(Collective::AllReduce).op(op), Apart(input, output))
    }

    /// [`Communicator::all_gather`] on owned buffers.
    pub fn all_gather_async<I, O>(&self, input: I, output: O) -> Work<Apart<I, O>>
    where
        I: StableBuffer + 'static,
        O: StableBuffer + 'static,
    {
        self.call(&Ask::new(Collective::AllGather), Apart(input, output))
    }

    /// [`Communicator::all_gather_in_place`] on an owned buffer.
    pub fn all_gather_in_place_async<B: StableBuffer + 'static>(&self, buffer: B) -> Work<InPlace<B>> {
        self.call(&Ask::new(Collective::AllGather), InPlace(buffer))
    }

    /// [`Communicator::reduce_scatter`] on owned buffers.
    pub fn reduce_scatter_async<I, O>(&self, input: I, output: O, op: ReduceOp) -> Work<Apart<I, O>>
    where
        I: StableBuffer + 'static,
        O: StableBuffer + 'static,
    {
        self.call(&Ask::new(Collective::ReduceScatter).op(op), Apart(input, output))
    }

    /// [`Communicator::reduce_scatter_in_place`] on an owned buffer.
    pub fn reduce_scatter_in_place_async<B: StableBuffer + 'static>(
        &self,
        buffer: B,
        op: ReduceOp,
    ) -> Work<InPlace<B>> {
        self.call(&Ask::new(Collective::ReduceScatter).op(op), InPlace(buffer))
    }

    /// [`Communicator::broadcast`] on an owned buffer.
    pub fn broadcast_async<B: StableBuffer + 'static>(&self, buffer: B, root: Rank) -> Work<InPlace<B>> {
        self.call(&Ask::new(Collective::Broadcast).root(root), InPlace(buffer))
    }

    /// [`Communicator::reduce`] on an owned buffer, in place at the root.
    pub fn reduce_async<B: StableBuffer + 'static>(
        &self,
        buffer: B,
        op: ReduceOp,
        root: Rank,
    ) -> Work<InPlace<B>> {
        self.call(&Ask::new(Collective::Reduce).op(op).root(root), InPlace(buffer))
    }

    /// [`Communicator::gather`] on owned buffers, at the root.
    pub fn gather_async<I, O>(&self, input: I, output: O, root: Rank) -> Work<Apart<I, O>>
    where
        I: StableBuffer + 'static,
        O: StableBuffer + 'static,
    {
        self.call(&Ask::new(Collective::Gather).root(root), Apart(input, output))
    }

    /// [`Communicator::gather`] on an owned buffer, at the other ranks.
    pub fn gather_to_async<I: StableBuffer + 'static>(&self, input: I, root: Rank) -> Work<InputOnly<I>> {
        self.call(&Ask::new(Collective::Gather).root(root), InputOnly(input))
    }

    /// [`Communicator::scatter`] on owned buffers, at the root.
    pub fn scatter_async<I, O>(&self, input: I, output: O, root: Rank) -> Work<Apart<I, O>>
    where
        I: StableBuffer + 'static,
        O: StableBuffer + 'static,
    {
        self.call(&Ask::new(Collective::Scatter).root(root), Apart(input, output))
    }

    /// [`Communicator::scatter`] on an owned buffer, at the other ranks.
    pub fn scatter_from_async<O: StableBuffer + 'static>(
        &self,
        output: O,
        root: Rank,
    ) -> Work<OutputOnly<O>> {
        self.call(&Ask::new(Collective::Scatter).root(root), OutputOnly(output))
    }

    /// [`Communicator::all_to_all`] on owned buffers.
    pub fn all_to_all_async<I, O>(&self, input: I, output: O) -> Work<Apart<I, O>>
    where
        I: StableBuffer + 'static,
        O: StableBuffer + 'static,
    {
        self.call(&Ask::new(Collective::AllToAll), Apart(input, output))
    }

    /// [`Communicator::all_to_all_in_place`] on an owned buffer.
    pub fn all_to_all_in_place_async<B: StableBuffer + 'static>(&self, buffer: B) -> Work<InPlace<B>> {
        self.call(&Ask::new(Collective::AllToAll), InPlace(buffer))
    }

    /// [`Communicator::barrier`] as a future.
    pub fn barrier_async(&self) -> Work<Nothing> {
        self.call(&Ask::new(Collective::Barrier), Nothing)
    }

    /// Passes a collective call over that whoever binds this library has found wrong before it could be described: peers that make theirs are
    /// told why this rank takes no part.
    pub fn refuse(&self, reason: &str) {
        self.inner.domain.refuse(reason);
    }

    /// Any call, by its description; the calls above are this with one filled in.
    pub fn call<B: Buffers + 'static>(&self, ask: &Ask, buffers: B) -> Work<B> {
        Work::new(self.start(ask, buffers))
    }
}
