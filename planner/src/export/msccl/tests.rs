//! Every algorithm that MSCCL can express, written, read back and proved; and what it cannot is refused by name.

use super::*;
use crate::algorithm::Call;
use crate::choose::Candidate;
use crate::compile::compile_with;
use crate::topology::Topology;
use hcomm_ops::{DType, ReduceOp};

/// The plans of every candidate that the topology supports, root 0.
fn every_plan(topology: &Topology) -> Vec<(Candidate, Vec<Plan>)> {
    let mut all = Vec::new();
    for candidate in Candidate::all() {
        for collective in candidate.algorithm.collectives {
            let request = crate::Request::new(*collective, DType::F32, ReduceOp::Sum, 0);
            let call = candidate.apply(&Call::new(&request, topology.world(), topology));
            if candidate.supports(&call).is_ok() {
                let plan = |rank| compile_with(candidate.algorithm, &call, rank);
                all.push((candidate, (0..call.world).map(plan).collect()));
            }
        }
    }
    all
}

/// One algorithm's plan of a sum.
fn plan_of(name: &str, collective: Collective, world: usize, root: usize) -> Vec<Plan> {
    let topology = Topology::single_host(world);
    let choice = crate::Choice::new(&topology, crate::Costs::shm());
    let request = crate::Request::new(collective, DType::F32, ReduceOp::Sum, 1000);
    let request = request.with_root(root).with_algorithm(name);
    crate::compile_all(&request, &topology, &choice).expect("a supported call")
}

#[test]
fn every_algorithm_reads_back_and_is_proved() {
    let (mut written, mut buffered) = (0, 0);
    let worlds = (2..=8).map(Topology::single_host);
    for topology in worlds.chain([Topology::hosts(2, 2), Topology::hosts(2, 4)]) {
        for (candidate, plans) in every_plan(&topology) {
            let first = &plans[0];
            let what = format!("{} by {candidate} in {}", first.collective, first.world);
            if first.collective == Collective::Barrier {
                assert_eq!(to_msccl(&plans), Err(ExportError::Collective(Collective::Barrier)));
                continue;
            }
            let text = to_msccl(&plans).unwrap_or_else(|error| panic!("{what}: {error}"));
            let read = Plan::from_msccl(&text).unwrap_or_else(|error| panic!("{what}: {error}\n{text}"));
            let common =
                |p: &Plan| (p.collective, p.algorithm.clone(), p.world, p.rank, p.parts, p.overlay, p.bytes);
            assert!(read.iter().map(common).eq(plans.iter().map(common)), "{what}");
            let again = to_msccl(&read).unwrap_or_else(|error| panic!("{what}, again: {error}\n{text}"));
            Plan::from_msccl(&again).unwrap_or_else(|error| panic!("{what}, again: {error}\n{again}"));
            written += 1;
            assert!(first.buffered || !read[0].buffered, "{what} came to need copies");
            buffered += usize::from(read[0].buffered);
        }
    }
    println!("{written} written and read, {buffered} for copying paths only");
    assert!(written > 100, "{written}");
}

#[test]
fn what_a_ring_fuses_stays_fused() {
    let plans = plan_of("ring", Collective::AllReduce, 4, 0);
    let text = to_msccl(&plans).expect("a ring");
    let count = |kind: &str| text.matches(&format!("type=\"{kind}\"")).count();
    let counts = ["s", "r", "rcs", "rrc", "rrs", "rrcs", "cpy", "re", "nop"].map(count);
    assert_eq!(counts, [8, 4, 8, 4, 8, 0, 0, 0, 0], "{text}");
    assert!(!text.contains("s_chunks=\"1"), "a relay needs no scratch: {text}");
    assert_eq!(text.matches("<tb ").count(), 8, "a block per phase, as it has lanes: {text}");
    let head = "<algo name=\"ring\" proto=\"Simple\" nchannels=\"2\" nchunksperloop=\"4\" ngpus=\"4\" coll=\"allreduce\" \
                inplace=\"1\" outofplace=\"1\" minBytes=\"0\" maxBytes=\"0\">\n";
    assert!(text.starts_with(head), "{text}");
    let read = Plan::from_msccl(&text).expect("what was written");
    let nodes = |plans: &[Plan]| plans.iter().map(|plan| plan.nodes.len()).sum::<usize>();
    assert_eq!(nodes(&read), nodes(&plans));
}

#[test]
fn ends_share_blocks_where_there_would_be_too_many() {
    let text = to_msccl(&plan_of("direct", Collective::AllGather, 20, 0)).expect("a block for each peer");
    assert_eq!(text.matches("<tb id=\"19\"").count(), 20, "19 peers, and the own block");
    assert!(!text.contains("<tb id=\"20\""));
    let read = Plan::from_msccl(&text).expect("what was written");
    assert!(!read[0].buffered);
}

#[test]
fn what_a_file_says_it_says_again() {
    let counts = |text: &str| {
        let count = |kind: &str| text.matches(&format!("type=\"{kind}\"")).count();
        ["s", "r", "rcs", "rrc", "rrs", "rrcs", "cpy", "re"].map(count)
    };
    for text in [
        include_str!("../../../tests/data/msccl/all_reduce_pairs_3.xml"),
        include_str!("../../../tests/data/msccl/all_reduce_ring_3.xml"),
        include_str!("../../../tests/data/msccl/all_to_all_2.xml"),
        include_str!("../../../tests/data/msccl/all_gather_copy_3.xml"),
    ] {
        let plans = Plan::from_msccl(text).expect("a good file");
        let again = to_msccl(&plans).expect("what MSCCL has said");
        let mut expected = counts(text);
        expected[6] += text.matches("<copy ").count();
        assert_eq!(counts(&again), expected, "{again}");
    }
}

#[test]
fn a_fold_of_many_is_folded_in_the_same_order_on_all_ranks() {
    let text = to_msccl(&plan_of("one_shot", Collective::AllReduce, 5, 0)).expect("one shot");
    let read = Plan::from_msccl(&text).expect("what was written");
    let proved = verify(&read, DEPTH).expect("it is right");
    assert_eq!(proved.order, crate::verify::FoldOrder::RankByRank);
}

/// A broadcast to one other rank, in so many messages of one chunk.
fn chunk_by_chunk(chunks: u32) -> Vec<Plan> {
    broadcast(chunks, &(0..chunks).map(|chunk| (chunk, 1)).collect::<Vec<_>>())
}

/// A broadcast to one other rank, in one message of so many chunks.
fn at_once(chunks: u32) -> Vec<Plan> {
    broadcast(chunks, &[(0, chunks)])
}

/// In messages of the given first chunks and counts.
fn broadcast(chunks: u32, messages: &[(u32, u32)]) -> Vec<Plan> {
    let steps = |kind: &str, src: &str| {
        let step = |(number, (first, count)): (usize, &(u32, u32))| {
            format!(
                "<step s='{number}' type='{kind}' srcbuf='{src}' srcoff='{first}' dstbuf='o' dstoff='{first}' cnt='{count}'/>"
            )
        };
        messages.iter().enumerate().map(step).collect::<String>()
    };
    let text = format!(
        "<algo name='b' ngpus='2' coll='broadcast' nchunksperloop='{chunks}' inplace='1' outofplace='0'>
         <gpu id='0' i_chunks='{chunks}' o_chunks='{chunks}' s_chunks='0'>
         <tb id='0' send='1' recv='-1' chan='0'>{}</tb></gpu>
         <gpu id='1' i_chunks='0' o_chunks='{chunks}' s_chunks='0'>
         <tb id='0' send='-1' recv='0' chan='0'>{}</tb></gpu></algo>",
        steps("s", "i"),
        steps("r", "i")
    );
    Plan::from_msccl(&text).expect("a broadcast")
}

#[test]
fn what_msccl_cannot_express_is_refused_by_name() {
    let refused = |plans: &[Plan]| match to_msccl(plans) {
        Ok(text) => panic!("{} bytes for {}", text.len(), plans[0].algorithm),
        Err(error) => error.to_string(),
    };
    let cases = [
        (chunk_by_chunk(65), "steps in block 0 of rank 0: 65; MSCCL takes at most 64"),
        (at_once(72), "chunks in one step of rank 0: 72; MSCCL takes at most 71"),
        (
            plan_of("direct", Collective::AllGather, 40, 0),
            "blocks of rank 0 on channel 0: 40; MSCCL takes at most 32",
        ),
        (
            plan_of("direct", Collective::Reduce, 3, 1),
            "root 1; MSCCL's files have no root, so only plans of root 0 can be written",
        ),
        (
            plan_of("ring", Collective::AllReduce, 1, 0),
            "a world of 1; MSCCL's files are for at least 2 ranks",
        ),
    ];
    for (plans, expected) in cases {
        assert_eq!(refused(&plans), expected);
    }
    let mut faulty = plan_of("ring", Collective::AllReduce, 3, 0);
    faulty[1].nodes.iter_mut().for_each(|node| node.deps = 0..0);
    assert!(refused(&faulty).starts_with("the plan fails its proof: "), "{}", refused(&faulty));
}
