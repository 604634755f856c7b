//! [`Thresholds`]: the best candidate for every size of one class of call, found once and looked up by a binary search.

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
    /// The cheapest of `contenders` at every size, or of those that the first pin names which covers the size.
    pub(super) fn new(contenders: &[Contender<'_>], pins: &[Pinned<'_>]) -> Thresholds {
        let ends = pins.iter().flat_map(|pinned| [pinned.pin.from_bytes, pinned.pin.to_bytes]);
        let mut sizes: Vec<u64> = sizes().chain(ends).collect();
        sizes.sort_unstable();
        sizes.dedup();
        let mut steps: Vec<Threshold> = Vec::new();
        for from_bytes in sizes {
            let Some((candidate, why)) = best(contenders, pins, from_bytes) else { continue };
            let last = steps.last().map(|last| (last.candidate, last.why));
            if last != Some((candidate, why)) {
                steps.push(Threshold { from_bytes, candidate, why });
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

fn best(contenders: &[Contender<'_>], pins: &[Pinned<'_>], bytes: u64) -> Option<(Candidate, Why)> {
    let mut covering = pins.iter().filter(|pinned| pinned.pin.covers(bytes) && !pinned.contenders.is_empty());
    let at = compared_at(bytes);
    let time = |contender: &Contender<'_>| contender.predict(at).time_ns();
    if let Some(pinned) = covering.next() {
        let chosen = cheapest(&pinned.contenders, time)?;
        return Some((chosen.candidate, Why::Pinned(pinned.index)));
    }
    let chosen = cheapest(contenders, time)?.candidate;
    let by_costs = cheapest(contenders, |contender| contender.predict(at).model_ns)?.candidate;
    let why = if chosen == by_costs { Why::Predicted } else { Why::Measured };
    Some((chosen, why))
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
