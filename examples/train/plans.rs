//! The plans that the gradients ran on, drawn into the output folder.

use std::fs;
use std::path::{Path, PathBuf};

use hcomm::planner::export::Drawing;
use hcomm::{Collective, Communicator, DType, Plan, ReduceOp, Request};

use crate::Outcome;

/// Draws each plan once, all ranks together: as `plan`, or, where `buckets` (name and length) ran on several, named
/// after the first that ran on it.
pub fn draw(comm: &Communicator, buckets: &[(String, usize)], folder: &Path) -> Outcome<Vec<PathBuf>> {
    let mut plans: Vec<(u64, &str, Request)> = Vec::new();
    for (name, length) in buckets {
        let mut request = Request::new(Collective::AllReduce, DType::F32, ReduceOp::Sum, *length as u64);
        request.algorithm = comm.settings().algorithm.of(Collective::AllReduce).cloned();
        let id = comm.plan(&request)?.id;
        if plans.iter().all(|(known, ..)| *known != id) {
            plans.push((id, name, request));
        }
    }
    let is_only = plans.len() == 1;
    let mut drawn = Vec::new();
    for (_, name, request) in plans {
        let slices = (0..comm.world()).map(|rank| comm.planner().compile(&request, rank));
        let name = if is_only { "plan".to_owned() } else { format!("plan-{}", name.replace(' ', "-")) };
        drawn.extend(draw_one(&slices.collect::<Result<Vec<_>, _>>()?, &name, folder)?);
    }
    Ok(drawn)
}

/// The picture for Graphviz, the one to look at, and the page.
fn draw_one(slices: &[Plan], name: &str, folder: &Path) -> Outcome<[PathBuf; 3]> {
    let drawing = Drawing::new(slices);
    let drawings = [("dot", drawing.dot()), ("svg", drawing.svg()), ("html", drawing.html())];
    for (ending, text) in &drawings {
        fs::write(folder.join(format!("{name}.{ending}")), text)?;
    }
    Ok(drawings.map(|(ending, _)| folder.join(format!("{name}.{ending}"))))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names_of(lengths: [usize; 2]) -> Vec<String> {
        let folder =
            std::env::temp_dir().join(format!("hcomm-train-plans-{}-{lengths:?}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let comms = Communicator::in_process(4).unwrap();
        let buckets = [("feed-forward 0".to_owned(), lengths[0]), ("head".to_owned(), lengths[1])];
        let drawn = draw(&comms[0], &buckets, &folder).unwrap();
        assert!(drawn.iter().all(|file| fs::metadata(file).unwrap().len() > 100));
        fs::remove_dir_all(&folder).unwrap();
        drawn.iter().map(|file| file.file_name().unwrap().to_string_lossy().into_owned()).collect()
    }

    #[test]
    fn buckets_that_share_a_plan_share_a_drawing() {
        assert_eq!(names_of([100_000, 100_000]), ["plan.dot", "plan.svg", "plan.html"]);
    }

    #[test]
    fn different_plans_are_named_after_their_buckets() {
        let of = |name: &str| ["dot", "svg", "html"].map(|ending| format!("{name}.{ending}"));
        assert_eq!(names_of([2, 10_000_000]), [of("plan-feed-forward-0"), of("plan-head")].concat());
    }
}
