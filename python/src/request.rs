//! What a collective call or a message was given in Python, read: which call it is, its buffers, and what it comes after.

use std::sync::Arc;

use hcomm::{Ask, Collective, Communicator, InputOnly, OutputOnly, ReduceOp, Ticket};
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};

use crate::array::Array;
use crate::bound::{Binder, Given, Side};
use crate::busy::{self, Touched};
use crate::errors;
use crate::lent::{Lent, Use};
use crate::options::Options;
use crate::scratch::Scratch;
use crate::statistics::Overflows;
use crate::words::{parsed, rank_of};

/// A collective call as Python gives it.
pub struct Asked<'a, 'py> {
    /// Its name.
    pub collective: &'a str,
    /// The input; the same object as the output where the call is in place.
    pub input: Option<&'a Bound<'py, PyAny>>,
    /// The output.
    pub output: Option<&'a Bound<'py, PyAny>>,
    /// The reduction's name.
    pub op: &'a str,
    /// The special rank.
    pub root: i64,
}

/// A call that can be made.
pub struct Ready {
    /// Which call it is.
    pub ask: Ask,
    /// Its buffers.
    pub given: Given,
    /// The memory that it uses.
    pub touched: Vec<Touched>,
    /// Operations on the same memory that it comes after.
    pub after: Vec<Ticket>,
}

/// The arrays of one side of a call.
struct Part {
    arrays: Vec<Array>,
    to: Use,
}

impl Asked<'_, '_> {
    /// Which call it is, its buffers, and what it comes after.
    ///
    /// # Errors
    /// Where a name is unknown, or an object has no memory that the call can use.
    pub fn bind(
        &self,
        py: Python<'_>,
        communicator: &Communicator,
        options: &mut Options,
        (scratch, overflows): (&Arc<Scratch>, &Overflows),
    ) -> PyResult<Ready> {
        let collective: Collective = parsed(self.collective)?;
        let root = rank_of(py, self.root, communicator.world())?;
        let ask = Ask::new(collective).root(root);
        let ask = if collective.reduces() { ask.op(parsed(self.op)?) } else { ask };
        let wire = options.wire.filter(|_| collective.reduces());
        let [input, output] = self.parts(py, collective, communicator, options)?;
        let ask = match options.take_counts() {
            Some(counts) => ask.counts(counts),
            None => ask,
        };
        let touched = touched(input.iter().chain(&output));
        let after = busy::before(py, &touched);
        let binder = Binder {
            collective,
            wire,
            averages: collective.reduces() && parsed::<ReduceOp>(self.op)? == ReduceOp::Average,
            overflows,
            rank: communicator.rank(),
            world: communicator.world(),
            scratch,
        };
        let in_place = self.is_in_place();
        let [input, output] = [input, output].map(|part| part.map(|part| part.lent(scratch)).transpose());
        let given = match (input?, output?) {
            (None, Some(output)) if in_place => binder.in_place(output),
            (input, output) => binder.apart(input, output)?,
        };
        Ok(Ready { ask, given, touched, after })
    }

    /// The input's arrays and the output's; of a call in place, only the output's.
    fn parts(
        &self,
        py: Python<'_>,
        collective: Collective,
        communicator: &Communicator,
        options: &Options,
    ) -> PyResult<[Option<Part>; 2]> {
        if self.input.is_none() && self.output.is_none() && collective != Collective::Barrier {
            return Err(errors::array(&format!("{collective} of None; expected an array")));
        }
        let world = communicator.world();
        let in_place = self.is_in_place();
        // What the root broadcasts may be read-only.
        let is_read =
            in_place && collective == Collective::Broadcast && self.root == communicator.rank() as i64;
        let to = match (in_place, is_read) {
            (true, true) => Use::Input,
            (true, false) => Use::Output,
            (false, _) => written(collective),
        };
        let input = match self.input.filter(|_| !in_place) {
            Some(object) => Some(part(object, Use::Input)?),
            None => None,
        };
        let output = self.output.map(|object| part(object, to)).transpose()?;
        for (which, object, part, counts) in [
            ("input", self.input, &input, &options.input_counts),
            ("output", self.output, &output, &options.output_counts),
        ] {
            let is_list = object.is_some_and(is_list) && !in_place && has_blocks(collective, which);
            if let Some(part) = part.as_ref().filter(|_| is_list) {
                check_blocks(py, which, part, options.counts.as_ref().or(counts.as_ref()), world)?;
            }
        }
        Ok([input, output])
    }

    fn is_in_place(&self) -> bool {
        matches!((self.input, self.output), (Some(input), Some(output)) if input.is(output))
    }
}

impl Part {
    fn lent(self, scratch: &Arc<Scratch>) -> PyResult<Vec<Lent>> {
        Lent::list(self.arrays, self.to, scratch)
    }
}

/// What a call does with an output that is apart from its input: every element of it is written, but at the ranks that are not the root.
fn written(collective: Collective) -> Use {
    match collective {
        Collective::Gather | Collective::Reduce | Collective::Broadcast | Collective::Barrier => Use::Output,
        Collective::AllReduce
        | Collective::AllGather
        | Collective::ReduceScatter
        | Collective::Scatter
        | Collective::AllToAll => Use::Overwritten,
    }
}

/// Whether a side of a call has a block for each rank.
fn has_blocks(collective: Collective, which: &str) -> bool {
    match collective {
        Collective::AllGather | Collective::Gather => which == "output",
        Collective::ReduceScatter | Collective::Scatter => which == "input",
        Collective::AllToAll => true,
        Collective::AllReduce | Collective::Broadcast | Collective::Reduce | Collective::Barrier => false,
    }
}

/// A list of blocks has one array for each rank, each of the length that its block has.
fn check_blocks(
    py: Python<'_>,
    which: &str,
    part: &Part,
    counts: Option<&Vec<u64>>,
    world: usize,
) -> PyResult<()> {
    let arrays = &part.arrays;
    if arrays.len() != world {
        let text = format!(
            "the {which} is a list of {} arrays; expected {world}, a block for each rank",
            arrays.len()
        );
        return Err(errors::refused(py, &text));
    }
    for (at, array) in arrays.iter().enumerate() {
        let expected = counts.and_then(|counts| counts.get(at).copied());
        let expected = expected.unwrap_or(arrays[0].layout.count as u64);
        if array.layout.count as u64 != expected {
            let text = format!(
                "array {at} of the {which} has {} elements; expected {expected}, the length of its block",
                array.layout.count
            );
            return Err(errors::refused(py, &text));
        }
    }
    Ok(())
}

fn touched<'a>(parts: impl Iterator<Item = &'a Part>) -> Vec<Touched> {
    let of =
        |part: &'a Part| part.arrays.iter().filter_map(|array| Touched::by(array, part.to != Use::Input));
    parts.flat_map(of).collect()
}

/// The buffers of a message.
pub struct Message {
    /// The one that it has.
    pub given: Given,
    /// The memory that it uses.
    pub touched: Vec<Touched>,
    /// Operations on the same memory that it comes after.
    pub after: Vec<Ticket>,
}

/// The buffers of a message that does this with an object.
///
/// # Errors
/// As [`Asked::bind`].
pub fn message(object: &Bound<'_, PyAny>, to: Use, scratch: &Arc<Scratch>) -> PyResult<Message> {
    let part = part(object, to)?;
    let touched = touched([&part].into_iter());
    let after = busy::before(object.py(), &touched);
    let side = Side::Direct(Lent::whole(part.arrays, part.to, scratch)?);
    let given = match to {
        Use::Input => Given::Input(InputOnly(side)),
        Use::Output | Use::Overwritten => Given::Output(OutputOnly(side)),
    };
    Ok(Message { given, touched, after })
}

/// An array, or a list of them.
fn part(object: &Bound<'_, PyAny>, to: Use) -> PyResult<Part> {
    let arrays = match is_list(object) {
        true => object.try_iter()?.map(|item| Array::of(&item?)).collect::<PyResult<_>>()?,
        false => vec![Array::of(object)?],
    };
    Ok(Part { arrays, to })
}

fn is_list(object: &Bound<'_, PyAny>) -> bool {
    object.is_instance_of::<PyList>() || object.is_instance_of::<PyTuple>()
}
