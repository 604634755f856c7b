//! The plans that the gradients ran on, drawn into the output folder.

use std::fs;
use std::path::{Path, PathBuf};

use hcomm::planner::export;
use hcomm::{Collective, Communicator, DType, Plan, ReduceOp, Request};

use crate::Outcome;

/// Draws each plan once, all ranks together, named after the first of `buckets` (name and length) that ran on it.
pub fn draw(comm: &Communicator, buckets: &[(String, usize)], folder: &Path) -> Outcome<Vec<PathBuf>> {
    let (mut seen, mut drawn) = (Vec::new(), Vec::new());
    for (name, length) in buckets {
        let mut request = Request::new(Collective::AllReduce, DType::F32, ReduceOp::Sum, *length as u64);
        request.algorithm = comm.settings().algorithm.of(Collective::AllReduce).cloned();
        let id = comm.plan(&request)?.id;
        if seen.contains(&id) {
            continue;
        }
        seen.push(id);
        let slices = (0..comm.world()).map(|rank| comm.planner().compile(&request, rank));
        drawn.extend(draw_one(&slices.collect::<Result<Vec<_>, _>>()?, name, folder)?);
    }
    Ok(drawn)
}

fn draw_one(slices: &[Plan], name: &str, folder: &Path) -> Outcome<[PathBuf; 2]> {
    let file = |ending| folder.join(format!("plan-{}.{ending}", name.replace(' ', "-")));
    let (dot, svg) = (file("dot"), file("svg"));
    fs::write(&dot, export::dot(slices, None))?;
    fs::write(&svg, export::svg(slices, None))?;
    Ok([dot, svg])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_that_share_a_plan_share_a_drawing() {
        let folder = std::env::temp_dir().join(format!("hcomm-train-plans-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let comms = Communicator::in_process(2).unwrap();
        let buckets = [("feed forward 0".to_owned(), 100_000), ("feed forward 1".to_owned(), 100_000)];
        let drawn = draw(&comms[0], &buckets, &folder).unwrap();
        assert_eq!(drawn, ["dot", "svg"].map(|ending| folder.join(format!("plan-feed-forward-0.{ending}"))));
        assert!(fs::read_to_string(&drawn[1]).unwrap().ends_with("</svg>\n"));
        fs::remove_dir_all(&folder).unwrap();
    }
}
