"""What the package leaves behind: threads, descriptors, memory."""

import gc
import os
import threading
import time
from pathlib import Path

import numpy as np
from processes import processes, ranks, values

import hcomm


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
