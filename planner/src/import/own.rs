//! hcomm's own JSON, proved: `export::json` reads slices that make sense one by one, and this what they do together.

use super::{DEPTH, Format, ImportError, unproved, within};
use crate::buffers::BlockCounts;
use crate::export::json;
use crate::plan::Plan;
use crate::verify::verify;

/// The format.
pub(super) const FORMAT: Format =
    Format { name: "hcomm JSON", sign: "an object with \"slices\"", recognises, read };

/// Longest file.
const MAX_FILE_BYTES: u64 = 64 << 20;

/// Most chunks, in all buffers of all ranks.
const MAX_CHUNKS: u64 = 1 << 20;

/// Most nodes of one rank; what is proved of a rank takes memory in proportion to their square.
const MAX_RANK_NODES: u64 = 1 << 14;

fn recognises(text: &str) -> bool {
    text.trim_start().starts_with('{') && text.contains("\"slices\"")
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
    match verify(&plans, DEPTH) {
        Ok(_) => Ok(plans),
        Err(fault) => Err(unproved(fault, |_| None)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
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
