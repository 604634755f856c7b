//! Results that no cache holds are written past the caches: they are as right as others, wherever they begin and end.

use hcomm_ops::{ReduceOp, last_level_cache_bytes};

use crate::common::{Over, data, on_all, within};

/// Elements of a buffer that is just too long for the caches, no multiple of anything.
fn long() -> usize {
    (last_level_cache_bytes() / 4 / size_of::<i64>() as u64) as usize + 1003
}

#[test]
fn results_past_the_caches_are_right_in_place_and_apart() {
    within(300, || {
        for world in [2, 3] {
            on_all(Over::Shm.world(world), |comm| {
                let (rank, count) = (comm.rank(), long());
                let inputs: Vec<Vec<i64>> = (0..world).map(|rank| data(rank, count)).collect();
                let sum: Vec<i64> = (0..count).map(|i| inputs.iter().map(|input| input[i]).sum()).collect();
                let mut output = vec![-77; count + 1];
                comm.all_reduce_into(&inputs[rank], &mut output[1..], ReduceOp::Sum).unwrap();
                assert!(output[0] == -77 && output[1..] == sum, "all_reduce on rank {rank} of {world}");
                output[1..].copy_from_slice(&inputs[rank]);
                comm.all_reduce(&mut output[1..], ReduceOp::Sum).unwrap();
                assert!(output[0] == -77 && output[1..] == sum, "in place on rank {rank} of {world}");
                comm.broadcast(&mut output[..count], world - 1).unwrap();
                let root = [&[-77], &sum[..count - 1]].concat();
                assert!(output[..count] == root, "broadcast on rank {rank} of {world}");
                let mut gathered = vec![-77; world * count];
                comm.all_gather(&inputs[rank], &mut gathered).unwrap();
                assert!(gathered == inputs.concat(), "all_gather on rank {rank} of {world}");
                comm.close().unwrap();
            });
        }
    });
}

#[test]
fn narrow_results_past_the_caches_are_right_at_any_address() {
    within(300, || {
        on_all(Over::Shm.world(2), |comm| {
            let count = 8 * long();
            let input: Vec<u8> = (0..count).map(|i| (i % 100) as u8).collect();
            for start in [0, 1, 33] {
                let mut output = vec![7; count + start];
                comm.all_reduce_into(&input, &mut output[start..], ReduceOp::Sum).unwrap();
                assert!(output[..start].iter().all(|byte| *byte == 7), "bytes before the output changed");
                let doubled = |(i, byte): (usize, &u8)| *byte == 2 * (i % 100) as u8;
                assert!(output[start..].iter().enumerate().all(doubled), "from byte {start}");
            }
            comm.close().unwrap();
        });
    });
}
