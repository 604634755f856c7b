//! The text of a tuning file (TOML): what it may say, and how it is read. `write` writes it.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::ops::Range;

use serde::Deserialize;
use toml::Spanned;

use super::fault::{LONGEST_BYTES, TuningError};
use super::size::Size;
use super::{
    Condition, Curve, FitError, LinkKind, LinkTuning, Machine, Made, Measured, TunedPin, Tuning, defaults,
};
use crate::choose::{AlgorithmName, Candidate, Prices};
use crate::request::Collective;

/// The format that this version writes and reads.
pub(super) const FORMAT: u32 = 1;

/// The whole file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    format: Spanned<u32>,
    machine: Option<Machine>,
    made: Option<Made>,
    #[serde(default)]
    links: BTreeMap<ConditionName, LinkFile>,
    #[serde(default)]
    measured: Vec<MeasuredFile>,
    #[serde(default)]
    pin: Vec<PinFile>,
}

/// `[links.shm]` and so on.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LinkFile {
    latency_ns: Price,
    message_ns: Price,
    wait_ns: Price,
    byte_ns: Price,
    reduce_byte_ns: Price,
    copy_byte_ns: Price,
    ranks_per_processor: Option<Factor>,
    median_error: Option<Price>,
    worst_error: Option<Price>,
}

/// `[[measured]]`, and below it `[measured.factors.all_reduce]` and so on.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct MeasuredFile {
    link: ConditionName,
    world: NonZeroUsize,
    /// The sizes that were measured; a list of factors has one for each of them, or for the first few.
    bytes: Vec<u64>,
    #[serde(default)]
    factors: BTreeMap<Collective, BTreeMap<String, Spanned<Vec<Factor>>>>,
}

/// `[[pin]]`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PinFile {
    collective: Collective,
    algorithm: Spanned<String>,
    from: Option<Size>,
    to: Option<Spanned<Size>>,
    world: Option<NonZeroUsize>,
    communicator: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "String")]
struct ConditionName(Condition);

impl TryFrom<String> for ConditionName {
    type Error = String;

    fn try_from(name: String) -> Result<Self, String> {
        let mut all = conditions();
        all.find(|condition| condition.to_string() == name).map(ConditionName).ok_or_else(|| {
            let names: Vec<String> = conditions().map(|condition| condition.to_string()).collect();
            format!("unknown link '{name}'; expected one of {}", names.join(", "))
        })
    }
}

fn conditions() -> impl Iterator<Item = Condition> {
    LinkKind::ALL.into_iter().flat_map(|kind| [false, true].map(|is_crowded| Condition { kind, is_crowded }))
}

/// A cost that the model can add up without running out of numbers.
#[derive(Clone, Copy, Deserialize)]
#[serde(try_from = "f64")]
struct Price(f64);

impl TryFrom<f64> for Price {
    type Error = String;

    fn try_from(price: f64) -> Result<Self, String> {
        let is_usable = (0.0..=1e12).contains(&price);
        is_usable.then_some(Price(price)).ok_or_else(|| format!("{price}; expected a number from 0 to 1e12"))
    }
}

/// A proportion of two times.
#[derive(Clone, Copy, Deserialize)]
#[serde(try_from = "f64")]
struct Factor(f64);

impl TryFrom<f64> for Factor {
    type Error = String;

    fn try_from(factor: f64) -> Result<Self, String> {
        let is_usable = (1e-6..=1e6).contains(&factor);
        is_usable
            .then_some(Factor(factor))
            .ok_or_else(|| format!("{factor}; expected a number from 1e-6 to 1e6"))
    }
}

impl Tuning {
    /// Reads the text of a tuning file.
    ///
    /// # Errors
    /// Where a key is unknown, missing or ill-typed, a number is out of range, or an algorithm is not known: with the line.
    pub fn parse(text: &str) -> Result<Tuning, TuningError> {
        if text.len() > LONGEST_BYTES {
            let reason = format!("it has {} bytes; expected at most {LONGEST_BYTES}", text.len());
            return Err(fault("", 0..0, reason));
        }
        let file: File = toml::from_str(text)
            .map_err(|error| fault(text, error.span().unwrap_or_default(), one_line(error.message())))?;
        if *file.format.get_ref() != FORMAT {
            let reason = format!("format {}; this version of hcomm reads {FORMAT}", file.format.get_ref());
            return Err(fault(text, file.format.span(), reason));
        }
        let measured = file.measured.into_iter().map(|m| m.checked(text)).collect::<Result<_, _>>()?;
        let pins = pins(file.pin, text)?;
        let links = file.links.into_iter().map(|(name, link)| link.tuning(name.0)).collect();
        Ok(Tuning { machine: file.machine, made: file.made, links, measured, pins })
    }
}

impl LinkFile {
    fn tuning(self, condition: Condition) -> LinkTuning {
        let LinkFile { latency_ns, message_ns, wait_ns, byte_ns, reduce_byte_ns, copy_byte_ns, .. } = self;
        let prices = [latency_ns, message_ns, wait_ns, byte_ns, reduce_byte_ns, copy_byte_ns];
        let error = self.median_error.zip(self.worst_error);
        let usual = defaults::link(condition).ranks_per_processor;
        LinkTuning {
            condition,
            prices: Prices::from_array(prices.map(|price| price.0)),
            ranks_per_processor: self.ranks_per_processor.map_or(usual, |ranks| ranks.0),
            error: error.map(|(median, worst)| FitError { median: median.0, worst: worst.0 }),
        }
    }
}

impl MeasuredFile {
    fn checked(self, text: &str) -> Result<Measured, TuningError> {
        let mut curves = Vec::new();
        for (collective, named) in &self.factors {
            for (name, factors) in named {
                let located = |reason| fault(text, factors.span(), reason);
                let candidate = candidate(name).map_err(located)?;
                let is_same =
                    |(of, by, _): &(Collective, Candidate, Curve)| (of, by) == (collective, &candidate);
                if curves.iter().any(is_same) {
                    return Err(located(format!("'{candidate}' twice; expected it once")));
                }
                curves.push((*collective, candidate, self.curve(factors.get_ref()).map_err(located)?));
            }
        }
        Ok(Measured { condition: self.link.0, world: self.world.get(), curves })
    }

    fn curve(&self, factors: &[Factor]) -> Result<Curve, String> {
        if factors.len() > self.bytes.len() {
            let (given, sizes) = (factors.len(), self.bytes.len());
            return Err(format!("{given} factors; expected at most {sizes}, one for each size in 'bytes'"));
        }
        let points = self.bytes.iter().copied().zip(factors.iter().map(|factor| factor.0)).collect();
        Curve::new(points).ok_or_else(|| "expected factors for sizes in 'bytes' that ascend".to_owned())
    }
}

/// Pins, of which no two rival: of equally narrow ones nobody could say which counts.
fn pins(files: Vec<PinFile>, text: &str) -> Result<Vec<TunedPin>, TuningError> {
    let mut pins: Vec<TunedPin> = Vec::new();
    for file in files {
        let at = file.algorithm.span();
        let pin = file.checked(text)?;
        if let Some(other) = pins.iter().find(|other| pin.rivals(other)) {
            let (collective, algorithm) = (other.collective, &other.algorithm);
            let reason = format!(
                "{collective} is pinned to {algorithm} at some of these sizes; expected ranges that do not overlap"
            );
            return Err(fault(text, at, reason));
        }
        pins.push(pin);
    }
    Ok(pins)
}

impl TunedPin {
    /// Whether both are for some call, and neither for fewer calls than the other by more than its sizes. One for all sizes gives way to one
    /// for a range.
    fn rivals(&self, other: &TunedPin) -> bool {
        let scope = |pin: &TunedPin| {
            let is_for_all = (pin.from_bytes, pin.to_bytes) == (0, u64::MAX);
            (pin.collective, pin.world, pin.communicator.clone(), is_for_all)
        };
        let overlap = self.from_bytes < other.to_bytes && other.from_bytes < self.to_bytes;
        overlap && scope(self) == scope(other)
    }
}

impl PinFile {
    fn checked(self, text: &str) -> Result<TunedPin, TuningError> {
        AlgorithmName::parse(self.algorithm.get_ref())
            .map_err(|unknown| fault(text, self.algorithm.span(), unknown.to_string()))?;
        let from_bytes = self.from.map_or(0, |from| from.0);
        let to_bytes = self.to.as_ref().map_or(u64::MAX, |to| to.get_ref().0);
        if let Some(to) = self.to.filter(|_| to_bytes <= from_bytes) {
            return Err(fault(text, to.span(), format!("expected more than from = {from_bytes}")));
        }
        Ok(TunedPin {
            collective: self.collective,
            algorithm: self.algorithm.into_inner(),
            from_bytes,
            to_bytes,
            world: self.world.map(NonZeroUsize::get),
            communicator: self.communicator,
        })
    }
}

/// The one candidate of a name that leaves nothing open.
fn candidate(name: &str) -> Result<Candidate, String> {
    let named = AlgorithmName::parse(name).map_err(|unknown| unknown.to_string())?;
    let mut candidates = named.candidates(&[Candidate::WHOLE_SLOT]);
    match (candidates.next(), candidates.next()) {
        (Some(candidate), None) => Ok(candidate),
        (first, _) => {
            let example = first.map_or_else(String::new, |candidate| format!(", such as '{candidate}'"));
            Err(format!("'{name}' could be several; expected all of its parameters{example}"))
        }
    }
}

/// An error at a place in the text.
fn fault(text: &str, at: Range<usize>, reason: String) -> TuningError {
    let before = text.get(..at.start).unwrap_or(text);
    let line = before.matches('\n').count();
    let said = text.lines().nth(line).unwrap_or_default().trim();
    let text = said.chars().take(60).collect();
    TuningError { line: line + 1, text, reason }
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tuning() -> Tuning {
        let condition = Condition { kind: LinkKind::Tcp, is_crowded: true };
        let candidate = |name: &str| candidate(name).expect("a candidate");
        let curve = |points: &[(u64, f64)]| Curve::new(points.to_vec()).expect("ascending");
        let made =
            Made { hcomm: "0.1.0".into(), date: "2026-08-01T12:00:00Z".into(), seconds: 61, samples: 9 };
        Tuning {
            machine: Some(Machine {
                hostname: "a \"b\"".into(),
                cpu: "AMD \\ EPYC".into(),
                processors: 2,
                kernel: "6.1".into(),
            }),
            made: Some(made),
            links: vec![LinkTuning {
                condition,
                prices: Prices::from_array([1.25, 0.1 + 0.2, 0.0, 1e-9, 5.0, 6.0]),
                ranks_per_processor: 1.5,
                error: Some(FitError { median: 0.125, worst: 2.5 }),
            }],
            measured: vec![Measured {
                condition,
                world: 4,
                curves: vec![
                    (
                        Collective::AllReduce,
                        candidate("hierarchical(direct,ring)"),
                        curve(&[(8, 0.5), (64, 1.5)]),
                    ),
                    (Collective::AllReduce, candidate("ring/16KiB"), curve(&[(8, 3.25)])),
                    (Collective::Barrier, candidate("dissemination"), curve(&[(8, 1.0)])),
                ],
            }],
            pins: vec![
                TunedPin {
                    collective: Collective::Broadcast,
                    algorithm: "chain".into(),
                    from_bytes: 4096,
                    to_bytes: 1 << 20,
                    world: Some(4),
                    communicator: Some("data".into()),
                },
                TunedPin {
                    collective: Collective::AllReduce,
                    algorithm: "ring".into(),
                    from_bytes: 0,
                    to_bytes: u64::MAX,
                    world: None,
                    communicator: None,
                },
            ],
        }
    }

    #[test]
    fn what_is_written_is_read_again() {
        let text = tuning().to_text();
        assert_eq!(Tuning::parse(&text).unwrap_or_else(|error| panic!("{error}: {text}")), tuning());
        assert_eq!(Tuning::parse("format = 1\n"), Ok(Tuning::default()));
    }

    #[test]
    fn faults_name_line_and_key() {
        let good = tuning().to_text();
        let cases = [
            (
                "latency_ns = 1.25",
                "latency_ns = -3.0",
                "'latency_ns = -3.0': -3; expected a number from 0 to 1e12",
            ),
            ("latency_ns = 1.25", "latency_ns = nan", "'latency_ns = nan': NaN; expected a number"),
            ("latency_ns = 1.25", "latency_ns = 'x'", "'latency_ns = 'x'': invalid type: string \"x\""),
            ("latency_ns = 1.25", "latensy_ns = 1.25", "'latensy_ns = 1.25': unknown field `latensy_ns`"),
            ("latency_ns = 1.25\n", "", "'[links.tcp_crowded]': missing field `latency_ns`"),
            (
                "[links.tcp_crowded]",
                "[links.ib]",
                "unknown link 'ib'; expected one of shm, shm_crowded, inproc",
            ),
            ("format = 1", "format = 2", "line 1, 'format = 2': format 2; this version of hcomm reads 1"),
            ("[3.25]", "[3.25, 1, 1]", ": 3 factors; expected at most 2"),
            ("[3.25]", "[0]", "0; expected a number from 1e-6 to 1e6"),
            ("[8, 64]", "[64, 8]", "expected factors for sizes in 'bytes' that ascend"),
            (
                "\"ring/16KiB\" = [3.25]",
                "\"ring/16KiB\" = [3.25]\n\"ring/16384\" = [3.25]",
                "'ring/16KiB' twice",
            ),
            ("ring/16KiB", "rung", "unknown algorithm 'rung'; expected one of one_shot, "),
            ("hierarchical(direct,ring)", "hierarchical", "'hierarchical' could be several; expected all"),
            (
                "algorithm = \"chain\"",
                "algorithm = \"chian\"",
                "'algorithm = \"chian\"': unknown algorithm 'chian'",
            ),
            ("to = 1048576", "to = 4096", "'to = 4096': expected more than from = 4096"),
            ("to = 1048576", "to = '4KiB'", "'to = '4KiB'': expected more than from = 4096"),
            (
                "to = 1048576",
                "to = '12QB'",
                "'to = '12QB'': '12QB' is no size; expected a size such as 256MB",
            ),
            ("to = 1048576", "to = -1", "expected a number of bytes, or a size such as '64KB'"),
            ("to = 1048576", "to = 1.5", "expected a number of bytes, or a size such as '64KB'"),
            (
                "collective = \"broadcast\"",
                "collective = \"all\"",
                "'collective = \"all\"': unknown variant `all`",
            ),
            ("world = 4", "world = 0", "'world = 0': invalid value: integer `0`, expected a nonzero usize"),
            (
                "algorithm = \"ring\"",
                "algorithm = \"ring\"\n\n[[pin]]\ncollective = \"all_reduce\"\nalgorithm = \"chain\"",
                "'algorithm = \"chain\"': all_reduce is pinned to ring at some of these sizes; expected ranges",
            ),
            ("processors = 2", "processors = 2\ncores = 2", "'cores = 2': unknown field `cores`"),
            ("[made]", "[made", "'[made'"),
        ];
        for (from, to, expected) in cases {
            assert!(good.contains(from), "{from} is not in {good}");
            let error = Tuning::parse(&good.replacen(from, to, 1)).expect_err(to).to_string();
            assert!(error.starts_with("line ") && error.contains(expected), "{to}: {error}");
            assert_eq!(error.lines().count(), 1, "{error}");
        }
    }

    /// Whatever a byte is changed to, it is refused or says something that can be written and read again.
    #[test]
    fn a_damaged_file_is_refused_or_read() {
        let good = tuning().to_text();
        for at in 0..good.len() {
            for byte in [b'0', b'"', b'\n', b'=', b'[', b'-', b'e', b'~'] {
                let mut damaged = good.clone().into_bytes();
                damaged[at] = byte;
                let Ok(Ok(tuning)) = String::from_utf8(damaged).map(|text| Tuning::parse(&text)) else {
                    continue;
                };
                assert_eq!(Tuning::parse(&tuning.to_text()).as_ref(), Ok(&tuning));
            }
        }
    }

    #[test]
    fn a_huge_file_is_not_read() {
        let error = Tuning::parse(&"#".repeat(LONGEST_BYTES + 1)).expect_err("too long");
        assert!(error.reason.contains("expected at most 1048576"), "{error}");
    }
}
