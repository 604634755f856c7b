//! Tests of the text.

use super::*;
use crate::choose::tuning::{Condition, Curve, LinkKind, Measured};
use crate::choose::{Basis, Costs, Pin, Tuning};
use crate::request::Collective;
use hcomm_ops::{DType, ReduceOp};

fn all_reduce(count: u64) -> Request {
    Request::new(Collective::AllReduce, DType::F32, ReduceOp::Sum, count)
}

fn explained(request: &Request, topology: &Topology) -> String {
    explain(request, topology, &Choice::new(topology, Costs::shm())).expect("a supported call")
}

fn explained_by(basis: &Basis, request: &Request, topology: &Topology) -> String {
    let choice = Choice::with(topology, basis).expect("pins that can be followed");
    explain(request, topology, &choice).expect("a supported call")
}

/// The line of a candidate.
fn line<'a>(text: &'a str, name: &str) -> &'a str {
    let found = text.lines().find(|line| line.split_whitespace().next() == Some(name));
    found.unwrap_or_else(|| panic!("no line of {name} in {text}"))
}

fn pin(from_bytes: u64, to_bytes: u64, algorithm: &str) -> Pin {
    let source = "HCOMM_ALGORITHM".into();
    Pin { collective: Collective::AllReduce, from_bytes, to_bytes, algorithm: algorithm.into(), source }
}

#[test]
fn every_algorithm_has_a_row_with_a_reason() {
    let text = explained(&all_reduce(250_000), &Topology::single_host(8));
    assert!(text.starts_with("all_reduce (sum) of f32 in a world of 8, 1000000 bytes: "), "{text}");
    assert!(text.contains("\ncosts: given costs; 8 ranks on 1 host; not measured"), "{text}");
    let rows: Vec<&str> = text.lines().filter(|line| line.contains(" us ")).collect();
    for name in ["one_shot", "two_shot", "ring", "recursive_doubling"] {
        assert!(rows.iter().any(|row| row.starts_with(name)), "{name}: {text}");
    }
    assert!(rows[0].contains("  chosen: least predicted time"), "{text}");
    for row in &rows[1..] {
        assert!(
            row.contains(" us more: steps and messages") || row.contains(" us more: bytes moved"),
            "{row}"
        );
    }
    assert!(line(&text, "hierarchical").ends_with("cannot: needs at least 2 hosts, not 1"), "{text}");
    assert!(text.ends_with("\noverrides:\n  none\n"), "{text}");
}

#[test]
fn bytes_are_shown_by_class_of_link() {
    let text = explained(&all_reduce(1_000_000).with_algorithm("ring"), &Topology::hosts(2, 4));
    let words: Vec<&str> = line(&text, "ring").split_whitespace().collect();
    // All of a ring's ranks send 2 x 7/8 of the buffer, the one at the edge of its host to the other host.
    assert_eq!(&words[7..9], ["7000000", "7000000"], "{text}");
    let text = explained(&all_reduce(1_000_000).with_algorithm("ring"), &Topology::single_host(4));
    let words: Vec<&str> = line(&text, "ring").split_whitespace().collect();
    assert_eq!(&words[7..9], ["6000000", "0"], "{text}");
}

#[test]
fn sizes_are_listed_and_this_one_marked() {
    let topology = Topology::single_host(4);
    let text = explained(&all_reduce(2), &topology);
    let table = text.split("by size:\n").nth(1).expect("a table by size");
    let rows: Vec<&str> = table.lines().skip(1).take_while(|line| !line.is_empty()).collect();
    let choice = Choice::new(&topology, Costs::shm());
    let steps = choice.thresholds(&Call::new(&all_reduce(2), 4, &topology)).expect("a table").steps();
    assert_eq!(rows.len(), steps.len());
    for (row, step) in rows.iter().zip(steps) {
        let start = format!("{:>14}  {}", step.from_bytes, step.candidate);
        assert!(row.starts_with(&start), "{row} for {start}");
    }
    assert!(rows[0].ends_with("<- this size") && table.matches("<- this size").count() == 1, "{table}");
}

#[test]
fn a_call_s_own_algorithm_is_first_even_where_another_is_faster() {
    let text = explained(&all_reduce(1).with_algorithm("ring"), &Topology::single_host(8));
    assert!(text.contains(": ring, as the call asks\n"), "{text}");
    assert!(text.contains("less, but not asked for"), "{text}");
    assert!(text.contains("\noverrides:\n  the call asks for ring\n"), "{text}");
}

#[test]
fn pins_say_whose_they_are_and_what_becomes_of_them() {
    let pins = vec![pin(0, 64, "two_shot"), pin(0, 4096, "ring"), pin(4096, u64::MAX, "one_shot")];
    let basis = Basis { pins, ..Basis::default() };
    let topology = Topology::single_host(8);
    let text = explained_by(&basis, &all_reduce(1), &topology);
    assert!(text.contains("4 bytes: two_shot, pinned by HCOMM_ALGORITHM\n"), "{text}");
    assert!(text.contains("chosen: pinned by HCOMM_ALGORITHM"), "{text}");
    assert!(text.contains("  all_reduce@..64=two_shot of HCOMM_ALGORITHM: decides this size\n"), "{text}");
    assert!(
        text.contains("  all_reduce@..4096=ring of HCOMM_ALGORITHM: gives way to another pin\n"),
        "{text}"
    );
    assert!(text.contains("  all_reduce@4096..=one_shot of HCOMM_ALGORITHM: for other sizes\n"), "{text}");
    let text = explained_by(&basis, &all_reduce(1).with_algorithm("one_shot"), &topology);
    assert!(text.contains("two_shot of HCOMM_ALGORITHM: gives way to the call\n"), "{text}");
    let text = explained_by(&basis, &all_reduce(100).deterministic(), &topology);
    assert!(text.contains("ring of HCOMM_ALGORITHM: cannot serve such calls\n"), "{text}");
}

#[test]
fn pins_set_aside_say_why() {
    let inherited = vec![pin(0, u64::MAX, "hierarchical")];
    let basis = Basis { inherited, is_split: true, ..Basis::default() };
    let text = explained_by(&basis, &all_reduce(1), &Topology::single_host(4));
    assert!(text.contains("=hierarchical of HCOMM_ALGORITHM: set aside, all_reduce"), "{text}");
    assert!(text.contains("needs at least 2 hosts, not 1"), "{text}");
}

#[test]
fn what_was_measured_is_said_to_decide() {
    let topology = Topology::single_host(4);
    let plain = Choice::new(&topology, Costs::shm());
    let best = plain.pick(&Call::new(&all_reduce(1), 4, &topology), Some(4)).expect("a candidate");
    let curve = Curve::new(vec![(8, 50.0)]).expect("one point");
    let curves = vec![(Collective::AllReduce, best.with_tile(Candidate::WHOLE_SLOT), curve)];
    let condition = Condition { kind: LinkKind::Shm, is_crowded: false };
    let measured = vec![Measured { condition, world: 4, curves }];
    let tuning = Tuning { measured, ..Tuning::default() };
    let basis = Basis { tuning, source: "some.toml".to_owned(), ..Basis::default() };
    let text = explained_by(&basis, &all_reduce(1), &topology);
    assert!(text.contains("costs: some.toml; 4 ranks on 1 host; measured with 4 ranks over shm\n"), "{text}");
    assert!(text.contains(", least measured time\n"), "{text}");
    let words: Vec<&str> = line(&text, &best.to_string()).split_whitespace().collect();
    assert_eq!(words[3], "x50.00", "{text}");
    assert!(text.contains("us more as measured; the model has"), "{text}");
    let other = format!("before {best}, which costs less by the model");
    assert!(
        text.contains("\noverrides:\n  times measured in some.toml: ") && text.contains(&other),
        "{text}"
    );
}

#[test]
fn equal_times_and_the_two_counts_of_bytes_are_said_in_words() {
    let text = explained(&all_reduce(1000), &Topology::single_host(1));
    assert!(text.contains("  takes the same\n") && !text.contains("-0.0"), "{text}");
    assert!(text.contains(" local bytes/rank remote bytes/host "), "{text}");
    assert!(text.contains("\npredicted: by the choice's model, "), "{text}");
}

#[test]
fn each_reason_stands_once_beside_the_pairs_that_have_it() {
    let all_to_all = Request::new(Collective::AllToAll, DType::F32, ReduceOp::Sum, 1000);
    let text = explained(&all_to_all, &Topology::hosts(4, 8));
    let refused: Vec<&str> = text.lines().filter(|line| line.starts_with("hierarchical(")).collect();
    let refused: Vec<&str> =
        refused.into_iter().filter_map(|line| line.split_once(" cannot: ")).map(|(_, why)| why).collect();
    assert!(!refused.is_empty() && !text.contains("\nhierarchical cannot"), "{text}");
    for (i, reason) in refused.iter().enumerate() {
        assert!(!refused[..i].contains(reason), "twice: {reason}");
    }
    assert!(text.contains("\nhierarchical(direct,ring), hierarchical(ring,ring) cannot: "), "{text}");
}

#[test]
fn one_kept_for_the_margin_is_not_called_the_least() {
    let topology = Topology::single_host(4);
    let choice = Choice::new(&topology, Costs::shm());
    let call = Call::new(&all_reduce(1), 4, &topology);
    let kept = super::super::sizes().find(|bytes| {
        let least = rows(&call, &choice, choice.pick(&call, Some(*bytes)).expect("one"), *bytes);
        least[1..].iter().any(|row| row.is_faster_than(&least[0]))
    });
    let text = explained(&all_reduce(kept.expect("a size") / 4), &topology);
    assert!(text.contains(", nearly the least predicted time\n"), "{text}");
    assert!(text.contains(" us less, too little to change for\n"), "{text}");
}

#[test]
#[cfg(feature = "tuning")]
fn pins_for_others_say_for_whom() {
    let text = "format = 1
        [[pin]]
        collective = 'all_reduce'
        algorithm = 'ring'
        communicator = 'data'
        world = 4
        [[pin]]
        collective = 'all_reduce'
        algorithm = 'two_shot'
        to = '1KiB'
        world = 2
        [[pin]]
        collective = 'broadcast'
        algorithm = 'chain'
        world = 2";
    let tuning = Tuning::parse(text).expect("a good file");
    let basis = Basis { tuning, source: "some.toml".to_owned(), ..Basis::default() };
    let text = explained_by(&basis, &all_reduce(1), &Topology::single_host(4));
    let overrides = text.split_once("overrides:\n").map(|(_, rest)| rest);
    assert_eq!(
        overrides,
        Some(
            "  all_reduce=ring of some.toml: for communicators named 'data' in worlds of 4\n  \
             all_reduce@..1024=two_shot of some.toml: for worlds of 2\n"
        ),
        "{text}"
    );
}
