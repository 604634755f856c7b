//! Good files with one thing wrong are refused, in so many words.

use super::*;

const RING: &str = include_str!("../../../tests/data/msccl/all_reduce_ring_3.xml");
const PAIRS: &str = include_str!("../../../tests/data/msccl/all_reduce_pairs_3.xml");
const COPY: &str = include_str!("../../../tests/data/msccl/all_gather_copy_3.xml");

/// Why a text is refused.
pub(super) fn refused(text: &str) -> String {
    match import(text) {
        Ok(plans) => panic!("taken as {}: {text}", plans[0].algorithm),
        Err(error) => error.to_string(),
    }
}

/// A good file, what to replace in it once, and what is said to that.
const FAULTS: &[(&str, &str, &str, &str)] = &[
    // The algo element.
    (
        PAIRS,
        "name=\"all_reduce_pairs_3\"",
        "name=\"\"",
        "line 2: algo: name is \"\"; expected 1 to 120 characters that can be shown",
    ),
    (
        PAIRS,
        "name=\"all_reduce_pairs_3\"",
        "name=\"a&#10;b\"",
        "line 2: algo: name is \"a\\nb\"; expected 1 to 120 characters that can be shown",
    ),
    (PAIRS, "name=\"all_reduce_pairs_3\"", "nome=\"\"", "line 2: algo: it has no attribute name"),
    (
        PAIRS,
        "coll=\"allreduce\"",
        "coll=\"alltoallv\"",
        "line 2: algo: coll is \"alltoallv\"; expected one of allreduce, allgather, reducescatter, broadcast, reduce, gather, scatter, alltoall",
    ),
    (
        PAIRS,
        "coll=\"allreduce\"",
        "coll=\"custom\"",
        "line 2: algo: coll is \"custom\"; expected one of allreduce, allgather, reducescatter, broadcast, reduce, gather, scatter, alltoall",
    ),
    (PAIRS, "ngpus=\"3\"", "ngpus=\"1\"", "line 2: algo: ngpus is 1; expected at least 2"),
    (PAIRS, "ngpus=\"3\"", "ngpus=\"2\"", "line 49: gpu: one more than ngpus, 2"),
    (PAIRS, "ngpus=\"3\"", "ngpus=\"4\"", "algo: it has 3 gpus; expected ngpus, 4"),
    (PAIRS, "ngpus=\"3\"", "ngpus=\"1000000000\"", "ngpus of algo: 1000000000; the limit is 256"),
    (PAIRS, "ngpus=\"3\"", "ngpus=\"-3\"", "line 2: algo: ngpus is \"-3\"; expected a number from 0 up"),
    (
        PAIRS,
        "ngpus=\"3\"",
        "ngpus=\"three\"",
        "line 2: algo: ngpus is \"three\"; expected a number from 0 up",
    ),
    (
        PAIRS,
        "nchunksperloop=\"6\"",
        "nchunksperloop=\"1000000000\"",
        "nchunksperloop of algo: 1000000000; the limit is 262144",
    ),
    (
        PAIRS,
        "nchunksperloop=\"6\"",
        "nchunksperloop=\"0\"",
        "line 2: algo: nchunksperloop is 0; expected at least 1",
    ),
    (
        PAIRS,
        "nchunksperloop=\"6\"",
        "nchunksperloop=\"7\"",
        "gpu 0: i_chunks is 6; expected 7, or 0 in place",
    ),
    (
        COPY,
        "nchunksperloop=\"3\"",
        "nchunksperloop=\"4\"",
        "line 2: algo: nchunksperloop is 4; expected a multiple of ngpus, 3",
    ),
    (
        PAIRS,
        "inplace=\"1\"",
        "inplace=\"0\"",
        "line 2: algo: inplace and outofplace are both 0; expected at least one of them",
    ),
    (
        PAIRS,
        "outofplace=\"0\"",
        "outofplace=\"1\"",
        "the plan fails its proof: output chunk 0 of rank 0 is not written, expected all ranks of chunk 0",
    ),
    (PAIRS, "inplace=\"1\" outofplace=\"0\"", "outofplace=\"1\"", "gpu 0: o_chunks is 0; expected 6"),
    (
        PAIRS,
        "maxBytes=\"65536\"",
        "maxBytes=\"47\"",
        "line 2: algo: minBytes is 48 and maxBytes 47; expected no less",
    ),
    (PAIRS, "nchannels=\"2\"", "nchannels=\"0\"", "line 4: tb: chan is 0; expected one below nchannels, 0"),
    // Numbering and sizes.
    (
        PAIRS,
        "<gpu id=\"1\"",
        "<gpu id=\"2\"",
        "line 26: gpu: id is 2; expected 1, as numbers have no gaps and do not repeat",
    ),
    (
        PAIRS,
        "<gpu id=\"1\"",
        "<gpu id=\"0\"",
        "line 26: gpu: id is 0; expected 1, as numbers have no gaps and do not repeat",
    ),
    (
        PAIRS,
        "<tb id=\"1\"",
        "<tb id=\"0\"",
        "line 9: tb: id is 0; expected 1, as numbers have no gaps and do not repeat",
    ),
    (
        PAIRS,
        "step s=\"2\"",
        "step s=\"3\"",
        "line 7: step: s is 3; expected 2, as numbers have no gaps and do not repeat",
    ),
    (PAIRS, "i_chunks=\"6\"", "i_chunks=\"5\"", "gpu 0: i_chunks is 5; expected 6, or 0 in place"),
    (
        PAIRS,
        "s_chunks=\"4\"",
        "s_chunks=\"3\"",
        "gpu 0, tb 0, step 2: srcoff is 2 and 2 chunks long; expected within buffer s, which has 3",
    ),
    (
        PAIRS,
        "s_chunks=\"4\"",
        "s_chunks=\"1000000000\"",
        "chunks of all gpus' buffers: 1000000012; the limit is 262144",
    ),
    (
        PAIRS,
        "s_chunks=\"4\"",
        "s_chunks=\"99999999999\"",
        "line 3: gpu: s_chunks is 99999999999; expected at most 4294967295",
    ),
    // Steps.
    (
        PAIRS,
        "type=\"re\"",
        "type=\"reduce\"",
        "line 6: step: type is \"reduce\"; expected one of s, r, rcs, rrc, rrs, rrcs, cpy, re, nop",
    ),
    (PAIRS, "srcbuf=\"s\"", "srcbuf=\"x\"", "line 6: step: srcbuf is \"x\"; expected i, o or s"),
    (
        PAIRS,
        "srcoff=\"2\" dstbuf=\"s\"",
        "srcoff=\"5\" dstbuf=\"s\"",
        "gpu 0, tb 3, step 0: srcoff is 5 and 2 chunks long; expected within buffer i, which has 6",
    ),
    (
        PAIRS,
        "srcoff=\"2\" dstbuf=\"s\"",
        "srcoff=\"4294967295\" dstbuf=\"s\"",
        "gpu 0, tb 3, step 0: srcoff is 4294967295 and 2 chunks long; expected within buffer i, which has 6",
    ),
    (
        PAIRS,
        "cnt=\"2\" depid=\"2\"",
        "cnt=\"0\" depid=\"2\"",
        "gpu 0, tb 0, step 1: cnt is 0; expected at least 1",
    ),
    (PAIRS, "cnt=\"2\" depid=\"2\"", "depid=\"2\"", "line 6: step: it has no attribute cnt"),
    (
        PAIRS,
        "send=\"1\" recv=\"-1\"",
        "send=\"0\" recv=\"-1\"",
        "gpu 0, tb 3: send is 0, the gpu itself; expected another, or -1",
    ),
    (
        PAIRS,
        "send=\"1\" recv=\"-1\"",
        "send=\"3\" recv=\"-1\"",
        "gpu 0, tb 3: send is 3; expected a gpu from 0 to 2, or -1",
    ),
    (
        PAIRS,
        "send=\"1\" recv=\"-1\"",
        "send=\"2\" recv=\"-1\"",
        "gpu 0, tb 4: send 2 on channel 0 is also tb 3's; expected one block per end",
    ),
    (
        PAIRS,
        "send=\"1\" recv=\"-1\"",
        "send=\"-1\" recv=\"-1\"",
        "gpu 0, tb 3, step 0: type s sends, but its block's send is -1; expected a gpu",
    ),
    (
        PAIRS,
        "send=\"-1\" recv=\"1\"",
        "send=\"-1\" recv=\"-1\"",
        "gpu 0, tb 1, step 0: type r receives, but its block's recv is -1; expected a gpu",
    ),
    (
        PAIRS,
        "send=\"-1\" recv=\"1\" chan=\"0\"",
        "send=\"-1\" recv=\"1\" chan=\"1\"",
        "gpu 1: it sends 2 messages to gpu 0 on channel 0, which receives 0 from it",
    ),
    (
        PAIRS,
        "depid=\"2\" deps=\"0\"",
        "depid=\"5\" deps=\"0\"",
        "gpu 0, tb 0, step 1: depid is 5; expected a block below 5, or -1",
    ),
    (
        PAIRS,
        "depid=\"2\" deps=\"0\"",
        "depid=\"2\" deps=\"2\"",
        "gpu 0, tb 0, step 1: deps is 2; expected a step of tb 2 below 2",
    ),
    (
        PAIRS,
        "depid=\"2\" deps=\"0\"",
        "depid=\"2\" deps=\"-1\"",
        "line 6: step: depid is 2, but deps is -1; expected a step",
    ),
    (
        PAIRS,
        "depid=\"2\" deps=\"0\"",
        "depid=\"2\" deps=\"1\"",
        "gpu 0, tb 0, step 1: it waits for step 1 of tb 2, but neither that step nor a later one has hasdep 1",
    ),
    (
        PAIRS,
        "depid=\"2\" deps=\"0\"",
        "depid=\"0\" deps=\"2\"",
        "gpu 0, tb 0, step 1: steps wait for one another in a circle: gpu 0, tb 0, step 1 waits for the end of gpu 0, tb 0, step 2",
    ),
    (
        PAIRS,
        "depid=\"2\" deps=\"0\"",
        "depid=\"-1\" deps=\"-1\"",
        "the plan fails its proof: rank 0 node 1 (reduce in[0..2] + scratch[2..4]* -> out[0..2] !) and rank 0 node 4 (recv [from rank 2 ch 0] -> scratch[2..4]) touch scratch[2] in no given order (in place) (rank 0 node 1 is gpu 0, tb 0, step 2; rank 0 node 4 is gpu 0, tb 2, step 0)",
    ),
    (
        PAIRS,
        "depid=\"1\" deps=\"0\"",
        "depid=\"-1\" deps=\"-1\"",
        "the plan fails its proof: rank 0 node 0 (reduce in[0..2]* + scratch[0..2]* -> out[0..2]) and rank 0 node 2 (recv [from rank 1 ch 0] -> scratch[0..2]) touch scratch[0] in no given order (in place) (rank 0 node 0 is gpu 0, tb 0, step 1; rank 0 node 2 is gpu 0, tb 1, step 0)",
    ),
    (
        PAIRS,
        "type=\"s\" srcbuf=\"i\" srcoff=\"2\" dstbuf=\"s\" dstoff=\"0\" cnt=\"2\"",
        "type=\"s\" srcbuf=\"i\" srcoff=\"2\" dstbuf=\"s\" dstoff=\"0\" cnt=\"1\"",
        "gpu 1, tb 2, step 0: it receives 2 chunks, but gpu 0, tb 3, step 0 sends 1",
    ),
    (
        PAIRS,
        "srcbuf=\"s\" srcoff=\"2\" dstbuf=\"i\"",
        "srcbuf=\"s\" srcoff=\"0\" dstbuf=\"i\"",
        "the plan fails its proof: the contribution of rank 1 is counted twice: rank 0 node 1 (reduce in[0..2] + scratch[0..2]* -> out[0..2] !) folds what comes from both rank 0 node 0 (reduce in[0..2]* + scratch[0..2]* -> out[0..2]) and rank 0 node 2 (recv [from rank 1 ch 0] -> scratch[0..2]) (rank 0 node 1 is gpu 0, tb 0, step 2; rank 0 node 0 is gpu 0, tb 0, step 1; rank 0 node 2 is gpu 0, tb 1, step 0)",
    ),
    (
        PAIRS,
        "type=\"s\" srcbuf=\"i\" srcoff=\"2\"",
        "type=\"s\" srcbuf=\"i\" srcoff=\"3\"",
        "gpu 1, tb 0, step 2: it folds part 2 of a block with part 3; expected the same",
    ),
    (
        PAIRS,
        "type=\"s\" srcbuf=\"i\" srcoff=\"2\"",
        "type=\"s\" srcbuf=\"s\" srcoff=\"2\"",
        "gpu 0, tb 3, step 0: it reads chunk 2 of buffer s, which nothing has written before",
    ),
    (
        PAIRS,
        "dstbuf=\"i\" dstoff=\"2\" cnt=\"2\"",
        "dstbuf=\"i\" dstoff=\"4\" cnt=\"2\"",
        "gpu 0, tb 1, step 1: it puts part 2 of a block where part 4 of one goes; the two may differ in length",
    ),
    (
        RING,
        "type=\"rrcs\" srcbuf=\"i\" srcoff=\"1\"",
        "type=\"rrcs\" srcbuf=\"i\" srcoff=\"2\"",
        "gpu 0, tb 0, step 2: it folds part 1 of a block with part 2; expected the same",
    ),
    (
        RING,
        "type=\"rrcs\"",
        "type=\"rrs\"",
        "the plan fails its proof: output chunk 1 of rank 0 is not written, expected all ranks of chunk 1",
    ),
    (
        RING,
        "type=\"rrs\" srcbuf",
        "type=\"rcs\" srcbuf",
        "the plan fails its proof: output chunk 2 of rank 0 is (1 + 2) of chunk 2, expected all ranks of chunk 2; rank 0 node 5 (recv [from rank 2 ch 0] -> out[2]) got it from rank 2 node 3 (recv-copy-send [from rank 1 ch 0] -> out[2], [to rank 0 ch 0]), which got it from rank 1 node 2 (recv-reduce-send [from rank 0 ch 0]* + in[2]* -> out[2], [to rank 2 ch 0]) (rank 0 node 5 is gpu 0, tb 0, step 4; rank 2 node 3 is gpu 2, tb 0, step 3; rank 1 node 2 is gpu 1, tb 0, step 2)",
    ),
    // The text.
    (RING, "</algo>", "", "line 32: the file ends within algo"),
    (RING, "  </gpu>\n</algo>", "", "line 31: the file ends within gpu"),
    (RING, "</algo>", "</algo><algo/>", "line 31: \"algo\" in file after algo; expected nothing"),
    (RING, "</algo>", "</algo>more", "line 31: text in file after algo; expected elements only"),
    (RING, "</tb>", "</gpu>", "line 11: ill-formed document: expected `</tb>`, but `</gpu>` was found"),
    (
        RING,
        "<algo",
        "<!DOCTYPE algo [<!ENTITY a \"aaaa\"><!ENTITY b \"&a;&a;\">]>\n<algo",
        "line 3: a document type; expected none, as a plan needs no entities",
    ),
    (RING, "name=\"all_reduce_ring_3\"", "name=\"&b;\"", "line 3: algo: at 1..2: unrecognized entity `b`"),
    (
        RING,
        "chan=\"0\"",
        "chan=\"0\" chan=\"0\"",
        "line 5: tb: position 37: duplicated attribute, previous declaration at position 28",
    ),
    (
        RING,
        "chan=\"0\"",
        "chan=0",
        "line 5: tb: position 33: attribute value must be enclosed in `\"` or `'`",
    ),
    (RING, "<tb", "<block", "line 5: \"block\" in gpu; expected tb or copy"),
    (RING, "<step s=\"0\"", "text <step s=\"0\"", "line 5: text in tb; expected elements only"),
    (
        RING,
        "type=\"s\"",
        "type=\"s",
        "line 6: syntax error: attribute value not closed: `\"` not found before end of input",
    ),
    (
        COPY,
        "i_off=\"0\"",
        "i_off=\"1\"",
        "gpu 0, copy 0: i_off is 1 and 1 chunks long; expected within buffer i, which has 1",
    ),
    (
        COPY,
        "o_off=\"2\"",
        "o_off=\"3\"",
        "gpu 2, copy 0: o_off is 3 and 1 chunks long; expected within buffer o, which has 3",
    ),
];

#[test]
fn faults_are_named() {
    for (good, from, to, expected) in FAULTS {
        assert!(good.contains(from), "{from}");
        assert_eq!(refused(&good.replacen(from, to, 1)), *expected, "{from} -> {to}");
    }
}
