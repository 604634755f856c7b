//! The v-variants: blocks of different lengths. In all_gather_v and reduce_scatter_v every rank gives the same list of
//! counts; in gather_v, scatter_v and all_to_all_v each gives the counts of the blocks that it has. A block may be empty.

use std::sync::Arc;

use hcomm_ops::{DType, Element, Rank, ReduceOp, StableBuffer};
use hcomm_planner::Collective;
use hcomm_planner::request::Counts;

use super::collectives::apart;
use super::{Ask, Communicator};
use crate::bindings::{Apart, InputOnly, OutputOnly};
use crate::error::Error;
use crate::work::Work;

impl Communicator {
    /// Gathers every rank's `input` into `output`: `counts[r]` elements from rank r, in rank order. All ranks give the same
    /// `counts`.
    pub fn all_gather_v<T: Element>(
        &self,
        input: &[T],
        output: &mut [T],
        counts: &[u64],
    ) -> Result<(), Error> {
        self.run(&Ask::new(Collective::AllGather).counts(listed(counts)), apart(input, output))
    }

    /// Reduces `input` over all ranks and leaves block r, of `counts[r]` elements, in rank r's `output`. All ranks give the
    /// same `counts`.
    pub fn reduce_scatter_v<T: Element>(
        &self,
        input: &[T],
        output: &mut [T],
        counts: &[u64],
        op: ReduceOp,
    ) -> Result<(), Error> {
        self.run(&Ask::new(Collective::ReduceScatter).op(op).counts(listed(counts)), apart(input, output))
    }

    /// Gathers every rank's `input` into the root's output: `counts[r]` elements from rank r, in rank order. Other ranks
    /// give `None`.
    pub fn gather_v<T: Element>(
        &self,
        input: &[T],
        output: Option<(&mut [T], &[u64])>,
        root: Rank,
    ) -> Result<(), Error> {
        let counts = output.as_ref().map_or(&[][..], |(_, counts)| counts);
        let ask = Ask::new(Collective::Gather).root(root).counts(local(&[input.len() as u64], counts));
        self.run_into(&ask, input, output.map(|(output, _)| output))
    }

    /// Hands block r, of `counts[r]` elements, of the root's input to rank r's `output`. Other ranks give `None`.
    pub fn scatter_v<T: Element>(
        &self,
        input: Option<(&[T], &[u64])>,
        output: &mut [T],
        root: Rank,
    ) -> Result<(), Error> {
        let counts = input.map_or(&[][..], |(_, counts)| counts);
        let ask = Ask::new(Collective::Scatter).root(root).counts(local(counts, &[output.len() as u64]));
        self.run_from(&ask, input.map(|(input, _)| input), output)
    }

    /// Sends `input_counts[j]` elements to rank j and receives `output_counts[i]` elements from rank i, blocks in rank order.
    pub fn all_to_all_v<T: Element>(
        &self,
        input: &[T],
        input_counts: &[u64],
        output: &mut [T],
        output_counts: &[u64],
    ) -> Result<(), Error> {
        let counts = local(input_counts, output_counts);
        self.run(&Ask::new(Collective::AllToAll).counts(counts), apart(input, output))
    }

    /// [`Communicator::all_gather_v`] on owned buffers.
    pub fn all_gather_v_async<I, O>(&self, input: I, output: O, counts: &[u64]) -> Work<Apart<I, O>>
    where
        I: StableBuffer + 'static,
        O: StableBuffer + 'static,
    {
        self.call(&Ask::new(Collective::AllGather).counts(listed(counts)), Apart(input, output))
    }

    /// [`Communicator::reduce_scatter_v`] on owned buffers.
    pub fn reduce_scatter_v_async<I, O>(
        &self,
        input: I,
        output: O,
        counts: &[u64],
        op: ReduceOp,
    ) -> Work<Apart<I, O>>
    where
        I: StableBuffer + 'static,
        O: StableBuffer + 'static,
    {
        self.call(&Ask::new(Collective::ReduceScatter).op(op).counts(listed(counts)), Apart(input, output))
    }

    /// [`Communicator::gather_v`] on owned buffers, at the root.
    pub fn gather_v_async<I, O>(
        &self,
        mut input: I,
        output: O,
        counts: &[u64],
        root: Rank,
    ) -> Work<Apart<I, O>>
    where
        I: StableBuffer + 'static,
        O: StableBuffer + 'static,
    {
        let own = elements(&mut input);
        let ask = Ask::new(Collective::Gather).root(root).counts(local(&[own], counts));
        self.call(&ask, Apart(input, output))
    }

    /// [`Communicator::gather_v`] on an owned buffer, at the other ranks.
    pub fn gather_v_to_async<I: StableBuffer + 'static>(
        &self,
        mut input: I,
        root: Rank,
    ) -> Work<InputOnly<I>> {
        let own = elements(&mut input);
        let ask = Ask::new(Collective::Gather).root(root).counts(local(&[own], &[]));
        self.call(&ask, InputOnly(input))
    }

    /// [`Communicator::scatter_v`] on owned buffers, at the root.
    pub fn scatter_v_async<I, O>(
        &self,
        input: I,
        counts: &[u64],
        mut output: O,
        root: Rank,
    ) -> Work<Apart<I, O>>
    where
        I: StableBuffer + 'static,
        O: StableBuffer + 'static,
    {
        let own = elements(&mut output);
        let ask = Ask::new(Collective::Scatter).root(root).counts(local(counts, &[own]));
        self.call(&ask, Apart(input, output))
    }

    /// [`Communicator::scatter_v`] on an owned buffer, at the other ranks.
    pub fn scatter_v_from_async<O: StableBuffer + 'static>(
        &self,
        mut output: O,
        root: Rank,
    ) -> Work<OutputOnly<O>> {
        let own = elements(&mut output);
        let ask = Ask::new(Collective::Scatter).root(root).counts(local(&[], &[own]));
        self.call(&ask, OutputOnly(output))
    }

    /// [`Communicator::all_to_all_v`] on owned buffers.
    pub fn all_to_all_v_async<I, O>(
        &self,
        input: I,
        input_counts: &[u64],
        output: O,
        output_counts: &[u64],
    ) -> Work<Apart<I, O>>
    where
        I: StableBuffer + 'static,
        O: StableBuffer + 'static,
    {
        let counts = local(input_counts, output_counts);
        self.call(&Ask::new(Collective::AllToAll).counts(counts), Apart(input, output))
    }
}

pub(super) fn listed(counts: &[u64]) -> Counts {
    Counts::Listed(Arc::from(counts))
}

pub(super) fn local(input: &[u64], output: &[u64]) -> Counts {
    Counts::Local { input: Arc::from(input), output: Arc::from(output) }
}

fn elements<B: StableBuffer>(buffer: &mut B) -> u64 {
    let dtype: DType = buffer.dtype();
    (buffer.span().len() / dtype.size_bytes()) as u64
}
