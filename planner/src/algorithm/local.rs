//! A world of one rank: the input is the result, whatever the algorithm.

use crate::graph::Builder;
use crate::plan::Span;

/// Copies the one input block to the output.
pub(super) fn build(b: &mut Builder) {
    b.copy(Span::input(0), Span::output(0));
}
