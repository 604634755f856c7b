//! [`Ranges`]: which parts of a heap are free. Arithmetic on offsets; the memory itself is the heap's business.

use std::collections::BTreeMap;

/// The free ranges of a heap: none touches another, so that what is free in one piece is one range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Ranges {
    /// From where each begins to how many bytes it has.
    free: BTreeMap<usize, usize>,
}

impl Ranges {
    /// All of `bytes` is free.
    pub(super) fn new(bytes: usize) -> Ranges {
        Ranges { free: BTreeMap::from([(0, bytes)]) }
    }

    /// Takes the first `bytes` that are free in one piece and begin at a multiple of `align`; where they begin.
    pub(super) fn take(&mut self, bytes: usize, align: usize) -> Option<usize> {
        let (start, length, taken) = self.free.iter().find_map(|(&start, &length)| {
            let taken = start.checked_next_multiple_of(align)?;
            let end = taken.checked_add(bytes)?;
            (end <= start + length).then_some((start, length, taken))
        })?;
        self.free.remove(&start);
        self.insert(start, taken - start);
        self.insert(taken + bytes, start + length - taken - bytes);
        Some(taken)
    }

    /// Gives back what was taken, joined with the free ranges on either side.
    pub(super) fn give(&mut self, start: usize, bytes: usize) {
        let (mut first, mut end) = (start, start + bytes);
        if let Some((&before, &length)) = self.free.range(..start).next_back() {
            debug_assert!(before + length <= start, "what is given back was taken");
            if before + length == start {
                first = before;
            }
        }
        if let Some(after) = self.free.remove(&end) {
            end += after;
        }
        self.insert(first, end - first);
    }

    /// Bytes of the longest range.
    pub(super) fn longest(&self) -> usize {
        self.free.values().copied().max().unwrap_or(0)
    }

    fn insert(&mut self, start: usize, bytes: usize) {
        if bytes > 0 {
            self.free.insert(start, bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ALL: usize = 1 << 12;

    #[test]
    fn the_first_fit_is_taken_and_neighbours_are_joined() {
        let mut ranges = Ranges::new(ALL);
        let [a, b, c] = [100, 200, 300].map(|bytes| ranges.take(bytes, 1).unwrap());
        assert_eq!((a, b, c), (0, 100, 300));
        ranges.give(b, 200);
        assert_eq!(ranges.take(150, 1), Some(100));
        assert_eq!(ranges.take(64, 64), Some(640), "the first multiple of 64 behind all");
        ranges.give(100, 150);
        ranges.give(640, 64);
        ranges.give(a, 100);
        ranges.give(c, 300);
        assert_eq!(ranges, Ranges::new(ALL));
        assert_eq!(ranges.take(ALL + 1, 1), None);
        assert_eq!(ranges.take(usize::MAX, 4096), None);
    }

    proptest! {
        /// Against a map of bytes: what is taken was free, is aligned, and is free again when given back; in the end all is one range.
        #[test]
        fn ranges_never_overlap(steps in prop::collection::vec((0_usize..3, 1_usize..500, 0_u32..8), 1..100)) {
            let mut ranges = Ranges::new(ALL);
            let mut taken: Vec<(usize, usize)> = Vec::new();
            let mut used = vec![false; ALL];
            for (kind, bytes, align) in steps {
                if kind == 0 && !taken.is_empty() {
                    let (start, bytes) = taken.swap_remove(bytes % taken.len());
                    used[start..start + bytes].fill(false);
                    ranges.give(start, bytes);
                } else if let Some(start) = ranges.take(bytes, 1 << align) {
                    prop_assert!(start.is_multiple_of(1 << align));
                    prop_assert!(used[start..start + bytes].iter().all(|used| !used));
                    used[start..start + bytes].fill(true);
                    taken.push((start, bytes));
                }
                let longest = used.split(|used| *used).map(<[bool]>::len).max();
                prop_assert_eq!(Some(ranges.longest()), longest);
            }
            taken.iter().for_each(|(start, bytes)| ranges.give(*start, *bytes));
            prop_assert_eq!(ranges, Ranges::new(ALL));
        }
    }
}
