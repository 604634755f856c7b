//! Buffers that safe code cannot give to a call: what is only lent for reading, where the call writes; bytes that are no elements of
//! their type.

use hcomm_engine::bindings::{Apart, InPlace, InputOnly, OutputOnly};
use hcomm_engine::{Ask, Communicator, Error, Refused};
use hcomm_ops::buffer::{Borrowed, DynBuffer};
use hcomm_ops::{DType, ReduceOp};
use hcomm_planner::Collective;

use crate::common::{on_all, within, world};

static CONSTANT: [i64; 4] = [1; 4];

fn constant() -> Borrowed<'static> {
    Borrowed::from_ref(&CONSTANT[..])
}

#[test]
fn what_is_lent_for_reading_is_never_written() {
    let comm = Communicator::alone();
    let refused = |error: Option<Error>| {
        assert!(matches!(error, Some(Error::Refused(Refused::ReadOnly))), "{error:?}");
    };
    for collective in
        [Collective::AllReduce, Collective::AllGather, Collective::Reduce, Collective::Broadcast]
    {
        let ask = Ask::new(collective);
        refused(comm.call(&ask, InPlace(constant())).wait().err().map(|failed| failed.error));
        refused(comm.call(&ask, OutputOnly(constant())).wait().err().map(|failed| failed.error));
        refused(comm.call(&ask, Apart(vec![1_i64; 4], constant())).wait().err().map(|failed| failed.error));
    }
    let mine = vec![1_i64; 4];
    refused(comm.scope(|s| drop(s.group(|g| g.all_reduce(Borrowed::from_ref(&mine), ReduceOp::Sum)))).err());
    let read = comm.all_reduce_into_async(constant(), vec![0_i64; 4], ReduceOp::Sum).wait();
    assert_eq!(read.expect("it is only read").1, [1; 4]);
    assert_eq!((&mine[..], CONSTANT), (&[1; 4][..], [1; 4]));
}

#[test]
fn a_reduce_reads_where_it_is_not_the_root() {
    within(20, || {
        on_all(world(2), |comm| match comm.rank() {
            0 => {
                let sum = comm.reduce_async(vec![1_i64; 4], ReduceOp::Sum, 0).wait().expect("both");
                assert_eq!(sum, [2; 4]);
            }
            _ => drop(comm.reduce_async(constant(), ReduceOp::Sum, 0).wait().expect("it is only read")),
        });
        assert_eq!(CONSTANT, [1; 4]);
    });
}

#[test]
fn bytes_that_are_no_bool_are_refused_however_often_a_call_is_repeated() {
    let comm = Communicator::alone();
    let buffer = |bytes: &[u8]| DynBuffer { bytes: bytes.to_vec(), dtype: DType::Bool };
    for _ in 0..3 {
        let good = comm.all_reduce_async(buffer(&[0, 1, 1]), ReduceOp::LogicalOr).wait();
        assert_eq!(good.expect("bools").bytes, [0, 1, 1]);
        let bad = comm.all_reduce_async(buffer(&[0, 1, 7]), ReduceOp::LogicalOr).wait();
        let error = bad.expect_err("7 is no bool").error.to_string();
        assert!(error.contains("byte 2 of a buffer of bool is 7, which is no bool"), "{error}");
    }
    let lent =
        comm.call(&Ask::new(Collective::Broadcast), InputOnly(Borrowed::from_bytes_ref(&[2], DType::Bool)));
    assert!(matches!(lent.wait().expect_err("2 is no bool").error, Error::Refused(Refused::NoElement(_))));
    let filled = comm.all_reduce_into_async(buffer(&[1, 0]), buffer(&[9, 9]), ReduceOp::LogicalOr).wait();
    assert_eq!(filled.expect("what an output holds before does not matter").1.bytes, [1, 0]);
    let message = comm.send_async(buffer(&[9]), 0, 0).wait().expect_err("9 is no bool").error;
    assert!(matches!(message, Error::Refused(_)), "{message}");
}
