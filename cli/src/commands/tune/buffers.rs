//! [`Buffers`]: one rank's buffers of one collective and size, and the call on them.

use hcomm::{Collective, Communicator, DType, Error, Op, Request};

/// See the module.
pub struct Buffers {
    collective: Collective,
    /// Elements per block.
    count: usize,
    input: Vec<f32>,
    output: Vec<f32>,
    is_root: bool,
}

/// Elements per block of a full buffer of `bytes`.
fn count(collective: Collective, bytes: u64, world: usize) -> u64 {
    let blocks = match collective {
        Collective::AllReduce | Collective::Broadcast | Collective::Reduce => 1,
        _ => world as u64,
    };
    bytes / (size_of::<f32>() as u64 * blocks)
}

/// The call that is timed.
pub fn request(collective: Collective, bytes: u64, world: usize) -> Request {
    let count = if collective == Collective::Barrier { 0 } else { count(collective, bytes, world) };
    Request::new(collective, DType::F32, Op::Sum, count)
}

impl Buffers {
    /// Buffers for a full buffer of `bytes`, on one rank.
    pub fn new(collective: Collective, bytes: u64, comm: &Communicator) -> Buffers {
        let full = (bytes / size_of::<f32>() as u64) as usize;
        let value = comm.rank() as f32 + 1.0;
        Buffers {
            collective,
            count: count(collective, bytes, comm.world()) as usize,
            input: vec![value; full],
            output: vec![value; full],
            is_root: comm.rank() == 0,
        }
    }

    /// Makes the call, out of place where there is such a call.
    pub fn call(&mut self, comm: &Communicator) -> Result<(), Error> {
        let (op, root, count, is_root) = (Op::Sum, 0, self.count, self.is_root);
        let full = count * comm.world();
        let (input, output) = (&self.input[..], &mut self.output[..]);
        match self.collective {
            Collective::AllReduce => comm.all_reduce_into(input, output, op),
            Collective::AllGather => comm.all_gather(&input[..count], &mut output[..full]),
            Collective::ReduceScatter => comm.reduce_scatter(&input[..full], &mut output[..count], op),
            Collective::Broadcast => comm.broadcast(output, root),
            Collective::Reduce => comm.reduce_into(input, is_root.then_some(output), op, root),
            Collective::Gather => comm.gather(&input[..count], is_root.then_some(&mut output[..full]), root),
            Collective::Scatter => {
                comm.scatter(is_root.then_some(&input[..full]), &mut output[..count], root)
            }
            Collective::AllToAll => comm.all_to_all(&input[..full], &mut output[..full]),
            Collective::Barrier => comm.barrier(),
        }
    }
}
