//! Calls whose blocks are buffers of their own.

use hcomm_engine::bindings::{Buffers, InputOnly, Lists, OutputOnly};

use hcomm_engine::{Ask, Communicator, Error, Refused};
use hcomm_ops::buffer::{Shared, StableBuffer};
use hcomm_ops::{DType, RawSpan};
use hcomm_planner::Collective;
use hcomm_planner::request::Counts;

use crate::common::{OVER, data, on_all, sum, within, world};

const COUNTS: [usize; 5] = [0, 1, 7, 1000, 70_001];

type Blocks = Vec<Vec<i64>>;

fn run<B: Buffers + 'static>(comm: &Communicator, ask: Ask, buffers: B) -> B::Returned {
    match comm.call(&ask, buffers).wait() {
        Ok(returned) => returned,
        Err(failed) => panic!("{}", failed.error),
    }
}

/// Blocks full of what no result is, of these lengths.
fn poisoned(counts: impl IntoIterator<Item = usize>) -> Blocks {
    counts.into_iter().map(|count| vec![i64::MIN; count]).collect()
}

fn cut(whole: &[i64], count: usize, world: usize) -> Blocks {
    (0..world).map(|block| whole[block * count..][..count].to_vec()).collect()
}

#[test]
fn every_call_with_blocks_takes_them_apart() {
    for over in OVER {
        within(60, move || {
            on_all(over.world(3), |comm| {
                for count in COUNTS {
                    gathers(&comm, count);
                    scatters(&comm, count);
                }
            })
        });
    }
}

fn gathers(comm: &Communicator, count: usize) {
    let (rank, world) = (comm.rank(), comm.world());
    let parts: Blocks = (0..world).map(|from| data(from, count)).collect();
    let output = || poisoned(vec![count; world]);
    let own = || vec![data(rank, count)];
    let (_, found) = run(comm, Ask::new(Collective::AllGather), Lists(own(), output()));
    assert!(found == parts, "all_gather of {count}");
    let gather = Ask::new(Collective::Gather).root(1);
    if rank == 1 {
        let (_, found) = run(comm, gather, Lists(own(), output()));
        assert!(found == parts, "gather of {count}");
    } else {
        run(comm, gather, InputOnly(data(rank, count)));
    }
}

fn scatters(comm: &Communicator, count: usize) {
    let (rank, world) = (comm.rank(), comm.world());
    let whole = |from: usize| cut(&data(from, count * world), count, world);
    let sums = cut(&sum(world, count * world), count, world);
    let (_, found) = run(comm, Ask::new(Collective::ReduceScatter), Lists(whole(rank), poisoned([count])));
    assert!(found[0] == sums[rank], "reduce_scatter of {count}");
    let scatter = Ask::new(Collective::Scatter).root(2);
    let found = match rank {
        2 => run(comm, scatter, Lists(whole(2), poisoned([count]))).1.remove(0),
        _ => run(comm, scatter, OutputOnly(vec![0; count])),
    };
    assert!(found == whole(2)[rank], "scatter of {count}");
    let (_, found) =
        run(comm, Ask::new(Collective::AllToAll), Lists(whole(rank), poisoned(vec![count; world])));
    assert!((0..world).all(|from| found[from] == whole(from)[rank]), "all_to_all of {count}");
}

#[test]
fn blocks_of_other_lengths_and_segments_that_are_no_blocks() {
    within(60, || {
        on_all(world(3), |comm| {
            let rank = comm.rank();
            let lengths = [5_003, 0, 17];
            let counts = Counts::Listed(lengths.map(|count| count as u64).to_vec().into());
            let parts: Blocks = (0..3).map(|from| data(from, lengths[from])).collect();
            // This rank's block is cut in two, and the output where no block ends.
            let (head, tail) = parts[rank].split_at(lengths[rank] / 3);
            let lists = Lists(vec![head.to_vec(), tail.to_vec()], poisoned([4_999, 21]));
            let (_, found) = run(&comm, Ask::new(Collective::AllGather).counts(counts), lists);
            assert!(found.concat() == parts.concat());
        })
    });
}

/// A part of a buffer.
struct Part(Shared<i64>, std::ops::Range<usize>);

// SAFETY: as stable as the buffer that it is of; the tests let one operation at a time use it.
unsafe impl StableBuffer for Part {
    fn dtype(&self) -> DType {
        DType::I64
    }

    fn span(&mut self) -> RawSpan {
        self.0.span().slice(self.1.start * 8, self.1.len() * 8)
    }
}

#[test]
fn an_output_that_shares_bytes_is_refused() {
    within(30, || {
        let comm = world(1).remove(0);
        let memory = Shared::new(vec![1_i64; 30]);
        let part = |range| Part(memory.clone(), range);
        let outcome = |lists| match comm.call(&Ask::new(Collective::AllToAll), lists).wait() {
            Ok(_) => None,
            Err(failed) => Some(failed.error),
        };
        let is_refused = |lists| matches!(outcome(lists), Some(Error::Refused(Refused::Overlap)));
        assert!(is_refused(Lists(vec![part(0..8)], vec![part(7..15)])));
        assert!(is_refused(Lists(vec![part(20..24), part(0..4)], vec![part(10..14), part(23..27)])));
        assert!(is_refused(Lists(vec![part(0..8)], vec![part(10..14), part(13..17)])));
        // Inputs may be the same, and neighbours share nothing.
        let fine = Lists(vec![part(0..4), part(0..4)], vec![part(8..12), part(4..8)]);
        assert!(outcome(fine).is_none());
    });
}
