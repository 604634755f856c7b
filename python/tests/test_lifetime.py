"""What the package leaves behind, and what it does to a process: forks, threads, memory, signals, the interpreter's lock, the end of a program."""

import asyncio
import contextlib
import gc
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from processes import free_port, processes, ranks, values
from samples import numbers, same, total

import hcomm
from hcomm import errors


def threads():
    return len(os.listdir("/proc/self/task"))


def descriptors():
    return len(os.listdir("/proc/self/fd"))


def await_count(count, expected):
    """A thread that has been joined may be seen for a moment still."""
    until = time.monotonic() + 10
    while count() > expected and time.monotonic() < until:
        time.sleep(0.01)
    assert count() <= expected


def resident():
    """Bytes."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


# Forks.


def test_fork_after_init():
    assert ranks(2, _fork_after_init) == [[0, 5, 0]] * 2


def _fork_after_init(comm):
    pending = comm.recv_async(np.zeros(4, "f4"), 1 - comm.rank)
    group = comm.with_priority(1)
    codes = []
    for leave in (os._exit, sys.exit, None):
        child = os.fork()
        if child == 0:
            _in_child(comm, group, pending, leave)
        codes.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        same(comm.all_reduce(numbers(comm.rank, 100)), total(2, 100))
    comm.send(numbers(comm.rank, 4), 1 - comm.rank)
    assert pending.wait() == (1 - comm.rank, 4)
    return codes


def _in_child(comm, group, pending, leave):
    code = 1
    try:
        for call in (
            lambda: comm.all_reduce(np.ones(3)),
            lambda: group.barrier(),
            lambda: comm.rank,
            lambda: comm.split(0),
            lambda: comm.settings,
            lambda: comm.close(),
            lambda: comm.abort(),
            lambda: pending.wait(),
            lambda: pending.done(),
            lambda: pending.add_done_callback(print),
        ):
            with pytest.raises(errors.ForkError, match="fork"):
                call()
        # A world of its own is fine.
        code = 0
    except BaseException:  # noqa: BLE001
        import traceback

        traceback.print_exc()
        os._exit(9)
    if leave is os._exit:
        os._exit(code)
    if leave is sys.exit:
        _end_normally(5)
    del comm, group, pending
    gc.collect()
    _end_normally(0)


def _end_normally(code):
    """What the package does at an interpreter's end; a forked test has none of its own."""
    hcomm._state._close_all()
    os._exit(code)


FORKING = """
import os, sys, threading
import numpy, hcomm
comm = hcomm.init(rank=int(sys.argv[1]), world=2, address=sys.argv[2])
comm.barrier()
work = comm.all_reduce_async(numpy.ones(3)); told = threading.Event()
work.add_done_callback(lambda _: told.set()); told.wait(20)
child = os.fork()
if child == 0:
    try:
        hcomm.barrier()
    except (hcomm.errors.ForkError, hcomm.errors.NotInitializedError):
        # A communicator of the child's own.
        own = hcomm.init(rank=0, world=1, address="127.0.0.1:1")
        assert own.all_reduce(numpy.ones(3)).tolist() == [1, 1, 1]
        told = threading.Event()
        own.barrier_async().add_done_callback(lambda _: told.set())
        assert told.wait(20)
        sys.exit(33)
    sys.exit(1)
_, status = os.waitpid(child, 0)
assert comm.all_reduce(numpy.ones(3)).tolist() == [2, 2, 2]
sys.exit(os.waitstatus_to_exitcode(status))
"""


def programs(source, count=2, limit=30, arguments=()):
    """Exit codes, seconds and errors of a program's ranks, each a new interpreter."""
    address, start = f"127.0.0.1:{free_port()}", time.monotonic()
    command = [sys.executable, "-c", source]
    ranks_ = [
        subprocess.Popen([*command, str(rank), address, *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        for rank in range(count)
    ]
    ends = []
    for rank in ranks_:
        try:
            output, _ = rank.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            for other in ranks_:
                other.kill()
            output, _ = rank.communicate()
            raise AssertionError(f"a program still ran after {limit} s: {output}") from None
        ends.append((rank.returncode, output))
    return ends, time.monotonic() - start


def test_a_child_ends_normally():
    ends, _ = programs(FORKING)
    assert [code for code, _ in ends] == [33, 33], ends


# The end of a program.

HEAD = """
import sys, threading, time
import numpy, hcomm
comm = hcomm.init(rank=int(sys.argv[1]), world=2, address=sys.argv[2])
comm.barrier()
"""
ENDINGS = {
    "without closing": "",
    "with an operation in flight": "comm.recv_async(numpy.ones(4), 1 - comm.rank)",
    "with a work and a callback": "work = comm.recv_async(numpy.ones(4), 1 - comm.rank); work.add_done_callback(print)",
    "with a big all_reduce that goes on": "work = comm.all_reduce_async(numpy.ones(4_000_000))",
    "with a duplicate": "other = comm.duplicate(); other.all_reduce(numpy.ones(3))",
    "within a scope": "scope = hcomm.overlap_scope(); scope.__enter__(); comm.barrier_async()",
    "after callbacks": "comm.barrier_async().add_done_callback(lambda _: time.sleep(0.05))",
    "by sys.exit in a thread's time": "t = threading.Thread(target=lambda: comm.barrier()); t.start(); sys.exit(0)",
}


@pytest.mark.parametrize("ending", ENDINGS)
def test_endings(ending, monkeypatch):
    # What never ends is waited for so long.
    monkeypatch.setenv("HCOMM_CLOSE_DEADLINE", "1500ms")
    ends, seconds = programs(HEAD + ENDINGS[ending])
    for code, output in ends:
        assert code in (0, 1), ends
        assert "panicked" not in output and "Fatal Python error" not in output, output
    assert seconds < 25


def test_an_uncaught_exception_ends_both():
    ends, seconds = programs(HEAD + "if comm.rank: raise SystemExit(3)\ncomm.all_reduce(numpy.ones(3))")
    assert ends[1][0] == 3
    assert ends[0][0] == 1 and "PeerLeftError" in ends[0][1], ends
    assert seconds < 25


def test_no_thread_is_left():
    values(processes(2, _threads_left))


def _threads_left(place):
    before = threads()
    comm = place.init()
    comm.all_reduce(np.ones(100_000))
    told = threading.Event()
    comm.all_reduce_async(np.ones(3)).add_done_callback(lambda _: told.set())
    assert told.wait(20)
    comm.duplicate().close()
    comm.close()
    del comm
    gc.collect()
    # The one that callbacks run on stays.
    await_count(threads, before + 1)
    hcomm._state._close_all()
    await_count(threads, before)


# Signals.


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


# Memory.


def test_many_small_calls():
    ranks(2, _many_calls)


def _many_calls(comm):
    buffer, strided = np.ones(8, "f4"), np.ones(16, "f4")[::2]
    listed = [np.ones(3, "f4"), np.ones(2, "f4")]

    def some(count):
        for _ in range(count):
            comm.all_reduce(buffer, "max")
        for _ in range(count // 10):
            comm.all_reduce_async(buffer, "max").wait()
            comm.all_reduce(strided, "max")
            comm.all_reduce(listed, "max")

    some(1000)
    gc.collect()
    before = resident(), threads(), descriptors()
    some(20_000)
    gc.collect()
    assert resident() - before[0] < 2_000_000
    assert threads() <= before[1] and descriptors() <= before[2]


def test_many_communicators():
    ranks(2, _many_communicators)


def _many_communicators(comm):
    def some(count):
        for _ in range(count):
            other = comm.split(0)
            other.all_reduce(np.ones(4, "f4"))
            other.close()
        comm.barrier()

    some(20)
    gc.collect()
    before, shared = (resident(), threads(), descriptors()), set(os.listdir("/dev/shm"))
    some(200)
    gc.collect()
    assert resident() - before[0] < 8_000_000
    assert threads() <= before[1] and descriptors() <= before[2]
    assert not [name for name in set(os.listdir("/dev/shm")) - shared if "hcomm" in name]


def test_dropped_without_close():
    ranks(2, _dropped)


def _dropped(comm):
    before = threads(), descriptors()
    for _ in range(10):
        other = comm.duplicate()
        other.all_reduce(np.ones(3))
        del other
        gc.collect()
        comm.barrier()
    await_count(threads, before[0])
    await_count(descriptors, before[1])
