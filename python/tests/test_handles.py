"""Handles with options, groups, other communicators, overlap scopes and context managers."""

import threading

import numpy as np
import pytest
from processes import free_port, processes, ranks, values
from samples import numbers, same, total

import hcomm


def test_options():
    ranks(3, _options)


def _options(comm):
    for handle in (comm.with_priority(4), comm.with_deadline(30), comm.deterministic(), comm.algorithm("ring")):
        assert (handle.rank, handle.world, handle.name) == (comm.rank, comm.world, comm.name)
        same(handle.all_reduce(numbers(comm.rank, 1000)), total(3, 1000))
        same(handle.all_reduce_async(numbers(comm.rank, 1000), priority=2, timeout=20).wait(), total(3, 1000))
    assert comm.algorithm("all_reduce=ring").plan("all_reduce", 1000).algorithm == "ring"
    with pytest.raises(hcomm.errors.DeadlineError):
        comm.with_deadline(0.05).recv(np.empty(1), (comm.rank + 1) % 3)
    comm.barrier()
    for deadline in (-1, float("nan"), float("inf")):
        with pytest.raises(ValueError, match="is no time in seconds"):
            comm.with_deadline(deadline)


def test_deterministic_is_the_left_fold():
    ranks(3, _left_fold)


def _left_fold(comm):
    parts = [np.random.default_rng(rank).standard_normal(5000).astype("f4") * 10.0 ** (rank * 3) for rank in range(3)]
    folded = (parts[0] + parts[1]) + parts[2]
    same(comm.deterministic().all_reduce(parts[comm.rank].copy()), folded)
    same(comm.deterministic().all_reduce_async(parts[comm.rank].copy()).wait(), folded)


def test_group():
    ranks(3, _group)


def _group(comm):
    for source in (comm, hcomm):
        a, b, c = numbers(comm.rank, 40), numbers(comm.rank, 7), numbers(comm.rank, 9, "i8")
        d, e, f = numbers(comm.rank, 5), numbers(comm.rank, 6), np.zeros((4, 4), "f4")[:, ::2]
        f[:] = numbers(comm.rank, 8).reshape(4, 2)
        with source.group() as group:
            group.all_reduce(a)
            group.all_reduce(b, op="sum")
            group.all_reduce(c)
            group.all_reduce(f)
            group.broadcast(d, root=1)
            group.reduce(e, op="max", root=2)
            same(a, numbers(comm.rank, 40))
        same(a, total(3, 40))
        same(b, total(3, 7))
        same(c, total(3, 9, "i8"))
        same(f, total(3, 8).reshape(4, 2).copy())
        same(d, numbers(1, 5))
        if comm.rank == 2:
            same(e, numbers(2, 6))
    with comm.group():
        pass
    untouched = numbers(comm.rank, 3)
    with pytest.raises(ZeroDivisionError), comm.group() as group:
        group.all_reduce(untouched)
        1 / 0  # noqa: B018
    same(untouched, numbers(comm.rank, 3))


def test_split():
    ranks(4, _split)


def _split(comm):
    parity, place = comm.rank % 2, comm.rank // 2
    part = comm.split(parity)
    assert (part.world, part.rank) == (2, place)
    members = [parity, parity + 2]
    same(part.all_reduce(numbers(comm.rank, 9)), sum(numbers(rank, 9) for rank in members))
    turned = comm.split(0, key=-comm.rank)
    assert turned.rank == 3 - comm.rank
    same(turned.broadcast(numbers(comm.rank, 4), root=0), numbers(3, 4))
    some = comm.split(None if comm.rank == 1 else 5)
    assert (some is None) == (comm.rank == 1)
    if some is not None:
        assert some.world == 3
        same(some.all_reduce(numbers(comm.rank, 4)), sum(numbers(rank, 4) for rank in (0, 2, 3)))
        some.close()
    assert comm.named("tensor").split(0).name == "tensor"
    with part, turned:
        same(part.duplicate().all_reduce(numbers(comm.rank, 2)), sum(numbers(rank, 2) for rank in members))
    same(comm.all_reduce(numbers(comm.rank, 9)), total(4, 9))


def test_threads_with_a_communicator_each():
    ranks(2, _threads)


def _threads(comm):
    others, failures = [comm.duplicate() for _ in range(3)], []

    def work(own, seed):
        try:
            for size in range(1, 60):
                same(own.all_reduce(numbers(own.rank + seed, size)), numbers(seed, size) + numbers(seed + 1, size))
        except BaseException as failure:  # noqa: BLE001
            failures.append(failure)

    threads = [threading.Thread(target=work, args=(own, 10 * at)) for at, own in enumerate(others)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def test_facts():
    ranks(2, _facts)


def _facts(comm):
    assert (hcomm.rank(), hcomm.world()) == (comm.rank, 2)
    assert hcomm.is_initialized()
    assert comm.name == "world" and "world" in repr(comm) and f"rank {comm.rank} of 2" in repr(comm)
    assert len(comm.links) == 2 and "shm" in comm.links[1 - comm.rank]
    assert comm.settings["HCOMM_DEPTH"] == "2"
    assert hcomm.init() is comm


def test_overlap_scope():
    ranks(2, _overlap_scope)


def _overlap_scope(comm):
    buffers = [numbers(comm.rank, size) for size in (4, 100_000, 7)]
    with hcomm.overlap_scope() as scope:
        for place, buffer in enumerate(buffers):
            hcomm.all_reduce_async(buffer, priority=place)
        comm.barrier_async()
        comm.send_async(numbers(comm.rank, 3), 1 - comm.rank)
        received = np.empty(3, "f4")
        comm.recv_async(received, 1 - comm.rank)
        with hcomm.overlap_scope() as inner:
            inside = comm.all_reduce_async(numbers(comm.rank, 5))
        assert inner.works == [inside] and inside.done()
    assert len(scope.works) == 6 and all(work.done() for work in scope.works)
    for buffer in buffers:
        same(buffer, total(2, len(buffer)))
    same(received, numbers(1 - comm.rank, 3))
    after = comm.barrier_async()
    assert after not in scope.works
    after.wait()


def test_overlap_scope_with_failures():
    ranks(2, _failing_scope)


def _failing_scope(comm):
    buffer = numbers(comm.rank, 50_000)
    with pytest.raises(ZeroDivisionError), hcomm.overlap_scope() as scope:
        comm.all_reduce_async(buffer)
        1 / 0  # noqa: B018
    assert scope.works[0].done()
    same(buffer, total(2, 50_000))
    sound = numbers(comm.rank, 9)
    with pytest.raises(hcomm.errors.DeadlineError) as caught, hcomm.overlap_scope() as scope:
        comm.recv_async(np.empty(1), 1 - comm.rank, 11, timeout=0.05)
        comm.recv_async(np.empty(1), 1 - comm.rank, 12, timeout=0.05)
        comm.barrier_async()
    assert all(work.done() for work in scope.works)
    assert len(caught.value.__notes__) == 1 and "failed too" in caught.value.__notes__[0]
    same(comm.all_reduce(sound), total(2, 9))


def test_context_managers():
    values(processes(2, _contexts))


def _contexts(place):
    with place.init() as comm:
        assert hcomm.is_initialized()
        comm.barrier()
    assert not hcomm.is_initialized()
    with pytest.raises(hcomm.errors.NotInitializedError):
        hcomm.all_reduce(np.ones(1))
    hcomm.finalize()


def test_a_body_that_raises_closes_too():
    outcomes = processes(2, _raising_body)
    assert [outcome.error.strip().splitlines()[-1] for outcome in outcomes] == ["ZeroDivisionError: division by zero"] * 2


def _raising_body(place):
    try:
        with place.init() as comm:
            comm.barrier()
            1 / 0  # noqa: B018
    finally:
        assert not hcomm.is_initialized()


def test_one_after_the_other():
    values(processes(2, _one_after_the_other, [f"127.0.0.1:{free_port()}" for _ in range(3)]))


def _one_after_the_other(place, addresses):
    for address in addresses:
        with hcomm.init(rank=place.rank, world=2, address=address) as comm:
            same(comm.all_reduce(numbers(comm.rank, 4)), total(2, 4))


def test_init_takes_all_or_nothing():
    values(processes(1, _half_an_init))


def _half_an_init(place):
    for given in ({"rank": 0}, {"world": 2}, {"rank": 0, "world": 1}, {"address": "127.0.0.1:1"}):
        with pytest.raises(hcomm.errors.RefusedError, match="go together"):
            hcomm.init(**given)
    with pytest.raises((hcomm.HcommError, ValueError), match="3"):
        hcomm.init(rank=3, world=2, address=place.address)
    with pytest.raises((hcomm.HcommError, ValueError)):
        hcomm.init(rank=0, world=0, address=place.address)
    with pytest.raises(hcomm.HcommError, match="nowhere"):
        hcomm.init(rank=0, world=2, address="nowhere")
    assert hcomm.init().world == 1
