//! The plans that the gradients ran on, drawn into the output folder.

use std::fs;
use std::path::{Path, PathBuf};

use hcomm::planner::export::{Drawing, Sizing};
use hcomm::planner::timeline::{Measured, Model, predict};
use hcomm::{Collective, Communicator, DType, Plan, ReduceOp, Request};

use crate::Outcome;

/// Tiles as they cross shared memory, for the predicted times.
const TILE_BYTES: u64 = 64 << 10;

/// Draws each plan once, all ranks together: as `plan`, or, where `buckets` (name and length) ran on several, named
/// after the first that ran on it. The pages show what is predicted beside what the `trace` says, if it has the plan.
pub fn draw(
    comm: &Communicator,
    buckets: &[(String, usize)],
    folder: &Path,
    trace: Option<&Path>,
) -> Outcome<Vec<PathBuf>> {
    let mut plans: Vec<(u64, &str, Request)> = Vec::new();
    for (name, length) in buckets {
        let request = Request::new(Collective::AllReduce, DType::F32, ReduceOp::Sum, *length as u64);
        let id = comm.plan(&request)?.id;
        if plans.iter().all(|(known, ..)| *known != id) {
            plans.push((id, name, request));
        }
    }
    let traces: Vec<_> = trace
        .iter()
        .map(|path| Ok((path.display().to_string(), fs::read_to_string(path)?)))
        .collect::<Outcome<_>>()?;
    let is_only = plans.len() == 1;
    let mut drawn = Vec::new();
    for (_, name, request) in plans {
        let slices = (0..comm.world()).map(|rank| comm.planner().compile(&request, rank));
        let slices = slices.collect::<Result<Vec<_>, _>>()?;
        let name = if is_only { "plan".to_owned() } else { format!("plan-{}", name.replace(' ', "-")) };
        let sizing = Sizing { request, tile_bytes: TILE_BYTES };
        let measured = Measured::read(&traces, &slices).ok().filter(|measured| !measured.runs().is_empty());
        drawn.extend(draw_one(comm, &slices, &sizing, measured.as_ref(), &folder.join(name))?);
    }
    Ok(drawn)
}

/// The picture for Graphviz, the one to look at, and the page.
fn draw_one(
    comm: &Communicator,
    slices: &[Plan],
    sizing: &Sizing,
    measured: Option<&Measured>,
    path: &Path,
) -> Outcome<[PathBuf; 3]> {
    let planner = comm.planner();
    let timeline = predict(slices, sizing, planner.topology(), &Model::new(*planner.choice().costs()))?;
    let drawing = Drawing::new(slices).with_sizing(sizing).with_timeline(&timeline);
    let drawing = measured.map_or(drawing, |measured| drawing.with_measured(measured));
    let drawings = [("dot", drawing.dot()), ("svg", drawing.svg()), ("html", drawing.html())];
    let files = drawings.map(|(ending, text)| (path.with_extension(ending), text));
    for (file, text) in &files {
        fs::write(file, text)?;
    }
    Ok(files.map(|(file, _)| file))
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
        let drawn = draw(&comms[0], &buckets, &folder, None).unwrap();
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
