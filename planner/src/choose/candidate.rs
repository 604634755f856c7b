//! [`Candidate`]: an algorithm and its parameters, which is what there is to choose among; [`AlgorithmName`]: some of them, as a pin names them.

use std::fmt;

use hcomm_ops::Bytes;

use super::Work;
use crate::algorithm::{ALGORITHMS, Algorithm, Call, Pair};
use crate::request::Collective;

/// An algorithm and its parameters: what a call is compiled and bound by.
#[derive(Clone, Copy, Debug)]
pub struct Candidate {
    /// The algorithm.
    pub algorithm: &'static Algorithm,
    /// Channels that it spreads its bytes over.
    pub channels: u8,
    /// What it is made of, where it is made of two others.
    pub pair: Option<Pair>,
    /// Most bytes of one message: where a chunk is longer, it is cut into tiles. [`Candidate::WHOLE_SLOT`] leaves it to the slots.
    pub tile_bytes: u64,
}

impl Candidate {
    /// Messages as long as the slots allow.
    pub const WHOLE_SLOT: u64 = u64::MAX;

    /// All candidates of all algorithms, supported or not, with tiles as long as the slots allow.
    pub fn all() -> impl Iterator<Item = Candidate> {
        ALGORITHMS.iter().flat_map(Candidate::of)
    }

    /// All candidates of one algorithm: every number of channels, made of every pair of its list.
    pub fn of(algorithm: &'static Algorithm) -> impl Iterator<Item = Candidate> {
        let none = algorithm.pairs.is_empty().then_some(None);
        let pairs = none.into_iter().chain(algorithm.pairs.iter().copied().map(Some));
        let tile_bytes = Candidate::WHOLE_SLOT;
        pairs.flat_map(move |pair| {
            let channels = algorithm.channels.iter();
            channels.map(move |channels| Candidate { algorithm, channels: *channels, pair, tile_bytes })
        })
    }

    /// The same with tiles of another length.
    pub fn with_tile(self, tile_bytes: u64) -> Candidate {
        Candidate { tile_bytes, ..self }
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

    /// Whether the two compile to the same plan: equal but for their tiles.
    pub fn has_plan_of(&self, other: &Candidate) -> bool {
        let key = |c: &Candidate| (c.algorithm.name, c.channels, c.pair);
        key(self) == key(other)
    }
}

impl PartialEq for Candidate {
    fn eq(&self, other: &Candidate) -> bool {
        self.has_plan_of(other) && self.tile_bytes == other.tile_bytes
    }
}

impl Eq for Candidate {}

impl fmt::Display for Candidate {
    /// As an [`AlgorithmName`] names it: `ring`; `hierarchical(direct,ring)` where it is made of two; `multi_ring:2` where it has a
    /// choice of channels; `ring/16KiB` where its tiles are shorter than the slots.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pair = self.pair.map_or_else(String::new, |pair| format!("({pair})"));
        let channels = match self.algorithm.channels {
            [_] => String::new(),
            _ => format!(":{}", self.channels),
        };
        let tile = match self.tile_bytes {
            Candidate::WHOLE_SLOT => String::new(),
            bytes if bytes.is_multiple_of(1024) => format!("/{}KiB", bytes / 1024),
            bytes => format!("/{bytes}"),
        };
        f.pad(&format!("{}{pair}{channels}{tile}", self.algorithm.name))
    }
}

/// What a pin names: `NAME`, with `(FIRST,SECOND)` for what it is made of, `:CHANNELS` and `/TILE` after it, each of them optional.
/// What is left out is left to the planner.
#[derive(Clone, Copy, Debug)]
pub struct AlgorithmName {
    algorithm: &'static Algorithm,
    pair: Option<Pair>,
    channels: Option<u8>,
    tile_bytes: Option<u64>,
}

/// A text that names no algorithm, or not as an [`AlgorithmName`] does.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnknownAlgorithm {
    /// A name that there is not.
    #[error("unknown algorithm '{0}'; expected one of {names}", names = ALGORITHMS.iter().map(|a| a.name).collect::<Vec<_>>().join(", "))]
    Name(String),
    /// Something after the name that cannot be read.
    #[error(
        "'{0}' names no algorithm; expected NAME or NAME(INNER,OUTER), then :CHANNELS and /TILE (at least {LEAST_TILE_BYTES} bytes) where wanted, such as 'hierarchical(direct,ring)' or 'multi_ring:4/16KiB'"
    )]
    Form(String),
}

impl AlgorithmName {
    /// Reads a pin.
    ///
    /// # Errors
    /// Where it names an algorithm that there is not, or something after the name cannot be read.
    pub fn parse(pin: &str) -> Result<AlgorithmName, UnknownAlgorithm> {
        let words = Words::cut(pin).ok_or_else(|| UnknownAlgorithm::Form(pin.to_owned()))?;
        let unknown = |name: &str| UnknownAlgorithm::Name(name.to_owned());
        let named = |name: &str| Algorithm::named(name).ok_or_else(|| unknown(name));
        let pair = match words.pair {
            Some((first, second)) => Some(Pair { first: named(first)?.name, second: named(second)?.name }),
            None => None,
        };
        let Words { channels, tile_bytes, .. } = words;
        Ok(AlgorithmName { algorithm: named(words.name)?, pair, channels, tile_bytes })
    }

    /// What the algorithm can do.
    pub fn collectives(&self) -> &'static [Collective] {
        self.algorithm.collectives
    }

    /// The candidates that it names, with tiles of any of the lengths in `tiles` where it names none.
    pub fn candidates(self, tiles: &[u64]) -> impl Iterator<Item = Candidate> {
        let mut listed: Vec<Candidate> = Vec::new();
        for candidate in Candidate::of(self.algorithm) {
            let named = Candidate {
                pair: self.pair.or(candidate.pair),
                channels: self.channels.unwrap_or(candidate.channels),
                ..candidate
            };
            if !listed.contains(&named) {
                listed.push(named);
            }
        }
        let tiles = self.tile_bytes.map_or_else(|| tiles.to_vec(), |bytes| vec![bytes]);
        listed.into_iter().flat_map(move |candidate| {
            tiles.clone().into_iter().map(move |tile_bytes| candidate.with_tile(tile_bytes))
        })
    }
}

/// A pin, taken apart.
struct Words<'a> {
    name: &'a str,
    pair: Option<(&'a str, &'a str)>,
    channels: Option<u8>,
    tile_bytes: Option<u64>,
}

impl<'a> Words<'a> {
    fn cut(pin: &'a str) -> Option<Words<'a>> {
        let (rest, tile_bytes) = match pin.rsplit_once('/') {
            Some((rest, tile)) => (rest, Some(tile_of(tile)?)),
            None => (pin, None),
        };
        let (rest, channels) = match rest.rsplit_once(':') {
            Some((rest, channels)) => (rest, Some(channels.parse().ok()?)),
            None => (rest, None),
        };
        let (name, pair) = match rest.split_once('(') {
            Some((name, pair)) => (name, Some(pair.strip_suffix(')')?.split_once(',')?)),
            None => (rest, None),
        };
        Some(Words { name, pair, channels, tile_bytes })
    }
}

/// Shorter ones could not hold an element of every chunk of a message.
pub(super) const LEAST_TILE_BYTES: u64 = 4096;

/// `16KiB`, `16K` or `16384`: a size as in settings.
fn tile_of(text: &str) -> Option<u64> {
    let Bytes(bytes) = text.parse().ok()?;
    (LEAST_TILE_BYTES..Candidate::WHOLE_SLOT).contains(&bytes).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_candidate_is_named_by_its_own_text() {
        for candidate in Candidate::all() {
            for tile_bytes in [Candidate::WHOLE_SLOT, 16 << 10, 5000] {
                let candidate = candidate.with_tile(tile_bytes);
                let pattern = AlgorithmName::parse(&candidate.to_string()).expect("its own text");
                let named: Vec<_> = pattern.candidates(&[Candidate::WHOLE_SLOT]).collect();
                assert_eq!(named, [candidate], "{candidate}");
            }
        }
    }

    #[test]
    fn what_a_pin_leaves_out_is_left_open() {
        let named = |pin: &str, tiles: &[u64]| {
            let texts = AlgorithmName::parse(pin).expect("a pin").candidates(tiles).map(|c| c.to_string());
            texts.collect::<Vec<_>>()
        };
        assert_eq!(named("ring", &[Candidate::WHOLE_SLOT, 4096]), ["ring", "ring/4KiB"]);
        for tile in ["8192", "8K", "8KiB"] {
            assert_eq!(named(&format!("ring/{tile}"), &[Candidate::WHOLE_SLOT, 4096]), ["ring/8KiB"]);
        }
        let made = named("hierarchical", &[Candidate::WHOLE_SLOT]);
        assert!(made.len() > 1 && made.iter().all(|text| text.starts_with("hierarchical(")), "{made:?}");
        assert_eq!(named("hierarchical(ring,ring)", &[Candidate::WHOLE_SLOT]), ["hierarchical(ring,ring)"]);
    }

    #[test]
    fn texts_that_name_nothing_are_refused() {
        for (pin, name) in [("rung", "rung"), ("hierarchical(ring,rung)", "rung"), ("", "")] {
            let refused = AlgorithmName::parse(pin).expect_err(pin);
            assert_eq!(refused, UnknownAlgorithm::Name(name.to_owned()));
            assert!(refused.to_string().contains("expected one of one_shot, "), "{refused}");
        }
        for pin in [
            "ring:many",
            "ring/1",
            "ring/18446744073709551615KiB",
            "hierarchical(ring)",
            "hierarchical(ring",
            "hierarchical(ring,ring",
        ] {
            let refused = AlgorithmName::parse(pin).expect_err(pin);
            assert_eq!(refused, UnknownAlgorithm::Form(pin.to_owned()));
            let form = format!("'{pin}' names no algorithm; expected NAME or NAME(INNER,OUTER), then ");
            assert!(refused.to_string().starts_with(&form), "{refused}");
        }
    }
}
