//! [`Agreed`]: what rank 0 says at the rendezvous, beside its settings, and all ranks then go by: the tuning that it read, the pins and
//! the name that a communicator was given, and how many processors its time is limited to.
//!
//! Its bytes are fields of a length (u32, little endian) and so many bytes each.

use hcomm_planner::choose::Pin;

use crate::settings::{AgreementError, AlgorithmPins, Settings};
use crate::tuning::Tuned;

/// See the module.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Agreed {
    /// What rank 0 read.
    pub tuned: Tuned,
    /// The communicator's name.
    pub name: String,
    /// Pins of the handles that it and its ancestors were split from, the nearest first.
    pub inherited: Vec<AlgorithmPins>,
    /// Whether it was split from another.
    pub is_split: bool,
    /// The processors that rank 0's control group leaves it the time of, where those are fewer than it may run on.
    pub quota: Option<usize>,
}

/// How many fields there are.
const FIELDS: usize = 7;

impl Agreed {
    /// For a communicator that was split from none.
    pub fn new(tuned: Tuned) -> Agreed {
        Agreed { tuned, name: "world".to_owned(), ..Agreed::default() }
    }

    /// For a communicator split from one that goes by this, by a handle with pins of its own.
    pub fn split(&self, name: Option<&str>, pins: Option<&AlgorithmPins>) -> Agreed {
        let inherited = pins.into_iter().chain(&self.inherited).cloned().collect();
        let name = name.unwrap_or("split").to_owned();
        Agreed { name, inherited, is_split: true, ..self.clone() }
    }

    /// The inherited pins, in the order in which they count.
    pub fn inherited_pins(&self) -> Vec<Pin> {
        let source = "the communicator that was split";
        self.inherited.iter().flat_map(|pins| pins.to_pins(source)).collect()
    }

    /// As bytes, with the settings.
    pub fn encode(&self, settings: &Settings) -> Vec<u8> {
        use crate::settings::value::Value;
        let inherited = self.inherited.iter().map(Value::show).collect::<Vec<_>>().join("\n");
        let blob = settings.agreed_blob();
        let quota = self.quota.map_or_else(String::new, |quota| quota.to_string());
        let fields: [&[u8]; FIELDS] = [
            &blob,
            self.tuned.source.as_bytes(),
            self.tuned.text.as_bytes(),
            self.name.as_bytes(),
            inherited.as_bytes(),
            if self.is_split { b"split" } else { b"" },
            quota.as_bytes(),
        ];
        let mut bytes = Vec::new();
        for field in fields {
            bytes.extend((field.len() as u32).to_le_bytes());
            bytes.extend(field);
        }
        bytes
    }

    /// From bytes; the settings are `own` with the agreed ones.
    ///
    /// # Errors
    /// Where the bytes are not those of [`Agreed::encode`].
    pub fn decode(bytes: &[u8], own: &Settings) -> Result<(Settings, Agreed), AgreementError> {
        let [settings, source, tuning, name, inherited, split, quota] = fields(bytes)?;
        let mut adopted = own.clone();
        adopted.adopt(settings)?;
        let text = |field: &[u8]| {
            let text = std::str::from_utf8(field).map_err(|_| AgreementError::NotText { at: 0 })?;
            Ok::<String, AgreementError>(text.to_owned())
        };
        let pins =
            |line: &str| AlgorithmPins::parse(line).ok_or_else(|| AgreementError::Pins(line.to_owned()));
        let agreed = Agreed {
            tuned: Tuned::parse(text(tuning)?, text(source)?)?,
            name: text(name)?,
            inherited: text(inherited)?.lines().map(pins).collect::<Result<_, _>>()?,
            is_split: !split.is_empty(),
            quota: text(quota)?.parse().ok(),
        };
        Ok((adopted, agreed))
    }
}

fn fields(bytes: &[u8]) -> Result<[&[u8]; FIELDS], AgreementError> {
    let mut rest = bytes;
    let mut fields = [&[][..]; FIELDS];
    let wrong = |rest: &[u8]| AgreementError::Length { bytes: bytes.len(), at: bytes.len() - rest.len() };
    for field in &mut fields {
        let (length, after) = rest.split_first_chunk().ok_or_else(|| wrong(rest))?;
        let length = u32::from_le_bytes(*length) as usize;
        let (own, after) = after.split_at_checked(length).ok_or_else(|| wrong(rest))?;
        (*field, rest) = (own, after);
    }
    if rest.is_empty() { Ok(fields) } else { Err(wrong(rest)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example() -> (Settings, Agreed) {
        let settings = Settings::from_pairs([("HCOMM_DEPTH", "8")]).expect("legal");
        let text = "format = 1\n[[pin]]\ncollective = 'reduce'\nalgorithm = 'chain'\n";
        let tuned = Tuned::parse(text.to_owned(), "/a/b.toml".to_owned()).expect("a good text");
        let pins = |text| AlgorithmPins::parse(text).expect("legal");
        let agreed = Agreed::new(tuned)
            .split(None, Some(&pins("all_reduce@1KiB..=ring,barrier=tree")))
            .split(Some("data"), Some(&pins("all_gather=ring")));
        (settings, Agreed { quota: Some(3), ..agreed })
    }

    #[test]
    fn what_is_said_is_understood() {
        let (settings, agreed) = example();
        assert_eq!((&*agreed.name, agreed.inherited.len(), agreed.is_split), ("data", 2, true));
        let own = Settings::default();
        let (adopted, heard) = Agreed::decode(&agreed.encode(&settings), &own).expect("our own words");
        assert_eq!(heard, agreed);
        assert_eq!(adopted.depth, 8);
        let plain = Agreed::new(Tuned::default());
        assert_eq!(Agreed::decode(&plain.encode(&own), &own).expect("our own words").1, plain);
        let order: Vec<String> =
            agreed.inherited_pins().iter().map(|pin| pin.algorithm.to_string()).collect();
        assert_eq!(order, ["ring", "ring", "tree"]);
    }

    #[test]
    fn what_is_cut_short_or_spoilt_is_an_error() {
        let (settings, agreed) = example();
        let bytes = agreed.encode(&settings);
        let own = Settings::default();
        for end in 0..bytes.len() {
            assert!(Agreed::decode(&bytes[..end], &own).is_err(), "{end}");
        }
        let long = [&bytes[..], &[0]].concat();
        assert!(matches!(Agreed::decode(&long, &own), Err(AgreementError::Length { .. })));
        for at in 0..bytes.len() {
            let mut spoilt = bytes.clone();
            spoilt[at] ^= 0x80;
            // Whatever it is taken for, nothing panics.
            let _ = Agreed::decode(&spoilt, &own);
        }
        let spoilt = Agreed { tuned: Tuned { text: "format = 7".into(), ..agreed.tuned.clone() }, ..agreed };
        let error = Agreed::decode(&spoilt.encode(&settings), &own).expect_err("another format").to_string();
        assert!(error.contains("format 7"), "{error}");
    }
}
