//! [`Operands`]: what a step folds, chunk by chunk, and the [`Draft`] of a node that comes of it.
//!
//! How many contributions each chunk holds says where average and pre-multiplied sum do their extra work, as `pass/mark.rs` does
//! for built plans.

use std::fmt::Display;

use super::Outline;
use super::storage::{Value, Where};
use crate::import::ImportError;

/// A node before it has a number.
#[derive(Clone, Debug)]
pub(crate) struct Draft<S> {
    /// The element that it comes from.
    pub spot: S,
    pub lane: usize,
    pub sources: Vec<Origin>,
    pub sinks: Vec<Target>,
    /// Chunks of each.
    pub count: u32,
    pub finish: bool,
    /// Drafts of the same gpu, by their place in its list.
    pub deps: Vec<usize>,
}

/// What a draft folds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    Span { at: Where, first: bool },
    Message { fifo: usize, first: bool },
}

/// Where a draft stores its result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    Span(Where),
    Message(usize),
}

impl<S> Draft<S> {
    /// A copy of one chunk that comes before the steps.
    pub fn copy(spot: S, from: Where, to: Where) -> Draft<S> {
        let (sources, sinks) = (vec![Origin::Span { at: from, first: false }], vec![Target::Span(to)]);
        Draft { spot, lane: 0, sources, sinks, count: 1, finish: false, deps: Vec::new() }
    }

    /// Whether it lends bytes to a peer, as `Plan::lends` says.
    pub fn lends(&self) -> bool {
        let sends = self.sinks.iter().any(|sink| matches!(sink, Target::Message(_)));
        sends && matches!(self.sources[..], [Origin::Span { .. }])
    }
}

/// What a step folds: each operand with its chunks' values.
#[derive(Clone, Debug, Default)]
pub(crate) struct Operands {
    list: Vec<(Origin, Vec<Value>)>,
}

/// What comes of a fold.
pub(crate) struct Folded {
    pub sources: Vec<Origin>,
    pub values: Vec<Value>,
    /// The last contribution is in.
    pub finish: bool,
}

impl Operands {
    pub fn add(&mut self, origin: Origin, values: Vec<Value>) {
        self.list.push((origin, values));
    }

    /// Folds from left to right.
    pub fn fold(self, spot: impl Display + Copy, outline: &Outline) -> Result<Folded, ImportError> {
        let marks = outline.collective.reduces() && self.list.len() > 1;
        let values = self.sums(spot)?;
        let is_complete = |value: &Value| value.contributions == outline.world as u64;
        let finish = marks && uniform(spot, &values, "complete", is_complete)?;
        let mut sources = Vec::with_capacity(self.list.len());
        for (origin, values) in self.list {
            let is_raw =
                marks && uniform(spot, &values, "a rank's own contribution", |v| v.contributions == 1)?;
            sources.push(origin.marked(is_raw));
        }
        Ok(Folded { sources, values, finish })
    }

    fn sums(&self, spot: impl Display + Copy) -> Result<Vec<Value>, ImportError> {
        let Some(((_, first), others)) = self.list.split_first() else { return Ok(Vec::new()) };
        let mut sums = first.clone();
        for (sum, value) in others.iter().flat_map(|(_, values)| (0..).zip(values)) {
            let sum: &mut Value = &mut sums[sum];
            if sum.part != value.part {
                let reason = format!(
                    "it folds part {} of a block with part {}; expected the same",
                    sum.part, value.part
                );
                return Err(ImportError::at(spot, reason));
            }
            sum.contributions = sum.contributions.saturating_add(value.contributions);
            sum.first_rank = sum.first_rank.min(value.first_rank);
        }
        Ok(sums)
    }
}

impl Origin {
    fn marked(self, raw: bool) -> Origin {
        match self {
            Origin::Span { at, .. } => Origin::Span { at, first: raw },
            Origin::Message { fifo, .. } => Origin::Message { fifo, first: raw },
        }
    }
}

/// Whether all chunks of a step are such, or none: a node has one mark for all.
fn uniform(
    spot: impl Display + Copy,
    values: &[Value],
    what: &str,
    is: impl Fn(&Value) -> bool,
) -> Result<bool, ImportError> {
    let first = values.first().is_some_and(&is);
    match values.iter().position(|value| is(value) != first) {
        None => Ok(first),
        Some(other) => {
            let not = if first { "not " } else { "" };
            let reason = format!(
                "its chunk {other} is {not}{what}, unlike its first; expected steps of one kind of chunk"
            );
            Err(ImportError::at(spot, reason))
        }
    }
}
