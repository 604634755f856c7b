//! Holds the layering of the crates: who may depend on whom, by `cargo metadata`. A transport must not know why bytes move, and
//! a plan not how.

use std::collections::BTreeSet;
use std::process::Command;

use serde_json::Value;

/// Every package of the workspace and the packages of the workspace that it may use.
const MAY_USE: &[(&str, &[&str])] = &[
    ("hcomm-ops", &[]),
    ("hcomm-planner", &["hcomm-ops"]),
    ("hcomm-transports", &["hcomm-ops"]),
    ("hcomm-engine", &["hcomm-ops", "hcomm-planner", "hcomm-transports"]),
    ("hcomm", &["hcomm-ops", "hcomm-planner", "hcomm-transports", "hcomm-engine"]),
    ("hcomm-cli", &["hcomm"]),
    ("hcomm-python", &["hcomm", "hcomm-cli"]),
    ("hcomm-benches", &["hcomm"]),
];

/// A package and a package of the workspace that it uses, in whatever way (built, built with a feature, only in tests).
type Edge = (String, String);

fn metadata() -> Value {
    let cargo = Command::new(env!("CARGO"))
        .args(["metadata", "--no-deps", "--offline", "--format-version", "1"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("cargo starts");
    assert!(cargo.status.success(), "{}", String::from_utf8_lossy(&cargo.stderr));
    serde_json::from_slice(&cargo.stdout).expect("cargo prints JSON")
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// The workspace's packages, and the edges among them.
fn workspace() -> (BTreeSet<String>, Vec<Edge>) {
    let metadata = metadata();
    let packages = list(&metadata["packages"]);
    let names: BTreeSet<String> = packages.iter().map(|package| text(&package["name"])).collect();
    let uses = packages.iter().flat_map(|package| {
        let used = list(&package["dependencies"]).iter().map(|dependency| text(&dependency["name"]));
        used.map(|used| (text(&package["name"]), used))
    });
    let edges = uses.filter(|(_, used)| names.contains(used)).collect();
    (names, edges)
}

fn breaches(edges: &[Edge]) -> Vec<&Edge> {
    let may = |user: &str, used: &str| MAY_USE.iter().any(|(name, all)| *name == user && all.contains(&used));
    edges.iter().filter(|(user, used)| !may(user, used)).collect()
}

#[test]
fn crates_use_only_those_below_them() {
    let (_, edges) = workspace();
    assert!(edges.len() >= 6, "the graph was not read: {edges:?}");
    assert_eq!(breaches(&edges), Vec::<&Edge>::new(), "not allowed by the table in this file");
}

#[test]
fn the_table_names_every_crate() {
    let (names, _) = workspace();
    let named: BTreeSet<String> = MAY_USE.iter().map(|(name, _)| (*name).to_owned()).collect();
    assert_eq!(names, named);
}

#[test]
fn the_table_has_no_circle_and_keeps_planner_and_transports_apart() {
    let place = |name: &str| MAY_USE.iter().position(|(listed, _)| *listed == name);
    for (user, all) in MAY_USE {
        assert!(all.iter().all(|used| place(used) < place(user)), "{user} uses what comes after it");
    }
    let edge = |user: &str, used: &str| (user.to_owned(), used.to_owned());
    let wrong = [edge("hcomm-transports", "hcomm-planner"), edge("hcomm-planner", "hcomm-transports")];
    assert_eq!(breaches(&wrong).len(), 2);
}
