//! The checksum of a slice: whether it still is what it was made as. `import` and `submit` ask, so that a changed slice cannot pass by the
//! id of what it was.

use std::hash::{Hash, Hasher};

use super::Plan;

impl Plan {
    /// Whether the slice is as hcomm made it. One that has been changed, in a file or in memory, is run only once all slices have been
    /// proved anew: by [`crate::import::read`] or [`crate::import::prove_anew`].
    pub fn is_unchanged(&self) -> bool {
        self.sum == self.summed()
    }

    /// Notes the slice as it is now.
    pub(crate) fn note_sum(&mut self) {
        self.sum = self.summed();
    }

    fn summed(&self) -> u64 {
        let Plan { collective, algorithm, world, rank, root, id, parts, scratch, span_chunks, .. } = self;
        let Plan { buffered, even, overlay, bytes, channels_per_pair, channels, lanes, nodes, .. } = self;
        let Plan { sources, sinks, deps, .. } = self;
        let mut sum = Sum(0);
        (collective, algorithm, world, rank, root, id, parts, scratch, span_chunks).hash(&mut sum);
        (buffered, even, overlay, bytes, channels_per_pair, channels, lanes, nodes).hash(&mut sum);
        (sources, sinks, deps).hash(&mut sum);
        sum.finish()
    }
}

/// Takes in a number at a time. The same on machines of all word sizes.
struct Sum(u64);

impl Sum {
    fn add(&mut self, number: u64) {
        self.0 = (self.0.rotate_left(23) ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

impl Hasher for Sum {
    fn write(&mut self, bytes: &[u8]) {
        for word in bytes.chunks(8) {
            let number = word.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte));
            self.add(number);
        }
    }

    fn write_u8(&mut self, number: u8) {
        self.add(number.into());
    }

    fn write_u32(&mut self, number: u32) {
        self.add(number.into());
    }

    fn write_u64(&mut self, number: u64) {
        self.add(number);
    }

    fn write_usize(&mut self, number: usize) {
        self.add(number as u64);
    }

    fn write_isize(&mut self, number: isize) {
        self.add(number as u64);
    }

    fn finish(&self) -> u64 {
        self.0 ^ (self.0 >> 32)
    }
}

#[cfg(test)]
mod tests {
    use crate::plan::{Plan, Sink, Source};
    use crate::{Choice, Collective, Costs, Request, Topology, compile};
    use hcomm_ops::{DType, ReduceOp};

    #[test]
    fn every_change_of_a_slice_shows() {
        let topology = Topology::single_host(3);
        let request =
            Request::new(Collective::AllReduce, DType::F32, ReduceOp::Sum, 99).with_algorithm("ring");
        let plan =
            compile(&request, 1, &topology, &Choice::new(&topology, Costs::shm())).expect("a ring of 3");
        assert!(plan.is_unchanged());
        let changes: [fn(&mut Plan); 10] = [
            |plan| plan.id ^= 1,
            |plan| plan.algorithm.push('2'),
            |plan| plan.rank = 2,
            |plan| plan.buffered = !plan.buffered,
            |plan| plan.bytes.min = 1,
            |plan| plan.channels[0].index = 1,
            |plan| plan.nodes[0].finish = !plan.nodes[0].finish,
            |plan| plan.nodes.swap(0, 1),
            |plan| plan.sinks[0] = Sink::Message { channel: 7 },
            |plan| plan.sources[0] = Source::Message { channel: 7, first: true },
        ];
        for (number, change) in changes.iter().enumerate() {
            let mut changed = plan.clone();
            change(&mut changed);
            assert!(!changed.is_unchanged(), "change {number}");
        }
    }
}
