//! [`AlgorithmPins`]: algorithms chosen by the user.

use std::sync::Arc;

use hcomm_planner::Collective;

use super::Value;

/// For each collective at most one algorithm name, in the order of [`Collective::ALL`]. Whether the planner has an algorithm of that
/// name is found when a plan is asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct AlgorithmPins {
    pins: Vec<(Collective, Arc<str>)>,
}

/// Bytes of the longest algorithm name that is taken.
const LONGEST_NAME: usize = 64;

impl AlgorithmPins {
    /// Reads `all_reduce=hierarchical(direct,ring),all_gather=direct`; the empty text pins nothing.
    pub fn parse(text: &str) -> Option<Self> {
        let parts = split(text).into_iter().map(str::trim).filter(|_| !text.trim().is_empty());
        let mut pins = parts.map(pin).collect::<Option<Vec<_>>>()?;
        pins.sort();
        let is_twice = pins.windows(2).any(|pair| pair[0].0 == pair[1].0);
        (!is_twice).then_some(AlgorithmPins { pins })
    }

    /// The algorithm pinned for a collective.
    pub fn of(&self, collective: Collective) -> Option<&Arc<str>> {
        self.pins.iter().find(|(pinned, _)| *pinned == collective).map(|(_, name)| name)
    }
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

fn pin(text: &str) -> Option<(Collective, Arc<str>)> {
    let (collective, algorithm) = text.split_once('=')?;
    let algorithm = algorithm.trim();
    let is_name = algorithm.len() <= LONGEST_NAME && is_name(algorithm);
    Some((collective.trim().parse().ok()?, is_name.then(|| algorithm.into())?))
}

/// `NAME`, `NAME:CHANNELS`, and either with `(FIRST,SECOND)` after the name.
fn is_name(text: &str) -> bool {
    let is_letter = |c: char| c.is_ascii_alphanumeric() || "_-".contains(c);
    let is_word = |word: &str| !word.is_empty() && word.chars().all(is_letter);
    let (text, channels) = text.rsplit_once(':').unwrap_or((text, "1"));
    let (name, pair) = text.split_once('(').unwrap_or((text, "first,second)"));
    let pair = pair.strip_suffix(')').and_then(|pair| pair.split_once(','));
    is_word(name)
        && is_word(channels)
        && pair.is_some_and(|(first, second)| is_word(first) && is_word(second))
}

impl Value for AlgorithmPins {
    fn read(&mut self, text: &str) -> bool {
        AlgorithmPins::parse(text).map(|value| *self = value).is_some()
    }

    fn show(&self) -> String {
        let pins: Vec<String> = self.pins.iter().map(|(c, name)| format!("{c}={name}")).collect();
        pins.join(",")
    }

    fn form(&self) -> String {
        let names = Collective::ALL.map(Collective::name).join(", ");
        format!("pairs such as all_reduce=ring,all_gather=direct, each of {names} at most once, or nothing")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pins_are_found_by_collective() {
        let pins = AlgorithmPins::parse(" all_gather = direct, all_reduce=ring").expect("legal");
        assert_eq!(pins.of(Collective::AllReduce).map(|s| &**s), Some("ring"));
        assert_eq!(pins.of(Collective::Barrier), None);
        assert_eq!(pins.show(), "all_reduce=ring,all_gather=direct");
        let text = "all_reduce=hierarchical(direct,ring):2,all_gather=direct";
        let pins = AlgorithmPins::parse(text).expect("legal");
        assert_eq!(pins.of(Collective::AllReduce).map(|s| &**s), Some("hierarchical(direct,ring):2"));
        assert_eq!(pins.show(), text);
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
            ",",
        ] {
            assert_eq!(AlgorithmPins::parse(text), None, "{text}");
        }
    }
}
