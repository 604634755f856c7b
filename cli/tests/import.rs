//! `hcomm import`: files of both formats are summed up, converted and run; what is wrong is one line and the right code.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn hcomm(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_hcomm")).args(args).output().expect("hcomm starts")
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

/// What a run says that must end with a code.
fn refused(args: &[&str], code: i32) -> String {
    let output = hcomm(args);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{args:?}: {said}");
    assert_eq!(said.trim_end().lines().count(), 1, "{args:?}: {said}");
    said
}

/// A small MSCCL file.
fn file(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../planner/tests/data/msccl").join(name);
    path.to_str().expect("a plain path").to_owned()
}

/// A file of its own for a test.
fn made(name: &str) -> String {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("import");
    fs::create_dir_all(&folder).expect("the target folder can be written");
    folder.join(name).to_str().expect("a plain path").to_owned()
}

#[test]
fn a_plan_is_summed_up() {
    let said = printed(&["import", &file("all_reduce_pairs_3.xml")]);
    let lines = [
        "plan       all_reduce_pairs_3, from MSCCL XML, id ",
        "collective all_reduce\n",
        "ranks      3\n",
        "chunks     6 per block, up to 2 to a message\n",
        "channels   1 per pair and direction\n",
        "nodes      30, at most 10 of one rank, on 15 lanes, up to 4 chunks of scratch\n",
        "messages   12, at most 4 of one rank, per tile\n",
        "called     in place\n",
        "bytes      48 to 65536 bytes\n",
        "buffered   no\n",
        "verified: acyclic, no deadlock with channels 2 deep, no races, every output chunk right in place\n",
    ];
    for line in lines {
        assert!(said.contains(line), "{said}lacks {line}");
    }
    let said = printed(&["import", &file("all_to_all_swap_2.xml")]);
    assert!(
        said.contains("\nbuffered   yes: right only where messages are copied as they are sent\n"),
        "{said}"
    );
    assert!(printed(&["import", &file("gather_2.xml")]).contains("\ncollective gather with root 0\n"));
}

#[test]
fn every_file_runs_in_every_way_that_it_is_for() {
    let folders = ["msccl", "mscclpp"].map(|name| PathBuf::from(file("")).with_file_name(name));
    let files = folders.iter().flat_map(|folder| fs::read_dir(folder).expect("the files"));
    let mut runs = 0;
    for path in files.map(|entry| entry.expect("a file").path()) {
        let path = path.to_str().expect("a plain path");
        if path.contains("_switch_") {
            let said = refused(&["import", path, "--run", "--json", &made("switch.json")], 1);
            assert!(said.contains("which needs the CUDA transport"), "{said}");
            continue;
        }
        let said = printed(&["import", path, "--run"]);
        let ran: Vec<&str> = said.lines().filter(|line| line.starts_with("ran ")).collect();
        assert!(ran.len() >= 2 && ran.iter().all(|line| line.contains(": right on all ")), "{said}");
        let called = said.lines().find(|line| line.starts_with("called ")).expect("how it is called");
        let has = |way: &str| ran.iter().any(|line| line.contains(way));
        assert_eq!(has("bytes in place"), called.contains(" in place"), "{said}");
        assert_eq!(has("bytes out of place"), called.contains("out of place"), "{said}");
        runs += ran.len();
    }
    assert!(runs > 30, "{runs}");
}

#[test]
fn sizes_are_those_asked_for() {
    let pairs = file("all_reduce_pairs_3.xml");
    let said = printed(&["import", &pairs, "--run", "--bytes", "48,1KiB"]);
    let ran: Vec<&str> = said.lines().filter_map(|line| line.strip_prefix("ran        ")).collect();
    assert!(
        ran[0].starts_with("48 bytes in place in ") && ran[1].starts_with("1024 bytes in place in "),
        "{said}"
    );
    let expected =
        "hcomm: --bytes: 40 bytes in whole elements; expected 48 to 65536 bytes, as the plan is for\n";
    assert_eq!(refused(&["import", &pairs, "--run", "--bytes", "47"], 2), expected);
}

#[test]
fn plans_go_from_one_format_to_another() {
    let [json, xml, again, dot, svg] =
        ["ring.json", "ring.xml", "again.json", "ring.dot", "ring.svg"].map(made);
    printed(&["import", &file("all_reduce_ring_3.xml"), "--json", &json, "--dot", &dot, "--svg", &svg]);
    let said = printed(&["import", &json, "--msccl", &xml, "--run", "--bytes", "1000"]);
    assert!(said.starts_with("plan       all_reduce_ring_3, from hcomm JSON, id "), "{said}");
    assert_eq!(said.matches(" 1000 bytes ").count(), 2, "in place and out of place: {said}");
    printed(&["import", &xml, "--json", &again]);
    let slices = |path: &str| {
        let plans: serde_json::Value =
            serde_json::from_str(&fs::read_to_string(path).expect("it was written")).expect("JSON");
        plans["slices"].as_array().map(Vec::len)
    };
    assert_eq!((slices(&json), slices(&again)), (Some(3), Some(3)));
    assert!(fs::read_to_string(&dot).expect("it was written").starts_with("digraph"));
    assert!(fs::read_to_string(&svg).expect("it was written").starts_with("<svg"));
}

#[test]
fn a_compiled_plan_goes_out_as_msccl_and_comes_back() {
    let xml = made("two_shot.xml");
    printed(&["plan", "all_reduce", "-n", "4", "--algorithm", "two_shot", "--msccl", &xml]);
    let said = printed(&["import", &xml, "--run"]);
    assert!(said.contains("plan       two_shot, from MSCCL XML") && said.contains("\nran "), "{said}");
    let output = hcomm(&["plan", "all_reduce", "-n", "2", "--msccl", "-"]);
    assert!(text(&output.stdout).starts_with("<algo ") && text(&output.stderr).starts_with("verified: "));
    let said = refused(&["plan", "barrier", "-n", "3", "--msccl", &xml], 2);
    assert_eq!(said, "hcomm: --msccl: MSCCL has no barrier; expected another collective\n");
}

#[test]
fn what_would_not_fit_or_never_ends_is_refused() {
    let plan = file("all_to_all_2.xml");
    for bytes in ["8000000000000000", "18446744073709551615"] {
        let said = refused(&["import", &plan, "--run", "--bytes", bytes], 2);
        assert!(said.contains(" bytes of memory in 2 ranks; expected at most the "), "{said}");
    }
    let large = made("large.xml");
    let whole = fs::read_to_string(file("all_reduce_pairs_3.xml")).expect("a file");
    let [from, to] = ["minBytes=\"48\"", "maxBytes=\"65536\""];
    assert!(whole.contains(from) && whole.contains(to), "{whole}");
    let whole = whole.replace(from, "minBytes=\"99999999999999\"").replace(to, "maxBytes=\"0\"");
    fs::write(&large, whole).expect("the target folder can be written");
    assert!(refused(&["import", &large, "--run"], 2).contains(" bytes of memory in 3 ranks"));
    assert_eq!(refused(&["import", "/dev/zero"], 1), "hcomm: cannot read /dev/zero: it is no regular file\n");
}

#[test]
fn nothing_is_written_over_what_is_read_or_written() {
    let (plan, once) = (made("own.json"), made("once.svg"));
    printed(&["plan", "all_reduce", "-n", "2", "--json", &plan]);
    let before = fs::read_to_string(&plan).expect("it was written");
    let folder = Path::new(&plan).parent().and_then(Path::to_str).expect("a folder");
    let same = format!("{folder}/../import/own.json");
    let said = refused(&["import", &plan, "--svg", &same], 2);
    assert_eq!(said, format!("hcomm: {same} is read or written twice; expected another file\n"));
    assert_eq!(fs::read_to_string(&plan).expect("it is there"), before);
    let _ = fs::remove_file(&once);
    let said = refused(&["plan", "all_reduce", "-n", "2", "--svg", &once, "--json", &once], 2);
    assert_eq!(said, format!("hcomm: {once} is read or written twice; expected another file\n"));
    assert!(!Path::new(&once).exists());
}

#[test]
fn what_is_no_plan_is_said_in_a_line() {
    let missing = made("missing.xml");
    let _ = fs::remove_file(&missing);
    assert!(refused(&["import", &missing], 1).starts_with(&format!("hcomm: cannot read {missing}: ")));
    let cut = made("cut.xml");
    let whole = fs::read_to_string(file("all_reduce_ring_3.xml")).expect("a file");
    fs::write(&cut, &whole[..whole.len() / 2]).expect("the target folder can be written");
    assert!(refused(&["import", &cut], 1).starts_with(&format!("hcomm: {cut}: line ")));
    fs::write(&cut, whole.replacen("\"rrcs\"", "\"rrs\"", 1)).expect("the target folder can be written");
    assert!(refused(&["import", &cut], 1).contains(": the plan fails its proof: output chunk 1 of rank 0"));
    fs::write(&cut, "digraph").expect("the target folder can be written");
    assert!(refused(&["import", &cut], 1).contains("expected MSCCL XML (XML), MSCCL++ JSON "));
    assert!(refused(&["import"], 2).starts_with("hcomm: missing <FILE>"));
}

#[test]
fn drawings_show_a_size_at_which_every_chunk_has_bytes() {
    let path = made("drawn.svg");
    printed(&["import", &file("all_reduce_pairs_3.xml"), "--svg", &path]);
    let drawn = fs::read_to_string(&path).expect("a picture");
    assert!(drawn.contains("sum of i64, 64 KiB in tiles"), "the most that it is for: {drawn}");
    assert!(!drawn.contains(">0 B in"), "{drawn}");
    printed(&["import", &file("all_to_all_swap_2.xml"), "--svg", &path]);
    let drawn = fs::read_to_string(&path).expect("a picture");
    assert!(drawn.contains("i64, 1 MiB in tiles"), "{drawn}");
    printed(&["import", &file("all_to_all_swap_2.xml"), "--svg", &path, "--bytes", "4KiB"]);
    assert!(fs::read_to_string(&path).expect("a picture").contains("i64, 4 KiB in tiles"));
}

#[test]
fn bytes_that_fill_no_element_are_said_to_be_left_out() {
    let said = printed(&["import", &file("gather_2.xml"), "--run", "--bytes", "40,64"]);
    assert!(said.contains("\nran        32 bytes (whole elements of 40) "), "{said}");
    assert!(said.contains("\nran        64 bytes out of place in "), "{said}");
}
