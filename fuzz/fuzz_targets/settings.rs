//! Settings from any text: lines of `NAME=VALUE`, then an agreement of any bytes. Nothing panics; what is taken survives being shown and
//! being agreed on; what is refused changes nothing and says what was expected. The same text as a tuning file.

#![no_main]

use hcomm_engine::environment::{Placement, Variables};
use hcomm_engine::settings::{Settings, TABLE};
use hcomm_engine::tuning::Tuned;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let text = String::from_utf8_lossy(data);
    let pairs: Vec<(&str, &str)> = text.lines().filter_map(|line| line.split_once('=')).collect();
    match Settings::from_pairs(pairs.iter().copied()) {
        Ok(settings) => check_taken(&settings),
        Err(error) => {
            assert!(error.to_string().contains("expected") || error.to_string().contains("did you mean"))
        }
    }
    check_agreement(data);
    if let Ok(Tuned { tuning, .. }) = Tuned::parse(text.to_string(), String::new()) {
        let again = Tuned::parse(tuning.to_text(), String::new()).expect("its own text");
        assert_eq!(again.tuning, tuning);
    }
    if let Ok(placement) = Placement::from_variables(&Variables::from_pairs(pairs)) {
        assert!(placement.rank < placement.world);
    }
});

fn check_taken(settings: &Settings) {
    let shown = TABLE.iter().map(|entry| (entry.name, entry.show(settings)));
    assert_eq!(Settings::from_pairs(shown).as_ref(), Ok(settings));
    let mut other = Settings::default();
    assert_eq!(other.adopt(&settings.agreed_blob()), Ok(()));
    assert_eq!(other.agreed_blob(), settings.agreed_blob());
}

fn check_agreement(blob: &[u8]) {
    let mut settings = Settings::default();
    match settings.adopt(blob) {
        Ok(()) => check_taken(&settings),
        Err(_) => assert_eq!(settings, Settings::default()),
    }
}
