//! [`Class`]: what a table is kept for.

use hcomm_ops::{DType, ReduceOp};

use crate::algorithm::{Call, Variant, is_eight_bit_float};
use crate::request::Collective;
use crate::topology::Topology;

/// Everything of a call, size aside, that decides which algorithms can serve it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Class {
    pub collective: Collective,
    variant: Variant,
    /// Each element may be rounded only once.
    round_once: bool,
    deterministic: bool,
}

impl Class {
    pub fn of(call: &Call<'_>) -> Class {
        let round_once = call.collective.reduces() && is_eight_bit_float(call.dtype);
        let deterministic = call.deterministic && call.collective.reduces();
        Class { collective: call.collective, variant: call.variant, round_once, deterministic }
    }

    /// Calls of equal counts, whose elements are rounded as the algorithm likes.
    pub fn plain(collective: Collective) -> Class {
        Class { collective, variant: Variant::Even, round_once: false, deterministic: false }
    }

    /// The same, folded in rank order.
    pub fn deterministic(self, deterministic: bool) -> Class {
        Class { deterministic: deterministic && self.collective.reduces(), ..self }
    }

    /// All classes of a collective.
    pub fn all(collective: Collective) -> impl Iterator<Item = Class> {
        let variants = [Variant::Even, Variant::Listed, Variant::Local];
        let flags = match collective.reduces() {
            true => &[(false, false), (false, true), (true, false), (true, true)][..],
            false => &[(false, false)],
        };
        variants.into_iter().flat_map(move |variant| {
            flags.iter().map(move |(round_once, deterministic)| Class {
                collective,
                variant,
                round_once: *round_once,
                deterministic: *deterministic,
            })
        })
    }

    /// A call of the class.
    pub fn example<'a>(&self, topology: &'a Topology) -> Call<'a> {
        Call {
            collective: self.collective,
            dtype: if self.round_once { DType::F8E4M3 } else { DType::F32 },
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
