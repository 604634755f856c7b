//! `hcomm settings`: the whole table, as it is here.

use std::process::{Command, Output};

fn settings(args: &[&str], variables: &[(&str, &str)]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hcomm"));
    command.arg("settings").args(args).envs(variables.iter().copied()).output().expect("hcomm starts")
}

#[test]
fn every_setting_is_listed_with_its_value_here() {
    let json = settings(&["--json"], &[("HCOMM_DEPTH", "8")]);
    let json: serde_json::Value = serde_json::from_slice(&json.stdout).expect("one JSON array");
    let text = settings(&[], &[("HCOMM_DEPTH", "8")]);
    let text = String::from_utf8_lossy(&text.stdout);
    let entries = json.as_array().expect("a list");
    assert!(entries.len() >= 20, "{} settings", entries.len());
    for entry in entries {
        let [name, value, reason] =
            ["name", "value", "reason"].map(|key| entry[key].as_str().expect("a text"));
        assert!(
            text.lines().any(|line| line.starts_with(&format!("{name}={value}"))) || value.is_empty(),
            "{name}"
        );
        assert!(text.contains(reason), "{name}");
    }
    assert!(text.contains("HCOMM_DEPTH=8  (usually 2)"), "{text}");
}

#[test]
fn a_wrong_setting_is_refused() {
    let output = settings(&[], &[("HCOMM_DEPHT", "8")]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("HCOMM_DEPTH"));
}
