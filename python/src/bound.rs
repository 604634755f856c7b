//! [`Given`]: the buffers of one call, each a [`Side`] of it, or a list of them.

use std::sync::Arc;

use hcomm::ops::RawSpan;
use hcomm::ops::buffer::{Claim, Landing, Narrowed, Takeoff, Widened};
use hcomm::{
    Apart, Binding, Buffers, Collective, DType, InPlace, InputOnly, Joined, Lists, Nothing, OutputOnly, Rank,
    Refused, Spans, StableBuffer,
};
use pyo3::prelude::*;

use crate::lent::Lent;
use crate::scratch::Scratch;
use crate::statistics::Overflows;

/// A buffer of a call: an array's memory, or that memory in fewer or more bits.
pub enum Side {
    /// As it is.
    Direct(Lent),
    /// In the precision of the wire.
    Narrowed(Narrowed<Lent>),
    /// With room for the sum.
    Widened(Widened<Lent>),
}

// SAFETY: all kinds are stable buffers.
unsafe impl StableBuffer for Side {
    fn dtype(&self) -> DType {
        match self {
            Side::Direct(lent) => lent.dtype(),
            Side::Narrowed(narrowed) => narrowed.dtype(),
            Side::Widened(widened) => widened.dtype(),
        }
    }

    fn span(&mut self) -> RawSpan {
        match self {
            Side::Direct(lent) => lent.span(),
            Side::Narrowed(narrowed) => narrowed.span(),
            Side::Widened(widened) => widened.span(),
        }
    }

    fn takeoff(&mut self) -> Option<Takeoff> {
        match self {
            Side::Direct(lent) => lent.takeoff(),
            Side::Narrowed(narrowed) => narrowed.takeoff(),
            Side::Widened(widened) => widened.takeoff(),
        }
    }

    fn landing(&mut self) -> Option<Landing> {
        match self {
            Side::Direct(lent) => lent.landing(),
            Side::Narrowed(narrowed) => narrowed.landing(),
            Side::Widened(widened) => widened.landing(),
        }
    }
}

/// The buffers of a call, in one of the ways in which it may be made.
pub enum Given {
    /// One that is input and output.
    InPlace(InPlace<Side>),
    /// Input and output.
    Apart(Apart<Side, Side>),
    /// Only an input.
    Input(InputOnly<Side>),
    /// Only an output.
    Output(OutputOnly<Side>),
    /// None.
    Nothing(Nothing),
    /// Several in place, as one.
    Joined(Joined<Side>),
    /// Input and output, at least one of them in several.
    Lists(Lists<Side, Side>),
}

/// What is known of a call when its buffers are bound.
pub struct Binder<'a> {
    /// Which call it is.
    pub collective: Collective,
    /// What 32-bit floats cross the wires as.
    pub wire: Option<DType>,
    /// Whether it averages.
    pub averages: bool,
    /// Where elements that are too large for the wire are counted.
    pub overflows: &'a Overflows,
    /// This rank.
    pub rank: Rank,
    /// Ranks there are.
    pub world: usize,
    /// Memory for copies.
    pub scratch: &'a Arc<Scratch>,
}

impl Binder<'_> {
    /// The buffers of a call in place.
    pub fn in_place(&self, both: Vec<Lent>) -> Given {
        match one(both) {
            Ok(both) => Given::InPlace(InPlace(self.side(both))),
            Err(both) => Given::Joined(Joined(self.sides(both))),
        }
    }

    /// The buffers of a call that is given them apart; by how they lie it may be in place all the same.
    ///
    /// # Errors
    /// Where there is no memory for a copy.
    pub fn apart(&self, input: Option<Vec<Lent>>, output: Option<Vec<Lent>>) -> PyResult<Given> {
        Ok(match (input.map(one), output.map(one)) {
            (None, None) => Given::Nothing(Nothing),
            (Some(Ok(input)), None) => Given::Input(InputOnly(self.side(input))),
            (None, Some(Ok(output))) => Given::Output(OutputOnly(self.side(output))),
            (Some(Ok(input)), Some(Ok(output))) => match self.whole_in_place(&input, &output) {
                None => Given::Apart(Apart(self.side(input), self.side(output))),
                Some(Whole::Output) => Given::InPlace(InPlace(self.side(output))),
                Some(Whole::Input) => Given::InPlace(InPlace(self.side(input))),
            },
            (input, output) => {
                let output = output.map_or_else(Vec::new, several);
                let input = self.out_of_the_way(input.map_or_else(Vec::new, several), &output)?;
                Given::Lists(Lists(self.sides(input), self.sides(output)))
            }
        })
    }

    /// Inputs, copied where they share bytes with outputs: a rank's own block may be both.
    fn out_of_the_way(&self, input: Vec<Lent>, output: &[Lent]) -> PyResult<Vec<Lent>> {
        let is_written = |lent: &Lent| output.iter().any(|output| output.overlaps(lent));
        let moved = |lent: Lent| if is_written(&lent) { lent.copied(self.scratch) } else { Ok(lent) };
        input.into_iter().map(moved).collect()
    }

    /// Whether a call on two views is in place: they are the same memory, or one is this rank's own block of the other.
    fn whole_in_place(&self, input: &Lent, output: &Lent) -> Option<Whole> {
        let Binder { rank, world, .. } = *self;
        match self.collective {
            Collective::AllGather if output.has_block(input, rank, world) => Some(Whole::Output),
            Collective::ReduceScatter if input.has_block(output, rank, world) => Some(Whole::Input),
            Collective::AllReduce | Collective::Broadcast | Collective::Reduce | Collective::AllToAll => {
                input.is_same(output).then_some(Whole::Output)
            }
            _ => None,
        }
    }

    fn side(&self, lent: Lent) -> Side {
        let sided = match self.wire.filter(|_| lent.dtype() == DType::F32) {
            Some(wire) => Narrowed::new(lent, wire).map(|narrowed| {
                Side::Narrowed(narrowed.counted_by(self.overflows.counter(self.collective.name())))
            }),
            None if self.averages => Widened::new(lent).map(Side::Widened),
            None => Err(lent),
        };
        sided.unwrap_or_else(Side::Direct)
    }

    fn sides(&self, list: Vec<Lent>) -> Vec<Side> {
        list.into_iter().map(|lent| self.side(lent)).collect()
    }
}

/// The buffer that has the other one within it.
enum Whole {
    Input,
    Output,
}

/// The one of a list, or the list.
fn one(list: Vec<Lent>) -> Result<Lent, Vec<Lent>> {
    <[Lent; 1]>::try_from(list).map(|[one]| one)
}

/// The list again.
fn several(list: Result<Lent, Vec<Lent>>) -> Vec<Lent> {
    list.map_or_else(|list| list, |one| vec![one])
}

/// The same expression for whichever it is.
macro_rules! whichever {
    ($given:expr, $buffers:ident => $expression:expr) => {
        match $given {
            Given::InPlace($buffers) => $expression,
            Given::Apart($buffers) => $expression,
            Given::Input($buffers) => $expression,
            Given::Output($buffers) => $expression,
            Given::Nothing($buffers) => $expression,
            Given::Joined($buffers) => $expression,
            Given::Lists($buffers) => $expression,
        }
    };
}

impl Buffers for Given {
    type Returned = ();

    fn dtype(&self) -> Result<Option<DType>, Refused> {
        whichever!(self, buffers => buffers.dtype())
    }

    fn spans(&mut self, binding: Binding) -> Result<Spans, Refused> {
        whichever!(self, buffers => buffers.spans(binding))
    }

    fn claims(&self) -> Vec<Claim> {
        whichever!(self, buffers => buffers.claims())
    }

    fn takeoff(&mut self) -> Option<Takeoff> {
        whichever!(self, buffers => buffers.takeoff())
    }

    fn landing(&mut self, binding: Binding) -> Option<Landing> {
        whichever!(self, buffers => buffers.landing(binding))
    }

    fn into_returned(self) {}
}
