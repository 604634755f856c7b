//! Mistakes on the command line: exit code 2, one line that names the word and what was expected.

use std::process::{Command, Output};

fn hcomm(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_hcomm")).args(args).output().expect("hcomm starts")
}

#[test]
fn a_mistake_is_one_line_and_code_2() {
    let cases: &[(&[&str], &str)] = &[
        (&[], "no command given; expected one of launch, "),
        (&["lanuch"], "unknown command 'lanuch' (did you mean 'launch'?); expected one of launch, "),
        (&["frobnicate"], "unknown command 'frobnicate'; expected one of launch, "),
        (&["launch", "true"], "missing --ranks <N>"),
        (&["launch", "-n", "2"], "missing <PROGRAM>"),
        (&["launch", "-n", "two", "true"], "--ranks: 'two' is no number of ranks; expected 1 to 4096"),
        (&["launch", "-np", "2", "true"], "--ranks: -np is mpirun's word; expected -n N"),
        (&["plan", "all_reduce", "-np", "2"], "--ranks: -np is mpirun's word; expected -n N"),
        (
            &["plan", "all_reduce", "-n", "2000", "--rank", "3", "--verify"],
            "all plans of 2000 ranks are too many; expected no --verify, which joins them, even to show --rank, or at most 1024",
        ),
        (
            &["plan", "all_reduce", "-n", "4", "--hosts", "2", "--transport", "inproc"],
            "--hosts: one process is not on 2 hosts; expected --transport shm or tcp",
        ),
        (&["launch", "-n", "0", "true"], "--ranks: '0' is no number of ranks; expected 1 to 4096"),
        (
            &["launch", "-n", "1", "--grace", "5", "true"],
            "--grace: '5' is no time to wait; expected a duration",
        ),
        (
            &["launch", "-n", "1", "--bnid", "true"],
            "unexpected argument '--bnid' found (did you mean '--bind'?)",
        ),
        (&["launch", "-n"], "a value is required for '--ranks <N>'"),
        (
            &["bench", "all_reduce", "-n", "2", "--op", "premulsum:nan"],
            "--op: premulsum:NaN has no result that could be foreseen; expected a finite factor",
        ),
        (
            &["plan", "all_reduce", "-n", "2", "--algorithm", "ring:4294967297"],
            "'ring:4294967297' names no algorithm; expected NAME or NAME(INNER,OUTER), then :CHANNELS",
        ),
        (&["doctor", "--yaml"], "unexpected argument '--yaml' found"),
        (&["doctor", "now"], "unexpected argument 'now' found"),
    ];
    for (args, expected) in cases {
        let output = hcomm(args);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {said}");
        assert!(said.starts_with(&format!("hcomm: {expected}")), "{args:?}: {said}");
        assert_eq!(said.trim_end().lines().count(), 1, "{args:?}: {said}");
        assert!(output.stdout.is_empty());
    }
}

#[test]
fn help_and_version_are_no_mistakes() {
    for args in [&["--help"][..], &["launch", "--help"], &["doctor", "-h"]] {
        let output = hcomm(args);
        assert_eq!(output.status.code(), Some(0));
        assert!(String::from_utf8_lossy(&output.stdout).contains("Usage: hcomm"));
    }
    let version = hcomm(&["--version"]);
    assert_eq!(String::from_utf8_lossy(&version.stdout), format!("hcomm {}\n", env!("CARGO_PKG_VERSION")));
}
