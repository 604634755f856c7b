//! What a call was given in Python, read: which call it is, its buffers, and its options.

use std::time::Duration;

use hcomm::planner::request::Counts;
use hcomm::{
    Apart, Ask, Collective, Communicator, DType, InPlace, InputOnly, Joined, Nothing, OutputOnly, Rank,
};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};

use crate::array::Array;
use crate::bound::{Given, Lent, Side, Use};
use crate::errors;

/// A call's options; the defaults where none are given.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Urgency.
    priority: Option<i32>,
    /// How long it may take.
    timeout: Option<Duration>,
    /// What 32-bit floats cross the wires as, where the call reduces.
    wire: Option<DType>,
    /// Elements of every rank's block.
    counts: Option<Vec<u64>>,
    /// Elements of the blocks of this rank's input and output.
    input_counts: Option<Vec<u64>>,
    output_counts: Option<Vec<u64>>,
}

impl Options {
    /// Reads them.
    ///
    /// # Errors
    /// `TypeError` for an option that does not exist, and where one is of another type.
    pub fn read(given: Option<&Bound<'_, PyDict>>) -> PyResult<Options> {
        let mut options = Options::default();
        for (name, value) in given.into_iter().flatten().filter(|(_, value)| !value.is_none()) {
            match name.extract::<&str>()? {
                "priority" => options.priority = Some(value.extract()?),
                "timeout" => options.timeout = Some(seconds(value.extract()?)?),
                "wire" => options.wire = Some(parsed(value.extract::<&str>()?)?),
                "counts" => options.counts = Some(value.extract()?),
                "input_counts" => options.input_counts = Some(value.extract()?),
                "output_counts" => options.output_counts = Some(value.extract()?),
                other => return Err(PyTypeError::new_err(format!("no call has the option '{other}'"))),
            }
        }
        Ok(options)
    }

    /// A handle whose calls have these options.
    pub fn handle(&self, communicator: &Communicator) -> Option<Communicator> {
        let prior = self.priority.filter(|priority| *priority != 0).map(|p| communicator.priority(p));
        match self.timeout {
            Some(timeout) => Some(prior.as_ref().unwrap_or(communicator).deadline(timeout)),
            None => prior,
        }
    }

    fn counts(&mut self) -> Option<Counts> {
        if let Some(counts) = self.counts.take() {
            return Some(Counts::Listed(counts.into()));
        }
        if self.input_counts.is_none() && self.output_counts.is_none() {
            return None;
        }
        let input = self.input_counts.take().unwrap_or_default().into();
        Some(Counts::Local { input, output: self.output_counts.take().unwrap_or_default().into() })
    }
}

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
    pub root: Rank,
}

impl Asked<'_, '_> {
    /// Which call it is, and its buffers.
    ///
    /// # Errors
    /// Where a name is unknown, or an object has no memory that the call can use.
    pub fn bind(&self, communicator: &Communicator, options: &mut Options) -> PyResult<(Ask, Given)> {
        let collective: Collective = parsed(self.collective)?;
        let ask = Ask::new(collective).root(self.root);
        let ask = if collective.reduces() { ask.op(parsed(self.op)?) } else { ask };
        let ask = match options.counts() {
            Some(counts) => ask.counts(counts),
            None => ask,
        };
        let wire = options.wire.filter(|_| collective.reduces());
        Ok((ask, self.given(collective, communicator, wire)?))
    }

    fn given(&self, collective: Collective, communicator: &Communicator, wire: Option<DType>) -> PyResult<Given> {
        let side = |lent| Side::new(lent, wire);
        Ok(match (self.input, self.output) {
            (None, None) => Given::Nothing(Nothing),
            (Some(input), None) => Given::Input(InputOnly(side(lent(input, Use::Input)?))),
            (None, Some(output)) => Given::Output(OutputOnly(side(lent(output, Use::Output)?))),
            (Some(input), Some(output)) if input.is(output) => {
                // What the root broadcasts may be read-only.
                let is_read = collective == Collective::Broadcast && self.root == communicator.rank();
                let to = if is_read { Use::Input } else { Use::Output };
                match listed(output)? {
                    Some(items) => {
                        let sides = items.iter().map(|item| Ok(side(lent(item, to)?)));
                        Given::Joined(Joined(sides.collect::<PyResult<_>>()?))
                    }
                    None => Given::InPlace(InPlace(side(lent(output, to)?))),
                }
            }
            (Some(input), Some(output)) => {
                let (input, output) = (lent(input, Use::Input)?, lent(output, written(collective))?);
                let place = (communicator.rank(), communicator.world());
                match whole_in_place(collective, &input, &output, place) {
                    None => Given::Apart(Apart(side(input), side(output))),
                    Some(Whole::Output) => Given::InPlace(InPlace(side(output))),
                    Some(Whole::Input) => Given::InPlace(InPlace(side(input))),
                }
            }
        })
    }
}

/// The buffer that has the other one within it.
enum Whole {
    Input,
    Output,
}

/// Whether a call on two views is in place: they are the same memory, or one is this rank's own block of the other.
fn whole_in_place(
    collective: Collective,
    input: &Lent,
    output: &Lent,
    (rank, world): (Rank, usize),
) -> Option<Whole> {
    match collective {
        Collective::AllGather if output.has_block(input, rank, world) => Some(Whole::Output),
        Collective::ReduceScatter if input.has_block(output, rank, world) => Some(Whole::Input),
        Collective::AllReduce | Collective::Broadcast | Collective::Reduce | Collective::AllToAll => {
            input.is_same(output).then_some(Whole::Output)
        }
        _ => None,
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

/// An array's memory for a call; that of a list of arrays as one.
///
/// # Errors
/// See [`Array::of`] and [`Lent::new`].
pub fn lent(object: &Bound<'_, PyAny>, to: Use) -> PyResult<Lent> {
    match listed(object)? {
        Some(items) => Lent::new(items.iter().map(Array::of).collect::<PyResult<_>>()?, to),
        None => Lent::new(vec![Array::of(object)?], to),
    }
}

/// The items of a list or tuple of arrays; nothing where the object is an array itself.
fn listed<'py>(object: &Bound<'py, PyAny>) -> PyResult<Option<Vec<Bound<'py, PyAny>>>> {
    if object.is_instance_of::<PyList>() || object.is_instance_of::<PyTuple>() {
        return object.try_iter()?.collect::<PyResult<_>>().map(Some);
    }
    Ok(None)
}

/// A word of hcomm's.
///
/// # Errors
/// `ValueError` (a `RefusedError`) with the words that there are.
pub fn parsed<T: std::str::FromStr<Err: std::fmt::Display>>(text: &str) -> PyResult<T> {
    text.parse().map_err(|error: T::Err| Python::attach(|py| errors::refused(py, &error.to_string())))
}

/// A time in seconds.
///
/// # Errors
/// `ValueError` where it is negative or no number.
pub fn seconds(seconds: f64) -> PyResult<Duration> {
    Duration::try_from_secs_f64(seconds)
        .map_err(|_| PyValueError::new_err(format!("{seconds} is no time in seconds; expected 0 or more")))
}
