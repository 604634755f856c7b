"""Operations in flight: waits, callbacks, asyncio."""

import asyncio
import sys
import threading

import numpy as np
import pytest
from processes import ranks
from samples import numbers, same, total

import hcomm


def test_works():
    ranks(2, _works)


def _works(comm):
    buffer = np.full(10, -1, "f4")
    work = comm.recv_async(buffer, 1 - comm.rank)
    assert not work.done() and work.exception() is None and "running" in repr(work)
    for _ in range(2):
        with pytest.raises(TimeoutError, match="goes on"):
            work.wait(timeout=0.02)
    with pytest.raises(TimeoutError):
        work.wait(timeout=0)
    comm.barrier()
    assert work.priority(3) is work
    comm.send(numbers(comm.rank, 10), 1 - comm.rank)
    assert work.wait(timeout=30) == (1 - comm.rank, 10)
    assert work.result() == work.wait() == (1 - comm.rank, 10)
    assert work.done() and work.exception() is None and "done" in repr(work)
    same(buffer, numbers(1 - comm.rank, 10))
    with pytest.raises(ValueError, match="-1"):
        work.wait(timeout=-1)


def test_callbacks():
    ranks(2, _callbacks)


def _callbacks(comm):
    told, come = [], threading.Semaphore(0)

    def callback(work):
        told.append((work.done(), threading.current_thread() is threading.main_thread()))
        come.release()

    buffer = np.empty(3, "f4")
    work = comm.recv_async(buffer, 1 - comm.rank)
    work.add_done_callback(callback)
    assert told == []
    comm.send(numbers(comm.rank, 3), 1 - comm.rank)
    assert come.acquire(timeout=20)
    work.add_done_callback(callback)
    assert come.acquire(timeout=20)
    listed = comm.all_reduce_async([numbers(comm.rank, 3), numbers(comm.rank, 3, "i8")])
    listed.add_done_callback(callback)
    assert come.acquire(timeout=20)
    assert told == [(True, False)] * 3


def test_failing_callbacks_are_told_and_do_no_harm():
    ranks(2, _failing_callback)


def _failing_callback(comm):
    seen, come = [], threading.Semaphore(0)
    sys.unraisablehook = lambda unraisable: (seen.append(unraisable.exc_value), come.release())
    work = comm.all_reduce_async(numbers(comm.rank, 3))
    work.add_done_callback(lambda _: 1 / 0)
    assert come.acquire(timeout=20)
    assert isinstance(seen[0], ZeroDivisionError)
    work.add_done_callback(lambda _: come.release())
    assert come.acquire(timeout=20)


# asyncio.


def test_asyncio():
    ranks(2, _asyncio)


def _asyncio(comm):
    asyncio.run(_several_at_once(comm))
    # A second loop in the same process.
    asyncio.run(_several_at_once(comm))


async def _several_at_once(comm):
    ticks = 0

    async def tick():
        nonlocal ticks
        while True:
            ticks += 1
            await asyncio.sleep(0.001)

    ticking = asyncio.create_task(tick())
    buffers = [numbers(comm.rank, size) for size in (5, 70_000, 11)]
    late = comm.recv_async(np.empty(4, "f4"), 1 - comm.rank)
    done = await asyncio.gather(*(comm.all_reduce_async(buffer) for buffer in buffers))
    for buffer, given in zip(buffers, done, strict=True):
        assert given is buffer
        same(buffer, total(2, len(buffer)))
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(late, 0.05)
    assert ticks > 10
    assert not late.done()
    await comm.barrier_async()
    await comm.send_async(numbers(comm.rank, 4), 1 - comm.rank)
    assert await late == (1 - comm.rank, 4)
    assert await late == (1 - comm.rank, 4)
    ticking.cancel()
    with pytest.raises(hcomm.errors.DeadlineError):
        await comm.recv_async(np.empty(4, "f4"), 1 - comm.rank, 9, timeout=0.05)
    await comm.barrier_async()
