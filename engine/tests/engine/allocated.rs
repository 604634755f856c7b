//! Buffers that the communicator allocates: right results, in place and apart, where messages are lent and where they are not; what becomes
//! of buffers and communicators that outlive each other.

use hcomm_engine::{Communicator, Error};
use hcomm_ops::{DType, ReduceOp, StableBuffer};
use hcomm_transports::shm::Allocated;

use crate::common::{OVER, Over, data, element, on_all, within};

/// Elements of i64: from nothing; those from 65,536 on are lent over shared memory where a peer folds them.
const COUNTS: [usize; 5] = [0, 1, 1000, 65_535, 300_001];

fn allocated(comm: &Communicator, elements: &[i64]) -> Allocated<i64> {
    let mut buffer = comm.allocate(elements.len()).unwrap();
    buffer.copy_from_slice(elements);
    buffer
}

#[test]
fn results_are_right_in_place_and_apart() {
    within(300, || {
        for over in OVER {
            for world in [2, 3] {
                on_all(over.world(world), |comm| {
                    COUNTS.iter().for_each(|count| check(&comm, *count, over));
                    comm.close().unwrap();
                });
            }
        }
    });
}

fn check(comm: &Communicator, count: usize, over: Over) {
    let (rank, world) = (comm.rank(), comm.world());
    let what = format!("rank {rank} of {world} over {over:?}, {count} elements");
    let inputs: Vec<Vec<i64>> = (0..world).map(|rank| data(rank, count)).collect();
    let sum: Vec<i64> = (0..count).map(|i| inputs.iter().map(|input| input[i]).sum()).collect();
    let input = allocated(comm, &inputs[rank]);
    assert_eq!(input.is_shared(), over == Over::Shm);

    for _ in 0..2 {
        let mut output = allocated(comm, &vec![-77; count]);
        comm.all_reduce_into(&input, &mut output, ReduceOp::Sum).unwrap();
        assert!(output[..] == sum && input[..] == inputs[rank], "all_reduce apart: {what}");
        output.copy_from_slice(&inputs[rank]);
        comm.all_reduce(&mut output, ReduceOp::Sum).unwrap();
        assert!(output[..] == sum, "all_reduce in place: {what}");
        comm.broadcast(&mut output, world - 1).unwrap();
        assert!(output[..] == sum, "broadcast: {what}");
        let mut plain = inputs[rank].clone();
        comm.all_reduce(&mut plain, ReduceOp::Sum).unwrap();
        assert!(plain == sum, "all_reduce of ordinary memory: {what}");
    }
    let mut gathered = allocated(comm, &vec![-77; world * count]);
    comm.all_gather(&input, &mut gathered).unwrap();
    assert!(gathered[..] == inputs.concat(), "all_gather apart: {what}");
    gathered.fill(-77);
    gathered[rank * count..][..count].copy_from_slice(&inputs[rank]);
    comm.all_gather_in_place(&mut gathered).unwrap();
    assert!(gathered[..] == inputs.concat(), "all_gather in place: {what}");
    check_all_to_all(comm, count, &what);
    check_folds(comm, count, &what);
    check_async(comm, input, &sum, &what);
}

fn check_all_to_all(comm: &Communicator, count: usize, what: &str) {
    let (rank, world) = (comm.rank(), comm.world());
    let expected: Vec<i64> =
        (0..world).flat_map(|from| data(from, world * count)[rank * count..][..count].to_vec()).collect();
    let mut input = allocated(comm, &data(rank, world * count));
    let mut output = allocated(comm, &vec![-77; world * count]);
    comm.all_to_all(&input, &mut output).unwrap();
    assert!(output[..] == expected, "all_to_all apart: {what}");
    comm.all_to_all_in_place(&mut input).unwrap();
    assert!(input[..] == expected, "all_to_all in place: {what}");
}

/// The collectives whose messages are lent.
fn check_folds(comm: &Communicator, count: usize, what: &str) {
    let (rank, world) = (comm.rank(), comm.world());
    let sum: Vec<i64> = (0..world * count).map(|i| (0..world).map(|rank| element(rank, i)).sum()).collect();
    let mut input = allocated(comm, &data(rank, world * count));
    let mut shard = allocated(comm, &vec![-77; count]);
    for _ in 0..2 {
        comm.reduce_scatter(&input, &mut shard, ReduceOp::Sum).unwrap();
        assert!(shard[..] == sum[rank * count..][..count], "reduce_scatter apart: {what}");
        assert!(input[..] == data(rank, world * count), "the input is as it was: {what}");
    }
    comm.reduce_scatter_in_place(&mut input, ReduceOp::Sum).unwrap();
    assert!(
        input[rank * count..][..count] == sum[rank * count..][..count],
        "reduce_scatter in place: {what}"
    );
    input.copy_from_slice(&data(rank, world * count));
    comm.reduce(&mut input, ReduceOp::Sum, 0).unwrap();
    assert!(rank != 0 || input[..] == sum, "reduce: {what}");
}

/// A future takes the buffer and gives it back; what is written into it afterwards reaches nobody.
fn check_async(comm: &Communicator, input: Allocated<i64>, sum: &[i64], what: &str) {
    let output = allocated(comm, &vec![-77; sum.len()]);
    let (mut input, output) = comm.all_reduce_into_async(input, output, ReduceOp::Sum).wait().unwrap();
    input.fill(0);
    assert!(output[..] == *sum, "all_reduce as a future: {what}");
}

#[test]
fn a_buffer_outlives_its_communicator_and_serves_another() {
    within(60, || {
        let second: Vec<_> =
            Over::Shm.world(2).into_iter().map(|comm| std::sync::Mutex::new(Some(comm))).collect();
        on_all(Over::Shm.world(2), |comm| {
            let rank = comm.rank();
            let mut buffer = allocated(&comm, &data(rank, 100_000));
            comm.close().unwrap();
            drop(comm);
            assert!(buffer.is_shared() && buffer[..] == data(rank, 100_000));
            let other = second[rank].lock().unwrap().take().unwrap();
            other.all_reduce(&mut buffer, ReduceOp::Sum).unwrap();
            let sum = data(0, 100_000).iter().zip(data(1, 100_000)).map(|(a, b)| a + b).collect::<Vec<_>>();
            assert!(buffer[..] == sum);
            other.close().unwrap();
        });
    });
}

#[test]
fn too_long_a_buffer_is_an_error_and_the_communicator_goes_on() {
    within(60, || {
        on_all(Over::Shm.world(2), |comm| {
            let error = comm.allocate::<f64>(1 << 47).unwrap_err();
            assert!(matches!(error, Error::Memory(_)));
            let text = error.to_string();
            assert!(
                text.contains("1125899906842624 bytes does not fit") && text.contains("bytes are left"),
                "{text}"
            );
            let mut buffer = comm.allocate::<u16>(3).unwrap();
            assert_eq!((buffer.dtype(), &buffer[..]), (DType::U16, &[0; 3][..]));
            buffer.fill(1);
            comm.all_reduce(&mut buffer, ReduceOp::Sum).unwrap();
            assert_eq!(buffer[..], [2; 3]);
            comm.close().unwrap();
        });
    });
}
