//! `hcomm tune` on few sizes: the file that it writes and who reads it, the check, mistakes.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};

fn hcomm(args: &[&str]) -> Output {
    // What the machine's own tuning says is none of the tests' business.
    Command::new(env!("CARGO_BIN_EXE_hcomm"))
        .args(args)
        .env("XDG_CONFIG_HOME", folder("config"))
        .output()
        .expect("hcomm starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// What a run prints that must go well.
fn printed(args: &[&str]) -> String {
    let output = hcomm(args);
    assert_eq!(output.status.code(), Some(0), "{args:?}: {}", text(&output.stderr));
    text(&output.stdout)
}

/// A folder of its own for a test.
fn folder(name: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("tune").join(name);
    fs::create_dir_all(&folder).expect("the target folder can be written");
    folder
}

const FEW: [&str; 6] = ["--worlds", "shm:2", "--sizes", "8,128KiB", "--seconds", "3"];

#[test]
fn a_file_is_written_read_and_checked() {
    let path = folder("written").join("tuning.toml");
    let file = path.to_str().expect("a plain path");
    let pin = "format = 1\n[[pin]]\ncollective = 'gather'\nalgorithm = 'binomial'\n";
    fs::write(&path, pin).expect("it can be written");

    let said = printed(&[&["tune", "--out", file], &FEW[..]].concat());
    assert!(said.starts_with("link ") && said.ends_with(&format!("written to {file}\n")), "{said}");
    let row = said.lines().find(|line| line.starts_with("shm ")).unwrap_or_else(|| panic!("{said}"));
    assert!(row.matches(" %").count() == 2, "{row}");

    let written = fs::read_to_string(&path).expect("it was written");
    for line in [
        "[machine]",
        "[made]",
        "[links.shm]",
        "world = 2",
        "bytes = [8, 131072]",
        "[measured.factors.barrier]",
    ] {
        assert!(written.lines().any(|l| l == line), "{line} is not in {written}");
    }
    for key in
        ["hostname = ", "cpu = ", "processors = ", "kernel = ", "date = \"20", "hcomm = ", "median_error = "]
    {
        assert!(written.lines().any(|line| line.starts_with(key)), "{key} is not in {written}");
    }
    assert!(written.contains("[[pin]]\ncollective = \"gather\"\nalgorithm = \"binomial\"\n"), "{written}");

    let said = printed(&["plan", "gather", "-n", "2", "--explain", "--tuning", file]);
    assert!(
        said.contains(&format!("costs: {file}; 2 ranks on 1 host; measured with 2 ranks over shm\n")),
        "{said}"
    );
    assert!(said.contains(&format!("gather=binomial of {file}: decides this size\n")), "{said}");

    let output = hcomm(&[&["tune", "--json", "--check", file], &FEW[..]].concat());
    let said = text(&output.stdout);
    let checked: serde_json::Value = serde_json::from_str(&said).unwrap_or_else(|e| panic!("{e}: {said}"));
    assert_eq!(checked["source"], file);
    let setup = &checked["setups"][0];
    assert_eq!(setup["cells"].as_array().map(Vec::len), Some(17));
    for cell in setup["cells"].as_array().expect("cells") {
        let times = cell["times_us"].as_object().expect("times");
        let chosen = cell["chosen"].as_str().expect("a name");
        assert!(times.contains_key(chosen) && times.values().all(|t| t.as_f64() > Some(0.0)), "{cell}");
        assert!(cell["regret"].as_f64() >= Some(0.0), "{cell}");
        // Of which tiles is left to the choice.
        let algorithm = chosen.split('/').next();
        assert!(
            cell["collective"] != "gather" || algorithm == Some("binomial"),
            "the file's pin holds: {cell}"
        );
    }
    let is_good = setup["mean_regret"].as_f64() <= Some(0.1);
    assert_eq!(output.status.code(), Some(if is_good { 0 } else { 1 }), "{said}");
}

/// The text of a check, from a file that says nothing.
#[test]
fn a_check_is_summed_up_for_people() {
    let path = folder("empty").join("tuning.toml");
    fs::write(&path, "format = 1\n").expect("it can be written");
    let file = path.to_str().expect("a plain path");
    let output = hcomm(&["tune", "--check", file, "--worlds", "tcp:2", "--sizes", "1KiB", "--seconds", "1"]);
    let said = text(&output.stdout);
    assert!(output.status.code().is_some_and(|code| code < 2), "{}", text(&output.stderr));
    assert!(said.starts_with(&format!("choices by {file}\n\ntcp, 2 ranks: mean regret ")), "{said}");
    assert!(said.contains("; 9 calls took "), "{said}");
    assert!(text(&output.stderr).starts_with(&format!("checks the choices by {file}\nabout ")));
}

#[test]
fn a_check_without_a_file_says_first_that_there_is_none() {
    let output = Command::new(env!("CARGO_BIN_EXE_hcomm"))
        .args(["tune", "--check", "--worlds", "tcp:2", "--sizes", "1KiB", "--seconds", "1"])
        .env("HCOMM_TUNING", "off")
        .output()
        .expect("hcomm starts");
    let said = text(&output.stderr);
    let first = "checks the choices by defaults, hcomm's built-in figures: no tuning file counts here\n";
    assert!(said.starts_with(first), "{said}");
}

#[test]
fn mistakes_are_one_line_and_code_2() {
    let path = folder("faulty").join("tuning.toml");
    fs::write(&path, "format = 1\n[links.shm]\nlatency_ns = 'high'\n").expect("it can be written");
    let file = path.to_str().expect("a plain path");
    let fault = format!("tuning file {file}, line 3, 'latency_ns = 'high'': invalid type: string");
    let cases: &[(&[&str], &str)] = &[
        (
            &["tune", "--worlds", "shm:3"],
            "--worlds: 'shm:3' is no world that is measured here; expected one of shm:2",
        ),
        (&["tune", "--sizes", "4"], "--sizes: 4 bytes; expected sizes from 8 to 1GiB"),
        (&["tune", "--sizes", "much"], "--sizes: 'much' is no size"),
        (&["tune", "--seconds", "0"], "--seconds: "),
        (&["tune", "--quick", "--seconds", "9"], "the argument '--quick' cannot be used with"),
        (&["tune", "--check", "/no/such/file"], "cannot read the tuning file /no/such/file: "),
        (&["tune", "--check", file], &fault),
        (&["tune", "--out", file], &fault),
        (&["tune", "--out", file, "--check"], "the argument '--out <FILE>' cannot be used with"),
        (&["plan", "barrier", "-n", "2", "--tuning", file], &fault),
    ];
    for (args, expected) in cases {
        let output = hcomm(args);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {said}");
        assert!(said.starts_with(&format!("hcomm: {expected}")), "{args:?}: {said}");
        assert_eq!(said.trim_end().lines().count(), 1, "{args:?}: {said}");
    }
    assert!(
        fs::read_to_string(&path).expect("it is still there").contains("'high'"),
        "nothing is overwritten"
    );
}

/// Exit code 1 says that the choices are bad, which nobody knows of a check that was ended.
#[test]
fn a_check_that_a_signal_ends_has_no_verdict() {
    let mut check = Command::new(env!("CARGO_BIN_EXE_hcomm"))
        .args(["tune", "--check", "--worlds", "shm:2", "--sizes", "8,16M,32M,64M", "--seconds", "3000"])
        .env("XDG_CONFIG_HOME", folder("ended"))
        .stderr(std::process::Stdio::null())
        .spawn()
        .expect("hcomm starts");
    let id = check.id().to_string();
    let ended = loop {
        std::thread::sleep(std::time::Duration::from_millis(300));
        if let Some(ended) = check.try_wait().expect("it is ours") {
            break ended;
        }
        Command::new("kill").args(["-INT", &id]).status().expect("kill starts");
    };
    // By itself before it listens; with the ranks ever after, which a second signal kills.
    assert!(matches!(ended.code(), None | Some(130 | 137)), "{ended}");
}
