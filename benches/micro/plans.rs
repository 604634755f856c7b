//! From a request to its plan: found in the cache, and compiled anew.

use std::hint::black_box;
use std::sync::Arc;

use hcomm::{Collective, Communicator, DType, Op, Planner, Request, Topology};

use crate::clock::median_ns;
use crate::table::Table;

pub fn run() -> Table {
    let mut rows = vec![vec!["found in the cache".to_owned(), "2".to_owned(), format!("{:.0}", look_up())]];
    for world in [2, 8, 64] {
        rows.push(vec![
            "compiled, one rank's".to_owned(),
            world.to_string(),
            format!("{:.0}", compile(world)),
        ]);
    }
    Table { heading: "The plan of an all_reduce of 1 MiB", columns: &["plan", "ranks", "ns"], rows }
}

fn request() -> Request {
    Request::new(Collective::AllReduce, DType::F32, Op::Sum, 1 << 18)
}

fn look_up() -> f64 {
    let comms = Communicator::in_process(2).expect("two ranks fit");
    let (request, first) = (request(), comms[0].plan(&request()).expect("a plan"));
    let ns = median_ns(|| drop(black_box(comms[0].plan(black_box(&request)).expect("a plan"))));
    let again = comms[0].plan(&request).expect("a plan");
    assert!(Arc::ptr_eq(&first, &again), "the plan was made anew");
    ns
}

fn compile(world: usize) -> f64 {
    let planner = Planner::new(Topology::single_host(world));
    let (request, last) = (request(), world - 1);
    let ns = median_ns(|| drop(black_box(planner.compile(black_box(&request), last).expect("a plan"))));
    let plan = planner.compile(&request, last).expect("a plan");
    assert_eq!((plan.rank, plan.world), (last, world));
    ns
}
