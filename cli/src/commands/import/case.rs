//! [`Case`]: one rank's data in one call of an imported plan: what it gives, and what should come out. Every element of every rank differs.

use std::ops::Range;

use hcomm::planner::shape::alias;
use hcomm::{Collective, Plan, Rank};

use super::sizes::{Size, request};

/// What stands where a result goes before it is there.
const POISON: i64 = i64::MIN + 7;

/// See the module.
pub struct Case<'a> {
    plan: &'a Plan,
    /// Elements per block.
    count: usize,
    input: usize,
    output: usize,
}

/// An element that is not what it should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("element {at} of the {which} is {found}, expected {expected}")]
pub struct Wrong {
    which: &'static str,
    at: usize,
    found: i64,
    expected: i64,
}

impl<'a> Case<'a> {
    /// The rank is that of the slice.
    pub fn new(plan: &'a Plan, size: Size) -> Case<'a> {
        let blocks = request(plan, size.count).blocks(plan.rank, plan.world);
        let elements = |blocks: Option<Vec<u64>>| blocks.map_or(0, |b| b.iter().sum::<u64>() as usize);
        let (input, output) = (elements(blocks.input), elements(blocks.output));
        Case { plan, count: size.count as usize, input, output }
    }

    /// Whether the rank contributes anything.
    pub fn has_input(&self) -> bool {
        self.input > 0
    }

    /// Whether the rank gets anything.
    pub fn has_output(&self) -> bool {
        self.output > 0
    }

    /// What it contributes.
    pub fn input(&self) -> Vec<i64> {
        (0..self.input).map(|i| element(self.plan.rank, i)).collect()
    }

    /// An output in which nothing is right.
    pub fn poison(&self) -> Vec<i64> {
        vec![POISON; self.output]
    }

    /// The one buffer of a call in place, and where in it the output lies.
    pub fn in_place(&self) -> (Vec<i64>, Range<usize>) {
        let Plan { collective, rank, .. } = *self.plan;
        let own = rank * self.count;
        if self.input < self.output {
            let mut whole = self.poison();
            whole[own..own + self.input].copy_from_slice(&self.input());
            return (whole, 0..self.output);
        }
        // The output is the whole input, or the rank's own block of it.
        let is_own_block = alias(collective, rank, 1, rank as u32) == Some(0);
        let start = if self.input > self.output && is_own_block { own } else { 0 };
        (self.input(), start..start + self.output)
    }

    /// Whether a result is right.
    pub fn check(&self, output: &[i64]) -> Result<(), Wrong> {
        compare("output", output, |i| self.expected(i))
    }

    /// Whether what was only to be read is as it was.
    pub fn check_input(&self, input: &[i64]) -> Result<(), Wrong> {
        compare("input", input, |i| element(self.plan.rank, i))
    }

    fn expected(&self, i: usize) -> i64 {
        let Plan { collective, rank, root, .. } = *self.plan;
        let (count, own) = (self.count.max(1), rank * self.count);
        match collective {
            Collective::AllReduce | Collective::Reduce | Collective::Barrier => self.sum(i),
            Collective::ReduceScatter => self.sum(own + i),
            Collective::AllGather | Collective::Gather => element(i / count, i % count),
            Collective::Broadcast => element(root, i),
            Collective::Scatter => element(root, own + i),
            Collective::AllToAll => element(i / count, own + i % count),
        }
    }

    fn sum(&self, i: usize) -> i64 {
        (0..self.plan.world).map(|rank| element(rank, i)).sum()
    }
}

fn compare(which: &'static str, found: &[i64], expected: impl Fn(usize) -> i64) -> Result<(), Wrong> {
    let wrong = found.iter().enumerate().find(|(at, found)| **found != expected(*at));
    match wrong {
        None => Ok(()),
        Some((at, found)) => Err(Wrong { which, at, found: *found, expected: expected(at) }),
    }
}

/// Element `i` of a rank's input.
fn element(rank: Rank, i: usize) -> i64 {
    (rank as i64 + 1) * 1_000_000_007 + (i as i64) * 13 + ((i * (rank + 3)) % 11) as i64
}

#[cfg(test)]
mod tests {
    use super::*;
    use hcomm::Topology;
    use hcomm::planner::{Choice, Costs, compile};

    fn plan(collective: Collective, rank: Rank) -> Plan {
        let topology = Topology::single_host(3);
        let request = hcomm::Request::new(collective, hcomm::DType::I64, hcomm::Op::Sum, 4);
        compile(&request, rank, &topology, &Choice::new(&topology, Costs::shm())).expect("a plan")
    }

    #[test]
    fn one_wrong_element_shows() {
        let plan = plan(Collective::AllToAll, 2);
        let case = Case::new(&plan, Size { bytes: 96, count: 4, asked: None });
        let mut output: Vec<i64> = (0..12).map(|i| element(i / 4, 8 + i % 4)).collect();
        assert_eq!(case.check(&output), Ok(()));
        output[5] += 1;
        let wrong = case.check(&output).expect_err("one is wrong");
        assert_eq!((wrong.at, wrong.found - wrong.expected), (5, 1));
        assert!(case.check(&case.poison()).is_err() && case.check_input(&case.input()).is_ok());
    }

    #[test]
    fn in_place_the_smaller_buffer_is_the_own_block_of_the_larger() {
        let size = Size { bytes: 96, count: 4, asked: None };
        let at = |collective| Case::new(&plan(collective, 1), size).in_place().1;
        assert_eq!(at(Collective::ReduceScatter), 4..8);
        assert_eq!((at(Collective::AllGather), at(Collective::AllToAll)), (0..12, 0..12));
        let (gathered, all) = (plan(Collective::AllGather, 1), plan(Collective::AllReduce, 1));
        let (whole, _) = Case::new(&gathered, size).in_place();
        assert_eq!((whole[3], whole[4], whole[8]), (POISON, element(1, 0), POISON));
        assert_eq!(Case::new(&all, size).in_place().1, 0..4);
    }
}
