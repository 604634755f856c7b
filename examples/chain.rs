//! Operations that follow one another without waking the caller: reduce_scatter, a closure that scales this rank's part, and
//! all_gather. The executor follows the edges that `after` draws.
//!
//! `cargo run --release --example chain` runs four ranks as threads; `hcomm launch -n 2 target/release/examples/chain` as processes.

use std::error::Error;
use std::thread;

use hcomm::{Communicator, Op, Placement, Shared};

fn main() -> Result<(), Box<dyn Error>> {
    if Placement::from_env()?.source != "alone" {
        return chain(&Communicator::from_env()?);
    }
    let ranks = Communicator::in_process(4)?;
    thread::scope(|scope| {
        let started: Vec<_> =
            ranks.iter().map(|comm| scope.spawn(|| chain(comm).map_err(|error| error.to_string()))).collect();
        started.into_iter().try_for_each(|rank| rank.join().map_err(|_| "a rank panicked".to_owned())?)
    })?;
    Ok(())
}

fn chain(comm: &Communicator) -> Result<(), Box<dyn Error>> {
    const COUNT: usize = 1000;
    let (rank, world) = (comm.rank(), comm.world());
    let gradients = vec![rank as f32 + 1.0; world * COUNT];
    // The links of the chain share two buffers; only one of them uses a buffer at a time.
    let part = Shared::new(vec![0.0_f32; COUNT]);
    let whole = Shared::new(vec![0.0_f32; world * COUNT]);

    let reduced = comm.reduce_scatter_async(gradients, part.clone(), Op::Sum);
    let own = part.clone();
    let scale = move || {
        own.with(|part| part.iter_mut().for_each(|x| *x *= 0.5));
    };
    let scaled = comm.after(&[&reduced]).local(scale);
    let gathered = comm.after(&[&scaled]).all_gather_async(part, whole.clone());
    gathered.wait()?;

    let expected = 0.5 * (world * (world + 1) / 2) as f32;
    let right =
        whole.with(|whole| whole.iter().filter(|x| **x == expected).count()).ok_or("the buffer is in use")?;
    println!("rank {rank} of {world}: {right} of {} elements are {expected}", world * COUNT);
    if right == world * COUNT { Ok(()) } else { Err("wrong elements".into()) }
}
