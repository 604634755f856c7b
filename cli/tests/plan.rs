//! `hcomm plan`: every collective compiled, proved and shown; files; mistakes.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};

const COLLECTIVES: [&str; 9] = [
    "all_reduce",
    "all_gather",
    "reduce_scatter",
    "broadcast",
    "reduce",
    "gather",
    "scatter",
    "all_to_all",
    "barrier",
];

fn hcomm(args: &[&str]) -> Output {
    hcomm_with(args, &[])
}

/// Without the machine's own tuning, which is none of the tests' business.
fn hcomm_with(args: &[&str], settings: &[(&str, &str)]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hcomm"));
    command.arg("plan").args(args).env("HCOMM_TUNING", "off").envs(settings.iter().copied());
    command.output().expect("hcomm starts")
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

/// A file of its own for a test.
fn file(name: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("plan");
    fs::create_dir_all(&folder).expect("the target folder can be written");
    folder.join(name)
}

#[test]
fn every_collective_is_summed_up_proved_and_listed() {
    for collective in COLLECTIVES {
        for ranks in ["1", "2", "5"] {
            let said = printed(&[collective, "--ranks", ranks]);
            for start in [
                "call       ",
                "algorithm  ",
                "steps      ",
                "messages   ",
                "chunks     ",
                "lanes      ",
                "verified: ",
            ] {
                assert!(
                    said.lines().any(|line| line.starts_with(start)),
                    "{collective} of {ranks} lacks {start}: {said}"
                );
            }
            let slices = said.lines().filter(|line| line.starts_with(&format!("{collective} by "))).count();
            assert_eq!(slices.to_string(), ranks, "{collective}: {said}");
        }
    }
}

#[test]
fn a_ring_of_eight_is_counted() {
    let said = printed(&["all_reduce", "--ranks", "8", "--bytes", "1MB", "--algorithm", "ring"]);
    assert!(
        said.starts_with("call       all_reduce (sum) of f32, 1000000 bytes, 8 ranks on 1 host\n"),
        "{said}"
    );
    assert!(said.contains("\nalgorithm  ring, asked for: "), "{said}");
    assert!(said.contains("\nsteps      14, "), "{said}");
    assert!(said.contains("\nmessages   112 per tile, at most 14 from one rank\n"), "{said}");
    assert!(said.contains("\nchunks     8 of up to 125000 bytes, in 2 tiles of up to 63616\n"), "{said}");
    assert!(said.contains(" 112 messages per tile: acyclic, no deadlock with channels 2 deep"), "{said}");
}

#[test]
fn one_slice_is_shown_and_all_are_proved() {
    let said = printed(&["all_reduce", "-n", "4", "--algorithm", "ring", "--rank", "3"]);
    assert_eq!(said.matches("all_reduce by ring: rank ").count(), 1, "{said}");
    assert!(said.contains("all_reduce by ring: rank 3 of 4"), "{said}");
    assert!(said.contains("\nmessages   6 sent by rank 3, per tile\n"), "{said}");
    assert!(said.contains("verified: ") && said.contains(" 24 messages"), "{said}");
}

#[test]
fn large_worlds_are_proved_on_demand_only() {
    let said = printed(&["broadcast", "-n", "1000", "--rank", "999"]);
    assert!(said.contains("not verified: 1 of 1000 slices compiled"), "{said}");
    let said = printed(&["broadcast", "-n", "200", "--algorithm", "binomial"]);
    assert!(said.contains("\nverified: "), "few nodes are proved whatever the ranks: {said}");
    let said = printed(&["barrier", "-n", "65", "--verify", "--rank", "0"]);
    assert!(said.contains("\nverified: "), "{said}");
    let output = hcomm(&["broadcast", "-n", "5000"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("expected --rank for one slice"), "{}", text(&output.stderr));
}

#[test]
fn drawings_and_json_go_to_files() {
    let files = ["all.dot", "all.svg", "all.html", "all.json"].map(file);
    let [dot, svg, html, json] = files.each_ref().map(|path| path.to_str().expect("a plain path"));
    let said =
        printed(&["reduce_scatter", "-n", "3", "--dot", dot, "--svg", svg, "--html", html, "--json", json]);
    assert!(said.starts_with("verified: ") && said.lines().count() == 1, "{said}");
    let [dot, svg, html, json] = files.map(|path| fs::read_to_string(path).expect("it was written"));
    assert!(dot.starts_with("digraph") && dot.contains("label=\"rank 2\""));
    assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"));
    assert!(html.starts_with("<!doctype html>") && html.trim_end().ends_with("</html>"));
    for drawing in [dot, svg, html] {
        assert!(drawing.contains("976.6 KiB") && drawing.contains("predicted "), "the bytes and the time");
        assert!(drawing.contains("critical path of one tile"));
    }
    let plans: serde_json::Value = serde_json::from_str(&json).expect("it is JSON");
    assert_eq!(plans["slices"].as_array().map(Vec::len), Some(3));
}

/// Where there is no Graphviz, nothing is tested, and that is said.
#[test]
fn graphviz_takes_the_drawings() {
    if Command::new("dot").arg("-V").output().is_err() {
        println!("skipped: no Graphviz here");
        return;
    }
    for (collective, algorithm) in
        [("all_reduce", "ring"), ("broadcast", "binomial"), ("all_to_all", "pairwise")]
    {
        let path = file(&format!("{algorithm}.dot"));
        let path = path.to_str().expect("a plain path");
        printed(&[collective, "-n", "4", "--algorithm", algorithm, "--dot", path]);
        let drawn = Command::new("dot").args(["-Tsvg", path]).output().expect("it has just started");
        assert!(drawn.status.success(), "{algorithm}: {}", text(&drawn.stderr));
        assert!(text(&drawn.stdout).contains("critical path of one tile"), "{algorithm}");
    }
}

#[test]
fn a_trace_is_of_the_plan_that_is_drawn() {
    let (trace, html) = (file("other.json"), file("other.html"));
    let (trace, html) = (trace.to_str().expect("a plain path"), html.to_str().expect("a plain path"));
    let event =
        r#"[{"cat":"node","pid":0,"ts":1,"dur":1,"args":{"operation":1,"tile":0,"node":0,"plan":"00ff"}}]"#;
    let cases = [
        ("{}", 2, "is no trace: missing field `traceEvents`"),
        ("[]", 2, "has no events of plan nodes"),
        (event, 2, "is a trace of plan 00ff; expected plan "),
    ];
    for (content, code, expected) in cases {
        fs::write(trace, content).expect("it can be written");
        let output = hcomm(&["all_reduce", "-n", "2", "--html", html, "--trace", trace]);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{content}: {said}");
        assert!(said.starts_with("hcomm: --trace: ") && said.contains(expected), "{content}: {said}");
    }
}

#[test]
fn a_dash_is_standard_output_and_nothing_else_is_on_it() {
    let output = hcomm(&["all_gather", "-n", "2", "--json", "-", "--rank", "1"]);
    assert_eq!(output.status.code(), Some(0));
    let plans: serde_json::Value = serde_json::from_slice(&output.stdout).expect("only JSON");
    assert_eq!(plans["slices"][0]["rank"], 1);
    assert!(text(&output.stderr).starts_with("verified: "));
    let output = hcomm(&["all_gather", "-n", "2", "--json", "-", "--dot", "-"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        text(&output.stderr).contains("--json and --msccl are '-'; expected at most one"),
        "{}",
        text(&output.stderr)
    );
}

#[test]
fn explain_says_why() {
    let said = printed(&["all_reduce", "-n", "4", "--bytes", "8", "--explain"]);
    assert!(said.starts_with("all_reduce (sum) of f32 in a world of 4, 8 bytes: "), "{said}");
    for part in
        ["\ncosts: defaults; 4 ranks on 1 host; ", "\nby size:\n", "\noverrides:\n  none\n", "\nverified: "]
    {
        assert!(said.contains(part), "{part} is not in {said}");
    }
    for column in ["predicted", "steps", "tiles", "local bytes", "remote bytes", "why"] {
        assert!(said.lines().any(|line| line.starts_with("algorithm ") && line.contains(column)), "{said}");
    }
    assert!(said.contains("chosen: least predicted time") && said.contains(" us more: "), "{said}");
}

#[test]
fn explain_needs_no_slices() {
    let said = printed(&["all_reduce", "-n", "4096", "--explain"]);
    assert!(said.contains("not verified: 0 of 4096 slices compiled"), "{said}");
}

#[test]
fn explain_says_who_overrides_what() {
    let path = file("pins.toml");
    let pin =
        "format = 1\n[[pin]]\ncollective = 'all_reduce'\nalgorithm = 'two_shot'\nto = 1024\nworld = 4\n";
    fs::write(&path, pin).expect("it can be written");
    let tuning = path.to_str().expect("a plain path");
    let explained = |bytes: &str, more: &[&str]| {
        let args =
            [&["all_reduce", "-n", "4", "--bytes", bytes, "--explain", "--tuning", tuning], more].concat();
        let output = hcomm_with(&args, &[("HCOMM_ALGORITHM", "all_reduce@..64=ring")]);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        text(&output.stdout)
    };
    let said = explained("8", &[]);
    assert!(said.contains(" 8 bytes: ring, pinned by HCOMM_ALGORITHM\n"), "{said}");
    assert!(said.contains("\n  all_reduce@..64=ring of HCOMM_ALGORITHM: decides this size\n"), "{said}");
    assert!(
        said.contains(&format!("\n  all_reduce@..1024=two_shot of {tuning}: gives way to another pin\n")),
        "{said}"
    );
    let said = explained("512", &[]);
    assert!(said.contains(&format!(" 512 bytes: two_shot, pinned by {tuning}\n")), "{said}");
    assert!(said.contains("ring of HCOMM_ALGORITHM: for other sizes\n"), "{said}");
    let said = explained("8", &["--algorithm", "one_shot"]);
    assert!(
        said.contains(": one_shot, as the call asks\n")
            && said.contains("ring of HCOMM_ALGORITHM: gives way"),
        "{said}"
    );
    // The summary of the plan says it too.
    let output = hcomm_with(&["all_reduce", "-n", "4"], &[("HCOMM_ALGORITHM", "all_reduce=ring")]);
    assert!(text(&output.stdout).contains("\nalgorithm  ring, pinned by HCOMM_ALGORITHM: "), "{output:?}");
    let output = hcomm_with(&["all_reduce", "-n", "4"], &[("HCOMM_ALGORITHM", "all_reduce=hierarchical")]);
    assert_eq!(output.status.code(), Some(2));
    let said = text(&output.stderr);
    assert!(
        said.starts_with("hcomm: all_reduce=hierarchical of HCOMM_ALGORITHM: all_reduce (sum) of f32"),
        "{said}"
    );
}

#[test]
fn crowds_and_processes_have_prices_of_their_own() {
    let predicted = |more: &[&str]| {
        let args = ["all_reduce", "-n", "4", "--bytes", "8", "--algorithm", "one_shot", "--explain"];
        let said = printed(&[&args, more].concat());
        let row = said.lines().find(|line| line.starts_with("one_shot")).expect("a row").to_owned();
        row.split_whitespace().nth(1).and_then(|us| us.parse::<f64>().ok()).unwrap_or_else(|| panic!("{row}"))
    };
    let alone = predicted(&[]);
    assert!(predicted(&["--processors", "2"]) > 2.0 * alone);
    assert!(predicted(&["--processors", "1"]) > 1.5 * predicted(&["--processors", "2"]));
    assert!(predicted(&["--transport", "tcp"]) > 2.0 * alone);
    assert!(predicted(&["--transport", "inproc"]) < alone);
    assert_eq!(predicted(&["--processors", "8"]), alone);
}

#[test]
fn hosts_and_transports_decide_the_lanes() {
    let lanes = |args: &[&str]| {
        let said = printed(&[&["all_reduce", "-n", "4", "--algorithm"], args].concat());
        said.lines().find(|line| line.starts_with("lanes ")).unwrap_or_default().to_owned()
    };
    let shm = lanes(&["two_shot"]);
    assert!(shm.contains("shm") && !shm.contains("socket"), "{shm}");
    let tcp = lanes(&["two_shot", "--transport", "tcp"]);
    assert!(tcp.contains("socket") && !tcp.contains("shm"), "{tcp}");
    let both = lanes(&["hierarchical", "--hosts", "2"]);
    assert!(both.contains("socket") && both.contains("shm"), "{both}");
    let apart = lanes(&["two_shot", "--hosts", "2", "--transport", "tcp"]);
    assert_eq!(apart, tcp, "TCP joins the ranks of a host too");
}

#[test]
fn a_topology_file_places_the_plan() {
    let path = file("topology.json");
    let host = |name: &str, first: usize| {
        let ranks =
            [first, first + 1].map(|rank| format!(r#"{{"rank":{rank},"gpu":"gpu{}"}}"#, rank - first));
        format!(
            r#"{{"name":"{name}","ranks":[{}],"gpus":[{{"name":"gpu0"}},{{"name":"gpu1"}}],"nics":[{{"name":"nic0"}}]}}"#,
            ranks.join(",")
        )
    };
    fs::write(&path, format!(r#"{{"hosts":[{},{}]}}"#, host("a", 0), host("b", 2)))
        .expect("it can be written");
    let path = path.to_str().expect("a plain path");
    let said = printed(&["all_reduce", "--topology", path, "--algorithm", "hierarchical"]);
    assert!(said.contains("4 ranks on 2 hosts"), "{said}");
    assert!(
        said.contains("stream of gpu1") && said.contains("queue pair of nic0 to rank"),
        "devices as the file has them: {said}"
    );
    let output = hcomm(&["all_reduce", "--topology", path, "--ranks", "5"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("has 4 ranks; expected 4"), "{}", text(&output.stderr));
}

#[test]
fn mistakes_are_one_line_and_their_code() {
    let broken = file("broken.json");
    fs::write(&broken, "{").expect("it can be written");
    let broken = broken.to_str().expect("a plain path");
    let cases: &[(&[&str], i32, &str)] = &[
        (&["all_reduce"], 2, "missing --ranks <N>"),
        (&["-n", "2"], 2, "missing <COLLECTIVE>"),
        (&["all_reduced", "-n", "2"], 2, "unknown collective 'all_reduced'; expected one of all_reduce, "),
        (&["all_reduce", "-n", "0"], 2, "--ranks: '0' is no number of ranks; expected 1 to 65536"),
        (
            &["all_reduce", "-n", "2", "--bytes", "much"],
            2,
            "--bytes: 'much' is no size; expected a size such as",
        ),
        (
            &["all_reduce", "-n", "2", "--dtype", "f33"],
            2,
            "--dtype: unknown data type 'f33'; expected one of",
        ),
        (&["all_reduce", "-n", "2", "--op", "plus"], 2, "--op: unknown reduction 'plus'; expected one of"),
        (
            &["all_reduce", "-n", "2", "--op", "min", "--dtype", "complex64"],
            2,
            "min of complex64 is not supported",
        ),
        (&["all_reduce", "-n", "2", "--algorithm", "rung"], 2, "unknown algorithm 'rung'; expected one of"),
        (
            &["all_reduce", "-n", "2", "--algorithm", "pairwise"],
            2,
            "all_reduce (sum) of f32 in a world of 2 is not supported",
        ),
        (&["all_reduce", "-n", "2", "--root", "1"], 2, "root 1 of all_reduce, which has no root"),
        (&["broadcast", "-n", "2", "--root", "2"], 2, "root 2 of broadcast; expected a rank below"),
        (&["broadcast", "-n", "2", "--rank", "2"], 2, "--rank: no rank 2 in a world of 2; expected 0 to 1"),
        (
            &["broadcast", "-n", "6", "--hosts", "4"],
            2,
            "--hosts: 6 ranks on 4 hosts; expected a divisor of 6",
        ),
        (&["broadcast", "-n", "6", "--hosts", "0"], 2, "--hosts: 6 ranks on 0 hosts"),
        (
            &["broadcast", "-n", "2", "--transport", "ib"],
            2,
            "invalid value 'ib' for '--transport <NAME>'; expected one of shm, tcp",
        ),
        (
            &["all_reduce", "-n", "2", "--bytes", "18446744073709551615"],
            2,
            "all_reduce of 2 x 4611686018427387903 elements of f32",
        ),
        (&["broadcast", "--topology", broken], 2, "--topology "),
        (&["broadcast", "--topology", "/no/such/file"], 1, "cannot read /no/such/file: "),
        (&["broadcast", "-n", "2", "--trace", "/no/such/file"], 2, "missing --html <FILE>"),
        (
            &["broadcast", "-n", "2", "--html", "-", "--trace", "/no/such/file"],
            1,
            "cannot read /no/such/file: ",
        ),
        (
            &["broadcast", "-n", "2", "--dot", "/no/such/folder/a.dot"],
            1,
            "cannot write /no/such/folder/a.dot: ",
        ),
    ];
    for (args, code, expected) in cases {
        let output = hcomm(args);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(*code), "{args:?}: {said}");
        assert!(said.starts_with(&format!("hcomm: {expected}")), "{args:?}: {said}");
        assert_eq!(said.trim_end().lines().count(), 1, "{args:?}: {said}");
        assert!(output.stdout.is_empty(), "{args:?}");
    }
}

#[test]
fn a_picture_says_both_predicted_times() {
    let path = file("both.svg");
    let svg = path.to_str().expect("a plain path");
    let said =
        printed(&["all_reduce", "-n", "8", "--hosts", "2", "--bytes", "1MB", "--explain", "--svg", svg]);
    let row = said.lines().find(|line| line.contains("  chosen: ")).expect("the chosen one's row");
    let in_table = row.split_whitespace().nth(1).expect("its predicted time");
    let drawn = fs::read_to_string(&path).expect("it was written");
    assert!(drawn.contains(&format!(" message by message ({in_table} µs by the choice's model)")), "{drawn}");
}

#[test]
fn only_what_is_folded_is_said_to_be_in_order() {
    let is_said = |args: &[&str]| printed(args).contains("; folded in rank order at once");
    assert!(is_said(&["all_reduce", "-n", "3", "--algorithm", "one_shot"]));
    for collective in ["barrier", "all_gather", "scatter", "all_to_all"] {
        assert!(!is_said(&[collective, "-n", "3"]), "{collective}");
    }
    assert!(!is_said(&["all_reduce", "-n", "1"]));
}

#[test]
fn any_number_of_rings_from_2_to_8() {
    let said = printed(&["all_reduce", "-n", "5", "--algorithm", "multi_ring:3"]);
    assert!(said.contains("\nalgorithm  multi_ring, asked for: ") && said.contains("\nverified: "), "{said}");
    let output = hcomm(&["all_reduce", "-n", "5", "--algorithm", "multi_ring:9"]);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("it runs over 2 to 8 channels, not 9"), "{said}");
}
