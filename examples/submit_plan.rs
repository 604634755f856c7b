//! A plan in one's own hands: compiled, looked at, proved, drawn, and submitted like any call.
//!
//! `cargo run --release --example submit_plan [FOLDER]` runs four ranks as threads;
//! `hcomm launch -n 2 target/release/examples/submit_plan` as processes. The drawings are left in FOLDER, or `target/plans`.

use std::error::Error;
use std::path::PathBuf;
use std::{env, fs, thread};

use hcomm::planner::{compile_all, export, verify};
use hcomm::{Collective, Communicator, DType, InPlace, Op, Placement, Request};

fn main() -> Result<(), Box<dyn Error>> {
    if Placement::from_env()?.source != "alone" {
        return submit(&Communicator::from_env()?);
    }
    let ranks = Communicator::in_process(4)?;
    thread::scope(|scope| {
        let started: Vec<_> = ranks
            .iter()
            .map(|comm| scope.spawn(|| submit(comm).map_err(|error| error.to_string())))
            .collect();
        started.into_iter().try_for_each(|rank| rank.join().map_err(|_| "a rank panicked".to_owned())?)
    })?;
    Ok(())
}

fn submit(comm: &Communicator) -> Result<(), Box<dyn Error>> {
    let (rank, world, count) = (comm.rank(), comm.world(), 100_000);
    let request = Request::new(Collective::AllReduce, DType::F32, Op::Sum, count).with_algorithm("ring");
    let plan = comm.plan(&request)?;
    println!("rank {rank}: {} nodes on {} lanes, plan {:016x}", plan.nodes.len(), plan.lanes.len(), plan.id);

    if rank == 0 {
        // Any rank can compile the others' slices too: to prove them together, and to draw all ranks.
        let slices = compile_all(&request, comm.planner().topology(), comm.planner().choice())?;
        let verified = verify(&slices, comm.settings().depth as usize)?;
        let folder = env::args_os().nth(1).map_or_else(|| PathBuf::from("target/plans"), PathBuf::from);
        fs::create_dir_all(&folder)?;
        fs::write(folder.join("ring.dot"), export::dot(&slices, None))?;
        fs::write(folder.join("ring.svg"), export::svg(&slices, None))?;
        print!("{}", plan.to_text());
        println!(
            "proved: {} nodes, {} messages; drawn in {}",
            verified.nodes,
            verified.messages,
            folder.display()
        );
    }

    let gradients = vec![rank as f32 + 1.0; count as usize];
    let sum = comm.submit(&plan, Op::Sum, InPlace(gradients))?.wait()?;
    let expected = (world * (world + 1) / 2) as f32;
    let right = sum.iter().filter(|x| **x == expected).count();
    println!("rank {rank} of {world}: {right} of {count} elements are {expected}");
    if right == sum.len() { Ok(()) } else { Err("wrong elements".into()) }
}
