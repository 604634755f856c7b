//! [`Histogram`]: times in fixed memory. Up to [`EXACT`] ns each has a bucket of its own; from there on every power of two is cut into
//! [`PARTS`] equal buckets, so that the middle of one is off by less than 2 %.

/// Times of their own bucket, in ns.
const EXACT: u64 = 64;

/// Buckets of a power of two.
const PARTS: u64 = 32;

/// The highest power of two that is told from longer times: more than an hour.
const MOST_BITS: u32 = 42;

const BUCKETS: usize = (EXACT + (MOST_BITS - EXACT.ilog2()) as u64 * PARTS) as usize;

/// See the module. Total, least and most are exact.
#[derive(Clone, Debug)]
pub(super) struct Histogram {
    counts: Box<[u64]>,
    count: u64,
    total_ns: u64,
    min_ns: u64,
    max_ns: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        let counts = vec![0; BUCKETS].into_boxed_slice();
        Histogram { counts, count: 0, total_ns: 0, min_ns: u64::MAX, max_ns: 0 }
    }
}

impl Histogram {
    pub fn add(&mut self, ns: u64) {
        self.counts[bucket(ns)] += 1;
        self.count += 1;
        self.total_ns = self.total_ns.saturating_add(ns);
        (self.min_ns, self.max_ns) = (self.min_ns.min(ns), self.max_ns.max(ns));
    }

    /// How many times there were.
    pub fn count(&self) -> u64 {
        self.count
    }

    pub fn total_ns(&self) -> u64 {
        self.total_ns
    }

    /// The least; 0 where there is none.
    pub fn min_ns(&self) -> u64 {
        self.min_ns.min(self.max_ns)
    }

    pub fn max_ns(&self) -> u64 {
        self.max_ns
    }

    /// Times that there were, to within 2 %, and how many of each, ascending.
    pub fn times(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let there = self.counts.iter().enumerate().filter(|(_, count)| **count > 0);
        there.map(|(bucket, count)| (middle_ns(bucket).clamp(self.min_ns(), self.max_ns()), *count))
    }

    /// The least time that is as long as `part` (0 to 1) of all, to within 2 %; 0 where there is none.
    pub fn quantile_ns(&self, part: f64) -> u64 {
        let place = ((part * self.count as f64).ceil() as u64).max(1);
        let mut seen = 0;
        let found = self.counts.iter().position(|count| {
            seen += count;
            seen >= place
        });
        found.map_or(0, middle_ns).clamp(self.min_ns(), self.max_ns)
    }
}

fn bucket(ns: u64) -> usize {
    let ns = ns.min((1 << MOST_BITS) - 1);
    if ns < EXACT {
        return ns as usize;
    }
    let bits = ns.ilog2();
    let part = (ns >> (bits - PARTS.ilog2())) - PARTS;
    (EXACT + u64::from(bits - EXACT.ilog2()) * PARTS + part) as usize
}

fn middle_ns(bucket: usize) -> u64 {
    let Some(above) = (bucket as u64).checked_sub(EXACT) else { return bucket as u64 };
    let shift = above / PARTS + u64::from(EXACT.ilog2() - PARTS.ilog2());
    let from = (PARTS + above % PARTS) << shift;
    from + (1 << shift) / 2
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn every_time_is_near_the_middle_of_its_bucket() {
        let around = (0..64).flat_map(|bits| [1_u64 << bits, (1 << bits) - 1, (1 << bits) + 1]);
        let times: Vec<u64> = (0..20_000).chain(around).filter(|ns| *ns < 1 << MOST_BITS).collect();
        for ns in times {
            let middle = middle_ns(bucket(ns));
            assert!(middle.abs_diff(ns) * 50 <= ns, "{ns} ns is taken for {middle}");
        }
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn nothing_has_no_times() {
        let none = Histogram::default();
        assert_eq!((none.min_ns(), none.max_ns(), none.total_ns(), none.quantile_ns(0.5)), (0, 0, 0, 0));
    }

    proptest! {
        #[test]
        fn quantiles_are_those_of_the_sorted_times(
            mut times in prop::collection::vec(0_u64..10_000_000_000, 1..300),
            part in 0.0_f64..=1.0,
        ) {
            let mut histogram = Histogram::default();
            times.iter().for_each(|ns| histogram.add(*ns));
            times.sort_unstable();
            let place = ((part * times.len() as f64).ceil() as usize).max(1) - 1;
            let (exact, found) = (times[place], histogram.quantile_ns(part));
            prop_assert!(found.abs_diff(exact) * 50 <= exact, "{found}, not {exact}");
            prop_assert_eq!(histogram.min_ns(), times[0]);
            prop_assert_eq!(histogram.max_ns(), times[times.len() - 1]);
            prop_assert_eq!(histogram.total_ns(), times.iter().sum::<u64>());
        }
    }
}
