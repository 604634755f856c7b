"""Forks, and the ends of programs."""

import gc
import os
import subprocess
import sys
import time

import numpy as np
import pytest
from processes import free_port, kill_with_children, ranks
from samples import numbers, same, total

import hcomm
from hcomm import errors


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
        code = 0
    except BaseException:  # noqa: BLE001
        import traceback

        traceback.print_exc()
        os._exit(9)
    if leave is os._exit:
        os._exit(code)
    if leave is sys.exit:
        _end_normally(5)
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
        subprocess.Popen([*command, str(rank), address, *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True)
        for rank in range(count)
    ]
    ends = []
    for rank in ranks_:
        try:
            output, _ = rank.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            for other in ranks_:
                kill_with_children(other.pid)
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


FAILURES = {
    "by an exception": ("raise ValueError('boom')", 1, "ValueError: boom"),
    "by sys.exit": ("sys.exit(3)", 3, "exit status 3"),
    "by sys.exit with a text": ("sys.exit('no data')", 1, "no data"),
    "as launchers end": ("\n    try: raise ValueError('boom')\n    except ValueError: sys.exit(1)", 1, "ValueError: boom; exit status 1"),
    "in a block": ("\n    with comm: raise ValueError('boom')", 1, "ValueError: boom"),
    "by an exit in a block": ("\n    with comm: sys.exit(4)", 4, "exit status 4"),
}


@pytest.mark.parametrize("failure", FAILURES)
def test_a_program_that_ends_by_an_error_says_so_and_is_the_first(failure):
    source, code, text = FAILURES[failure]
    source = HEAD + f"if comm.rank: {source}\ncomm.barrier()".replace("comm.barrier()", SURVIVE)
    ends, seconds = programs(source)
    assert ends[1][0] == code, ends
    assert ends[0][0] == 1 and f"PeerLeftError: rank 1 closed its communicator after 2 calls, ending by an error ({text})" in ends[0][1], ends
    assert seconds < 25


SURVIVE = """
began = time.time()
try:
    comm.barrier()
finally:
    # The moment in which the other reports.
    assert time.time() - began > 1, time.time() - began
"""
WELL = {
    "an exit that is caught": "try: sys.exit(3)\nexcept SystemExit: pass",
    "an exit with status 0": "if comm.rank: sys.exit(0)",
    "an exit without a status": "if comm.rank: sys.exit()",
    "an exit of a thread": "t = threading.Thread(target=sys.exit, args=(5,)); t.start(); t.join()",
}


@pytest.mark.parametrize("ending", WELL)
def test_what_is_no_error(ending):
    ends, _ = programs(HEAD + WELL[ending] + "\nif not comm.rank: time.sleep(0.3); comm.barrier()")
    assert ends[1][0] == 0 and "PeerLeftError: rank 1 closed its communicator after 2 calls; barrier" in ends[0][1], ends


IN_DEL = """
import os, sys
import torch, torch.distributed as dist
dist.init_process_group("hcomm", init_method="tcp://" + sys.argv[2], rank=int(sys.argv[1]), world_size=2)
import hcomm
hcomm.enable_profiling()
dist.all_reduce(torch.ones(3))

class Trainer:
    def __del__(self, dist=dist, write=os.write):
        dist.destroy_process_group()
        write(1, b"destroyed")

trainer = Trainer()
"""


def test_a_group_is_destroyed_as_the_interpreter_ends():
    for code, output in programs(IN_DEL)[0]:
        assert code == 0 and "destroyed" in output and "Error" not in output, output


def test_an_uncaught_exception_ends_both():
    ends, seconds = programs(HEAD + "if comm.rank: raise SystemExit(3)\ncomm.all_reduce(numpy.ones(3))")
    assert ends[1][0] == 3
    assert ends[0][0] == 1 and "PeerLeftError" in ends[0][1], ends
    assert seconds < 25


def test_a_forked_child_may_have_a_communicator_of_its_own():
    assert ranks(2, _explicit_in_child) == [0, 0]


def _explicit_in_child(comm):
    address = f"127.0.0.1:{free_port()}"
    child = os.fork()
    if child == 0:
        code = 1
        try:
            own = hcomm.init(rank=0, world=1, address=address)
            same(hcomm.all_reduce(numbers(0, 5)), numbers(0, 5))
            assert hcomm.init() is own and hcomm.world() == 1
            own.close()
            code = 0
        finally:
            os._exit(code)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    same(comm.all_reduce(numbers(comm.rank, 100)), total(2, 100))
    return code


CLOSES_AT_THE_END = """
import builtins, hcomm, numpy

class Holder:
    comm = hcomm.init()
    numpy_sum = comm.all_reduce(numpy.ones(3))

    def __del__(self):
        self.comm.close()
        print("closed")

builtins.holder = Holder()
"""


def test_a_communicator_may_be_closed_as_the_interpreter_ends():
    ended = subprocess.run([sys.executable, "-c", CLOSES_AT_THE_END], capture_output=True, text=True, timeout=60)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "closed\n", "")
