//! The reductions.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::str::FromStr;

use crate::DType;

/// How contributions are combined, element by element.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ReduceOp {
    /// Sum; wraps for integers, `or` for bool.
    Sum,
    /// Product; wraps for integers, `and` for bool.
    Product,
    /// Smallest; a NaN from any rank gives NaN, -0 is below +0.
    Min,
    /// Largest; a NaN from any rank gives NaN, +0 is above -0.
    Max,
    /// Sum divided by the number of ranks. Floats are scaled by 1/n as each contribution is read;
    /// the integer sum, which wraps, is divided once at the end, toward zero: [`Widened`](crate::buffer::Widened) makes room for it.
    Average,
    /// Bitwise and, integers and bool.
    BitAnd,
    /// Bitwise or, integers and bool.
    BitOr,
    /// Bitwise exclusive or, integers and bool.
    BitXor,
    /// Logical and: 1 where every contribution is non-zero.
    LogicalAnd,
    /// Logical or: 1 where any contribution is non-zero.
    LogicalOr,
    /// Logical exclusive or: 1 where an odd number of contributions are non-zero.
    LogicalXor,
    /// Sum of contributions, each first multiplied by the factor.
    PreMulSum(Factor),
}

/// The factor of [`ReduceOp::PreMulSum`]; compared and hashed by its bits.
#[derive(Clone, Copy, Debug)]
pub struct Factor(pub f64);

impl PartialEq for Factor {
    fn eq(&self, other: &Self) -> bool {
        self.0.to_bits() == other.0.to_bits()
    }
}

impl Eq for Factor {}

impl Hash for Factor {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.to_bits().hash(state);
    }
}

impl ReduceOp {
    /// One of each reduction; the pre-multiplied sum with factor 0.5.
    pub const ALL: [ReduceOp; 12] = [
        ReduceOp::Sum,
        ReduceOp::Product,
        ReduceOp::Min,
        ReduceOp::Max,
        ReduceOp::Average,
        ReduceOp::BitAnd,
        ReduceOp::BitOr,
        ReduceOp::BitXor,
        ReduceOp::LogicalAnd,
        ReduceOp::LogicalOr,
        ReduceOp::LogicalXor,
        ReduceOp::PreMulSum(Factor(0.5)),
    ];

    /// The name used on the command line and in errors, such as `sum`.
    pub const fn name(self) -> &'static str {
        match self {
            ReduceOp::Sum => "sum",
            ReduceOp::Product => "product",
            ReduceOp::Min => "min",
            ReduceOp::Max => "max",
            ReduceOp::Average => "average",
            ReduceOp::BitAnd => "band",
            ReduceOp::BitOr => "bor",
            ReduceOp::BitXor => "bxor",
            ReduceOp::LogicalAnd => "land",
            ReduceOp::LogicalOr => "lor",
            ReduceOp::LogicalXor => "lxor",
            ReduceOp::PreMulSum(_) => "premulsum",
        }
    }

    /// Whether the result has the same bits in whatever order and groups the contributions are folded, and stored in
    /// between: what only selects among them or their bits rounds nothing, and integers and bool wrap.
    pub const fn is_exact(self, dtype: DType) -> bool {
        match self {
            ReduceOp::Sum | ReduceOp::Product | ReduceOp::Average | ReduceOp::PreMulSum(_) => !dtype.rounds(),
            ReduceOp::Min | ReduceOp::Max => true,
            ReduceOp::BitAnd | ReduceOp::BitOr | ReduceOp::BitXor => true,
            ReduceOp::LogicalAnd | ReduceOp::LogicalOr | ReduceOp::LogicalXor => true,
        }
    }
}

impl fmt::Display for ReduceOp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReduceOp::PreMulSum(factor) => f.pad(&format!("premulsum({})", factor.0)),
            other => f.pad(other.name()),
        }
    }
}

/// A name that is no [`ReduceOp`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown reduction '{0}'; expected one of {names}, or premulsum:FACTOR", names = ReduceOp::ALL.map(ReduceOp::name).join(", "))]
pub struct UnknownReduceOp(pub String);

impl FromStr for ReduceOp {
    type Err = UnknownReduceOp;

    fn from_str(name: &str) -> Result<Self, UnknownReduceOp> {
        if let Some(factor) = name.strip_prefix("premulsum:") {
            let factor: f64 = factor.parse().map_err(|_| UnknownReduceOp(name.to_owned()))?;
            return Ok(ReduceOp::PreMulSum(Factor(factor)));
        }
        ReduceOp::ALL.into_iter().find(|op| op.name() == name).ok_or_else(|| UnknownReduceOp(name.to_owned()))
    }
}
