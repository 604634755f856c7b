//! The small files of `tests/data/mscclpp` become the plans they should; files that are wrong are refused in so many words.

use super::*;
use crate::export::{self, json};
use crate::plan::{ByteRange, LaneKind, NodeKind};
use crate::request::Collective;
use crate::verify::verify;

macro_rules! file {
    ($name:literal) => {
        include_str!(concat!("../../../tests/data/mscclpp/", $name, ".json"))
    };
}

const READS: &str = file!("all_reduce_reads_2");
const PUTS: &str = file!("all_gather_puts_3");
const PACKETS: &str = file!("all_reduce_packets_2");
const BLOCKS: &str = file!("reduce_scatter_blocks_2");
const SWITCH: &str = file!("all_reduce_switch_2");

/// What a file must become: text, collective, root, parts, how it may be called, nodes, lanes of rank 0, channels per pair.
type Expected = (&'static str, Collective, usize, u32, Overlay, usize, usize, u8);

const FILES: [Expected; 12] = [
    (READS, Collective::AllReduce, 0, 4, Overlay::InPlace, 15, 3, 2),
    (PUTS, Collective::AllGather, 0, 1, Overlay::Either, 15, 4, 1),
    (PACKETS, Collective::AllReduce, 0, 12, Overlay::InPlace, 30, 6, 3),
    (file!("all_gather_packets_3"), Collective::AllGather, 0, 1, Overlay::Either, 24, 3, 1),
    (file!("all_reduce_one_shot_3"), Collective::AllReduce, 0, 2, Overlay::Apart, 18, 4, 1),
    (file!("all_reduce_two_shots_3"), Collective::AllReduce, 0, 3, Overlay::Either, 30, 7, 2),
    (BLOCKS, Collective::ReduceScatter, 0, 2, Overlay::Either, 10, 5, 1),
    (file!("all_to_all_gets_3"), Collective::AllToAll, 0, 2, Overlay::Apart, 15, 3, 1),
    (file!("broadcast_3"), Collective::Broadcast, 1, 2, Overlay::InPlace, 4, 1, 1),
    (SWITCH, Collective::AllReduce, 0, 2, Overlay::InPlace, 6, 3, 2),
    (file!("all_gather_switch_3"), Collective::AllGather, 0, 1, Overlay::Either, 9, 3, 1),
    (file!("all_gather_switch_packets_3"), Collective::AllGather, 0, 1, Overlay::InPlace, 18, 4, 1),
];

#[test]
fn files_become_the_plans_that_they_say() {
    for (text, collective, root, parts, overlay, nodes, lanes, channels) in FILES {
        let plans = import(text).unwrap_or_else(|error| panic!("{error}\n{text}"));
        let first = &plans[0];
        let found = (first.collective, first.root, first.parts, first.overlay, first.channels_per_pair);
        assert_eq!(found, (collective, root, parts, overlay, channels), "{}", first.algorithm);
        let all = plans.iter().map(|plan| plan.nodes.len()).sum::<usize>();
        assert_eq!((all, first.lanes.len()), (nodes, lanes), "{}", first.algorithm);
        assert!(text.contains(&format!("\"name\": \"{}\"", first.algorithm)));
        assert_eq!(verify(&plans, 2).map(|verified| verified.needs_copying), Ok(first.buffered));
        assert!(plans.iter().all(|plan| plan.id == first.id && plan.id != 0));
        assert_eq!(json::read(&json::write(&plans)).expect("what was written"), plans);
        assert!(
            export::svg(&plans, None).starts_with("<svg") && export::dot(&plans, None).contains("digraph")
        );
    }
}

#[test]
fn every_operation_is_in_a_file() {
    for kind in &kinds::KINDS {
        let name = format!("\"name\": \"{}\"", kind.name);
        assert!(FILES.iter().any(|(text, ..)| text.contains(&name)), "{} is in none", kind.name);
    }
}

#[test]
fn operations_become_the_nodes_that_they_should() {
    use NodeKind::*;
    let kinds = |text, rank: usize| {
        let plans = import(text).expect("a good file");
        let plan = &plans[rank];
        plan.nodes.iter().map(|node| plan.kind_of(node)).collect::<Vec<_>>()
    };
    // Its own get, rre, res and put; what the other rank reads here; what it writes here.
    assert_eq!(kinds(READS, 0), [Recv, RecvReduce, ReduceSend, Send, Send, Send, Recv, Recv]);
    // Its own rres, rre and put; and the same.
    assert_eq!(kinds(READS, 1), [RecvReduceSend, RecvReduce, Send, Send, Send, Recv, Recv]);
    assert_eq!(kinds(BLOCKS, 0), [Copy, Send, Reduce, Reduce, Recv]);
    assert_eq!(kinds(SWITCH, 0), [RecvReduceSend, Send, Recv]);
    assert_eq!(kinds(file!("all_gather_switch_3"), 0), [CopySend, Recv, Recv]);
}

/// The words of a node and the nodes it waits for.
fn waits(text: &str, rank: usize, node: usize) -> (String, Vec<u32>) {
    let plans = import(text).expect("a good file");
    let node = &plans[rank].nodes[node];
    (export::words::node(&plans[rank], node), plans[rank].deps_of(node).to_vec())
}

#[test]
fn signals_barriers_semaphores_and_packets_become_dependencies() {
    // The put of what a semaphore says has been copied; the folds behind a barrier that a wait comes before.
    assert_eq!(waits(BLOCKS, 0, 1), ("send scratch[0..2] -> [to rank 1 ch 0]".to_owned(), vec![0]));
    assert_eq!(waits(BLOCKS, 0, 2).1, [4]);
    assert_eq!(waits(BLOCKS, 0, 3).1, [4]);
    // What rank 1 writes in place comes after what it has read there.
    assert_eq!(waits(READS, 0, 6), ("recv [from rank 1 ch 0] -> out[2]".to_owned(), Vec::new()));
    assert_eq!(waits(READS, 0, 7), ("recv [from rank 1 ch 0] -> out[3]".to_owned(), vec![5]));
    let (words, deps) = waits(PACKETS, 0, 1);
    assert_eq!(words, "reduce-send in[0..2]* + scratch[0..2]* -> out[0..2], [to rank 1 ch 0] !");
    assert_eq!(deps, [9], "the packet's receive");
}

#[test]
fn a_switch_is_on_the_gpus_streams() {
    let plans = import(SWITCH).expect("a good file");
    for (rank, plan) in plans.iter().enumerate() {
        let stream = LaneKind::Stream { gpu: rank as u32, priority: 0 };
        assert!(plan.lanes.iter().all(|lane| lane.kind == stream), "{:?}", plan.lanes);
    }
    let plans = import(file!("all_gather_switch_packets_3")).expect("a good file");
    let on_gpu = |lane: &crate::plan::Lane| matches!(lane.kind, LaneKind::Stream { .. });
    assert_eq!(plans[0].lanes.iter().filter(|lane| !on_gpu(lane)).count(), 1, "unpacking needs no switch");
}

#[test]
fn sizes_are_those_of_the_file() {
    assert_eq!(import(READS).expect("a good file")[0].bytes, ByteRange { min: 64, max: Some(1 << 20) });
    assert_eq!(import(PUTS).expect("a good file")[0].bytes, ByteRange::ANY);
}

/// The file with every occurrence of some words replaced.
fn with(text: &str, from: &str, to: &str) -> String {
    assert!(text.contains(from), "{from:?} is not there");
    text.replace(from, to)
}

#[test]
fn a_wait_that_a_rank_needs_itself_is_missed() {
    let both = r#"{"name": "wait", "channel_ids": [0], "channel_type": "memory"}"#;
    let hasty = with(READS, both, r#"{"name": "nop"}"#);
    assert!(
        import(&hasty).is_ok(),
        "here every read and write is a message, and messages wait by themselves"
    );
    let early = with(
        BLOCKS,
        r#"{"name": "wait", "channel_ids": [0], "channel_type": "memory"}"#,
        r#"{"name": "nop"}"#,
    );
    let error = import(&early).expect_err("the folds may come before what they fold").to_string();
    assert!(
        error.contains("touch scratch[2] in no given order") || error.contains("which nothing has written"),
        "{error}"
    );
}

#[test]
fn what_waits_for_ever_is_named() {
    let silent = with(
        BLOCKS,
        r#"{"name": "signal", "channel_ids": [0], "channel_type": "memory"}"#,
        r#"{"name": "nop"}"#,
    );
    let error = import(&silent).expect_err("nobody signals").to_string();
    let expected = [
        "gpu 0, threadblock 2, op 0: operations wait for ever",
        "gpu 0, threadblock 2, op 0 (wait) waits for a signal or release",
        "threadblock 3, op 0 (barrier) waits for other threadblocks",
    ];
    expected.iter().for_each(|words| assert!(error.contains(words), "{error:?} lacks {words:?}"));
    let unsent = with(PACKETS, r#""name": "ppkt""#, r#""name": "put""#);
    let error = import(&unsent).expect_err("nothing is written as a packet").to_string();
    assert!(error.contains("(respkt) waits for a packet in piece 0 of buffer s of gpu 0"), "{error}");
}

#[test]
fn faults_are_named() {
    let get = r#""name": "get","#;
    let cases = [
        (with(READS, "{", "["), "line 2: expected `,`"),
        (
            with(READS, r#""collective": "allreduce""#, r#""collective": "sendrecv""#),
            "collective: \"sendrecv\"; expected one of allreduce",
        ),
        (
            with(READS, r#""name": "all_reduce_reads_2""#, r#""name": """#),
            "name: \"\"; expected 1 to 120 characters",
        ),
        (with(READS, r#""id": 1,"#, r#""id": 7,"#), "gpu 1: its id is 7; expected 1"),
        (
            with(READS, get, r#""name": "gat","#),
            "gpu 0, threadblock 0, op 3: operation \"gat\"; expected one of nop, flush",
        ),
        (with(READS, r#""input_chunks": 4"#, r#""input_chunks": 0"#), "gpu 0: 0 chunks in 1 blocks"),
        (with(READS, r#""scratch_chunks": 1"#, r#""scratch_chunks": 99999999999"#), "the limit is 262144"),
        (
            with(READS, r#""channel_type": "memory""#, r#""channel_type": "string""#),
            "gpu 0, channels 0: channel type \"string\"; expected memory or port",
        ),
        (
            with(READS, r#""connected_to": [1]"#, r#""connected_to": [2]"#),
            "gpu 0, channels 0: rank 2; expected another gpu below 2",
        ),
        (
            with(READS, r#"{"rank": 1, "type": "i""#, r#"{"rank": 1, "type": "x""#),
            "gpu 0, remote buffer 0: buffer type \"x\"; expected i, o or s",
        ),
        (
            with(
                READS,
                r#"{"buffer_id": 0, "index": 1, "size": 1}"#,
                r#"{"buffer_id": 5, "index": 1, "size": 1}"#,
            ),
            "op 3: remote buffer through memory channels 5; its threadblock has 1 of them",
        ),
        (
            with(
                READS,
                r#"{"buffer_id": 0, "index": 1, "size": 1}"#,
                r#"{"buffer_id": 0, "index": 4, "size": 1}"#,
            ),
            "op 3: chunks 4 to 4 of buffer i of gpu 1, which has 4",
        ),
        (
            with(
                READS,
                r#"{"buffer_id": 0, "index": 1, "size": 1}"#,
                r#"{"buffer_id": 0, "index": 1, "size": 18446744073709551615}"#,
            ),
            "of buffer i of gpu 1, which has 4",
        ),
        (
            with(
                READS,
                r#"{"buffer_id": 0, "index": 1, "size": 1}"#,
                r#"{"buffer_id": 0, "index": 1, "size": 0}"#,
            ),
            "an operand of size 0",
        ),
        (
            with(
                READS,
                r#"{"buffer_id": 0, "index": 1, "size": 1}"#,
                r#"{"type": "i", "index": 1, "size": 1}"#,
            ),
            "op 3: an operand without buffer_id alone",
        ),
        (
            with(READS, r#""dst_buff": [{"type": "s", "index": 0, "size": 1}]"#, r#""dst_buff": []"#),
            "op 3: get with 0 entries in dst_buff; expected 1 or more",
        ),
        (
            with(
                READS,
                r#"{"name": "signal", "channel_ids": [0], "channel_type": "memory"}"#,
                r#"{"name": "signal", "channel_ids": [3], "channel_type": "memory"}"#,
            ),
            "op 0: memory channel 3; its threadblock has 1",
        ),
        (
            with(
                READS,
                r#"{"name": "signal", "channel_ids": [0], "channel_type": "memory"}"#,
                r#"{"name": "signal", "channel_ids": [0]}"#,
            ),
            "op 0: signal without channel_type",
        ),
        (
            with(
                READS,
                r#"{"name": "signal", "channel_ids": [0], "channel_type": "memory"}"#,
                r#"{"name": "signal", "channel_type": "memory"}"#,
            ),
            "op 0: signal without channel_ids",
        ),
        (
            with(READS, r#""min_message_size": 64"#, r#""min_message_size": 99999999"#),
            "min_message_size: it is for at least 99999999 and at most 1048576",
        ),
        (with(PACKETS, r#""tbg_size": 3"#, r#""tbg_size": 1"#), "tb_id 1 in a group of 1"),
        (with(PACKETS, r#""tbg_size": 3"#, r#""tbg_size": 100000"#), "100000; the limit is 64"),
        (
            with(
                PACKETS,
                r#"{"type": "s", "index": 2, "size": 2}"#,
                r#"{"type": "i", "index": 2, "size": 2}"#,
            ),
            "it reads packets of buffer i; packets lie in s",
        ),
        (
            with(BLOCKS, r#""semaphore_ids": [1]"#, r#""semaphore_ids": [2]"#),
            "op 0.3: semaphore 2; its gpu has 2",
        ),
        (with(BLOCKS, r#""num_threadblocks": 3"#, r#""num_threadblocks": 0"#), "a barrier of 0 threadblocks"),
        (with(BLOCKS, r#""barrier_id": 0, "#, ""), "barrier without barrier_id"),
        (with(BLOCKS, r#""name": "copy""#, r#""name": "pipeline""#), "op 0.1: a pipeline within a pipeline"),
        (with(PUTS, r#""rank": 0"#, r#""rank": 2"#), "gpu 2, remote buffer 0: rank 2; expected another gpu"),
        (
            with(SWITCH, r#""ranks": [0, 1]"#, r#""ranks": [0, 0]"#),
            "rank 0 in a group of a switch; expected each once, below 2",
        ),
        (with(SWITCH, r#""ranks": [0, 1]"#, r#""ranks": []"#), "a group of a switch without ranks"),
        (with(SWITCH, r#""buffer_type": "i", "#, ""), "a switch channel without buffer_type"),
        ("{}".to_owned(), "missing field"),
        (
            with(READS, "input_chunks", "inputChunks"),
            "missing field `input_chunks`; the file has 'inputChunks', as MSCCL++ wrote ",
        ),
        (
            with(READS, "\"collective\"", "\"colletive\""),
            "missing field `collective`; the file has 'colletive', as MSCCL++ wrote ",
        ),
        (
            format!("{{\"gpus\": [], {}", &READS[1..].replace("\"gpus\"", "\"other\"")),
            "it has 0 gpus; expected at least 2",
        ),
    ];
    for (text, expected) in cases {
        let error = import(&text).expect_err(expected).to_string();
        assert!(error.contains(expected), "{error:?} lacks {expected:?}");
        assert!(!error.contains(" at line "), "the line is said once: {error:?}");
    }
}

#[test]
fn a_port_leads_where_the_buffer_is() {
    let crossed = with(PUTS, r#""connected_to": [2, 1]"#, r#""connected_to": [1, 2]"#);
    let error = import(&crossed).expect_err("the port leads to the next rank").to_string();
    assert!(error.contains("channel 0 leads to gpu 1, and its buffer is gpu 2's"), "{error}");
}

/// Every number of every file, changed: nothing panics, and what is taken is proved.
#[test]
fn changed_numbers_are_taken_or_refused() {
    let (mut taken, mut refused) = (0, 0);
    for (text, ..) in FILES {
        let is_digit = |at: &usize| text.as_bytes()[*at].is_ascii_digit();
        let starts = (1..text.len()).filter(|at| is_digit(at) && !is_digit(&(at - 1)));
        for start in starts {
            let end = (start..text.len()).find(|at| !is_digit(at)).unwrap_or(text.len());
            for number in ["0", "1", "3", "1000000", "18446744073709551615"] {
                match import(&format!("{}{number}{}", &text[..start], &text[end..])) {
                    Ok(_) => taken += 1,
                    Err(error) => refused += usize::from(!error.to_string().is_empty()),
                }
            }
        }
    }
    println!("{taken} taken, {refused} refused");
    assert!(taken > 1000 && refused > 4000, "{taken} taken, {refused} refused");
}
