//! `hcomm doctor` on the machine that runs the tests.

use std::process::{Command, Output};

#[path = "../../tests/segments/group.rs"]
mod group;

use group::Group;

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

/// The finding of a subject.
fn found(variables: &[(&str, &str)], subject: &str) -> (String, String) {
    let (_, json) = findings(variables);
    let list = json["findings"].as_array().expect("a list").clone();
    let finding = list.into_iter().find(|finding| finding["subject"] == subject).expect("it is looked at");
    let text = |key: &str| finding[key].as_str().expect("a text").to_owned();
    (text("state"), text("detail"))
}

#[test]
fn a_job_that_is_open_to_its_network_is_told_of() {
    let far = [("RANK", "0"), ("WORLD_SIZE", "2"), ("MASTER_ADDR", "node0"), ("MASTER_PORT", "4000")];
    let (state, detail) = found(&far, "job secret");
    assert_eq!(state, "part");
    assert!(detail.contains("open to its network") && detail.contains("node0:4001"), "{detail}");
    let token = "0123456789abcdef".repeat(4);
    let given = [&far[..], &[("HCOMM_TOKEN", token.as_str())]].concat();
    assert_eq!(found(&given, "job secret").0, "ok");
    let near = [&far[..2], &[("MASTER_ADDR", "127.0.0.1"), far[3]]].concat();
    let (state, detail) = found(&near, "job secret");
    assert_eq!(state, "ok", "{detail}");
    assert!(detail.contains("which only this user can enter"), "{detail}");
    assert_eq!(found(&[], "job secret").0, "ok");
}

#[test]
fn changed_settings_are_shown_and_wrong_ones_refused() {
    let output = doctor(&[], &[("HCOMM_DEPTH", "8")]);
    assert!(String::from_utf8_lossy(&output.stdout).contains("HCOMM_DEPTH=8"));
    let output = doctor(&[], &[("HCOMM_DEPTH", "1")]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).starts_with("hcomm: HCOMM_DEPTH is '1'; expected"));
}

/// What it finds of some subjects when it is started by other words; nothing where those cannot be run here.
fn found_under<const N: usize>(prefix: &[&str], subjects: [&str; N]) -> Option<[Found; N]> {
    let trial = Command::new(prefix[0]).args(&prefix[1..]).arg("true").output();
    if !trial.as_ref().is_ok_and(|output| output.status.success()) {
        println!("skipped: {prefix:?} cannot be tried here: {trial:?}");
        return None;
    }
    let mut command = Command::new(prefix[0]);
    let command = command.args(&prefix[1..]).args([env!("CARGO_BIN_EXE_hcomm"), "doctor", "--json"]);
    let output = command.output().expect("it has started before");
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).expect("one JSON object");
    let findings = json["findings"].as_array().expect("a list").clone();
    Some(subjects.map(|subject| {
        let finding = findings.iter().find(|finding| finding["subject"] == subject);
        let finding = finding.unwrap_or_else(|| panic!("{subject} is looked at"));
        let text = |field: &str| finding[field].as_str().expect("a text").to_owned();
        Found { state: text("state"), detail: text("detail"), advice: text("advice") }
    }))
}

#[derive(Debug)]
struct Found {
    state: String,
    detail: String,
    advice: String,
}

#[test]
fn a_control_group_that_is_too_small_is_named() {
    let group = match Group::new("doctor", 100 << 20) {
        Ok(group) => group,
        Err(why_not) => return println!("skipped: no control group can be made here: {why_not}"),
    };
    let prefix = group.prefix();
    let prefix: Vec<&str> = prefix.iter().map(String::as_str).collect();
    let Some([memory]) = found_under(&prefix, ["memory"]) else { return };
    assert_eq!(memory.state, "part", "{memory:?}");
    assert!(memory.detail.contains("MiB left of the 104857600 that /sys/fs/cgroup"), "{memory:?}");
    assert!(memory.advice.contains("HCOMM_BUFFER_SIZE"), "{memory:?}");
    assert_eq!(group.kills(), 0);
}

#[test]
fn a_limit_on_the_size_of_files_is_named() {
    let limited = ["sh", "-c", "ulimit -f 2048 && exec \"$@\"", "sh"];
    let Some([memory]) = found_under(&limited, ["memory"]) else { return };
    assert_eq!(memory.state, "part", "{memory:?}");
    assert!(memory.detail.contains("(ulimit -f)"), "{memory:?}");
}

#[test]
fn a_limit_on_addresses_leaves_ordinary_buffers() {
    let limited = ["sh", "-c", "ulimit -v 2000000 && exec \"$@\"", "sh"];
    let Some([memory, buffers]) = found_under(&limited, ["shared memory", "shared buffers"]) else { return };
    assert_eq!((memory.state.as_str(), buffers.state.as_str()), ("ok", "part"), "{memory:?} {buffers:?}");
    assert!(buffers.detail.contains("cannot find addresses"), "{buffers:?}");
    assert!(buffers.advice.contains("ordinary memory"), "{buffers:?}");
}

#[test]
fn what_the_kernel_refuses_is_named_with_what_is_used_instead() {
    let refusals = [
        (
            "memfd_create:error=EPERM",
            "shared memory",
            "cannot make a file in memory: Operation not permitted",
        ),
        ("fallocate:error=EOPNOTSUPP", "shared memory", "cannot allocate its pages: Operation not supported"),
        (
            "bind:error=EACCES:when=1",
            "Unix sockets",
            "no connection through an abstract name: Permission denied",
        ),
    ];
    for (refusal, subject, detail) in refusals {
        let inject = format!("inject={refusal}");
        let prefix = ["strace", "-f", "-o", "/dev/null", "-e", &inject];
        let Some([found]) = found_under(&prefix, [subject]) else { return };
        assert_eq!(found.state, "no", "{found:?}");
        assert!(found.detail.contains(detail), "{found:?}");
        assert!(found.advice.contains("ranks of this host use TCP to each other"), "{found:?}");
    }
}

#[test]
fn other_users_and_namespaces_are_shown_and_share_memory() {
    let ways: [(&[&str], &str); 3] = [
        (&["setpriv", "--reuid", "54321", "--regid", "54321", "--clear-groups"], "user 54321 in net:["),
        (&["unshare", "--pid", "--mount", "--ipc", "--fork"], "shares memory with ranks of any user"),
        (&["unshare", "--net"], "uses TCP to those of another network namespace"),
    ];
    for (way, detail) in ways {
        let subjects = ["shared memory", "Unix sockets", "neighbours"];
        let Some(all) = found_under(way, subjects) else { continue };
        assert!(all.iter().all(|found| found.state == "ok"), "{way:?}: {all:?}");
        assert!(all[2].detail.contains(detail), "{way:?}: {all:?}");
    }
}
