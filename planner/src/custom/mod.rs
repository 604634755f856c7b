//! [`PlanBuilder`]: a plan of one's own, written as one program over the chunks of all ranks. It becomes each rank's slice by the
//! same passes as the algorithms of the list, and is verified before anyone gets it.
//!
//! `place` has the words for chunks, `check` refuses a step by itself, `lower` carries the program out symbolically and
//! deals it to the ranks, `build` compiles and verifies. The executor runs the result by `submit`, like any plan.

mod build;
mod check;
mod error;
mod lower;
mod place;
#[cfg(test)]
mod random_tests;
#[cfg(test)]
mod tests;
mod values;

pub use error::{CustomError, StepFault};
pub use place::{Chunks, Place, input, output, scratch};

use std::borrow::Borrow;
use std::fmt;

use hcomm_ops::Rank;

use crate::plan::MAX_CHANNELS;
use crate::request::Collective;

/// Most chunks in the inputs and outputs of all ranks together.
pub(crate) const MAX_CHUNKS: usize = 1 << 21;

/// Most stages of a program.
pub(crate) const MAX_STAGES: usize = 64;

/// Writes a plan as a sequence of steps over the chunks of all ranks, in an order in which one could carry them out one
/// by one. What does not depend on each other runs at the same time; steps are fused where they follow one another on a rank.
///
/// A step within a rank is a copy or a fold; between ranks it is a send on one side and a receive (and a fold) on the
/// other. All chunks are cut into tiles at run time, so that a plan serves every size. The blocks of a call must be equally long.
///
/// An all_reduce of two ranks that nobody would want, but short: rank 1 folds both halves.
///
/// ```
/// # use hcomm_planner as hcomm;
/// use hcomm::custom::{PlanBuilder, input, output, scratch};
/// use hcomm::{Collective, Topology};
///
/// let mut plan = PlanBuilder::new("to_the_right_and_back", Collective::AllReduce, 2).parts(2);
/// plan.copy(input(0, 0..2), scratch(1, 0..2)); // rank 0 sends its two chunks, rank 1 puts them by
/// plan.fold([scratch(1, 0..2), input(1, 0..2)], output(1, 0..2));
/// plan.stage(); // a phase with lanes and a channel of its own
/// plan.copy(output(1, 0..2), output(0, 0..2));
/// let slices = plan.build(&Topology::single_host(2))?;
/// assert_eq!(slices[1].nodes.len(), 2); // receive and fold, then send
/// # Ok::<(), hcomm::custom::CustomError>(())
/// ```
#[derive(Clone, Debug)]
pub struct PlanBuilder {
    name: String,
    collective: Collective,
    world: usize,
    root: Rank,
    parts: usize,
    steps: Vec<Step>,
    stage: usize,
}

/// One step: sources, folded left to right, into one place.
#[derive(Clone, Debug)]
struct Step {
    sources: Vec<Place>,
    to: Place,
    /// What the place holds already is folded in first.
    adds: bool,
    channel: usize,
    stage: usize,
}

/// A step that was just written.
#[derive(Debug)]
pub struct Written<'a>(&'a mut Step);

impl Written<'_> {
    /// Its messages take channel `index` of their pair instead of the stage's. The messages of a channel keep their order; those
    /// of different channels do not wait for one another.
    pub fn on(self, index: usize) {
        self.0.channel = index;
    }
}

impl PlanBuilder {
    /// An empty program of `world` ranks for `collective`, with one chunk per block. `name` is what drawings and errors call it.
    pub fn new(name: &str, collective: Collective, world: usize) -> PlanBuilder {
        PlanBuilder {
            name: name.to_owned(),
            collective,
            world,
            root: 0,
            parts: 1,
            steps: Vec::new(),
            stage: 0,
        }
    }

    /// Cuts every block into `parts` chunks, as evenly as the count allows.
    #[must_use]
    pub fn parts(self, parts: usize) -> PlanBuilder {
        PlanBuilder { parts, ..self }
    }

    /// The root of a collective that has one; 0 unless given.
    #[must_use]
    pub fn root(self, root: Rank) -> PlanBuilder {
        PlanBuilder { root, ..self }
    }

    /// Copies `from` to `to`, as many chunks.
    pub fn copy(&mut self, from: Place, to: Place) -> Written<'_> {
        self.step(vec![from], to, false)
    }

    /// Folds one place, or several, left to right, into what `into` holds already: `into + a + b`.
    pub fn reduce(&mut self, from: impl IntoIterator<Item = impl Borrow<Place>>, into: Place) -> Written<'_> {
        self.step(from.into_iter().map(|place| *place.borrow()).collect(), into, true)
    }

    /// Puts the fold of several places, left to right, into `to`, whatever that held: `a + b + c`. All at once, it is
    /// rounded once.
    pub fn fold(&mut self, from: impl IntoIterator<Item = impl Borrow<Place>>, to: Place) -> Written<'_> {
        self.step(from.into_iter().map(|place| *place.borrow()).collect(), to, false)
    }

    /// What follows is a stage of its own: not fused with what came before, so that its lanes may work on earlier tiles while those
    /// before it are on later ones. Its messages take a channel of their own (of the stage's number, modulo the number of channels), unless a step says another.
    pub fn stage(&mut self) {
        self.stage += 1;
    }

    fn step(&mut self, sources: Vec<Place>, to: Place, adds: bool) -> Written<'_> {
        let at = self.steps.len();
        let channel = self.stage % MAX_CHANNELS;
        self.steps.push(Step { sources, to, adds, channel, stage: self.stage });
        Written(&mut self.steps[at])
    }
}

/// One place is a list of one.
impl IntoIterator for Place {
    type Item = Place;
    type IntoIter = std::iter::Once<Place>;

    fn into_iter(self) -> Self::IntoIter {
        std::iter::once(self)
    }
}

impl Step {
    /// All that it reads, in the order of the fold.
    fn operands(&self) -> Vec<Place> {
        self.adds.then_some(self.to).into_iter().chain(self.sources.iter().copied()).collect()
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sources: Vec<_> = self.sources.iter().map(Place::to_string).collect();
        let (what, into) = match (self.adds, sources.len()) {
            (true, _) => ("reduce", "into"),
            (false, 1) => ("copy", "to"),
            (false, _) => ("fold", "to"),
        };
        write!(f, "{what} {} {into} {}", sources.join(" and "), self.to)
    }
}
