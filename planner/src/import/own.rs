//! hcomm's own JSON, proved: `export::json` reads slices that make sense one by one, and this what they do together.

use super::{Format, ImportError, prove_anew, within};
use crate::buffers::BlockCounts;
use crate::export::json;
use crate::plan::{Node, Plan};

/// The format.
pub(super) const FORMAT: Format =
    Format { name: "hcomm JSON", sign: "an object with \"slices\"", recognises, read };

/// Longest file.
const MAX_FILE_BYTES: u64 = 64 << 20;

/// Most chunks, in all buffers of all ranks.
const MAX_CHUNKS: u64 = 1 << 20;

/// Most nodes of one rank; what is proved of a rank takes memory in proportion to their square.
const MAX_RANK_NODES: u64 = 1 << 14;

/// Most sources, sinks or dependencies of one node; looking for the next takes time in proportion to their square.
const MAX_LIST: u64 = 1 << 10;

/// Most sources, sinks and dependencies, each of all ranks.
const MAX_LISTED: u64 = 1 << 20;

fn recognises(text: &str) -> bool {
    text.trim_start().starts_with('{') && text.contains("\"slices\"")
}

fn read(text: &str) -> Result<Vec<Plan>, ImportError> {
    within("bytes of the file", text.len() as u64, MAX_FILE_BYTES)?;
    let plans = json::read(text).map_err(|error| ImportError::Own(error.to_string()))?;
    limit(&plans)?;
    prove_anew(plans)
}

/// What a proof takes time and memory for is limited before anything is proved.
fn limit(plans: &[Plan]) -> Result<(), ImportError> {
    let mut chunks = 0_u64;
    for plan in plans {
        let blocks = BlockCounts::of(plan.collective, plan.world, plan.rank, plan.root);
        let blocks = u64::from(blocks.input.unwrap_or(0)) + u64::from(blocks.output.unwrap_or(0));
        chunks = chunks.saturating_add(
            blocks.saturating_mul(u64::from(plan.parts)).saturating_add(plan.scratch.len() as u64),
        );
        within("chunks of all ranks' buffers", chunks, MAX_CHUNKS)?;
        within(format!("nodes of rank {}", plan.rank), plan.nodes.len() as u64, MAX_RANK_NODES)?;
        plan.nodes.iter().try_for_each(|node| lists(plan, node))?;
    }
    within("sources of all ranks", plans.iter().map(|plan| plan.sources.len() as u64).sum(), MAX_LISTED)?;
    within("sinks of all ranks", plans.iter().map(|plan| plan.sinks.len() as u64).sum(), MAX_LISTED)?;
    within("dependencies of all ranks", plans.iter().map(|plan| plan.deps.len() as u64).sum(), MAX_LISTED)?;
    // Of every chunk it is noted which ranks have a part in it.
    let moved = plans.iter().map(json::moved).fold(chunks, u64::saturating_add);
    let moved = moved.saturating_mul(plans.len().div_ceil(64) as u64);
    within("chunks that are moved, times ranks in 64s", moved, json::MAX_MOVED)
}

fn lists(plan: &Plan, node: &Node) -> Result<(), ImportError> {
    for (what, list) in [("sources", &node.sources), ("sinks", &node.sinks), ("dependencies", &node.deps)] {
        within(format!("{what} of a node of rank {}", plan.rank), list.len() as u64, MAX_LIST)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Sink, Source};
    use crate::{Choice, Collective, Costs, Request, Topology, compile_all};
    use hcomm_ops::{DType, ReduceOp};

    fn plans() -> Vec<Plan> {
        let topology = Topology::single_host(3);
        let request =
            Request::new(Collective::AllReduce, DType::F32, ReduceOp::Sum, 99).with_algorithm("ring");
        compile_all(&request, &topology, &Choice::new(&topology, Costs::shm())).expect("a ring of 3")
    }

    fn refused(plans: &[Plan]) -> String {
        read(&json::write(plans)).expect_err("a faulty plan").to_string()
    }

    #[test]
    fn what_was_written_is_read_and_proved() {
        let text = json::write(&plans());
        assert_eq!(
            super::super::read(&text).map(|(format, plans)| (format.name, plans)),
            Ok(("hcomm JSON", plans()))
        );
    }

    #[test]
    fn a_name_that_cannot_be_shown_is_refused() {
        for (name, shown) in [("", "\"\""), ("\u{1b}[31m", "\"\\u{1b}[31m\""), (&"x".repeat(999), "x\"..")] {
            let mut named = plans();
            named.iter_mut().for_each(|plan| plan.algorithm = name.to_owned());
            let expected = format!("{shown}; expected 1 to 120 characters that can be shown");
            assert!(refused(&named).ends_with(&expected), "{}", refused(&named));
        }
    }

    #[test]
    fn a_mark_at_the_beginning_is_skipped_and_a_root_is_not_invented() {
        let text = format!("\u{feff}{}", json::write(&plans()));
        assert_eq!(super::super::read(&text).map(|(_, plans)| plans), Ok(plans()));
        let mut rooted = plans();
        rooted.iter_mut().for_each(|plan| plan.root = 1);
        assert_eq!(
            refused(&rooted),
            "plan file: the slice of rank 0 is malformed: root 1 of all_reduce, which has none; expected 0"
        );
    }

    #[test]
    fn what_is_wrong_together_is_refused() {
        assert_eq!(
            refused(&plans()[..2]),
            "the plan fails its proof: not the slices of one plan: 2 slices of a world of 3"
        );
        let mut unordered = plans();
        unordered[1].nodes.iter_mut().for_each(|node| node.deps = 0..0);
        assert!(refused(&unordered).contains("in no given order"), "{}", refused(&unordered));
        let mut vast = plans();
        vast.iter_mut().for_each(|plan| plan.parts = 1 << 30);
        assert_eq!(refused(&vast), "chunks of all ranks' buffers: 2147483648; the limit is 1048576");
    }

    #[test]
    fn what_is_not_as_it_was_written_gets_an_id_of_its_own() {
        let mut rotated = plans();
        for source in rotated.iter_mut().flat_map(|plan| &mut plan.sources) {
            if let Source::Span { span, .. } = source {
                span.first = (span.first + 1) % 3;
            }
        }
        for sink in rotated.iter_mut().flat_map(|plan| &mut plan.sinks) {
            if let Sink::Span(span) = sink {
                span.first = (span.first + 1) % 3;
            }
        }
        for node in rotated.iter_mut().flat_map(|plan| &mut plan.nodes) {
            node.extent.first = (node.extent.first + 1) % 3;
        }
        assert_eq!(rotated[0].id, plans()[0].id);
        let read = read(&json::write(&rotated)).expect("a ring all the same");
        assert!(read.iter().all(|plan| plan.id == read[0].id && plan.is_unchanged()));
        assert_ne!(read[0].id, plans()[0].id);
        assert_eq!(super::read(&json::write(&read)), Ok(read), "which is theirs for good");
    }

    /// Small files that say much: every node moves all chunks, or waits for all nodes.
    #[test]
    fn what_would_take_long_to_prove_is_refused_at_once() {
        let mut wide = plans();
        for plan in &mut wide {
            (plan.parts, plan.span_chunks) = (1 << 18, 1 << 18);
            plan.nodes.iter_mut().for_each(|node| (node.extent.first, node.extent.count) = (0, 1 << 18));
        }
        assert_eq!(refused(&wide), "plan file: its nodes move 16515072 chunks in all; the limit is 4194304");
        let mut waiting = plans();
        waiting[2].deps = vec![0; 1025];
        waiting[2].nodes.iter_mut().for_each(|node| node.deps = 0..0);
        waiting[2].nodes[3].deps = 0..1025;
        assert_eq!(refused(&waiting), "dependencies of a node of rank 2: 1025; the limit is 1024");
        waiting[2].nodes[2].deps = 0..1;
        assert!(refused(&waiting).contains("its nodes have 1026 dependencies of a list of 1025"));
    }

    #[test]
    fn a_text_of_no_format_is_named() {
        let error = super::super::read("  digraph {").expect_err("no plan").to_string();
        assert_eq!(
            error,
            "no plan of a known format: the file begins with 'digraph {'; expected MSCCL XML (XML), MSCCL++ JSON (an object with \
             \"gpus\") or hcomm JSON (an object with \"slices\")"
        );
        for text in ["{}", r#"{"name":"x"}"#, "[]", ""] {
            let error = super::super::read(text).expect_err("no plan").to_string();
            assert!(
                error.starts_with(&format!("no plan of a known format: the file begins with '{text}'; ")),
                "{error}"
            );
        }
        let error = super::super::read(r#"{"slices": []}"#).expect_err("no plan").to_string();
        assert!(error.starts_with("plan file: missing field `version`"), "{error}");
    }
}
