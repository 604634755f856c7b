"""Ctrl-C while a rank waits, and other threads of the program meanwhile."""

import asyncio
import contextlib
import os
import signal
import threading
import time

import numpy as np
import pytest
from processes import processes, ranks, values
from samples import numbers, same, total

import hcomm
from hcomm import errors


def interrupt_after(seconds):
    timer = threading.Timer(seconds, lambda: os.kill(os.getpid(), signal.SIGINT))
    timer.start()
    return timer


def test_interrupted_wait():
    ranks(2, _interrupted)


def _interrupted(comm):
    mine = numbers(comm.rank, 50)
    if comm.rank == 0:
        work = comm.all_reduce_async(mine)
        start = time.monotonic()
        interrupt_after(0.2)
        with pytest.raises(KeyboardInterrupt):
            work.wait()
        assert time.monotonic() - start < 2
        assert not work.done()
        comm.send(np.ones(1), 1)
        work.wait()
    else:
        comm.recv(np.ones(1), 0)
        comm.all_reduce(mine)
    same(mine, total(2, 50))
    # A wait that ended by itself lies between: the next interruption is a first one.
    if comm.rank == 0:
        pending = comm.recv_async(mine, 1)
        interrupt_after(0.2)
        with pytest.raises(KeyboardInterrupt):
            pending.wait()
        comm.send(np.ones(1), 1)
        pending.wait()
        same(mine, numbers(1, 50))
    else:
        comm.recv(np.ones(1), 0)
        comm.send(numbers(1, 50), 0)


def test_interrupted_blocking_call_keeps_its_arrays():
    ranks(2, _interrupted_call)


def _interrupted_call(comm):
    if comm.rank == 0:
        mine = numbers(0, 50)
        interrupt_after(0.2)
        with pytest.raises(KeyboardInterrupt):
            comm.all_reduce(mine)
        comm.send(np.ones(1), 1)
        comm.barrier()
        same(mine, total(2, 50))
    else:
        comm.recv(np.ones(1), 0)
        same(comm.all_reduce(numbers(1, 50)), total(2, 50))
        comm.barrier()


def test_a_second_interruption_aborts():
    ranks(2, _interrupted_twice)


def _interrupted_twice(comm):
    if comm.rank == 0:
        work = comm.all_reduce_async(np.ones(50))
        for _ in range(2):
            interrupt_after(0.2)
            with pytest.raises(KeyboardInterrupt):
                work.wait()
        with pytest.raises(errors.AbortedError, match="interrupted twice"):
            work.wait()
    else:
        with pytest.raises(errors.AbortedError, match="interrupted twice"):
            comm.recv(np.ones(1), 0)
    with contextlib.suppress(errors.AbortedError):
        comm.close()


def test_interrupted_init():
    values(processes(1, _interrupted_init))


def _interrupted_init(place):
    interrupt_after(0.3)
    start = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        hcomm.init(rank=0, world=2, address=place.address)
    assert time.monotonic() - start < 5
    assert not hcomm.is_initialized()


# The interpreter's lock.


def test_other_threads_run_meanwhile():
    ranks(2, _lock)


def _lock(comm):
    if comm.rank == 1:
        for _ in range(4):
            time.sleep(0.4)
            comm.barrier()
        comm.send(np.ones(1), 0)
        return
    waits = (comm.barrier, lambda: comm.barrier_async().wait(), hcomm.barrier, lambda: asyncio.run(_awaited(comm)))
    for wait in waits:
        stop, counted = threading.Event(), [0]

        def count(stop=stop, counted=counted):
            while not stop.is_set():
                counted[0] += 1
                time.sleep(0.001)

        thread = threading.Thread(target=count)
        thread.start()
        wait()
        stop.set()
        thread.join()
        assert counted[0] > 20, counted
    comm.recv(np.ones(1), 1)


async def _awaited(comm):
    await comm.barrier_async()
