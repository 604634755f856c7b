//! [`Exercise`]: one rank's buffers of one size, the call on them, and the check of what it left.

use std::marker::PhantomData;
use std::mem::take;

use hcomm::{Collective, Communicator, Error, Rank, WorkError};

use super::data::{Data, per_line};
use super::measure::Timed;
use super::memory::{Memory, NoMemory};
use super::sample::{Sample, Want};
use super::spec::{Size, Spec};

/// How the buffers are given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Input and output apart; also a call without buffers.
    Apart,
    /// One buffer that is both.
    InPlace,
}

impl Form {
    /// The forms in which a collective can be called.
    pub fn of(collective: Collective, is_async: bool) -> &'static [Form] {
        match collective {
            Collective::Broadcast => &[Form::InPlace],
            Collective::Reduce if is_async => &[Form::InPlace],
            Collective::Gather | Collective::Scatter | Collective::Barrier => &[Form::Apart],
            _ => &[Form::Apart, Form::InPlace],
        }
    }
}

/// See the module.
pub struct Exercise<'a, T, B> {
    comm: &'a Communicator,
    spec: &'a Spec,
    form: Form,
    data: Data,
    /// Elements per block.
    count: usize,
    /// Elements that this rank contributes, and where they begin in an in-place buffer.
    given: (usize, usize),
    /// Elements that it gets, and where.
    gotten: (usize, usize),
    /// Longer than what is given where the peers of a comparison rewrite more than they give.
    input: B,
    /// In place, the one buffer.
    output: B,
    element: PhantomData<T>,
}

impl<'a, T: Sample, B: Memory<T>> Exercise<'a, T, B> {
    /// Fresh buffers.
    pub fn new(comm: &'a Communicator, spec: &'a Spec, size: Size, form: Form) -> Result<Self, NoMemory> {
        let count = size.count as usize;
        let full = (size.bytes / size_of::<T>() as u64) as usize;
        let (rank, root) = (comm.rank(), spec.call.root);
        let (given, gotten) = parts(spec.call.collective, rank == root, count, full);
        let own = rank * count;
        let (given_at, gotten_at) = match (form, spec.call.collective) {
            (Form::InPlace, Collective::AllGather) => (own, 0),
            (Form::InPlace, Collective::ReduceScatter) => (0, own),
            _ => (0, 0),
        };
        let (input, output) = match form {
            Form::Apart if spec.is_async => (given, gotten),
            Form::Apart => (full, gotten),
            Form::InPlace => (0, full),
        };
        let mut exercise = Exercise {
            comm,
            spec,
            form,
            data: Data::new::<T>(spec.call.op, comm.world()),
            count,
            given: (given, given_at),
            gotten: (gotten, gotten_at),
            input: B::make(comm, input)?,
            output: B::make(comm, output)?,
            element: PhantomData,
        };
        exercise.fill();
        Ok(exercise)
    }

    /// Wrong elements on this rank: in what the timed calls left, where their input is known, and after one more call on fresh data.
    pub fn wrong(&mut self) -> Result<u64, Error> {
        let left = if self.form == Form::Apart { self.count_wrong() } else { 0 };
        self.fill();
        self.call()?;
        Ok(left + self.count_wrong())
    }

    /// Fresh data, and poison where the result goes.
    fn fill(&mut self) {
        self.data.run = 0;
        let (data, rank) = (self.data, self.comm.rank());
        self.output.fill(T::POISON);
        let own = match self.form {
            Form::Apart => &mut self.input[..],
            Form::InPlace => &mut self.output[self.given.1..][..self.given.0],
        };
        for (index, element) in own.iter_mut().enumerate() {
            *element = T::of(data.at(rank, index));
        }
    }

    fn count_wrong(&self) -> u64 {
        let (length, start) = self.gotten;
        let gotten = self.output[start..][..length].iter().enumerate();
        gotten.filter(|(index, element)| !element.meets(&self.want(*index))).count() as u64
    }

    /// What the result's element `index` should be.
    fn want(&self, index: usize) -> Want {
        let (own, root) = (self.comm.rank() * self.count, self.spec.call.root);
        let from = |rank: Rank, index| Want::Exactly(self.data.at(rank, index));
        let (block, within) = (index.checked_div(self.count), index.checked_rem(self.count).unwrap_or(0));
        match self.spec.call.collective {
            Collective::AllReduce | Collective::Reduce => self.data.reduced(index),
            Collective::ReduceScatter => self.data.reduced(own + index),
            Collective::AllGather | Collective::Gather => from(block.unwrap_or(0), within),
            Collective::AllToAll => from(block.unwrap_or(0), own + within),
            Collective::Scatter => from(root, own + index),
            Collective::Broadcast | Collective::Barrier => from(root, index),
        }
    }

    fn block_apart(&mut self) -> Result<(), Error> {
        let (comm, call) = (self.comm, &self.spec.call);
        let (op, root) = (call.op, call.root);
        let is_root = comm.rank() == root;
        let (input, output) = (&self.input[..self.given.0], &mut self.output[..]);
        match call.collective {
            Collective::AllReduce => comm.all_reduce_into(input, output, op),
            Collective::AllGather => comm.all_gather(input, output),
            Collective::ReduceScatter => comm.reduce_scatter(input, output, op),
            Collective::Reduce => comm.reduce_into(input, is_root.then_some(output), op, root),
            Collective::Gather => comm.gather(input, is_root.then_some(output), root),
            Collective::Scatter => comm.scatter(is_root.then_some(input), output, root),
            Collective::AllToAll => comm.all_to_all(input, output),
            Collective::Broadcast => comm.broadcast(output, root),
            Collective::Barrier => comm.barrier(),
        }
    }

    fn block_in_place(&mut self) -> Result<(), Error> {
        let (comm, call, buffer) = (self.comm, &self.spec.call, &mut self.output[..]);
        match call.collective {
            Collective::AllReduce => comm.all_reduce(buffer, call.op),
            Collective::AllGather => comm.all_gather_in_place(buffer),
            Collective::ReduceScatter => comm.reduce_scatter_in_place(buffer, call.op),
            Collective::Reduce => comm.reduce(buffer, call.op, call.root),
            Collective::AllToAll => comm.all_to_all_in_place(buffer),
            Collective::Broadcast => comm.broadcast(buffer, call.root),
            Collective::Gather | Collective::Scatter | Collective::Barrier => self.block_apart(),
        }
    }

    fn await_apart(&mut self) -> Result<(), Error> {
        let (comm, call) = (self.comm, &self.spec.call);
        let (op, root) = (call.op, call.root);
        let (input, output) = (take(&mut self.input), take(&mut self.output));
        (self.input, self.output) = match (call.collective, comm.rank() == root) {
            (Collective::AllReduce, _) => {
                comm.all_reduce_into_async(input, output, op).wait().map_err(cause)?
            }
            (Collective::AllGather, _) => comm.all_gather_async(input, output).wait().map_err(cause)?,
            (Collective::ReduceScatter, _) => {
                comm.reduce_scatter_async(input, output, op).wait().map_err(cause)?
            }
            (Collective::AllToAll, _) => comm.all_to_all_async(input, output).wait().map_err(cause)?,
            (Collective::Gather, true) => comm.gather_async(input, output, root).wait().map_err(cause)?,
            (Collective::Scatter, true) => comm.scatter_async(input, output, root).wait().map_err(cause)?,
            (Collective::Gather, false) => (comm.gather_to_async(input, root).wait().map_err(cause)?, output),
            (Collective::Scatter, false) => {
                (input, comm.scatter_from_async(output, root).wait().map_err(cause)?)
            }
            _ => {
                comm.barrier_async().wait().map_err(cause)?;
                (input, output)
            }
        };
        Ok(())
    }

    fn await_in_place(&mut self) -> Result<(), Error> {
        let (comm, call, buffer) = (self.comm, &self.spec.call, take(&mut self.output));
        let work = match call.collective {
            Collective::AllGather => comm.all_gather_in_place_async(buffer),
            Collective::ReduceScatter => comm.reduce_scatter_in_place_async(buffer, call.op),
            Collective::Reduce => comm.reduce_async(buffer, call.op, call.root),
            Collective::AllToAll => comm.all_to_all_in_place_async(buffer),
            Collective::Broadcast => comm.broadcast_async(buffer, call.root),
            _ => comm.all_reduce_async(buffer, call.op),
        };
        self.output = work.wait().map_err(cause)?;
        Ok(())
    }
}

impl<T: Sample, B: Memory<T>> Timed for Exercise<'_, T, B> {
    fn rewrite(&mut self, run: i64) {
        self.data.run = run;
        let (data, rank) = (self.data, self.comm.rank());
        let buffer = if self.form == Form::Apart { &mut self.input } else { &mut self.output };
        for (line, element) in buffer.iter_mut().step_by(per_line::<T>()).enumerate() {
            *element = T::of(data.in_run(rank, line * per_line::<T>(), run));
        }
    }

    fn call(&mut self) -> Result<(), Error> {
        match (self.form, self.spec.is_async) {
            (Form::Apart, false) => self.block_apart(),
            (Form::InPlace, false) => self.block_in_place(),
            (Form::Apart, true) => self.await_apart(),
            (Form::InPlace, true) => self.await_in_place(),
        }
    }
}

/// Elements that a rank gives and gets.
fn parts(collective: Collective, is_root: bool, count: usize, full: usize) -> (usize, usize) {
    let at_root = |elements| if is_root { elements } else { 0 };
    match collective {
        Collective::AllReduce | Collective::AllToAll => (full, full),
        Collective::AllGather => (count, full),
        Collective::ReduceScatter => (full, count),
        Collective::Broadcast => (at_root(full), full),
        Collective::Reduce => (full, at_root(full)),
        Collective::Gather => (count, at_root(full)),
        Collective::Scatter => (at_root(full), count),
        Collective::Barrier => (0, 0),
    }
}

/// The buffers are of no further use.
fn cause<B>(failed: WorkError<B>) -> Error {
    failed.error
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::bench::spec::{Buffers, Format};
    use crate::commands::call::CallArguments;
    use hcomm::{Allocated, DType, Op, Settings};

    fn spec(collective: Collective, is_async: bool) -> Spec {
        let call = CallArguments {
            collective,
            dtype: DType::I32,
            op: Op::Sum,
            root: 0,
            algorithm: None,
            deterministic: false,
        };
        let (ranks, transport, settings) = (None, None, Settings::default());
        let (iters, warmup, checks, format, trace) = (None, None, true, Format::Json, None);
        let (sizes, buffers) = (vec![400], Buffers::default());
        Spec {
            call,
            ranks,
            transport,
            settings,
            sizes,
            iters,
            warmup,
            buffers,
            is_async,
            checks,
            format,
            trace,
        }
    }

    /// In every form and memory: a good result counts as right, and each spoilt element as wrong.
    #[test]
    fn what_is_spoilt_is_counted() {
        let comm = Communicator::alone();
        for collective in Collective::ALL.into_iter().filter(|c| *c != Collective::Barrier) {
            for is_async in [false, true] {
                for form in Form::of(collective, is_async) {
                    spoil::<Vec<i32>>(&comm, &spec(collective, is_async), *form);
                    spoil::<Allocated<i32>>(&comm, &spec(collective, is_async), *form);
                }
            }
        }
    }

    fn spoil<B: Memory<i32>>(comm: &Communicator, spec: &Spec, form: Form) {
        let what = format!("{} {} {form:?}", spec.call.collective, spec.is_async);
        let mut exercise =
            Exercise::<i32, B>::new(comm, spec, spec.size(400, 1), form).expect("little memory");
        exercise.rewrite(3);
        if form == Form::Apart {
            assert_eq!(exercise.count_wrong(), 100, "{what}: nothing has been called yet");
            exercise.call().expect("a world of one");
        }
        assert_eq!(exercise.wrong().expect("a world of one"), 0, "{what}");
        exercise.output[7] += 1;
        exercise.output[99] ^= 1;
        assert_eq!(exercise.count_wrong(), 2, "{what}");
    }
}
