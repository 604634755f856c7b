//! [`Options`]: what a call may be given beside its arrays.

use std::time::Duration;

use hcomm::planner::request::Counts;
use hcomm::{Communicator, DType, Predecessor, Ticket};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::words::{limit, number, parsed};

/// A call's options; the defaults where none are given.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Urgency.
    priority: Option<i32>,
    /// How long it may take.
    timeout: Option<Duration>,
    /// What 32-bit floats cross the wires as, where the call reduces.
    pub wire: Option<DType>,
    /// Elements of every rank's block.
    pub counts: Option<Vec<u64>>,
    /// Elements of the blocks of this rank's input and output.
    pub input_counts: Option<Vec<u64>>,
    pub output_counts: Option<Vec<u64>>,
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
                "priority" => options.priority = Some(number(&value, "a priority")?),
                "timeout" => options.timeout = limit(value.extract()?)?,
                "wire" => options.wire = Some(parsed(value.extract::<&str>()?)?),
                "counts" => options.counts = Some(counts(&value)?),
                "input_counts" => options.input_counts = Some(counts(&value)?),
                "output_counts" => options.output_counts = Some(counts(&value)?),
                other => return Err(PyTypeError::new_err(format!("no call has the option '{other}'"))),
            }
        }
        Ok(options)
    }

    /// A handle whose calls have these options.
    pub fn handle(&self, communicator: &Communicator, after: &[Ticket]) -> Option<Communicator> {
        let mut handle = None;
        if let Some(priority) = self.priority.filter(|priority| *priority != 0) {
            handle = Some(communicator.priority(priority));
        }
        if let Some(timeout) = self.timeout {
            handle = Some(handle.as_ref().unwrap_or(communicator).deadline(timeout));
        }
        if !after.is_empty() {
            let after: Vec<_> = after.iter().map(|ticket| ticket as &dyn Predecessor).collect();
            handle = Some(handle.as_ref().unwrap_or(communicator).after(&after));
        }
        handle
    }

    /// The counts of the call, taken out; nothing where its blocks are even.
    pub fn take_counts(&mut self) -> Option<Counts> {
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

fn counts(value: &Bound<'_, PyAny>) -> PyResult<Vec<u64>> {
    value.try_iter()?.map(|count| number(&count?, "a count")).collect()
}
