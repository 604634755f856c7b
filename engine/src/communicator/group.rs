//! [`Communicator::group`]: several calls made as one. Like calls (the same element-wise collective, type, reduction and root) are
//! fused into one operation over the joined list of their buffers; unlike ones run side by side.

use std::future::IntoFuture;

use futures::future::{BoxFuture, join_all};
use hcomm_ops::buffer::Borrowed;
use hcomm_ops::{Rank, ReduceOp, StableBuffer};
use hcomm_planner::Collective;

use super::{Ask, Communicator, Scope, ScopedWork};
use crate::bindings::Joined;
use crate::error::WorkError;
use crate::work::Work;

/// Calls of a group being collected; all are in place.
pub struct Group<B> {
    runs: Vec<Run<B>>,
    calls: usize,
}

/// Like calls.
struct Run<B> {
    ask: Ask,
    /// The position of each among the group's calls.
    places: Vec<usize>,
    buffers: Vec<B>,
}

/// A group in flight: owns its buffers and gives them back, in the order of the calls, when all of it has ended.
#[must_use = "a group goes on when it is dropped, but its results are lost"]
pub struct GroupWork<B: StableBuffer + 'static> {
    works: Vec<Work<Joined<B>>>,
    /// By work: the positions of its buffers among the group's calls.
    places: Vec<Vec<usize>>,
}

/// What a group comes to; the buffers are in the order of its calls in either case.
type Outcome<B> = Result<Vec<B>, WorkError<Vec<B>>>;

impl Communicator {
    /// Makes the calls that `f` collects, and waits for them; all ranks make the same group.
    ///
    /// # Errors
    /// Gives the buffers back with the first error among them.
    pub fn group<B: StableBuffer + 'static>(&self, f: impl FnOnce(&mut Group<B>)) -> Outcome<B> {
        self.group_async(f).wait()
    }

    /// The same as a future: the calls are under way when this returns.
    pub fn group_async<B: StableBuffer + 'static>(&self, f: impl FnOnce(&mut Group<B>)) -> GroupWork<B> {
        let runs = Group::collect(f);
        let start = |run: Run<B>| (self.call(&run.ask, Joined(run.buffers)), run.places);
        let (works, places) = runs.into_iter().map(start).unzip();
        GroupWork { works, places }
    }

    /// All-reduces several buffers as one operation.
    pub fn all_reduce_many_async<B: StableBuffer + 'static>(
        &self,
        buffers: Vec<B>,
        op: ReduceOp,
    ) -> Work<Joined<B>> {
        self.call(&Ask::new(Collective::AllReduce).op(op), Joined(buffers))
    }
}

impl<'env> Scope<'env> {
    /// [`Communicator::group`] on borrowed buffers (`Borrowed::from_mut(&mut slice)`); one work for each kind of call.
    pub fn group(&self, f: impl FnOnce(&mut Group<Borrowed<'env>>)) -> Vec<ScopedWork<'_>> {
        Group::collect(f).into_iter().map(|run| self.lend(&run.ask, Joined(run.buffers))).collect()
    }
}

impl<B: StableBuffer + 'static> GroupWork<B> {
    /// Whether all of it has ended, well or not.
    pub fn is_done(&self) -> bool {
        self.works.iter().all(Work::is_done)
    }

    /// Waits for all of it.
    ///
    /// # Errors
    /// Gives the buffers back with the first error among its calls.
    pub fn wait(self) -> Outcome<B> {
        let outcomes = self.works.into_iter().map(Work::wait).collect();
        in_order(outcomes, &self.places)
    }
}

impl<B: StableBuffer + Unpin + 'static> IntoFuture for GroupWork<B> {
    type Output = Outcome<B>;
    type IntoFuture = BoxFuture<'static, Outcome<B>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move { in_order(join_all(self.works).await, &self.places) })
    }
}

impl<B: StableBuffer> Group<B> {
    /// [`Communicator::all_reduce`].
    pub fn all_reduce(&mut self, buffer: B, op: ReduceOp) {
        self.add(Ask::new(Collective::AllReduce).op(op), buffer);
    }

    /// [`Communicator::broadcast`].
    pub fn broadcast(&mut self, buffer: B, root: Rank) {
        self.add(Ask::new(Collective::Broadcast).root(root), buffer);
    }

    /// [`Communicator::reduce`].
    pub fn reduce(&mut self, buffer: B, op: ReduceOp, root: Rank) {
        self.add(Ask::new(Collective::Reduce).op(op).root(root), buffer);
    }

    /// The calls that `f` makes, like ones together.
    fn collect(f: impl FnOnce(&mut Group<B>)) -> Vec<Run<B>> {
        let mut group = Group { runs: Vec::new(), calls: 0 };
        f(&mut group);
        group.runs
    }

    fn add(&mut self, ask: Ask, buffer: B) {
        let place = self.calls;
        self.calls += 1;
        let like = |run: &&mut Run<B>| {
            let same = (run.ask.collective, run.ask.op, run.ask.root) == (ask.collective, ask.op, ask.root);
            same && run.buffers.first().is_some_and(|first| first.dtype() == buffer.dtype())
        };
        match self.runs.iter_mut().find(like) {
            Some(run) => {
                run.places.push(place);
                run.buffers.push(buffer);
            }
            None => self.runs.push(Run { ask, places: vec![place], buffers: vec![buffer] }),
        }
    }
}

/// The buffers of all works in the order of the group's calls.
fn in_order<B>(outcomes: Vec<Outcome<B>>, places: &[Vec<usize>]) -> Outcome<B> {
    let mut first = None;
    let mut placed = Vec::new();
    for (outcome, places) in outcomes.into_iter().zip(places) {
        let buffers = outcome.unwrap_or_else(|WorkError { error, buffer }| {
            first.get_or_insert(error);
            buffer
        });
        placed.extend(places.iter().copied().zip(buffers));
    }
    placed.sort_by_key(|(place, _)| *place);
    let buffer = placed.into_iter().map(|(_, buffer)| buffer).collect();
    match first {
        None => Ok(buffer),
        Some(error) => Err(WorkError { error, buffer }),
    }
}
