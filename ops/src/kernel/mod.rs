//! [`Kernel`]: one data type and one reduction, looked up once and then run on spans.

use crate::{DType, RawSpan, ReduceOp};

/// A reduction that does not exist for a data type.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{op} of {dtype} is not supported; {dtype} supports {supported}")]
pub struct UnsupportedReduction {
    /// The data type asked for.
    pub dtype: DType,
    /// The reduction asked for.
    pub op: ReduceOp,
    /// Names of the reductions that the type has, comma-separated.
    pub supported: String,
}

/// One source of a fold.
#[derive(Clone, Copy, Debug)]
pub struct Operand {
    /// Its elements.
    pub span: RawSpan,
    /// Whether these are a rank's own contribution, not yet scaled: `Average` of floats and `PreMulSum` scale it as
    /// it is read.
    pub first: bool,
}

/// The arithmetic of one (data type, reduction, world size).
#[derive(Clone, Copy, Debug)]
pub struct Kernel {
    dtype: DType,
    op: ReduceOp,
    world: usize,
}

impl Kernel {
    /// Looks the pair up.
    ///
    /// # Errors
    /// [`UnsupportedReduction`] where the pair has no meaning, such as `min` of complex numbers.
    pub fn new(dtype: DType, op: ReduceOp, world: usize) -> Result<Kernel, UnsupportedReduction> {
        Ok(Kernel { dtype, op, world })
    }

    /// Folds `operands` left to right in the accumulate type, divides by the world size where `finish` is set and
    /// the reduction is an integer average, rounds once, and stores the result in every sink.
    ///
    /// All spans have the same number of bytes, a multiple of the element size, at any alignment. A sink may be
    /// exactly one of the operands; spans overlap in no other way. One operand and nothing to scale is a copy.
    pub fn fold(&self, operands: &[Operand], sinks: &[RawSpan], finish: bool) {
        let _ = (self.dtype, self.op, self.world, operands, sinks, finish);
        unimplemented!("the ops helper writes this")
    }
}
