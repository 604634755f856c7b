//! [`Thresholds`]: the best candidate for every size of one class of call, found once and looked up by a binary search. One that
//! is the best by less than [`MARGIN`] wherever it is the best does not replace the one before it: so that two that take the same do
//! not take turns.

use super::Candidate;
use super::model::{Contender, cheapest};
use super::pin::Pin;

/// Why a candidate stands where it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// Its predicted time is the least.
    Predicted,
    /// It is so by what was measured; by the costs alone another would be.
    Measured,
    /// It is pinned: index into [`Choice::pins`](super::Choice::pins).
    Pinned(usize),
}

/// One line of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Threshold {
    /// From how many bytes on.
    pub from_bytes: u64,
    /// What is best there.
    pub candidate: Candidate,
    /// And why.
    pub why: Why,
}

/// By how much less another must take, somewhere in the range of sizes where it is the best, to follow the one before it.
pub const MARGIN: f64 = 0.05;

/// See the module.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Thresholds {
    /// Ascending; the first one begins at 0. Empty where no candidate serves the class.
    steps: Vec<Threshold>,
}

/// A pin as a class of call sees it.
pub(super) struct Pinned<'a> {
    /// Index into the list of all pins.
    pub index: usize,
    pub pin: &'a Pin,
    /// Those it names that can serve the class.
    pub contenders: Vec<Contender<'a>>,
}

/// The octaves in which sizes are told apart: from 8 bytes to 16 GiB.
const OCTAVES: std::ops::Range<u32> = 3..34;

/// Sizes at which the candidates are compared: four to the octave, up to 16 GiB.
pub fn sizes() -> impl Iterator<Item = u64> {
    let quarters = |octave: u32| (4..8).map(move |quarter| (1_u64 << octave) / 4 * quarter);
    std::iter::once(0).chain(OCTAVES.flat_map(quarters)).chain([1 << OCTAVES.end])
}

/// The largest of [`sizes`] that is not above a size: the one at which it is decided.
pub fn compared_at(bytes: u64) -> u64 {
    match bytes.checked_ilog2() {
        Some(octave) if octave >= OCTAVES.end => 1 << OCTAVES.end,
        Some(octave) if octave >= OCTAVES.start => {
            let quarter = (1_u64 << octave) / 4;
            bytes / quarter * quarter
        }
        _ => 0,
    }
}

impl Thresholds {
    /// The cheapest of `contenders` at every size, or of those that the first pin names which covers the size; in both cases but for
    /// the margin.
    pub(super) fn new(contenders: &[Contender<'_>], pins: &[Pinned<'_>]) -> Thresholds {
        let ends = pins.iter().flat_map(|pinned| [pinned.pin.from_bytes, pinned.pin.to_bytes]);
        let mut sizes: Vec<u64> = sizes().chain(ends).collect();
        sizes.sort_unstable();
        sizes.dedup();
        let contest = Contest { contenders, pins };
        let best: Vec<Threshold> = sizes.into_iter().filter_map(|size| contest.best(size)).collect();
        let mut steps: Vec<Threshold> = Vec::new();
        for run in best.chunk_by(|a, b| a.candidate == b.candidate && a.why.is_pinned_as(b.why)) {
            if steps.last().is_some_and(|last| contest.is_held(last, run)) {
                continue;
            }
            for step in run {
                if steps.last().map(|last| (last.candidate, last.why)) != Some((step.candidate, step.why)) {
                    steps.push(*step);
                }
            }
        }
        Thresholds { steps }
    }

    /// The line that counts at so many bytes.
    pub fn at(&self, bytes: u64) -> Option<&Threshold> {
        let after = self.steps.partition_point(|step| step.from_bytes <= bytes);
        self.steps[..after].last()
    }

    /// All lines, ascending.
    pub fn steps(&self) -> &[Threshold] {
        &self.steps
    }
}

impl Why {
    /// Whether both are by the same pin, or neither by any.
    fn is_pinned_as(self, other: Why) -> bool {
        match (self, other) {
            (Why::Pinned(pin), Why::Pinned(other)) => pin == other,
            (Why::Pinned(_), _) | (_, Why::Pinned(_)) => false,
            _ => true,
        }
    }
}

/// What a table is made from.
struct Contest<'a> {
    contenders: &'a [Contender<'a>],
    pins: &'a [Pinned<'a>],
}

impl Contest<'_> {
    fn best(&self, from_bytes: u64) -> Option<Threshold> {
        let mut covering =
            self.pins.iter().filter(|pinned| pinned.pin.covers(from_bytes) && !pinned.contenders.is_empty());
        let at = compared_at(from_bytes);
        let time = |contender: &Contender<'_>| contender.predict(at).time_ns();
        if let Some(pinned) = covering.next() {
            let candidate = cheapest(&pinned.contenders, time)?.candidate;
            return Some(Threshold { from_bytes, candidate, why: Why::Pinned(pinned.index) });
        }
        let candidate = cheapest(self.contenders, time)?.candidate;
        let by_costs = cheapest(self.contenders, |contender| contender.predict(at).model_ns)?.candidate;
        let why = if candidate == by_costs { Why::Predicted } else { Why::Measured };
        Some(Threshold { from_bytes, candidate, why })
    }

    /// Whether the one before keeps its place at all sizes of a run, at which another is the best by little.
    fn is_held(&self, before: &Threshold, run: &[Threshold]) -> bool {
        let is_close = |best: &Threshold| {
            let [kept, least] = [before, best].map(|by| self.time_ns(by.candidate, best));
            kept.zip(least).is_some_and(|(kept, least)| kept <= least * (1.0 + MARGIN))
        };
        let is_other = |best: &Threshold| best.candidate != before.candidate;
        run.iter().all(|best| best.why.is_pinned_as(before.why) && is_other(best) && is_close(best))
    }

    /// What a candidate takes at the size of a line, if it is of those that the line was chosen among.
    fn time_ns(&self, candidate: Candidate, line: &Threshold) -> Option<f64> {
        let among = match line.why {
            Why::Pinned(index) => &self.pins.iter().find(|pinned| pinned.index == index)?.contenders,
            Why::Predicted | Why::Measured => self.contenders,
        };
        let contender = among.iter().find(|contender| contender.candidate == candidate)?;
        Some(contender.predict(compared_at(line.from_bytes)).time_ns())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_ascend_from_nothing_to_16_gib() {
        let sizes: Vec<u64> = sizes().collect();
        assert_eq!(sizes[..6], [0, 8, 10, 12, 14, 16]);
        assert_eq!(sizes.last(), Some(&(16 << 30)));
        assert!(sizes.windows(2).all(|pair| pair[0] < pair[1]));
        for pair in sizes.windows(2) {
            assert_eq!([pair[0], pair[1] - 1, pair[1]].map(compared_at), [pair[0], pair[0], pair[1]]);
        }
        assert_eq!(compared_at(u64::MAX), 16 << 30);
    }
}
