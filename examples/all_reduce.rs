//! The shortest program: every rank contributes a vector, every rank gets the sum.
//!
//! `hcomm launch -n 2 target/release/examples/all_reduce`

use hcomm::{Communicator, Op};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let comm = Communicator::from_env()?;
    let mut values = vec![comm.rank() as f32 + 1.0; 1000];
    comm.all_reduce(&mut values, Op::Sum)?;
    println!("rank {} of {}: {}", comm.rank(), comm.world(), values[0]);
    comm.close()?;
    Ok(())
}
