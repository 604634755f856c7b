//! hcomm's own JSON, proved: `export::json` reads slices that make sense one by one, and this what they do together.

use super::{Format, ImportError, prove_anew, within};
use crate::buffers::BlockCounts;
use crate::export::json;
use crate::plan::Plan;

/// The format.
pub(super) const FORMAT: Format = Format { name: "hcomm JSON", recognises, read };

/// Longest file.
const MAX_FILE_BYTES: u64 = 64 << 20;

/// Most chunks, in all buffers of all ranks.
const MAX_CHUNKS: u64 = 1 << 20;

/// Most nodes of one rank; what is proved of a rank takes memory in proportion to their square.
const MAX_RANK_NODES: u64 = 1 << 14;

fn recognises(text: &str) -> bool {
    text.trim_start().starts_with('{')
}

fn read(text: &str) -> Result<Vec<Plan>, ImportError> {
    within("bytes of the file", text.len() as u64, MAX_FILE_BYTES)?;
    let plans = json::read(text).map_err(|error| ImportError::Own(error.to_string()))?;
    let mut chunks = 0;
    for plan in &plans {
        let blocks = BlockCounts::of(plan.collective, plan.world, plan.rank, plan.root);
        let blocks = u64::from(blocks.input.unwrap_or(0)) + u64::from(blocks.output.unwrap_or(0));
        chunks += blocks.saturating_mul(u64::from(plan.parts)).saturating_add(plan.scratch.len() as u64);
        within("chunks of all ranks' buffers", chunks, MAX_CHUNKS)?;
        within(format!("nodes of rank {}", plan.rank), plan.nodes.len() as u64, MAX_RANK_NODES)?;
    }
    prove_anew(plans)
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

    #[test]
    fn a_text_of_no_format_is_named() {
        let error = super::super::read("  digraph {").expect_err("no plan").to_string();
        assert_eq!(
            error,
            "the file begins with \"digraph {\"; expected one of MSCCL XML, MSCCL++ JSON, hcomm JSON"
        );
        let error = super::super::read("{}").expect_err("no plan").to_string();
        assert!(error.starts_with("plan file: missing field `version`"), "{error}");
    }
}
