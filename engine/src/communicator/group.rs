//! [`Communicator::group`]: several calls made as one. Like calls (the same element-wise collective, type, reduction and root) are
//! fused into one operation over the joined list of their buffers; unlike ones run side by side.

use hcomm_ops::{Rank, ReduceOp, StableBuffer};
use hcomm_planner::Collective;

use super::{Ask, Communicator};
use crate::bindings::Joined;
use crate::error::{Error, WorkError};
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

impl Communicator {
    /// Makes the calls that `f` collects, as one call of the program; all ranks make the same group.
    ///
    /// # Errors
    /// The first error among them.
    pub fn group<B: StableBuffer + 'static>(&self, f: impl FnOnce(&mut Group<B>)) -> Result<Vec<B>, Error> {
        let mut group = Group { runs: Vec::new(), calls: 0 };
        f(&mut group);
        let calls = group.calls;
        let works: Vec<(Vec<usize>, Work<Joined<B>>)> =
            group.runs.into_iter().map(|run| (run.places, self.own(&run.ask, Joined(run.buffers)))).collect();
        let mut returned: Vec<Option<B>> = (0..calls).map(|_| None).collect();
        let mut first_error = None;
        for (places, work) in works {
            let buffers = work.wait().unwrap_or_else(|WorkError { error, buffer }| {
                first_error.get_or_insert(error);
                buffer
            });
            for (place, buffer) in places.into_iter().zip(buffers) {
                returned[place] = Some(buffer);
            }
        }
        first_error.map_or_else(|| Ok(returned.into_iter().flatten().collect()), Err)
    }

    /// All-reduces several buffers as one operation.
    pub fn all_reduce_many_async<B: StableBuffer + 'static>(
        &self,
        buffers: Vec<B>,
        op: ReduceOp,
    ) -> Work<Joined<B>> {
        self.own(&Ask::new(Collective::AllReduce).op(op), Joined(buffers))
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
