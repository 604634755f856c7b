//! Which algorithm serves a call: what each one costs, and the table that a call is looked up in.

mod cost;
mod explain;
mod work;

pub use cost::{Costs, Line, LinkCost};
pub use explain::explain;
pub use work::{PerLink, Work};

use std::collections::HashMap;

use hcomm_ops::{DType, ReduceOp};

use crate::algorithm::{
    ALGORITHMS, Algorithm, Call, Pair, Variant, accumulates_in_itself, is_eight_bit_float,
};
use crate::request::Collective;
use crate::topology::Topology;

/// An algorithm and its parameters: what a call is compiled by.
#[derive(Clone, Copy, Debug)]
pub struct Candidate {
    /// The algorithm.
    pub algorithm: &'static Algorithm,
    /// Channels that it spreads its bytes over.
    pub channels: u8,
    /// What it is made of, where it is made of two others.
    pub pair: Option<Pair>,
}

impl Candidate {
    /// All candidates of all algorithms, supported or not.
    pub fn all() -> impl Iterator<Item = Candidate> {
        ALGORITHMS.iter().flat_map(Candidate::of)
    }

    /// All candidates of one algorithm: every number of channels, made of every pair of its list.
    pub fn of(algorithm: &'static Algorithm) -> impl Iterator<Item = Candidate> {
        let none = algorithm.pairs.is_empty().then_some(None);
        let pairs = none.into_iter().chain(algorithm.pairs.iter().copied().map(Some));
        pairs.flat_map(move |pair| {
            algorithm.channels.iter().map(move |channels| Candidate { algorithm, channels: *channels, pair })
        })
    }

    /// The call as this candidate carries it out.
    pub fn apply<'a>(&self, call: &Call<'a>) -> Call<'a> {
        call.with_channels(self.channels).with_pair(self.pair)
    }

    /// Whether it can serve a call; the error says why not.
    pub fn supports(&self, call: &Call<'_>) -> Result<(), String> {
        self.algorithm.supports(&self.apply(call))
    }

    /// What it asks of the busiest rank.
    pub fn work(&self, call: &Call<'_>) -> Work {
        self.algorithm.work(&self.apply(call))
    }
}

impl PartialEq for Candidate {
    fn eq(&self, other: &Candidate) -> bool {
        let key = |c: &Candidate| (c.algorithm.name, c.channels, c.pair);
        key(self) == key(other)
    }
}

impl std::fmt::Display for Candidate {
    /// As a request pins it: `ring`; `hierarchical(direct,ring)` where it is made of two; `multi_ring:2` where it has a
    /// choice of channels.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let pair = self.pair.map_or_else(String::new, |pair| format!("({pair})"));
        match self.algorithm.channels {
            [_] => f.pad(&format!("{}{pair}", self.algorithm.name)),
            _ => f.pad(&format!("{}{pair}:{}", self.algorithm.name, self.channels)),
        }
    }
}

/// The best candidate for every size of one class of call.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Thresholds {
    /// (smallest bytes, candidate), ascending; the first one begins at 0.
    steps: Vec<(u64, Candidate)>,
}

impl Thresholds {
    /// The lower envelope of the lines, each the cost of a candidate.
    fn envelope(lines: &[(Candidate, Line)]) -> Thresholds {
        let key = |line: &Line| (line.fixed_ns, line.byte_ns);
        let least = lines
            .iter()
            .min_by(|(_, a), (_, b)| key(a).partial_cmp(&key(b)).unwrap_or(std::cmp::Ordering::Equal));
        let mut steps = Vec::new();
        let mut best = least.map(|(candidate, line)| (0, *candidate, *line));
        while let Some((from, candidate, line)) = best {
            steps.push((from, candidate));
            best = next_crossing(lines, &line, from);
        }
        Thresholds { steps }
    }

    /// The best candidate at so many bytes.
    pub fn at(&self, bytes: u64) -> Option<Candidate> {
        let after = self.steps.partition_point(|(from, _)| *from <= bytes);
        self.steps[..after].last().map(|(_, candidate)| *candidate)
    }

    /// (smallest bytes, the candidate that is best from there on), ascending.
    pub fn steps(&self) -> impl Iterator<Item = (u64, Candidate)> + '_ {
        self.steps.iter().copied()
    }
}

/// Where a line that grows more slowly first goes below this one: (bytes, candidate, line).
fn next_crossing(lines: &[(Candidate, Line)], line: &Line, from: u64) -> Option<(u64, Candidate, Line)> {
    let slower = lines.iter().filter(|(_, other)| other.byte_ns < line.byte_ns);
    let crossings = slower.map(|(candidate, other)| {
        let bytes = (other.fixed_ns - line.fixed_ns) / (line.byte_ns - other.byte_ns);
        ((bytes.ceil() as u64).max(from + 1), *candidate, *other)
    });
    let order = |a: &(u64, Candidate, Line), b: &(u64, Candidate, Line)| {
        a.0.cmp(&b.0).then(a.2.byte_ns.total_cmp(&b.2.byte_ns))
    };
    crossings.min_by(order).filter(|(bytes, ..)| *bytes < u64::MAX)
}

/// What a table is kept for: everything of a call, size aside, that decides which algorithms can serve it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Class {
    collective: Collective,
    variant: Variant,
    precision: Precision,
    deterministic: bool,
}

/// What storing or sending a partial result does to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Precision {
    /// Nothing; or nothing is reduced.
    Kept,
    /// It is rounded.
    Rounded,
    /// It would be rounded too coarsely: each element may be rounded only once.
    RoundedOnce,
}

impl Class {
    fn of(call: &Call<'_>) -> Class {
        let precision = match call.dtype {
            _ if !call.collective.reduces() => Precision::Kept,
            dtype if is_eight_bit_float(dtype) => Precision::RoundedOnce,
            dtype if accumulates_in_itself(dtype) => Precision::Kept,
            _ => Precision::Rounded,
        };
        let Call { collective, variant, deterministic, .. } = *call;
        Class { collective, variant, precision, deterministic }
    }

    fn all() -> impl Iterator<Item = Class> {
        let variants = [Variant::Even, Variant::Listed, Variant::Local];
        Collective::ALL.into_iter().flat_map(move |collective| {
            variants.into_iter().flat_map(move |variant| {
                let precisions = [Precision::Kept, Precision::Rounded, Precision::RoundedOnce];
                precisions.into_iter().flat_map(move |precision| {
                    [false, true].map(|deterministic| Class { collective, variant, precision, deterministic })
                })
            })
        })
    }

    /// A call of the class.
    fn example<'a>(&self, topology: &'a Topology) -> Call<'a> {
        Call {
            collective: self.collective,
            dtype: match self.precision {
                Precision::Kept => DType::F32,
                Precision::Rounded => DType::BF16,
                Precision::RoundedOnce => DType::F8E4M3,
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

/// For every class of call, which algorithm is best from how many bytes on. Computed once per communicator, from what
/// all ranks know; a lookup is a binary search.
#[derive(Clone, Debug)]
pub struct Choice {
    costs: Costs,
    tables: HashMap<Class, Thresholds>,
}

impl Choice {
    /// Scores every algorithm for every class of call.
    pub fn new(topology: &Topology, costs: Costs) -> Choice {
        let table = |class: Class| (class, Thresholds::envelope(&scored(&class.example(topology), &costs)));
        Choice { costs, tables: Class::all().map(table).collect() }
    }

    /// The best algorithm for a call of so many bytes (see `Request::full_bytes`); `None` where none supports it.
    pub fn pick(&self, call: &Call<'_>, bytes: Option<u64>) -> Option<Candidate> {
        self.thresholds(call)?.at(bytes.unwrap_or(0))
    }

    /// The table for calls like this one.
    pub fn thresholds(&self, call: &Call<'_>) -> Option<&Thresholds> {
        self.tables.get(&Class::of(call))
    }

    /// What it was computed from.
    pub fn costs(&self) -> &Costs {
        &self.costs
    }
}

/// The cost of every candidate that supports a call.
fn scored(call: &Call<'_>, costs: &Costs) -> Vec<(Candidate, Line)> {
    let able = Candidate::all().filter(|candidate| candidate.supports(call).is_ok());
    able.map(|candidate| (candidate, costs.line(&candidate.work(call)))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_gives_the_cheapest_algorithm_at_every_size() {
        for topology in [Topology::single_host(2), Topology::single_host(8), Topology::hosts(4, 8)] {
            for costs in [Costs::shm(), Costs::tcp()] {
                let choice = Choice::new(&topology, costs);
                for class in Class::all() {
                    let call = class.example(&topology);
                    check_minimal(&choice, &call, &scored(&call, &costs));
                }
            }
        }
    }

    #[test]
    fn what_is_chosen_serves_every_call_of_its_class() {
        for topology in [Topology::single_host(3), Topology::single_host(4), Topology::hosts(2, 3)] {
            let choice = Choice::new(&topology, Costs::shm());
            for class in Class::all() {
                let example = class.example(&topology);
                let roots = if example.collective.is_rooted() { topology.world() } else { 1 };
                for (root, dtype) in (0..roots).flat_map(|root| DType::ALL.map(|dtype| (root, dtype))) {
                    let call = Call { root, dtype, ..example };
                    for bytes in (0..40).map(|shift| 1 << shift) {
                        let Some(chosen) = choice.pick(&call, Some(bytes)) else { continue };
                        assert_eq!(chosen.supports(&call), Ok(()), "{chosen} for {call}, root {root}");
                    }
                }
            }
        }
    }

    fn check_minimal(choice: &Choice, call: &Call<'_>, lines: &[(Candidate, Line)]) {
        for shift in 0..40 {
            let bytes = (1_u64 << shift) - 1;
            let least = lines.iter().map(|(_, line)| line.at(bytes)).reduce(f64::min);
            let picked = choice.pick(call, Some(bytes)).map(|c| choice.costs().line(&c.work(call)).at(bytes));
            match (least, picked) {
                (Some(least), Some(picked)) => assert!(picked <= least * 1.000_001 + 1.0, "{call} {bytes}"),
                (least, picked) => assert_eq!(least, picked, "{call}"),
            }
        }
    }
}
