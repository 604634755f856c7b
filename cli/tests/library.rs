//! The command as a function: which program the ranks of a measurement are, and what comes back.

use std::ffi::OsString;
use std::path::PathBuf;
use std::{env, fs, process};

fn words(words: &[&str]) -> Vec<OsString> {
    words.iter().map(OsString::from).collect()
}

/// A file that goes with the value.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Scratch {
        Scratch(env::temp_dir().join(format!("hcomm-library-{}-{name}", process::id())))
    }

    fn text(&self) -> &str {
        self.0.to_str().expect("a name of ASCII letters")
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// A command that notes its arguments in a file, a line each time, and exits with 7.
fn noting(file: &Scratch) -> Vec<OsString> {
    words(&["sh", "-c", r#"echo "$*" >> "$0"; exit 7"#, file.text()])
}

#[test]
fn bench_starts_the_command_that_it_was_told() {
    let file = Scratch::new("bench");
    let code = hcomm_cli::run(words(&["hcomm", "bench", "all_reduce", "-n", "1"]), &noting(&file));
    assert_eq!(code, 7);
    assert_eq!(
        fs::read_to_string(&file.0).expect("the rank has run"),
        "bench --as-rank all_reduce -n 1\n",
        "the name that the command was called by is no argument"
    );
}

#[test]
fn tune_starts_the_command_that_it_was_told() {
    let (file, out) = (Scratch::new("tune"), Scratch::new("tune.toml"));
    let code = hcomm_cli::run(
        words(&["hcomm", "tune", "--worlds", "tcp:2", "--sizes", "64", "--out", out.text()]),
        &noting(&file),
    );
    assert_eq!(code, 1);
    let noted = fs::read_to_string(&file.0).expect("a rank has run");
    assert!(noted.starts_with("tune --as-rank --sizes 64 --budget-ms "), "{noted}");
    assert!(!out.0.exists(), "ranks that measured nothing make no tuning");
}

#[test]
fn without_a_command_to_start_there_are_no_ranks() {
    assert_eq!(hcomm_cli::run(words(&["hcomm", "bench", "all_reduce", "-n", "1"]), &[]), 1);
}

#[test]
fn exit_codes_come_back_as_numbers() {
    let cases: &[(&[&str], u8)] = &[
        (&["hcomm", "plan", "all_reduce", "-n", "2", "--explain"], 0),
        (&["hcomm", "--version"], 0),
        (&["hcomm", "lanuch"], 2),
        (&[], 2),
        (&["hcomm", "launch", "-n", "2", "--", "sh", "-c", "exit 9"], 9),
        (&["hcomm", "launch", "-n", "2", "--", "sh", "-c", "kill -9 $$"], 137),
        (&["hcomm", "launch", "-n", "2", "no-such-program-of-ours"], 127),
    ];
    for (line, code) in cases {
        assert_eq!(hcomm_cli::run(words(line), &[]), *code, "{line:?}");
    }
}
