//! [`CallArguments`]: a collective call as `bench` and `plan` take it on the command line, and how many elements so many bytes are.

use clap::Args;
use hcomm::{Collective, DType, Rank, ReduceOp, Request};

/// The call that is meant, its size and the number of ranks aside.
#[derive(Args, Clone, Debug)]
pub struct CallArguments {
    /// all_reduce, all_gather, reduce_scatter, broadcast, reduce, gather, scatter, all_to_all or barrier
    #[arg(value_name = "COLLECTIVE")]
    pub collective: Collective,
    /// Type of the elements, such as f32, bf16 or i64
    #[arg(long, value_name = "TYPE", default_value = "f32")]
    pub dtype: DType,
    /// Reduction, such as sum, max, average or premulsum:0.5
    #[arg(long, value_name = "OP", default_value = "sum")]
    pub op: ReduceOp,
    /// The special rank of broadcast, reduce, gather and scatter
    #[arg(long, value_name = "RANK", default_value = "0")]
    pub root: Rank,
    /// The algorithm, in place of the planner's choice, as NAME, NAME:CHANNELS or NAME(FIRST,SECOND)
    #[arg(long, value_name = "NAME")]
    pub algorithm: Option<String>,
    /// Whether the result must be the left fold over the ranks, rounded once
    #[arg(long)]
    pub deterministic: bool,
}

impl CallArguments {
    /// The request of `count` elements per block.
    pub fn request(&self, count: u64) -> Request {
        let request = Request::new(self.collective, self.dtype, self.op, count).with_root(self.root);
        let request = Request { deterministic: self.deterministic, ..request };
        match &self.algorithm {
            Some(name) => request.with_algorithm(name),
            None => request,
        }
    }

    /// Elements per block of a full buffer of at most `bytes`: the larger of a call's buffers has one block per rank, or one
    /// block where all ranks have the same elements, or none in a barrier.
    pub fn count(&self, bytes: u64, world: usize) -> u64 {
        bytes.checked_div(self.blocks(world) * self.dtype.size_bytes() as u64).unwrap_or(0)
    }

    /// Bytes of the full buffer of `count` elements per block.
    pub fn full_bytes(&self, count: u64, world: usize) -> u64 {
        count * self.blocks(world) * self.dtype.size_bytes() as u64
    }

    fn blocks(&self, world: usize) -> u64 {
        match self.collective {
            Collective::Barrier => 0,
            Collective::AllReduce | Collective::Broadcast | Collective::Reduce => 1,
            Collective::AllGather
            | Collective::ReduceScatter
            | Collective::Gather
            | Collective::Scatter
            | Collective::AllToAll => world as u64,
        }
    }
}

/// Reads a number of ranks from the command line.
pub fn rank_count(text: &str, most: usize) -> Result<usize, String> {
    if text == "p" {
        return Err("-np is mpirun's word; expected -n N".to_owned());
    }
    let count = text.parse().ok().filter(|count| (1..=most).contains(count));
    count.ok_or_else(|| format!("'{text}' is no number of ranks; expected 1 to {most}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn full_bytes_are_rounded_down_to_whole_blocks() {
        let cases = [
            (Collective::AllReduce, 103, 25, 100),
            (Collective::AllGather, 103, 8, 96),
            (Collective::AllToAll, 11, 0, 0),
            (Collective::Barrier, 103, 0, 0),
        ];
        for (collective, bytes, count, full) in cases {
            let (dtype, op) = (DType::F32, ReduceOp::Sum);
            let call =
                CallArguments { collective, dtype, op, root: 0, algorithm: None, deterministic: false };
            assert_eq!(call.count(bytes, 3), count, "{collective}");
            assert_eq!(call.full_bytes(count, 3), full, "{collective}");
        }
    }
}
