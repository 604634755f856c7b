//! [`AlgorithmPins`]: algorithms chosen by the user.

use std::sync::Arc;

use hcomm_planner::Collective;
use hcomm_planner::choose::Pin;

use super::{Bytes, Value};

/// Algorithms for collectives, each at some sizes of the full buffer or at all. Whether the planner has an algorithm of that name, and
/// whether it can serve the collective, is found when a communicator is made.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct AlgorithmPins {
    /// Ascending; no two for the same sizes, those for all sizes aside.
    pins: Vec<Pinned>,
}

/// What is pinned at the sizes `from_bytes .. to_bytes`; all larger ones where `to_bytes` is `u64::MAX`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Pinned {
    collective: Collective,
    from_bytes: u64,
    to_bytes: u64,
    algorithm: Arc<str>,
}

/// Bytes of the longest algorithm name that is taken.
const LONGEST_NAME: usize = 64;

/// So many pins at most: what all ranks agree on stays short.
const MOST_PINS: usize = 256;

impl AlgorithmPins {
    /// Reads `all_reduce=hierarchical(direct,ring),all_gather@64KB..1MB=direct`; the empty text pins nothing.
    pub fn parse(text: &str) -> Option<Self> {
        let parts = split(text).into_iter().map(str::trim).filter(|_| !text.trim().is_empty());
        let mut pins = parts.map(Pinned::read).collect::<Option<Vec<_>>>()?;
        pins.sort();
        if pins.len() > MOST_PINS {
            return None;
        }
        let is_distinct = |(i, pin): (usize, &Pinned)| !pins[..i].iter().any(|other| pin.rivals(other));
        pins.iter().enumerate().all(is_distinct).then_some(AlgorithmPins { pins })
    }

    /// One algorithm for some collectives, at all sizes.
    pub fn for_all(collectives: impl IntoIterator<Item = Collective>, algorithm: &str) -> Self {
        let algorithm: Arc<str> = algorithm.into();
        let pin = |collective| Pinned {
            collective,
            from_bytes: 0,
            to_bytes: u64::MAX,
            algorithm: algorithm.clone(),
        };
        let mut pins: Vec<Pinned> = collectives.into_iter().map(pin).collect();
        pins.sort();
        pins.dedup();
        AlgorithmPins { pins }
    }

    /// The algorithm pinned for a collective at a size: one for a range of sizes before one for all.
    pub fn of(&self, collective: Collective, bytes: u64) -> Option<&Arc<str>> {
        let mut own = self.ranged_first().filter(|pin| pin.collective == collective);
        own.find(|pin| pin.from_bytes <= bytes && (bytes < pin.to_bytes || pin.to_bytes == u64::MAX))
            .map(|pin| &pin.algorithm)
    }

    /// Whether nothing is pinned.
    pub fn is_empty(&self) -> bool {
        self.pins.is_empty()
    }

    /// For the planner, in the order in which they count; `source` says whose they are.
    pub fn to_pins(&self, source: &str) -> Vec<Pin> {
        let pins = self.ranged_first().map(|pin| Pin {
            collective: pin.collective,
            from_bytes: pin.from_bytes,
            to_bytes: pin.to_bytes,
            algorithm: pin.algorithm.clone(),
            source: source.into(),
        });
        pins.collect()
    }

    fn ranged_first(&self) -> impl Iterator<Item = &Pinned> {
        let ranged = self.pins.iter().filter(|pin| !pin.is_for_all());
        ranged.chain(self.pins.iter().filter(|pin| pin.is_for_all()))
    }
}

impl Pinned {
    fn read(text: &str) -> Option<Pinned> {
        let (target, algorithm) = text.split_once('=')?;
        let (collective, range) = match target.split_once('@') {
            Some((collective, range)) => (collective, range_of(range)?),
            None => (target, (0, u64::MAX)),
        };
        let algorithm = algorithm.trim();
        let is_name = algorithm.len() <= LONGEST_NAME && is_name(algorithm);
        let (from_bytes, to_bytes) = range;
        let collective = collective.trim().parse().ok()?;
        is_name.then(|| Pinned { collective, from_bytes, to_bytes, algorithm: algorithm.into() })
    }

    fn is_for_all(&self) -> bool {
        (self.from_bytes, self.to_bytes) == (0, u64::MAX)
    }

    /// Whether nobody could say which of the two counts.
    fn rivals(&self, other: &Pinned) -> bool {
        let overlap = self.from_bytes < other.to_bytes && other.from_bytes < self.to_bytes;
        self.collective == other.collective && overlap && self.is_for_all() == other.is_for_all()
    }

    fn show(&self) -> String {
        let Pinned { collective, from_bytes, to_bytes, algorithm } = self;
        let [from, to] = [from_bytes, to_bytes].map(|bytes| match *bytes {
            0 | u64::MAX => String::new(),
            bytes => Bytes(bytes).to_string(),
        });
        let range = if self.is_for_all() { String::new() } else { format!("@{from}..{to}") };
        format!("{collective}{range}={algorithm}")
    }
}

/// `NAME`, `NAME(FIRST,SECOND)`, and either with `:CHANNELS` and `/TILE` after it.
fn is_name(text: &str) -> bool {
    let is_letter = |c: char| c.is_ascii_alphanumeric() || "_-".contains(c);
    let is_word = |word: &str| !word.is_empty() && word.chars().all(is_letter);
    let (text, tile) = text.rsplit_once('/').unwrap_or((text, "1"));
    let (text, channels) = text.rsplit_once(':').unwrap_or((text, "1"));
    let (name, pair) = text.split_once('(').unwrap_or((text, "first,second)"));
    let pair = pair.strip_suffix(')').and_then(|pair| pair.split_once(','));
    let are_words = [name, channels, tile].into_iter().all(is_word);
    are_words && pair.is_some_and(|(first, second)| is_word(first) && is_word(second))
}

/// `64KB..1MB`, of which either may be left out: not below the first, and below the second.
fn range_of(text: &str) -> Option<(u64, u64)> {
    let (from, to) = text.split_once("..")?;
    let bound = |text: &str, open: u64| match text.trim() {
        "" => Some(open),
        text => text.parse::<Bytes>().ok().map(|bytes| bytes.0),
    };
    let (from, to) = (bound(from, 0)?, bound(to, u64::MAX)?);
    (from < to).then_some((from, to))
}

/// Cuts at the commas that are in no brackets.
fn split(text: &str) -> Vec<&str> {
    let mut depth = 0_usize;
    text.split(|c: char| {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        c == ',' && depth == 0
    })
    .collect()
}

impl Value for AlgorithmPins {
    fn read(&mut self, text: &str) -> bool {
        AlgorithmPins::parse(text).map(|value| *self = value).is_some()
    }

    fn show(&self) -> String {
        self.pins.iter().map(Pinned::show).collect::<Vec<_>>().join(",")
    }

    fn form(&self) -> String {
        let names = Collective::ALL.map(Collective::name).join(", ");
        format!(
            "pairs such as all_reduce=ring,all_gather@64KB..1MB=direct, each of {names} at most once for a size, or nothing"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(pins: &AlgorithmPins, bytes: u64) -> Option<&str> {
        pins.of(Collective::AllReduce, bytes).map(|name| &**name)
    }

    #[test]
    fn pins_are_found_by_collective() {
        let pins = AlgorithmPins::parse(" all_gather = direct, all_reduce=ring").expect("legal");
        assert_eq!(name(&pins, 0), Some("ring"));
        assert_eq!(name(&pins, u64::MAX), Some("ring"));
        assert_eq!(pins.of(Collective::Barrier, 0), None);
        assert_eq!(pins.show(), "all_reduce=ring,all_gather=direct");
        let text = "all_reduce=hierarchical(direct,ring):2,all_gather=direct/16KiB";
        let pins = AlgorithmPins::parse(text).expect("legal");
        assert_eq!(name(&pins, 7), Some("hierarchical(direct,ring):2"));
        assert_eq!(pins.show(), text);
    }

    #[test]
    fn a_range_of_sizes_goes_before_all_sizes() {
        let text = "all_reduce=ring,all_reduce@..4KiB=one_shot, all_reduce @ 64KB .. 1MB = two_shot,all_reduce@1MB..=chain";
        let pins = AlgorithmPins::parse(text).expect("legal");
        let found = [0, 4095, 4096, 63_999, 64_000, 999_999, 1_000_000, u64::MAX].map(|b| name(&pins, b));
        let (small, all, mid, large) = (Some("one_shot"), Some("ring"), Some("two_shot"), Some("chain"));
        assert_eq!(found, [small, small, all, all, mid, mid, large, large]);
        let shown = pins.show();
        assert_eq!(AlgorithmPins::parse(&shown).as_ref(), Some(&pins), "{shown}");
        assert!(shown.contains("all_reduce@64KB..1MB=two_shot"), "{shown}");
        let order = pins.to_pins("a test");
        assert_eq!(
            (order[0].to_bytes, &*order[0].algorithm, &*order[0].source),
            (4096, "one_shot", "a test")
        );
        assert_eq!(order.last().map(|pin| &*pin.algorithm), Some("ring"));
    }

    #[test]
    fn refuses_unknown_collectives_doubles_and_odd_names() {
        for text in [
            "ring",
            "all_reduced=ring",
            "all_reduce=",
            "all_reduce=ring,all_reduce=tree",
            "all_reduce=a b",
            "all_reduce=a(b",
            "all_reduce=a(b)",
            "all_reduce=a(b,)",
            "all_reduce=ring:",
            "all_reduce=ring/",
            "all_reduce@=ring",
            "all_reduce@1MB=ring",
            "all_reduce@1MB..1MB=ring",
            "all_reduce@2MB..1MB=ring",
            "all_reduce@x..1MB=ring",
            "all_reduce@..2MB=ring,all_reduce@1MB..=tree",
            ",",
        ] {
            assert_eq!(AlgorithmPins::parse(text), None, "{text}");
        }
    }
}
