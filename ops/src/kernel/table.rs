//! The dispatch table: for each data type and reduction, the compiled loop that does it.

use super::combine::{
    BitAnd, BitOr, BitXor, Combine, ComplexProduct, DividedSum, LogicalAnd, LogicalOr, LogicalXor, Marks,
    Max, Min, Product, ScaledSum, Sum,
};
use super::fold::{self, Fold};
use super::format::{self, Format, RealFormat, VectorOf, WholeFormat};
use super::level::Level;
use crate::{DType, ReduceOp};

/// What the table holds for a pair.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    pub(super) fold: Fold,
    /// Whether the mark `first` changes a result.
    pub(super) scales: bool,
    /// Whether the mark `finish` changes a result.
    pub(super) finishes: bool,
    /// Whether the result depends on the floating-point environment.
    pub(super) floats: bool,
}

/// The entry of a pair, or `None` where it has no meaning.
pub(super) fn look_up(dtype: DType, op: ReduceOp, level: Level) -> Option<Entry> {
    match dtype {
        DType::I8 => signed::<format::I8, format::U8>(op, level),
        DType::U8 => whole::<format::U8>(op, level),
        DType::I16 => signed::<format::I16, format::U16>(op, level),
        DType::U16 => whole::<format::U16>(op, level),
        DType::I32 => signed::<format::I32, format::U32>(op, level),
        DType::U32 => whole::<format::U32>(op, level),
        DType::I64 => signed::<format::I64, format::U64>(op, level),
        DType::U64 => whole::<format::U64>(op, level),
        DType::F16 => float::<format::F16>(op, level),
        DType::BF16 => float::<format::BF16>(op, level),
        DType::F32 => float::<format::F32>(op, level),
        DType::F64 => float::<format::F64>(op, level),
        // These are read from a table, for which wider instructions do nothing.
        DType::F8E4M3 => float::<format::F8E4M3>(op, Level::Scalar),
        DType::F8E5M2 => float::<format::F8E5M2>(op, Level::Scalar),
        DType::Bool => truth(op, level),
        DType::Complex64 => {
            complex::<format::F32>(op, level, entry::<format::Complex64, ComplexProduct>(level))
        }
        DType::Complex128 => {
            complex::<format::F64>(op, level, entry::<format::Complex128, ComplexProduct>(level))
        }
    }
}

fn whole<F: WholeFormat>(op: ReduceOp, level: Level) -> Option<Entry> {
    Some(match op {
        ReduceOp::Sum => entry::<F, Sum>(level),
        ReduceOp::Product => entry::<F, Product>(level),
        ReduceOp::Min => entry::<F, Min>(level),
        ReduceOp::Max => entry::<F, Max>(level),
        ReduceOp::Average => entry::<F, DividedSum>(level),
        ReduceOp::BitAnd => entry::<F, BitAnd>(level),
        ReduceOp::BitOr => entry::<F, BitOr>(level),
        ReduceOp::BitXor => entry::<F, BitXor>(level),
        ReduceOp::LogicalAnd => entry::<F, LogicalAnd>(level),
        ReduceOp::LogicalOr => entry::<F, LogicalOr>(level),
        ReduceOp::LogicalXor => entry::<F, LogicalXor>(level),
        ReduceOp::PreMulSum(_) => entry::<F, ScaledSum>(level),
    })
}

/// Only order and division tell `F` from the unsigned type of its width.
fn signed<F: WholeFormat, Unsigned: WholeFormat>(op: ReduceOp, level: Level) -> Option<Entry> {
    Some(match op {
        ReduceOp::Min => entry::<F, Min>(level),
        ReduceOp::Max => entry::<F, Max>(level),
        ReduceOp::Average => entry::<F, DividedSum>(level),
        _ => return whole::<Unsigned>(op, level),
    })
}

fn float<F: RealFormat>(op: ReduceOp, level: Level) -> Option<Entry> {
    let entry = match op {
        ReduceOp::Sum => entry::<F, Sum>(level),
        ReduceOp::Product => entry::<F, Product>(level),
        ReduceOp::Min => entry::<F, Min>(level),
        ReduceOp::Max => entry::<F, Max>(level),
        ReduceOp::Average | ReduceOp::PreMulSum(_) => entry::<F, ScaledSum>(level),
        ReduceOp::LogicalAnd => entry::<F, LogicalAnd>(level),
        ReduceOp::LogicalOr => entry::<F, LogicalOr>(level),
        ReduceOp::LogicalXor => entry::<F, LogicalXor>(level),
        ReduceOp::BitAnd | ReduceOp::BitOr | ReduceOp::BitXor => return None,
    };
    Some(Entry { floats: true, ..entry })
}

/// Finishing makes 0 and 1 of other bytes even where there was nothing to combine.
fn truth(op: ReduceOp, level: Level) -> Option<Entry> {
    let entry = match op {
        ReduceOp::Product | ReduceOp::Min | ReduceOp::BitAnd | ReduceOp::LogicalAnd => {
            entry::<format::Bool, BitAnd>(level)
        }
        ReduceOp::Sum | ReduceOp::Max | ReduceOp::BitOr | ReduceOp::LogicalOr => {
            entry::<format::Bool, BitOr>(level)
        }
        ReduceOp::BitXor | ReduceOp::LogicalXor => entry::<format::Bool, BitXor>(level),
        ReduceOp::Average | ReduceOp::PreMulSum(_) => return None,
    };
    Some(Entry { finishes: true, ..entry })
}

/// Sums go by components, which are reals of `Part`.
fn complex<Part: RealFormat>(op: ReduceOp, level: Level, product: Entry) -> Option<Entry> {
    match op {
        ReduceOp::Sum | ReduceOp::Average | ReduceOp::PreMulSum(_) => float::<Part>(op, level),
        ReduceOp::Product => Some(Entry { floats: true, ..product }),
        _ => None,
    }
}

fn entry<F, C>(level: Level) -> Entry
where
    F: Format,
    C: Marks + Combine<VectorOf<F::Scalar>> + Combine<VectorOf<F::Avx2>> + Combine<VectorOf<F::Avx512>>,
{
    let fold: Fold = match level {
        Level::Scalar => fold::scalar::<F::Scalar, C>,
        #[cfg(target_arch = "x86_64")]
        Level::Avx2 => fold::avx2::<F::Avx2, F::Scalar, C>,
        #[cfg(target_arch = "x86_64")]
        Level::Avx512 => fold::avx512::<F::Avx512, C>,
        #[cfg(not(target_arch = "x86_64"))]
        Level::Avx2 | Level::Avx512 => fold::scalar::<F::Scalar, C>,
    };
    Entry { fold, scales: C::SCALES, finishes: C::FINISHES, floats: false }
}
