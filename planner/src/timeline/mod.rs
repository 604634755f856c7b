//! [`predict`]: when each node of a plan runs for each tile, by the cost model. Pure arithmetic on the joined slices; what really
//! happened is a [`Measured`], read from a trace.
//!
//! **The model.** The rules of the plan hold as they do for the executor: the nodes of a lane go one after the other, tile by
//! tile; a node waits for its deps of the same tile, its messages, and room in its outgoing channels, each of which holds
//! [`Model::depth`] messages; a node that skips a tile waits in its turn and takes no time. A send is done when its node has
//! ended: messages are copied.
//!
//! - *Processors.* A rank has [`Model::workers`] of them for all of its worker, shared-memory and socket lanes; the default is one,
//!   as one thread drives all lanes of a rank. Each stream and each queue pair works by itself. What is ready first goes first, then
//!   the lower tile, then the lower lane.
//! - *A node* takes `message_ns` for every message that it sends or receives, whichever are more, `reduce_byte_ns` for every byte that
//!   is folded into another, `copy_byte_ns` for every byte that is stored beside what folding or receiving stores anyhow, and
//!   half of `byte_ns` for every byte that it sends or receives within its host: there the processors are the link.
//! - *A message* within a host is there `latency_ns` after its node has ended. One to another host first leaves through the way out
//!   of its host, then enters through the way in of the other, each of which takes `byte_ns` for a byte and one message after the
//!   other; its first byte takes `latency_ns` from way to way. Room is seen again `latency_ns` after the receiving node has ended.
//!
//! ```
//! # mod hcomm { pub use {hcomm_ops::{DType, ReduceOp}, hcomm_planner::*, hcomm_planner as planner}; }
//! use hcomm::{DType, ReduceOp};
//! use hcomm::planner::export::{Drawing, Sizing};
//! use hcomm::planner::{Choice, Collective, Costs, Model, Request, Topology, compile_all, predict};
//!
//! let topology = Topology::single_host(4);
//! let request = Request::new(Collective::AllReduce, DType::F32, ReduceOp::Sum, 1 << 20).with_algorithm("ring");
//! let plans = compile_all(&request, &topology, &Choice::new(&topology, Costs::shm()))?;
//! let sizing = Sizing { request, tile_bytes: 64 << 10 };
//! let timeline = predict(&plans, &sizing, &topology, &Model::new(Costs::shm()))?;
//! let last = timeline.critical_path().last().expect("a ring has nodes");
//! assert_eq!(last.run.to_ns, timeline.total_ns());
//! let page = Drawing::new(&plans).with_sizing(&sizing).with_timeline(&timeline).html();
//! assert!(page.starts_with("<!doctype html>"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A plan of more than [`MOST_RUNS`] runs (nodes times tiles) is followed for its first tiles only, and for half as many: what the
//! second half added is what each further tile takes, but never less than it keeps the busiest processor or way busy
//! ([`Timeline::total_ns`]).

mod error;
mod load;
mod measured;
mod path;
mod price;
mod ready;
mod run;
mod simulate;
mod state;
#[cfg(test)]
mod tests;
mod ways;

pub use error::TimelineError;
pub use measured::{Measured, TraceError};
pub use run::{Run, Step, Timeline, Why};

use crate::choose::Costs;
use crate::plan::Plan;
use crate::sizing::Sizing;
use crate::topology::Topology;
use crate::verify;
use crate::verify::joined::Joined;
use price::{Job, Prices};
use simulate::Simulation;

/// Most runs (nodes times tiles) that are followed one by one.
pub const MOST_RUNS: usize = 1 << 18;

/// A plan of more tiles than are followed is followed for at least this many.
const LEAST_TILES: u64 = 4;

/// What a prediction assumes of the machine.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Model {
    /// What messages, bytes and arithmetic take.
    pub costs: Costs,
    /// Messages that a channel holds, at least 1.
    pub depth: usize,
    /// Processors of a rank that carry out its host lanes, at least 1.
    pub workers: usize,
}

impl Model {
    /// One processor per rank, and channels four messages deep.
    pub const fn new(costs: Costs) -> Model {
        Model { costs, depth: 4, workers: 1 }
    }
}

/// Predicts when the nodes of all ranks' slices, in rank order, run.
///
/// # Errors
/// [`TimelineError`]: slices that do not belong together or cannot all run, sizes that not every rank knows, a topology of
/// another world, costs that are no times, or a plan of too many nodes.
pub fn predict(
    plans: &[Plan],
    sizing: &Sizing,
    topology: &Topology,
    model: &Model,
) -> Result<Timeline, TimelineError> {
    let joined = verify::join(plans)?;
    if topology.world() != plans.len() {
        return Err(TimelineError::World { given: topology.world(), world: plans.len() });
    }
    let prices = Prices::new(&model.costs, topology)?;
    let jobs = prices.jobs(&joined, sizing)?;
    follow(&Followed { joined: &joined, jobs: &jobs, prices, model }, MOST_RUNS)
}

/// What is followed.
struct Followed<'a> {
    joined: &'a Joined<'a>,
    jobs: &'a [Job],
    prices: Prices<'a>,
    model: &'a Model,
}

/// Follows as many tiles as `most_runs` allow, and adds the others.
fn follow(followed: &Followed<'_>, most_runs: usize) -> Result<Timeline, TimelineError> {
    let Followed { joined, jobs, prices, model } = *followed;
    let trips = jobs.iter().map(|job| job.trips).max().unwrap_or(1);
    let follow = |tiles| Simulation::new(joined, jobs, tiles, prices, model).run(trips);
    let timeline = follow(tiles_followed(jobs.len(), trips, most_runs)?)?;
    let tile_path = if timeline.tiles == 1 { timeline.path.clone() } else { follow(1)?.path };
    let left = trips - timeline.tiles as u64;
    let mut total_ns = timeline.total_ns;
    if left > 0 {
        let half = timeline.tiles / 2;
        let tile_ns = (total_ns - follow(half)?.total_ns) / (timeline.tiles - half) as f64;
        let busy_ns = load::busiest_ns(followed, timeline.tiles as u64..trips);
        total_ns += (tile_ns * left as f64).max(busy_ns);
    }
    Ok(Timeline { tile_path, total_ns, ..timeline })
}

/// As many of `trips` tiles as there is room for.
fn tiles_followed(nodes: usize, trips: u64, most_runs: usize) -> Result<usize, TimelineError> {
    let room = (most_runs / nodes.max(1)) as u64;
    if room < trips.min(LEAST_TILES) {
        return Err(TimelineError::TooMany { nodes, most: most_runs / trips.min(LEAST_TILES) as usize });
    }
    Ok(room.min(trips) as usize)
}
