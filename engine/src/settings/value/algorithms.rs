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
    /// Reads `all_reduce=ring,all_gather=direct`; the empty text pins nothing.
    pub fn parse(text: &str) -> Option<Self> {
        let parts = text.split(',').map(str::trim).filter(|_| !text.trim().is_empty());
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

fn pin(text: &str) -> Option<(Collective, Arc<str>)> {
    let (collective, algorithm) = text.split_once('=')?;
    let algorithm = algorithm.trim();
    let is_word = |c: char| c.is_ascii_alphanumeric() || "_-:".contains(c);
    let is_name = (1..=LONGEST_NAME).contains(&algorithm.len()) && algorithm.chars().all(is_word);
    Some((collective.trim().parse().ok()?, is_name.then(|| algorithm.into())?))
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
    }

    #[test]
    fn refuses_unknown_collectives_doubles_and_odd_names() {
        for text in [
            "ring",
            "all_reduced=ring",
            "all_reduce=",
            "all_reduce=ring,all_reduce=tree",
            "all_reduce=a b",
            ",",
        ] {
            assert_eq!(AlgorithmPins::parse(text), None, "{text}");
        }
    }
}
