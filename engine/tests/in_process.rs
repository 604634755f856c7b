//! Every collective between threads of one process, blocking, in place and out of place.

use std::thread;

use hcomm_engine::Communicator;
use hcomm_ops::ReduceOp;

fn on_all<R: Send + 'static>(
    world: usize,
    f: impl Fn(Communicator) -> R + Send + Sync + Clone + 'static,
) -> Vec<R> {
    let comms = Communicator::in_process(world).expect("a small world fits");
    let threads: Vec<_> = comms
        .into_iter()
        .map(|comm| {
            let f = f.clone();
            thread::spawn(move || f(comm))
        })
        .collect();
    threads.into_iter().map(|t| t.join().expect("the rank ends")).collect()
}

fn data(rank: usize, count: usize) -> Vec<i64> {
    (0..count).map(|i| element(rank, i)).collect()
}

fn element(rank: usize, i: usize) -> i64 {
    (rank as i64 + 1) * 1_000_003 + i as i64 * 7
}

fn sum(world: usize, count: usize) -> Vec<i64> {
    (0..count).map(|i| (0..world).map(|r| element(r, i)).sum()).collect()
}

#[test]
fn every_collective_gives_the_right_result() {
    for world in [1, 2, 3, 4, 5, 8] {
        for count in [0, 1, 2, 5, 1000, 100_003] {
            on_all(world, move |comm| {
                let rank = comm.rank();
                let mut buffer = data(rank, count);
                comm.all_reduce(&mut buffer, ReduceOp::Sum).unwrap();
                assert!(buffer == sum(world, count), "all_reduce {world} {count}");
                let mut out = vec![-1; count * world];
                comm.all_gather(&data(rank, count), &mut out).unwrap();
                let all: Vec<i64> = (0..world).flat_map(|r| data(r, count)).collect();
                assert!(out == all, "all_gather {world} {count}");
                let mut shard = vec![-1; count];
                comm.reduce_scatter(&data(rank, count * world), &mut shard, ReduceOp::Sum).unwrap();
                assert!(
                    shard == sum(world, count * world)[rank * count..(rank + 1) * count],
                    "reduce_scatter"
                );
                let root = world - 1;
                let mut buffer = if rank == root { data(root, count) } else { vec![-1; count] };
                comm.broadcast(&mut buffer, root).unwrap();
                assert!(buffer == data(root, count), "broadcast {world} {count}");
                let mut buffer = data(rank, count);
                comm.reduce(&mut buffer, ReduceOp::Sum, root).unwrap();
                assert!(rank != root || buffer == sum(world, count), "reduce {world} {count}");
                let mut out = vec![-1; count * world];
                comm.gather(&data(rank, count), (rank == root).then_some(&mut out[..]), root).unwrap();
                assert!(rank != root || out == all, "gather {world} {count}");
                let mut own = vec![-1; count];
                comm.scatter((rank == root).then_some(&all[..]), &mut own, root).unwrap();
                assert!(own == data(rank, count), "scatter {world} {count}");
                let mut out = vec![-1; count * world];
                comm.all_to_all(&data(rank, count * world), &mut out).unwrap();
                let blocks: Vec<i64> = (0..world)
                    .flat_map(|r| data(r, count * world)[rank * count..(rank + 1) * count].to_vec())
                    .collect();
                assert!(out == blocks, "all_to_all {world} {count}");
                let mut inplace = data(rank, count * world);
                comm.all_to_all_in_place(&mut inplace).unwrap();
                assert!(inplace == blocks, "all_to_all in place {world} {count}");
                comm.barrier().unwrap();
                comm.close().unwrap();
            });
        }
    }
}

#[test]
fn v_variants_run_side_by_side_in_a_scope() {
    let world = 3;
    on_all(world, move |comm| {
        let rank = comm.rank();
        let counts: Vec<u64> = (0..world as u64).map(|r| r * 500).collect();
        let own = counts[rank] as usize;
        let all: Vec<i64> = (0..world).flat_map(|r| data(r, counts[r] as usize)).collect();
        let whole = data(rank, all.len());
        let input = data(rank, own);
        let (mut gathered, mut rooted, mut shard) = (vec![-1; all.len()], vec![-1; all.len()], vec![-1; own]);
        let (mut scattered, mut mixed) = (vec![-1; own], vec![-1; own * world]);
        comm.scope(|s| {
            s.all_gather_v(&input, &mut gathered, &counts);
            s.reduce_scatter_v(&whole, &mut shard, &counts, ReduceOp::Sum);
            s.gather_v(&input, (rank == 1).then_some((&mut rooted[..], &counts[..])), 1);
            s.scatter_v((rank == 1).then_some((&all[..], &counts[..])), &mut scattered, 1);
            s.all_to_all_v(&whole, &counts, &mut mixed, &vec![own as u64; world]);
        })
        .unwrap();
        let start = counts[..rank].iter().sum::<u64>() as usize;
        assert!(gathered == all && (rank != 1 || rooted == all) && scattered == all[start..start + own]);
        assert!(shard == sum(world, all.len())[start..start + own]);
        let blocks = (0..world).flat_map(|r| (start..start + own).map(move |i| element(r, i)));
        assert!(mixed.into_iter().eq(blocks));
        comm.close().unwrap();
    });
}
