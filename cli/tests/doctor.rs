//! `hcomm doctor` on the machine that runs the tests.

use std::process::{Command, Output};

fn doctor(args: &[&str], variables: &[(&str, &str)]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hcomm"));
    command.arg("doctor").args(args).envs(variables.iter().copied()).output().expect("hcomm starts")
}

fn findings(variables: &[(&str, &str)]) -> (Option<i32>, serde_json::Value) {
    let output = doctor(&["--json"], variables);
    (output.status.code(), serde_json::from_slice(&output.stdout).expect("one JSON object"))
}

#[test]
fn the_table_and_the_json_have_the_same_subjects() {
    let (code, json) = findings(&[]);
    assert_eq!(code, Some(i32::from(json["usable"] != true)));
    let table = doctor(&[], &[]);
    let table = String::from_utf8_lossy(&table.stdout);
    let subjects = json["findings"].as_array().expect("a list");
    assert!(subjects.len() >= 12);
    for finding in subjects {
        let subject = finding["subject"].as_str().expect("a text");
        let mark = finding["state"].as_str().expect("a text");
        assert!(table.lines().any(|line| line.starts_with(mark) && line.contains(subject)), "{subject}");
        assert!(!finding["detail"].as_str().unwrap_or_default().is_empty(), "{subject} has no detail");
    }
}

#[test]
fn an_environment_that_names_half_a_rank_makes_it_unusable() {
    let (code, json) = findings(&[("HCOMM_RANK", "1")]);
    assert_eq!((code, &json["usable"]), (Some(1), &serde_json::Value::Bool(false)));
    let placement =
        json["findings"].as_array().and_then(|list| list.iter().find(|f| f["subject"] == "placement"));
    let detail = placement.expect("it is looked at")["detail"].as_str().unwrap_or_default();
    assert!(detail.contains("HCOMM_WORLD is not set"), "{detail}");
}

#[test]
fn changed_settings_are_shown_and_wrong_ones_refused() {
    let output = doctor(&[], &[("HCOMM_DEPTH", "8")]);
    assert!(String::from_utf8_lossy(&output.stdout).contains("HCOMM_DEPTH=8"));
    let output = doctor(&[], &[("HCOMM_DEPTH", "1")]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).starts_with("hcomm: HCOMM_DEPTH is '1'; expected"));
}
