//! The blocking collectives on borrowed slices. They return when this rank's part is done; counts are elements.
//!
//! Every call of this file fails with [`Error::Refused`] where its arguments are wrong (nothing was written) and with
//! [`Error::Failed`] where it could not finish (outputs may be partly written).

use hcomm_ops::buffer::Borrowed;
use hcomm_ops::{Element, Rank, ReduceOp};
use hcomm_planner::Collective;

use super::{Ask, Communicator};
use crate::bindings::{Apart, InPlace, InputOnly, Nothing, OutputOnly};
use crate::error::Error;

impl Communicator {
    /// Reduces `buffer` over all ranks, in place; every rank gets the result, bit for bit the same.
    pub fn all_reduce<T: Element>(&self, buffer: &mut [T], op: ReduceOp) -> Result<(), Error> {
        self.run(&Ask::new(Collective::AllReduce).op(op), InPlace(Borrowed::from_mut(buffer)))
    }

    /// Reduces `input` over all ranks into `output`, which is as long.
    pub fn all_reduce_into<T: Element>(
        &self,
        input: &[T],
        output: &mut [T],
        op: ReduceOp,
    ) -> Result<(), Error> {
        self.run(&Ask::new(Collective::AllReduce).op(op), apart(input, output))
    }

    /// Gathers every rank's `input`, in rank order, into `output`, which is `world` times as long.
    pub fn all_gather<T: Element>(&self, input: &[T], output: &mut [T]) -> Result<(), Error> {
        self.run(&Ask::new(Collective::AllGather), apart(input, output))
    }

    /// Gathers every rank's block of `buffer` (block r of `world` equal ones is rank r's), in place.
    pub fn all_gather_in_place<T: Element>(&self, buffer: &mut [T]) -> Result<(), Error> {
        self.run(&Ask::new(Collective::AllGather), InPlace(Borrowed::from_mut(buffer)))
    }

    /// Reduces `input` over all ranks and leaves block r of the result, of `world` equal ones, in rank r's `output`.
    pub fn reduce_scatter<T: Element>(
        &self,
        input: &[T],
        output: &mut [T],
        op: ReduceOp,
    ) -> Result<(), Error> {
        self.run(&Ask::new(Collective::ReduceScatter).op(op), apart(input, output))
    }

    /// The same in place: block r of `buffer` is rank r's result; the other blocks are left undefined.
    pub fn reduce_scatter_in_place<T: Element>(&self, buffer: &mut [T], op: ReduceOp) -> Result<(), Error> {
        self.run(&Ask::new(Collective::ReduceScatter).op(op), InPlace(Borrowed::from_mut(buffer)))
    }

    /// Copies the root's `buffer` to all ranks.
    pub fn broadcast<T: Element>(&self, buffer: &mut [T], root: Rank) -> Result<(), Error> {
        self.run(&Ask::new(Collective::Broadcast).root(root), InPlace(Borrowed::from_mut(buffer)))
    }

    /// Reduces `buffer` over all ranks, in place at the root; elsewhere it is only read, or used as scratch.
    pub fn reduce<T: Element>(&self, buffer: &mut [T], op: ReduceOp, root: Rank) -> Result<(), Error> {
        let ask = Ask::new(Collective::Reduce).op(op).root(root);
        match self.rank() == root {
            true => self.run(&ask, InPlace(Borrowed::from_mut(buffer))),
            false => self.run(&ask, InputOnly(Borrowed::from_ref(buffer))),
        }
    }

    /// Reduces `input` over all ranks into the root's `output`; other ranks give `None`.
    pub fn reduce_into<T: Element>(
        &self,
        input: &[T],
        output: Option<&mut [T]>,
        op: ReduceOp,
        root: Rank,
    ) -> Result<(), Error> {
        self.run_into(&Ask::new(Collective::Reduce).op(op).root(root), input, output)
    }

    /// Gathers every rank's `input`, in rank order, into the root's `output`, which is `world` times as long; other ranks
    /// give `None`.
    pub fn gather<T: Element>(&self, input: &[T], output: Option<&mut [T]>, root: Rank) -> Result<(), Error> {
        self.run_into(&Ask::new(Collective::Gather).root(root), input, output)
    }

    /// Hands block r of the root's `input`, of `world` equal ones, to rank r's `output`; other ranks give `None`.
    pub fn scatter<T: Element>(
        &self,
        input: Option<&[T]>,
        output: &mut [T],
        root: Rank,
    ) -> Result<(), Error> {
        self.run_from(&Ask::new(Collective::Scatter).root(root), input, output)
    }

    /// Sends block j of `input` to rank j and receives block i of `output` from rank i; both have `world` equal blocks.
    pub fn all_to_all<T: Element>(&self, input: &[T], output: &mut [T]) -> Result<(), Error> {
        self.run(&Ask::new(Collective::AllToAll), apart(input, output))
    }

    /// The same in place.
    pub fn all_to_all_in_place<T: Element>(&self, buffer: &mut [T]) -> Result<(), Error> {
        self.run(&Ask::new(Collective::AllToAll), InPlace(Borrowed::from_mut(buffer)))
    }

    /// Returns after every rank has called it.
    pub fn barrier(&self) -> Result<(), Error> {
        self.run(&Ask::new(Collective::Barrier), Nothing)
    }

    /// A call whose output only one rank has.
    pub(super) fn run_into<T: Element>(
        &self,
        ask: &Ask,
        input: &[T],
        output: Option<&mut [T]>,
    ) -> Result<(), Error> {
        match output {
            Some(output) => self.run(ask, apart(input, output)),
            None => self.run(ask, InputOnly(Borrowed::from_ref(input))),
        }
    }

    /// A call whose input only one rank has.
    pub(super) fn run_from<T: Element>(
        &self,
        ask: &Ask,
        input: Option<&[T]>,
        output: &mut [T],
    ) -> Result<(), Error> {
        match input {
            Some(input) => self.run(ask, apart(input, output)),
            None => self.run(ask, OutputOnly(Borrowed::from_mut(output))),
        }
    }
}

pub(super) fn apart<'a, T: Element>(
    input: &'a [T],
    output: &'a mut [T],
) -> Apart<Borrowed<'a>, Borrowed<'a>> {
    Apart(Borrowed::from_ref(input), Borrowed::from_mut(output))
}
