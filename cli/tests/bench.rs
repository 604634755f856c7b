//! `hcomm bench` on small sizes: every collective between threads and over sockets, the formats, mistakes.

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
    Command::new(env!("CARGO_BIN_EXE_hcomm")).arg("bench").args(args).output().expect("hcomm starts")
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

/// The object that a run prints, with few calls per size.
fn measured(args: &[&str]) -> serde_json::Value {
    let said = printed(&[args, &["--json", "--iters", "3", "--warmup", "1"]].concat());
    serde_json::from_str(&said).unwrap_or_else(|error| panic!("{args:?}: {error}: {said}"))
}

/// Checks every figure of an object, and returns how many there are.
fn check(object: &serde_json::Value) -> usize {
    let rows = object["rows"].as_array().expect("rows");
    let figures: Vec<_> = rows
        .iter()
        .flat_map(|row| [&row["out_of_place"], &row["in_place"]])
        .filter(|f| !f.is_null())
        .collect();
    for figure in &figures {
        assert_eq!(figure["wrong"], 0, "{object}");
        assert!(
            figure["median_us"].as_f64() > Some(0.0) && figure["stream_us"].as_f64() > Some(0.0),
            "{object}"
        );
    }
    figures.len()
}

#[test]
fn every_collective_is_right_between_threads() {
    for collective in COLLECTIVES {
        for style in [&[][..], &["--async"]] {
            let object = measured(
                &[&[collective, "-n", "3", "--transport", "inproc", "--sizes", "0,12,1000,300KiB"], style]
                    .concat(),
            );
            let ways = match (collective, style.is_empty()) {
                ("broadcast" | "gather" | "scatter" | "barrier", _) | ("reduce", false) => 1,
                _ => 2,
            };
            assert_eq!(check(&object), 4 * ways, "{collective} {style:?}");
            assert_eq!((&object["world"], &object["links"]), (&3.into(), &"inproc".into()));
        }
    }
}

#[test]
fn every_collective_is_right_from_shared_buffers() {
    for collective in COLLECTIVES {
        for style in [&[][..], &["--async"]] {
            let args =
                [collective, "-n", "2", "--transport", "shm", "--buffers", "shared", "--sizes", "8,3MB"];
            let object = measured(&[&args, style].concat());
            assert!(check(&object) >= 2, "{collective} {style:?}");
        }
    }
}

#[test]
fn every_collective_is_right_between_processes() {
    for (transport, ranks) in [("tcp", "2"), ("shm", "2"), ("shm", "4")] {
        for collective in COLLECTIVES {
            let object = measured(&[collective, "-n", ranks, "--transport", transport, "--sizes", "8,100KB"]);
            assert!(check(&object) >= 2, "{collective}");
            let links = object["links"].as_str().unwrap_or_default();
            assert!(links.starts_with(transport), "{object}");
        }
    }
}

#[test]
fn roots_types_ops_and_algorithms_are_passed_on() {
    let inproc = ["-n", "4", "--transport", "inproc", "--sizes", "4000"];
    let cases: &[&[&str]] = &[
        &["broadcast", "--root", "3"],
        &["reduce", "--root", "2", "--dtype", "bf16", "--op", "max"],
        &["gather", "--root", "1", "--dtype", "bool"],
        &["scatter", "--root", "3", "--dtype", "complex128"],
        &["all_reduce", "--dtype", "f16", "--op", "average"],
        &["all_reduce", "--dtype", "i8", "--op", "average"],
        &["all_reduce", "--dtype", "complex64", "--op", "product"],
        &["reduce_scatter", "--dtype", "f64", "--op", "premulsum:0.1"],
        &["all_reduce", "--dtype", "u64", "--op", "bxor", "--algorithm", "ring"],
    ];
    for case in cases {
        check(&measured(&[case, &inproc[..]].concat()));
    }
    let object =
        measured(&["all_reduce", "-n", "2", "--transport", "inproc", "--algorithm", "ring", "--sizes", "8"]);
    assert_eq!(object["algorithm"], "ring");
}

#[test]
fn the_table_has_its_columns() {
    let said = printed(&[
        "all_reduce",
        "-n",
        "2",
        "--transport",
        "inproc",
        "--begin",
        "8",
        "--end",
        "1K",
        "--factor",
        "8",
        "--iters",
        "5",
    ]);
    let sizes: Vec<&str> =
        said.lines().filter(|l| !l.starts_with('#')).filter_map(|l| l.split_whitespace().next()).collect();
    assert_eq!(sizes, ["8", "64", "512"], "{said}");
    for words in ["out of place", "in place", "algbw", "busbw", "wrong", "inproc", "# average bus bandwidth "]
    {
        assert!(said.contains(words), "{words}: {said}");
    }
    let said = printed(&[
        "all_gather",
        "-n",
        "2",
        "--transport",
        "inproc",
        "--sizes",
        "1001",
        "--iters",
        "1",
        "--no-check",
    ]);
    assert!(said.contains("# 1001 bytes are rounded down to 1000"), "{said}");
    assert!(said.lines().any(|line| line.trim_end().ends_with('-')), "nothing was checked: {said}");
}

#[test]
fn a_trace_has_every_node_of_one_call_on_every_rank() {
    for transport in ["inproc", "shm"] {
        let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("bench");
        std::fs::create_dir_all(&folder).expect("the target folder can be written");
        let path = folder.join(format!("{transport}.json"));
        let file = path.to_str().expect("a plain path");
        let call = ["all_reduce", "-n", "3", "--algorithm", "ring", "--transport", transport];
        printed(&[&call[..], &["--sizes", "8,30KB", "--iters", "3", "--trace", file]].concat());
        let text = std::fs::read_to_string(&path).expect("the trace was written");
        let trace: serde_json::Value = serde_json::from_str(&text).expect("it is JSON");
        let events = trace["traceEvents"].as_array().cloned().unwrap_or_default();
        let nodes: Vec<_> = events.iter().filter(|event| event["cat"] == "node").collect();
        let mut runs: Vec<_> = nodes
            .iter()
            .map(|e| (e["pid"].as_u64(), e["args"]["node"].as_u64(), e["args"]["tile"].as_u64()))
            .collect();
        let all = runs.len();
        runs.sort_unstable();
        runs.dedup();
        assert_eq!((all, runs.len()), (18, 18), "{transport}: six nodes on three ranks, each once: {runs:?}");
        let first = &nodes[0]["args"];
        for node in &nodes {
            assert_eq!(node["args"]["bytes"], 10_000, "{transport}: of the last size");
            assert_eq!(
                (&node["args"]["plan"], &node["args"]["operation"]),
                (&first["plan"], &first["operation"])
            );
        }
    }
}

#[test]
fn csv_rows_are_as_the_comparison_reads_them() {
    for collective in COLLECTIVES {
        let said = printed(&[
            collective,
            "-n",
            "2",
            "--transport",
            "tcp",
            "--sizes",
            "8,70000",
            "--csv",
            "--iters",
            "3",
        ]);
        let rows: Vec<Vec<&str>> = said.lines().map(|line| line.split(',').collect()).collect();
        assert_eq!(rows.len(), 2, "{said}");
        for (row, bytes) in rows.iter().zip(["8", "70000"]) {
            assert_eq!(row[..4], ["hcomm", collective, "2", bytes], "{said}");
            assert!(row[4..].iter().all(|time| time.parse::<f64>().is_ok_and(|time| time > 0.0)), "{said}");
            assert_eq!(row.len(), 6);
        }
    }
}

#[test]
fn a_rank_of_another_launcher_is_a_rank() {
    let program = env!("CARGO_BIN_EXE_hcomm");
    let mut command = Command::new(program);
    command.args([
        "launch",
        "-n",
        "2",
        "--no-prefix",
        "--",
        program,
        "bench",
        "barrier",
        "--as-rank",
        "--csv",
        "--iters",
        "3",
    ]);
    let output = command.env("HCOMM_TRANSPORT", "tcp").output().expect("hcomm starts");
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(text(&output.stdout).starts_with("hcomm,barrier,2,0,"), "{}", text(&output.stdout));
}

#[test]
fn mistakes_are_one_line_and_code_2() {
    let cases: &[(&[&str], &str)] = &[
        (&["all_reduce"], "missing --ranks <N>"),
        (&["-n", "2"], "missing <COLLECTIVE>"),
        (&["all_reduced", "-n", "2"], "unknown collective 'all_reduced'"),
        (&["all_reduce", "-n", "two"], "--ranks: 'two' is no number of ranks; expected 1 to 4096"),
        (&["all_reduce", "-n", "2", "--sizes", "8,big"], "--sizes: 'big' is no size"),
        (
            &["all_reduce", "-n", "2", "--sizes", "8", "--end", "9"],
            "the argument '--sizes <SIZE,..>' cannot be used with",
        ),
        (&["all_reduce", "-n", "2", "--begin", "1M", "--end", "1K"], "--begin 1MiB --end 1KiB; expected"),
        (&["all_reduce", "-n", "2", "--begin", "0"], "--begin 0 --end 16MiB; expected at least 1 byte"),
        (&["all_reduce", "-n", "2", "--factor", "1"], "--factor: 1 is not in 2.."),
        (&["all_reduce", "-n", "2", "--iters", "0"], "--iters: 0 is not in 1.."),
        (&["all_reduce", "-n", "2", "--csv", "--json"], "the argument '--csv' cannot be used with '--json'"),
        (
            &["all_reduce", "-n", "2", "--transport", "ib"],
            "invalid value 'ib' for '--transport <NAME>'; expected one of auto, shm, tcp, inproc",
        ),
        (
            &["all_reduce", "-n", "2", "--dtype", "f8e4m3"],
            "--dtype: f8e4m3 cannot be measured; expected one of i8, ",
        ),
        (&["all_reduce", "-n", "2", "--op", "bxor"], "bxor of f32 is not supported"),
        (&["all_reduce", "-n", "2", "--root", "1"], "root 1 of all_reduce, which has no root"),
        (&["reduce", "-n", "2", "--root", "7"], "root 7 of reduce; expected a rank below the world size 2"),
        (&["all_reduce", "-n", "2", "--algorithm", "rung"], "unknown algorithm 'rung'; expected one of"),
        (&["all_reduce", "-n", "2", "--algorithm", "a b"], "--algorithm: 'a b' is no name"),
        (&["all_reduce", "-n", "2", "--sizes", "1000TB"], "a size of 1000000000000000 bytes takes"),
        (&["all_reduce", "--as-rank", "--transport", "inproc"], "--as-rank: threads have no launcher"),
    ];
    for (args, expected) in cases {
        let output = hcomm(args);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {said}");
        assert!(said.starts_with(&format!("hcomm: {expected}")), "{args:?}: {said}");
        assert_eq!(said.trim_end().lines().count(), 1, "{args:?}: {said}");
        assert!(output.stdout.is_empty(), "{args:?}");
    }
}
