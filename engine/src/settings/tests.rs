//! The table as a whole: names, defaults, errors, agreement.

use std::time::Duration;

use proptest::prelude::*;

use super::*;

fn text_of(name: &str, value: &str) -> String {
    Settings::from_pairs([(name, value)]).expect_err("the pair is wrong").to_string()
}

#[test]
fn names_are_the_fields_in_capitals_and_unique() {
    let mut names: Vec<&str> = known_names().collect();
    assert!(names.iter().all(|name| name.starts_with(PREFIX)));
    let fields = format!("{:?}", Settings::default());
    for entry in TABLE {
        let field = entry.name[PREFIX.len()..].to_ascii_lowercase();
        assert!(fields.contains(&format!("{field}: ")), "{field} is no field");
    }
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), known_names().count());
}

#[test]
fn defaults_are_legal_and_survive_being_shown() {
    let default = Settings::default();
    let shown = TABLE.iter().map(|entry| (entry.name, entry.show(&default)));
    assert_eq!(Settings::from_pairs(shown), Ok(default));
}

#[test]
fn pairs_set_fields() {
    let settings = Settings::from_pairs([
        ("HCOMM_BUFFER_SIZE", "256MB"),
        ("HCOMM_DEADLINE", "30s"),
        ("HCOMM_TRANSPORT", "tcp"),
        ("HCOMM_LINK_RATE", "500Mbit/s"),
        ("HCOMM_RANK", "not a setting, read elsewhere"),
        ("NCCL_DEBUG", "INFO"),
        ("HCOMM_DEPTH", "8"),
        ("HCOMM_DEPTH", "9"),
    ])
    .expect("legal");
    assert_eq!(settings.buffer_size, Bytes(256_000_000));
    assert_eq!(settings.deadline, Duration::from_secs(30));
    assert_eq!(settings.transport, TransportChoice::Tcp);
    assert_eq!(settings.link_rate, Rate::bytes_per_s(62_500_000));
    assert_eq!(settings.depth, 9);
}

#[test]
fn an_empty_value_is_none() {
    for entry in TABLE {
        for empty in ["", " "] {
            let settings = Settings::from_pairs([(entry.name, empty)]);
            assert_eq!(settings, Ok(Settings::default()), "{}", entry.name);
        }
    }
    let settings = Settings::from_pairs([("HCOMM_TRANSPORT", "tcp"), ("HCOMM_TRANSPORT", "")]);
    assert_eq!(settings, Ok(Settings::default()), "the last one counts");
}

#[test]
fn what_kubernetes_sets_for_a_service_is_no_setting() {
    let links = [
        ("HCOMM_SERVICE_HOST", "10.0.0.7"),
        ("HCOMM_PORT_80_TCP", "tcp://10.0.0.7:80"),
        ("HCOMM_PORT", "tcp://10.0.0.7:80"),
    ];
    assert_eq!(Settings::from_pairs(links), Ok(Settings::default()));
    assert!(text_of("HCOMM_SERVICE", "10.0.0.7").starts_with("unknown setting"));
}

#[test]
fn an_unknown_name_is_answered_with_the_right_one() {
    let cases = [
        ("HCOMM_BUFER_SIZE", "HCOMM_BUFFER_SIZE"),
        ("HCOMM_BUFFSIZE", "HCOMM_BUFFER_SIZE"),
        ("HCOMM_TRANSPORTS", "HCOMM_TRANSPORT"),
        ("HCOMM_RNAK", "HCOMM_RANK"),
        ("HCOMM_deadline", "HCOMM_DEADLINE"),
    ];
    for (slip, meant) in cases {
        assert_eq!(text_of(slip, "1"), format!("unknown setting '{slip}'; did you mean {meant}?"));
    }
    let text = text_of("HCOMM_XYZZY_PLUGH_QUUX", "1");
    assert!(text.contains("expected one of HCOMM_TRANSPORT, "), "{text}");
}

#[test]
fn a_bad_value_is_answered_with_what_was_expected() {
    let cases = [
        (
            "HCOMM_BUFFER_SIZE",
            "12QB",
            "HCOMM_BUFFER_SIZE is '12QB'; expected a size such as 256MB, 8KiB or 4096, from 64KiB to 64GiB",
        ),
        ("HCOMM_BUFFER_SIZE", "1KB", "HCOMM_BUFFER_SIZE is '1KB'; expected a size"),
        (
            "HCOMM_TRANSPORT",
            "tpc",
            "HCOMM_TRANSPORT is 'tpc' (did you mean 'tcp'?); expected one of auto, shm, tcp",
        ),
        ("HCOMM_DEPTH", "1", "HCOMM_DEPTH is '1'; expected a whole number, from 2 to 64"),
        (
            "HCOMM_DEADLINE",
            "10",
            "HCOMM_DEADLINE is '10'; expected a duration such as 10min, 30s or 200us, from 1ms to 720h",
        ),
        ("HCOMM_DEADLINE", "0", "HCOMM_DEADLINE is '0'; expected"),
        (
            "HCOMM_TILE_BYTES",
            "64",
            "HCOMM_TILE_BYTES is '64'; expected a size such as 256MB, 8KiB or 4096, from 128 to 1GiB, or 0",
        ),
        ("HCOMM_DEBUG", "-", "HCOMM_DEBUG is '-'; expected one of off"),
    ];
    for (name, value, expected) in cases {
        let text = text_of(name, value);
        assert!(text.starts_with(expected), "{text}");
    }
}

#[test]
fn zero_where_it_has_a_meaning() {
    for name in [
        "HCOMM_TILE_BYTES",
        "HCOMM_INFLIGHT_BYTES",
        "HCOMM_LINK_RATE",
        "HCOMM_STALL_WARNING",
        "HCOMM_SPIN",
        "HCOMM_TRACE_EVENTS",
    ] {
        assert!(Settings::from_pairs([(name, "0")]).is_ok(), "{name}");
    }
}

#[test]
fn the_description_names_every_setting_its_value_and_its_default() {
    let text = Settings::from_pairs([("HCOMM_DEPTH", "8")]).expect("legal").describe();
    assert!(TABLE.iter().all(|entry| text.contains(entry.name) && text.contains(entry.reason)));
    assert!(text.contains("HCOMM_DEPTH='8' (default '2')"), "{text}");
    assert!(text.contains("HCOMM_DEADLINE='10min'\n"), "{text}");
}

#[test]
fn agreement_takes_the_agreed_settings_only() {
    let first = Settings::from_pairs([
        ("HCOMM_DEPTH", "8"),
        ("HCOMM_ALGORITHM", "all_reduce=ring"),
        ("HCOMM_DEADLINE", "1s"),
    ]);
    let mut second = Settings::from_pairs([("HCOMM_DEPTH", "2"), ("HCOMM_DEADLINE", "2s")]).expect("legal");
    second.adopt(&first.expect("legal").agreed_blob()).expect("rank 0's settings are legal");
    assert_eq!(second.depth, 8);
    assert_eq!(second.algorithm, AlgorithmPins::parse("all_reduce=ring").expect("legal"));
    assert_eq!(second.deadline, Duration::from_secs(2));
}

#[test]
fn a_damaged_agreement_changes_nothing_and_says_where() {
    let blob = Settings::from_pairs([("HCOMM_DEPTH", "8")]).expect("legal").agreed_blob();
    let mut settings = Settings::default();
    for end in 0..blob.len() {
        let error = settings.adopt(&blob[..end]).expect_err("it is cut short");
        assert!(matches!(error, AgreementError::Length { .. }), "{end}: {error}");
    }
    let long = [&blob[..], &[0]].concat();
    assert_eq!(settings.adopt(&long), Err(AgreementError::Length { bytes: long.len(), at: blob.len() }));
    let mut other = blob.clone();
    other[3] ^= 1;
    assert!(matches!(settings.adopt(&other), Err(AgreementError::OtherSetting { .. })));
    let depth = blob
        .windows(4)
        .position(|w| w == [1, 0, b'8', blob[0]] || w[..3] == [1, 0, b'8'])
        .expect("depth is there");
    let mut refused = blob.clone();
    refused[depth + 2] = b'1';
    let error = settings.adopt(&refused).expect_err("1 is out of range");
    assert!(error.to_string().contains("HCOMM_DEPTH is '1'"), "{error}");
    assert_eq!(settings, Settings::default());
}

/// A name that is a setting, or nearly one, or neither.
fn any_name() -> impl Strategy<Value = String> {
    let names: Vec<String> = known_names().map(str::to_owned).collect();
    prop_oneof![
        4 => prop::sample::select(names),
        1 => "HCOMM_[A-Z_]{0,12}",
        1 => ".{0,10}",
    ]
}

/// A value that some setting might take, or none.
fn any_value() -> impl Strategy<Value = String> {
    prop_oneof![
        "[0-9]{1,6}(\\.[0-9]{1,3})?(|B|KB|MiB|GB|s|ms|us|min|GB/s|Mbit/s)",
        "auto|shm|tcp|info|off|1",
        "(all_reduce|barrier|gather)=[a-z]{1,8}(,broadcast=tree)?",
        "\\^?=?[a-z]{1,4}[0-9]?(:[0-9])?(,[a-z]{1,4}){0,2}",
        "[0-9]{1,2}(-[0-9]{1,2})?(,[0-9]{1,2}){0,3}",
        ".{0,20}",
    ]
}

proptest! {
    #[test]
    fn what_is_taken_is_in_range_shown_and_agreed_unchanged(
        pairs in prop::collection::vec((any_name(), any_value()), 0..6),
    ) {
        match Settings::from_pairs(pairs.clone()) {
            Ok(settings) => {
                let shown = TABLE.iter().map(|entry| (entry.name, entry.show(&settings)));
                prop_assert_eq!(&Settings::from_pairs(shown), &Ok(settings.clone()));
                let mut other = Settings::default();
                other.adopt(&settings.agreed_blob()).expect("our own blob");
                for entry in TABLE.iter().filter(|entry| entry.agreed) {
                    prop_assert_eq!(entry.show(&other), entry.show(&settings));
                }
            }
            Err(error) => {
                let text = error.to_string();
                prop_assert!(pairs.iter().any(|(name, _)| text.contains(name.as_str())));
                prop_assert!(text.contains("expected") || text.contains("did you mean"));
            }
        }
    }

    #[test]
    fn no_agreement_panics(blob in prop::collection::vec(any::<u8>(), 0..200)) {
        let mut settings = Settings::default();
        prop_assert!(settings.adopt(&blob).is_err());
        prop_assert_eq!(settings, Settings::default());
    }

    #[test]
    fn a_byte_changed_in_an_agreement_is_an_error_or_a_legal_setting(at in 0usize..400, byte in any::<u8>()) {
        let mut blob = Settings::default().agreed_blob();
        let at = at % blob.len();
        blob[at] = byte;
        let mut settings = Settings::default();
        if settings.adopt(&blob).is_ok() {
            let shown = TABLE.iter().map(|entry| (entry.name, entry.show(&settings)));
            prop_assert_eq!(Settings::from_pairs(shown), Ok(settings));
        }
    }
}

#[test]
fn a_rank_is_told_what_rank_0_overrules() {
    let pairs = |pairs: &[(&str, &str)]| Settings::from_pairs(pairs.iter().copied()).expect("legal");
    let own = pairs(&[("HCOMM_DETERMINISTIC", "1"), ("HCOMM_DEPTH", "2"), ("HCOMM_SPIN", "1ms")]);
    let mut adopted = own.clone();
    adopted.adopt(&pairs(&[("HCOMM_DEPTH", "8")]).agreed_blob()).expect("legal");
    let sentences = own.overruled(&adopted);
    // A depth of 2 is nobody's wish, and how long to spin is each rank's own business.
    let [only] = &sentences[..] else { panic!("{sentences:?}") };
    assert!(only.starts_with("HCOMM_DETERMINISTIC is '") && only.contains("rank 0's"), "{only}");
    assert_eq!(own.overruled(&own), Vec::<String>::new());
}
