"""What users do by mistake: it ends in the right result or in an error that says what to do, on every rank, and never in a crash or in silence."""

import sys
import time
import traceback

import numpy as np
import pytest
from processes import processes, ranks, values

import hcomm
from hcomm import errors


def told(kind, words, call, *args, **options):
    with pytest.raises(kind, match=words):
        call(*args, **options)


def test_one_array_in_several_operations():
    """They come after one another, as they were started."""
    ranks(2, _several)


def _several(comm):
    plain, strided, narrow = np.ones(5), np.ones((5, 2))[:, 0], np.ones(5, "f4")
    works = [comm.all_reduce_async(array) for array in (plain, plain, plain, strided, strided)]
    works += [comm.all_reduce_async(narrow, precision="bf16") for _ in range(2)]
    for work in works:
        work.wait()
    assert (plain == 8).all() and (strided == 4).all() and (narrow == 4).all()
    overlapping = np.ones(6)
    first, second = comm.all_reduce_async(overlapping[:4]), comm.all_reduce_async(overlapping[2:])
    first.wait(), second.wait()
    assert (overlapping == [2, 2, 4, 4, 2, 2]).all(), overlapping
    if comm.rank == 0:
        buffer = np.zeros(3)
        work, back = comm.recv_async(buffer, 1), comm.send_async(buffer, 1)
        comm.barrier()
        assert work.wait() == (1, 3) and (buffer == 7).all()
        back.wait()
    else:
        comm.barrier()
        comm.send(np.full(3, 7.0), 0)
        comm.recv(received := np.zeros(3), 0)
        assert (received == 7).all()


def test_nothing_in_place_of_an_array():
    ranks(2, _nothing)


def _nothing(comm):
    for call in (comm.all_reduce, comm.broadcast, comm.reduce, comm.all_gather_in_place, comm.reduce_scatter_in_place, comm.all_to_all_in_place):
        told(errors.ArrayError, "None; expected an array", call, None)
    told(errors.ArrayError, "None", comm.all_reduce_async, None)
    assert (comm.all_reduce(np.ones(3)) == 2).all()


def test_lists_of_blocks():
    ranks(2, _blocks)


def _blocks(comm):
    pair = np.full(2, comm.rank + 1.0)
    told(errors.RefusedError, "array 1 of the output has 3 elements; expected 1", comm.all_gather, pair, [np.zeros(1), np.zeros(3)])
    told(errors.RefusedError, "list of 4 arrays; expected 2", comm.all_gather, pair, [np.zeros(1) for _ in range(4)])
    told(errors.RefusedError, "array 1 of the input", comm.all_to_all, [pair, np.zeros(1)], [np.zeros(2), np.zeros(2)])
    twice = np.zeros(2)
    told(errors.OverlapError, "share memory", comm.all_gather, pair, [twice, twice])
    told(errors.OverlapError, "share memory", comm.all_reduce, [pair, pair])
    # Columns of an array are apart, though they lie between each other.
    table = np.zeros((2, 2))
    comm.all_gather(pair, [table[:, 0], table[:, 1]])
    assert (table == [[1, 2], [1, 2]]).all()
    uneven = [np.zeros(1), np.zeros(3)]
    comm.all_gather_v(np.full(1 + 2 * comm.rank, comm.rank + 1.0), uneven, [1, 3])
    assert (uneven[0] == 1).all() and (uneven[1] == 2).all()


def test_arguments():
    ranks(2, _arguments)


def _arguments(comm):
    other = 1 - comm.rank
    told(errors.RankError, "rank -1 does not exist", comm.broadcast, np.ones(2), root=-1)
    told(errors.RankError, "rank -3 does not exist", comm.send, np.ones(2), -3)
    told(errors.RefusedError, "tag -1", comm.send, np.ones(2), other, tag=-1)
    told(errors.RefusedError, "a count of -1", comm.all_gather_v, np.ones(1), np.ones(2), [-1, 3])
    told(errors.RefusedError, "a priority of 2147483648", comm.all_reduce_async, np.ones(2), priority=2**31)
    told(TypeError, "hcomm.ReduceOp.SUM", comm.all_reduce, np.ones(2), np.add)
    told(TypeError, "datetime64", comm.all_reduce, np.zeros(2, "M8[s]"))
    told(TypeError, "masked", comm.all_reduce, np.ma.array([1.0, 2.0], mask=[0, 1]))
    told(TypeError, "a str", comm.all_reduce, "abc")
    told(errors.OutOfMemoryError, "17592186044416 bytes", comm.all_reduce_into, np.broadcast_to(np.float32(1), (1 << 42,)), np.zeros(4, "f4"))
    told(errors.SettingError, "'PATH' is no setting", hcomm.config.set, "PATH", "x")
    told(errors.RefusedError, "rank, world and address", hcomm.init, token="abc")
    told(errors.RefusedError, "rank 3 of a world of 2", hcomm.init, rank=3, world=2, address="127.0.0.1:1")
    told(errors.RefusedError, "expected at most 65536", hcomm.init, rank=0, world=10**8, address="127.0.0.1:1")
    # What all ranks got wrong alike harms nothing.
    assert comm.all_reduce(np.array(1.5)) == 3.0
    assert comm.all_reduce_async(np.ones(2), timeout=float("inf")).wait()[0] == 2
    slow = comm.all_reduce_async(np.ones(2)) if comm.rank else None
    time.sleep(0.2)
    slow = slow or comm.all_reduce_async(np.ones(2))
    assert slow.wait(1.8e19)[0] == 2


def test_peers_hear_of_what_python_refuses():
    first, second = ranks(2, _one_sided)
    assert first < 5 and second < 5, (first, second)


def _one_sided(comm):
    start = time.monotonic()
    with pytest.raises((TypeError, errors.OperationError)) as caught:
        comm.all_reduce("abc" if comm.rank == 0 else np.ones(2))
    assert comm.rank == 0 or "a str" in str(caught.value), caught.value
    with pytest.raises(errors.HcommError):
        comm.barrier()
    waited = time.monotonic() - start
    with pytest.raises(errors.HcommError):
        comm.close()
    return waited


def test_scopes_raise_what_is_not_known_yet():
    ranks(2, _scopes)


def _scopes(comm):
    with hcomm.overlap_scope() as scope:
        told(errors.RankError, "rank 9", comm.broadcast, np.ones(2), root=9)
    assert len(scope.works) == 1
    with pytest.raises(errors.RankError, match="rank 9"), scope:
        comm.broadcast_async(np.ones(2), root=9)
    with scope:
        comm.all_reduce_async(np.ones(2))
    assert len(scope.works) == 1, "those of before are forgotten"


def test_closing_by_a_handle():
    values(processes(1, _closing))


def _closing(_):
    comm = hcomm.init()
    comm.with_priority(3).close()
    assert not hcomm.is_initialized()
    again = hcomm.init()
    again.barrier()
    told(errors.HcommError, "closed", comm.barrier)


def test_callbacks_that_wait_for_callbacks():
    ranks(2, _callbacks)


def _callbacks(comm):
    done = []

    def wait_for_another(work):
        inner = comm.all_reduce_async(np.ones(3))
        inner.add_done_callback(lambda _: done.append("inner"))
        inner.wait()
        until = time.monotonic() + 10
        while not done and time.monotonic() < until:
            time.sleep(0.01)
        done.append("outer")

    comm.all_reduce_async(np.ones(2)).add_done_callback(wait_for_another)
    until = time.monotonic() + 20
    while len(done) < 2 and time.monotonic() < until:
        time.sleep(0.01)
    assert done == ["inner", "outer"]


def test_a_program_that_ends_by_an_exception_keeps_nobody_waiting():
    outcomes = processes(2, _exception)
    assert outcomes[1].value < 8, outcomes[1]


def _exception(place):
    comm = place.init()
    comm.barrier()
    if place.rank == 0:
        comm.all_reduce_async(np.ones(4))
        try:
            raise ValueError("boom")
        except ValueError as error:
            # As the interpreter does before it ends.
            sys.last_value = error
            traceback.print_exc()
            hcomm._state._close_all()
        return 0
    start = time.monotonic()
    with pytest.raises(errors.OperationError, match="boom"):
        comm.recv(np.zeros(4), 0)
    return time.monotonic() - start
