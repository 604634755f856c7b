//! [`Class`]: what a table is kept for.

use hcomm_ops::{DType, ReduceOp};

use crate::algorithm::{Call, Variant, is_eight_bit_float, is_narrow};
use crate::request::Collective;
use crate::topology::Topology;

/// Everything of a call, size aside, that decides which algorithms can serve it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Class {
    pub collective: Collective,
    variant: Variant,
    precision: Precision,
    deterministic: bool,
}

/// What a partial loses when it crosses a wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Precision {
    /// Nothing that folding it would keep.
    Full,
    /// It is rounded to its type.
    Narrow,
    /// So much that it may happen only once.
    RoundOnce,
}

impl Class {
    pub fn of(call: &Call<'_>) -> Class {
        let precision = match call.dtype {
            dtype if !call.collective.reduces() || call.op.is_exact(dtype) => Precision::Full,
            dtype if is_eight_bit_float(dtype) => Precision::RoundOnce,
            dtype if is_narrow(dtype) => Precision::Narrow,
            _ => Precision::Full,
        };
        let deterministic = call.deterministic && call.collective.reduces();
        Class { collective: call.collective, variant: call.variant, precision, deterministic }
    }

    /// Calls of equal counts, whose elements are rounded as the algorithm likes.
    pub fn plain(collective: Collective) -> Class {
        Class { collective, variant: Variant::Even, precision: Precision::Full, deterministic: false }
    }

    /// The same, folded in rank order.
    pub fn deterministic(self, deterministic: bool) -> Class {
        Class { deterministic: deterministic && self.collective.reduces(), ..self }
    }

    /// All classes of a collective.
    pub fn all(collective: Collective) -> impl Iterator<Item = Class> {
        let precisions = match collective.reduces() {
            true => &[Precision::Full, Precision::Narrow, Precision::RoundOnce][..],
            false => &[Precision::Full],
        };
        let orders = if collective.reduces() { &[false, true][..] } else { &[false] };
        let variants = [Variant::Even, Variant::Listed, Variant::Local];
        variants.into_iter().flat_map(move |variant| {
            precisions.iter().flat_map(move |precision| {
                orders.iter().map(move |deterministic| {
                    let (precision, deterministic) = (*precision, *deterministic);
                    Class { collective, variant, precision, deterministic }
                })
            })
        })
    }

    /// A call of the class.
    pub fn example<'a>(&self, topology: &'a Topology) -> Call<'a> {
        Call {
            collective: self.collective,
            dtype: match self.precision {
                Precision::Full => DType::F32,
                Precision::Narrow => DType::BF16,
                Precision::RoundOnce => DType::F8E4M3,
            },
            op: ReduceOp::Sum,
            root: 0,
            variant: self.variant,
            world: topology.world(),
            topology,
            deterministic: self.deterministic,
            channels: 1,
            pair: None,
        }
    }
}
