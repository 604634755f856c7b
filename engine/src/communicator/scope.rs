//! [`Communicator::scope`]: operations on borrowed buffers, side by side. The scope waits for all of them in every exit, panics
//! included, so that no borrow ends while a peer or a driver uses the bytes.

use std::cell::{Cell, RefCell};
use std::marker::PhantomData;
use std::sync::Arc;

use hcomm_ops::buffer::Borrowed;
use hcomm_ops::{Element, Rank, ReduceOp};
use hcomm_planner::Collective;

use super::collectives::apart;
use super::variable::{listed, local};
use super::{Ask, Communicator};
use crate::bindings::{Buffers, InPlace, InputOnly, Nothing, OutputOnly};
use crate::domain::Domain;
use crate::error::Error;
use crate::operation::Operation;
use crate::work::{Pending, Predecessor, Ticket, plain};

/// Where operations on borrowed buffers are started. See [`Communicator::scope`].
pub struct Scope<'env> {
    communicator: Communicator,
    started: RefCell<Vec<(Arc<Domain>, Arc<Operation>)>>,
    refused: Cell<Option<Error>>,
    /// Invariant in the lifetime of what it lends.
    env: PhantomData<Cell<&'env mut ()>>,
}

/// An operation of a scope: stands for it in `after`, and can be waited for before the scope ends.
#[derive(Clone)]
pub struct ScopedWork<'scope> {
    domain: Arc<Domain>,
    ticket: Ticket,
    was_refused: bool,
    scope: PhantomData<&'scope ()>,
}

impl Communicator {
    /// Runs `f`, in which operations on borrowed buffers can be started, and waits for all of them.
    ///
    /// ```no_run
    /// # fn main() -> Result<(), hcomm_engine::Error> {
    /// # mod hcomm { pub use hcomm_ops::ReduceOp as Op; }
    /// # let comm = hcomm_engine::Communicator::alone();
    /// let (mut weights, mut biases) = (vec![0_f32; 1000], vec![0_f32; 10]);
    /// comm.scope(|s| {
    ///     s.all_reduce(&mut weights, hcomm::Op::Sum);
    ///     s.all_reduce(&mut biases, hcomm::Op::Sum);
    /// })?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The first error among its operations.
    pub fn scope<'env, R>(&self, f: impl FnOnce(&Scope<'env>) -> R) -> Result<R, Error> {
        let scope = Scope {
            communicator: self.clone(),
            started: RefCell::default(),
            refused: Cell::new(None),
            env: PhantomData,
        };
        // Waits when dropped, so also where `f` panics.
        let waiting = WaitAll(&scope);
        let value = f(&scope);
        waiting.finish()?;
        Ok(value)
    }
}

impl<'env> Scope<'env> {
    /// [`Communicator::all_reduce`].
    pub fn all_reduce<T: Element>(&self, buffer: &'env mut [T], op: ReduceOp) -> ScopedWork<'_> {
        self.lend(&Ask::new(Collective::AllReduce).op(op), InPlace(Borrowed::from_mut(buffer)))
    }

    /// [`Communicator::all_reduce_into`].
    pub fn all_reduce_into<T: Element>(
        &self,
        input: &'env [T],
        output: &'env mut [T],
        op: ReduceOp,
    ) -> ScopedWork<'_> {
        self.lend(&Ask::new(Collective::AllReduce).op(op), apart(input, output))
    }

    /// [`Communicator::all_gather`].
    pub fn all_gather<T: Element>(&self, input: &'env [T], output: &'env mut [T]) -> ScopedWork<'_> {
        self.lend(&Ask::new(Collective::AllGather), apart(input, output))
    }

    /// [`Communicator::all_gather_in_place`].
    pub fn all_gather_in_place<T: Element>(&self, buffer: &'env mut [T]) -> ScopedWork<'_> {
        self.lend(&Ask::new(Collective::AllGather), InPlace(Borrowed::from_mut(buffer)))
    }

    /// [`Communicator::reduce_scatter`].
    pub fn reduce_scatter<T: Element>(
        &self,
        input: &'env [T],
        output: &'env mut [T],
        op: ReduceOp,
    ) -> ScopedWork<'_> {
        self.lend(&Ask::new(Collective::ReduceScatter).op(op), apart(input, output))
    }

    /// [`Communicator::reduce_scatter_in_place`].
    pub fn reduce_scatter_in_place<T: Element>(&self, buffer: &'env mut [T], op: ReduceOp) -> ScopedWork<'_> {
        self.lend(&Ask::new(Collective::ReduceScatter).op(op), InPlace(Borrowed::from_mut(buffer)))
    }

    /// [`Communicator::broadcast`].
    pub fn broadcast<T: Element>(&self, buffer: &'env mut [T], root: Rank) -> ScopedWork<'_> {
        self.lend(&Ask::new(Collective::Broadcast).root(root), InPlace(Borrowed::from_mut(buffer)))
    }

    /// [`Communicator::reduce`].
    pub fn reduce<T: Element>(&self, buffer: &'env mut [T], op: ReduceOp, root: Rank) -> ScopedWork<'_> {
        self.lend(&Ask::new(Collective::Reduce).op(op).root(root), InPlace(Borrowed::from_mut(buffer)))
    }

    /// [`Communicator::gather`].
    pub fn gather<T: Element>(
        &self,
        input: &'env [T],
        output: Option<&'env mut [T]>,
        root: Rank,
    ) -> ScopedWork<'_> {
        let ask = Ask::new(Collective::Gather).root(root);
        match output {
            Some(output) => self.lend(&ask, apart(input, output)),
            None => self.lend(&ask, InputOnly(Borrowed::from_ref(input))),
        }
    }

    /// [`Communicator::scatter`].
    pub fn scatter<T: Element>(
        &self,
        input: Option<&'env [T]>,
        output: &'env mut [T],
        root: Rank,
    ) -> ScopedWork<'_> {
        let ask = Ask::new(Collective::Scatter).root(root);
        match input {
            Some(input) => self.lend(&ask, apart(input, output)),
            None => self.lend(&ask, OutputOnly(Borrowed::from_mut(output))),
        }
    }

    /// [`Communicator::all_to_all`].
    pub fn all_to_all<T: Element>(&self, input: &'env [T], output: &'env mut [T]) -> ScopedWork<'_> {
        self.lend(&Ask::new(Collective::AllToAll), apart(input, output))
    }

    /// [`Communicator::all_to_all_in_place`].
    pub fn all_to_all_in_place<T: Element>(&self, buffer: &'env mut [T]) -> ScopedWork<'_> {
        self.lend(&Ask::new(Collective::AllToAll), InPlace(Borrowed::from_mut(buffer)))
    }

    /// [`Communicator::barrier`].
    pub fn barrier(&self) -> ScopedWork<'_> {
        self.lend(&Ask::new(Collective::Barrier), Nothing)
    }

    /// [`Communicator::all_gather_v`].
    pub fn all_gather_v<T: Element>(
        &self,
        input: &'env [T],
        output: &'env mut [T],
        counts: &[u64],
    ) -> ScopedWork<'_> {
        self.lend(&Ask::new(Collective::AllGather).counts(listed(counts)), apart(input, output))
    }

    /// [`Communicator::reduce_scatter_v`].
    pub fn reduce_scatter_v<T: Element>(
        &self,
        input: &'env [T],
        output: &'env mut [T],
        counts: &[u64],
        op: ReduceOp,
    ) -> ScopedWork<'_> {
        self.lend(&Ask::new(Collective::ReduceScatter).op(op).counts(listed(counts)), apart(input, output))
    }

    /// [`Communicator::gather_v`].
    pub fn gather_v<T: Element>(
        &self,
        input: &'env [T],
        output: Option<(&'env mut [T], &[u64])>,
        root: Rank,
    ) -> ScopedWork<'_> {
        let ask = Ask::new(Collective::Gather).root(root);
        let own = [input.len() as u64];
        match output {
            Some((output, counts)) => self.lend(&ask.counts(local(&own, counts)), apart(input, output)),
            None => self.lend(&ask.counts(local(&own, &[])), InputOnly(Borrowed::from_ref(input))),
        }
    }

    /// [`Communicator::scatter_v`].
    pub fn scatter_v<T: Element>(
        &self,
        input: Option<(&'env [T], &[u64])>,
        output: &'env mut [T],
        root: Rank,
    ) -> ScopedWork<'_> {
        let ask = Ask::new(Collective::Scatter).root(root);
        let own = [output.len() as u64];
        match input {
            Some((input, counts)) => self.lend(&ask.counts(local(counts, &own)), apart(input, output)),
            None => self.lend(&ask.counts(local(&[], &own)), OutputOnly(Borrowed::from_mut(output))),
        }
    }

    /// [`Communicator::all_to_all_v`].
    pub fn all_to_all_v<T: Element>(
        &self,
        input: &'env [T],
        input_counts: &[u64],
        output: &'env mut [T],
        output_counts: &[u64],
    ) -> ScopedWork<'_> {
        let ask = Ask::new(Collective::AllToAll).counts(local(input_counts, output_counts));
        self.lend(&ask, apart(input, output))
    }

    /// [`Communicator::reduce_into`].
    pub fn reduce_into<T: Element>(
        &self,
        input: &'env [T],
        output: Option<&'env mut [T]>,
        op: ReduceOp,
        root: Rank,
    ) -> ScopedWork<'_> {
        let ask = Ask::new(Collective::Reduce).op(op).root(root);
        match output {
            Some(output) => self.lend(&ask, apart(input, output)),
            None => self.lend(&ask, InputOnly(Borrowed::from_ref(input))),
        }
    }

    /// [`Communicator::send`].
    pub fn send<T: Element>(&self, buffer: &'env [T], to: Rank, tag: u32) -> ScopedWork<'_> {
        let pending = self.communicator.post_send(InputOnly(Borrowed::from_ref(buffer)), to, tag);
        self.keep(pending)
    }

    /// [`Communicator::recv`]; how many elements came is not told.
    pub fn recv<T: Element>(&self, buffer: &'env mut [T], from: Rank, tag: u32) -> ScopedWork<'_> {
        let pending = self.communicator.post_recv(OutputOnly(Borrowed::from_mut(buffer)), from, tag);
        self.keep(pending)
    }

    /// The same scope with the options of another handle, such as `comm.priority(1)`.
    pub fn through(&self, handle: &Communicator, call: impl FnOnce(&Scope<'env>)) {
        let other = Scope {
            communicator: handle.clone(),
            started: RefCell::default(),
            refused: Cell::new(None),
            env: PhantomData,
        };
        let moving = MoveOver { from: &other, to: self };
        call(&other);
        drop(moving);
    }

    pub(super) fn lend<B: Buffers + 'env>(&self, ask: &Ask, buffers: B) -> ScopedWork<'_> {
        self.keep(self.communicator.start(ask, buffers))
    }

    fn keep<B: Buffers>(&self, mut pending: Pending<B>) -> ScopedWork<'_> {
        let (ticket, domain) = (pending.ticket(), self.communicator.inner.domain.clone());
        let was_refused = pending.operation().is_none();
        match pending.operation() {
            Some(operation) => {
                self.started.borrow_mut().push((domain.clone(), operation.clone()));
                pending.disclaim();
            }
            None => {
                if let Err(refused) = pending.wait() {
                    let earlier = self.refused.take();
                    self.refused.set(Some(earlier.unwrap_or(refused.error)));
                }
            }
        }
        ScopedWork { domain, ticket, was_refused, scope: PhantomData }
    }
}

impl ScopedWork<'_> {
    /// Waits for it.
    ///
    /// # Errors
    /// What went wrong; the scope reports it too. A refusal is reported by the scope only.
    pub fn wait(&self) -> Result<(), Error> {
        match self.was_refused {
            true => Ok(()),
            false => plain(self.domain.wait(&self.ticket.0)),
        }
    }
}

impl Predecessor for ScopedWork<'_> {
    fn ticket(&self) -> Ticket {
        self.ticket.clone()
    }
}

/// Waits for a scope's operations when it goes.
struct WaitAll<'a, 'env>(&'a Scope<'env>);

impl WaitAll<'_, '_> {
    fn finish(self) -> Result<(), Error> {
        let outcome = self.wait();
        self.0.refused.take().map_or(outcome, Err)
    }

    /// Each stays listed until it has ended, so that a wait which is cut short is taken up where this is dropped.
    fn wait(&self) -> Result<(), Error> {
        let mut first = Ok(());
        let next = || self.0.started.borrow().first().cloned();
        while let Some((domain, operation)) = next() {
            // All are waited for, whatever became of the ones before.
            first = first.and(plain(domain.wait(&operation)));
            self.0.started.borrow_mut().remove(0);
        }
        first
    }
}

impl Drop for WaitAll<'_, '_> {
    fn drop(&mut self) {
        // An error has been told by `finish`, or is lost to the panic that brought us here.
        let _ = self.wait();
    }
}

/// Gives one scope's operations to another, in every exit.
struct MoveOver<'a, 'env> {
    from: &'a Scope<'env>,
    to: &'a Scope<'env>,
}

impl Drop for MoveOver<'_, '_> {
    fn drop(&mut self) {
        self.to.started.borrow_mut().append(&mut self.from.started.borrow_mut());
        if let Some(error) = self.from.refused.take() {
            let earlier = self.to.refused.take();
            self.to.refused.set(Some(earlier.unwrap_or(error)));
        }
    }
}
