//! Files whose elements make sense, and which are wrong or too much as a whole, are refused in so many words.

use super::fault_tests::refused;

/// Blocks of one gpu: send, recv and channel, and steps as `r > s0`, `s i0`, `rrc i0 > o0`, with `x2` chunks and a wait `@1.0` for step 0
/// of block 1.
type Blocks<'a> = &'a [(i32, i32, u32, &'a [&'a str])];

/// A file of the given chunks per block, called out of place; buffers as large as allreduce's, scratch of as many chunks as input.
fn file(coll: &str, parts: usize, gpus: &[Blocks<'_>]) -> String {
    let gpu = |(id, blocks): (usize, &Blocks<'_>)| {
        let blocks: String = blocks.iter().enumerate().map(|(id, block)| tb(id, block)).collect();
        format!("<gpu id='{id}' i_chunks='{parts}' o_chunks='{parts}' s_chunks='{parts}'>{blocks}</gpu>\n")
    };
    let gpus: (usize, String) = (gpus.len(), gpus.iter().enumerate().map(gpu).collect());
    format!(
        "<algo name='f' ngpus='{}' coll='{coll}' nchunksperloop='{parts}' inplace='0'>\n{}</algo>",
        gpus.0, gpus.1
    )
}

fn tb(id: usize, (send, recv, chan, steps): &(i32, i32, u32, &[&str])) -> String {
    let steps: String = steps.iter().enumerate().map(|(number, text)| step(number, text)).collect();
    format!("<tb id='{id}' send='{send}' recv='{recv}' chan='{chan}'>{steps}</tb>")
}

fn step(number: usize, text: &str) -> String {
    let (mut count, mut dep, mut src, mut dst, mut is_dst) =
        ("1", ("-1", "-1"), ("i", "-1"), ("o", "-1"), false);
    let mut words = text.split(' ');
    let kind = words.next().expect("a type");
    for word in words {
        match word.split_at(1) {
            (">", _) => is_dst = true,
            ("x", chunks) => count = chunks,
            ("@", at) => dep = at.split_once('.').expect("a block and a step"),
            operand if is_dst => dst = operand,
            operand => src = operand,
        }
    }
    format!(
        "<step s='{number}' type='{kind}' srcbuf='{}' srcoff='{}' dstbuf='{}' dstoff='{}' cnt='{count}' depid='{}' deps='{}' hasdep='1'/>",
        src.0, src.1, dst.0, dst.1, dep.0, dep.1
    )
}

#[test]
fn plans_that_are_wrong_as_a_whole_are_refused_with_the_steps_that_show_it() {
    let exchange: &[&str] = &["s i0", "s i1", "s i2", "rrc i0 > o0", "rrc i1 > o1", "rrc i2 > o2"];
    let waits_first: &[&str] = &["rrc i0 > o0", "s i0"];
    let adds_own: &[&str] = &["s i0", "rrc i0 > o0"];
    let adds_more: &[&str] = &["s i0", "rrc o0 > o0 @0.1"];
    let cases = [
        (
            file("allreduce", 3, &[&[(1, 1, 0, exchange)], &[(0, 0, 0, exchange)]]),
            "the plan fails its proof: deadlock with channels 2 deep: rank 0 node 2 (send in[2] -> [to rank 1 ch 0]) waits for \
             room, which is made by what stands behind rank 1 node 2 (send in[2] -> [to rank 0 ch 0]), which waits for room, \
             which is made by what stands behind the first of these (rank 0 node 2 is gpu 0, tb 0, step 2; rank 1 node 2 is gpu 1, tb 0, step 2)",
        ),
        (
            file("allreduce", 1, &[&[(1, 1, 0, waits_first)], &[(0, 0, 0, waits_first)]]),
            "gpu 0, tb 0, step 0: steps wait for one another in a circle: gpu 0, tb 0, step 0 waits for the message of gpu 1, \
             tb 0, step 1; gpu 1, tb 0, step 0 waits for the message of gpu 0, tb 0, step 1",
        ),
        (
            file(
                "broadcast",
                1,
                &[
                    &[(1, -1, 0, &["s i0"]), (1, -1, 1, &["s i0"]), (-1, -1, 0, &["cpy i0 > o0"])],
                    &[(-1, 0, 0, &["r > o0"]), (-1, 0, 1, &["r > o0"])],
                ],
            ),
            "the plan fails its proof: rank 1 node 0 (recv [from rank 0 ch 0] -> out[0]) and rank 1 node 1 (recv [from rank 0 \
             ch 1] -> out[0]) touch out[0] in no given order (rank 1 node 0 is gpu 1, tb 0, step 0; rank 1 node 1 is gpu 1, tb \
             1, step 0)",
        ),
        (
            file(
                "allreduce",
                1,
                &[
                    &[(1, 1, 0, adds_own), (2, 2, 0, adds_more)],
                    &[(0, 0, 0, adds_own), (2, 2, 0, adds_more)],
                    &[(0, 0, 0, adds_own), (1, 1, 0, adds_more)],
                ],
            ),
            "the plan fails its proof: chunk 0 is (2 + (0 + 1)) of chunk 0 on rank 0 but (1 + (0 + 2)) of chunk 0 on rank 2",
        ),
        (
            file(
                "allreduce",
                2,
                &[
                    &[(1, 1, 0, &["s i0", "rrc i0 > o0 x2"])],
                    &[(0, 0, 0, &["rrc i0 > s0", "cpy i1 > s1", "s s0 x2"])],
                ],
            ),
            "gpu 0, tb 0, step 1: its chunk 1 is complete, unlike its first; expected steps of one kind of chunk",
        ),
        (
            file("allgather", 2, &[&[], &[]]).replace("i_chunks='2'", "i_chunks='1'"),
            "the plan fails its proof: output chunk 0 of rank 0 is not written, expected 0 of chunk 0",
        ),
    ];
    for (text, expected) in cases {
        assert_eq!(refused(&text), expected, "{text}");
    }
}

#[test]
fn more_than_is_read_is_refused_with_the_limit() {
    let one: &[&str] = &["cpy i0 > o0"];
    let copies = vec![(-1, -1, 0, one); 129];
    let steps = vec!["cpy i0 > o0"; 8193];
    let sends: Vec<(i32, i32, u32, &[&str])> = (0..33).map(|chan| (1, -1, chan, &["s i0"][..])).collect();
    let receives: Vec<(i32, i32, u32, &[&str])> =
        (0..33).map(|chan| (-1, 0, chan, &["r > o0"][..])).collect();
    let wide = vec!["cpy i0 > o0 x256"; 2049];
    let many: Vec<String> = (0..65).map(|i| format!("a{i}='0'")).collect();
    let long = " ".repeat((16 << 20) + 1);
    let cases = [
        (file("allreduce", 1, &[&copies, &[]]), "blocks of one gpu: 129; the limit is 128"),
        (file("allreduce", 1, &[&[(-1, -1, 0, &steps)], &[]]), "steps of one gpu: 8193; the limit is 8192"),
        (file("broadcast", 1, &[&sends, &receives]), "channels from gpu 0 to gpu 1: 33; the limit is 32"),
        (
            file("allreduce", 256, &[&[(-1, -1, 0, &wide)], &[]]),
            "chunks moved by all steps: 524544; the limit is 524288",
        ),
        (
            file("allreduce", 257, &[&[(-1, -1, 0, &["cpy i0 > o0 x257"])], &[]]),
            "cnt of gpu 0, tb 0, step 0: 257; the limit is 256",
        ),
        (format!("<algo {}/>", many.join(" ")), "line 1: algo: more than 64 attributes"),
        (long, "bytes of the file: 16777217; the limit is 16777216"),
    ];
    for (text, expected) in cases {
        assert_eq!(refused(&text), expected);
    }
}
