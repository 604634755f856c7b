//! A plan of one's own, which is in no library: an all_reduce by two chains in opposite directions, each with half of the vector.
//! Written, proved, drawn and run.
//!
//! `cargo run --release --example custom_plan [FOLDER]` runs four ranks as threads;
//! `hcomm launch -n 3 target/release/examples/custom_plan` as processes. The drawings are left in FOLDER, or `target/plans`.

use std::error::Error;
use std::path::PathBuf;
use std::sync::Arc;
use std::{env, fs, thread};

use hcomm::custom::{PlanBuilder, input, output, scratch};
use hcomm::planner::export;
use hcomm::{Collective, Communicator, InPlace, Op, Placement};

/// Half 0 is summed from rank 0 to the last and copied back; half 1 the other way round, at the same time.
fn two_way_chain(n: usize) -> PlanBuilder {
    let mut plan = PlanBuilder::new("two_way_chain", Collective::AllReduce, n).parts(2);
    let chains = [(0, (0..n).collect::<Vec<_>>()), (1, (0..n).rev().collect())];
    for (half, ranks) in &chains {
        plan.copy(input(ranks[0], *half), scratch(ranks[1], *half));
        for pair in ranks[1..].windows(2) {
            plan.reduce(input(pair[0], *half), scratch(pair[0], *half)); // add what is mine,
            plan.copy(scratch(pair[0], *half), scratch(pair[1], *half)); // and pass it on
        }
        let last = ranks[n - 1];
        plan.fold([scratch(last, *half), input(last, *half)], output(last, *half));
    }
    plan.stage(); // what follows has lanes of its own, which may be tiles behind
    for (half, ranks) in &chains {
        for pair in ranks.windows(2).rev() {
            plan.copy(output(pair[1], *half), output(pair[0], *half));
        }
    }
    plan
}

fn main() -> Result<(), Box<dyn Error>> {
    if Placement::from_env()?.source != "alone" {
        return run(&Communicator::from_env()?);
    }
    let ranks = Communicator::in_process(4)?;
    thread::scope(|scope| {
        let started: Vec<_> =
            ranks.iter().map(|comm| scope.spawn(|| run(comm).map_err(|error| error.to_string()))).collect();
        started.into_iter().try_for_each(|rank| rank.join().map_err(|_| "a rank panicked".to_owned())?)
    })?;
    Ok(())
}

fn run(comm: &Communicator) -> Result<(), Box<dyn Error>> {
    let (rank, world, count) = (comm.rank(), comm.world(), 100_001);
    if world < 2 {
        return Err("two chains need at least two ranks".into());
    }
    // Every rank builds all slices, proved together; each submits its own.
    let slices = two_way_chain(world).build(comm.planner().topology())?;
    if rank == 0 {
        let folder = env::args_os().nth(1).map_or_else(|| PathBuf::from("target/plans"), PathBuf::from);
        fs::create_dir_all(&folder)?;
        fs::write(folder.join("two_way_chain.dot"), export::dot(&slices, None))?;
        fs::write(folder.join("two_way_chain.svg"), export::svg(&slices, None))?;
        print!("{}", slices[0].to_text());
        println!("proved, and drawn in {}", folder.display());
    }

    let plan = Arc::new(slices[rank].clone());
    let mine: Vec<f32> = (0..count).map(|i| (rank * 10 + i % 7) as f32).collect();
    let sum = comm.submit(&plan, Op::Sum, InPlace(mine))?.wait()?;
    let expected = |i: usize| ((0..world).sum::<usize>() * 10 + world * (i % 7)) as f32;
    let right = sum.iter().enumerate().filter(|(i, x)| **x == expected(*i)).count();
    println!("rank {rank} of {world}: {right} of {count} elements are right");
    if right == count { Ok(()) } else { Err("wrong elements".into()) }
}
