"""Ranks for the tests: processes forked from the test's own, which never has a communicator. Each has a log and a limit of time, so that one that
hangs fails its test, and the failure says which ranks hung, where, and what they wrote.
"""

import contextlib
import faulthandler
import os
import pickle
import signal
import socket
import sys
import tempfile
import time
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import hcomm

LIMIT = 60.0
"""Seconds for a test's ranks."""


@dataclass(frozen=True)
class Place:
    """Which rank a process is to be."""

    rank: int
    world: int
    address: str

    def init(self):
        return hcomm.init(rank=self.rank, world=self.world, address=self.address, token="a test's ranks")


@dataclass
class Outcome:
    """What became of a process."""

    rank: int
    exit_code: int | None
    """Of the process; the negative signal that killed it."""
    value: Any = None
    """What its function returned."""
    error: str | None = None
    """What it raised, with its traceback."""
    output: str = ""

    def __str__(self):
        return f"--- rank {self.rank}: exit code {self.exit_code}\n{self.output}{self.error or ''}"


def ranks(world, body, *args, limit=LIMIT):
    """What `body(communicator, *args)` returns on every rank of a new communicator."""
    return values(processes(world, _on_communicator, body, args, limit=limit))


def processes(count, body, *args, limit=LIMIT):
    """The outcomes of `body(place, *args)` in `count` processes."""
    with tempfile.TemporaryDirectory(prefix="hcomm-test-") as folder:
        address = f"127.0.0.1:{free_port()}"
        running = {}
        for rank in range(count):
            paths = Path(folder, f"{rank}.log"), Path(folder, f"{rank}.result")
            running[_start(Place(rank, count, address), paths, body, args)] = rank
        codes, hung = _await(running, limit)
        outcomes = [_outcome(Path(folder), rank, codes.get(rank)) for rank in range(count)]
    if hung:
        raise AssertionError("\n".join([f"ranks {sorted(hung)} still ran after {limit} s", *map(str, outcomes)]))
    return outcomes


def values(outcomes):
    """What all returned; one that failed fails the test."""
    if any(outcome.error is not None or outcome.exit_code != 0 for outcome in outcomes):
        raise AssertionError("\n".join(["a rank failed", *map(str, outcomes)]))
    return [outcome.value for outcome in outcomes]


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


def _on_communicator(place, body, args):
    communicator = place.init()
    try:
        return body(communicator, *args)
    finally:
        if sys.exception() is None:
            hcomm.finalize()


def _start(place, paths, body, args):
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if child:
        return child
    code = 70
    try:
        # So that what it starts can be ended with it.
        os.setsid()
        log = os.open(paths[0], os.O_CREAT | os.O_WRONLY | os.O_APPEND)
        for stream in (1, 2):
            os.dup2(log, stream)
        sys.stdout = sys.stderr = open(log, "w", buffering=1)  # noqa: SIM115
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.setitimer(signal.ITIMER_REAL, 0)
        faulthandler.register(signal.SIGUSR1, file=log, all_threads=True)
        code = _run(place, paths[1], body, args)
    finally:
        os._exit(code)


def _run(place, result, body, args):
    try:
        end = (body(place, *args), None)
    except BaseException:  # noqa: BLE001
        end = (None, traceback.format_exc())
    result.write_bytes(pickle.dumps(end))
    sys.stdout.flush()
    hcomm._state._close_all()
    return 0


def _await(running, limit):
    """Exit codes by rank, and the ranks that had to be killed."""
    until, codes = time.monotonic() + limit, {}
    left = dict(running)
    try:
        while left and time.monotonic() < until:
            if not _reap(left, codes):
                time.sleep(0.003)
        hung = set(left.values())
        for child in left:
            os.kill(child, signal.SIGUSR1)
        if left:
            time.sleep(0.5)
    finally:
        for child in left:
            kill_with_children(child)
            os.waitpid(child, 0)
    return codes, hung


def kill_with_children(leader):
    """A process that leads its session, and those that it has started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(leader, signal.SIGKILL)
    with contextlib.suppress(ProcessLookupError):
        os.kill(leader, signal.SIGKILL)


def _reap(left, codes):
    ended = False
    for child in list(left):
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            codes[left.pop(child)] = os.waitstatus_to_exitcode(status)
            ended = True
    return ended


def _outcome(folder, rank, code):
    outcome = Outcome(rank, code, output=(folder / f"{rank}.log").read_text(errors="replace"))
    result = folder / f"{rank}.result"
    if result.exists():
        outcome.value, outcome.error = pickle.loads(result.read_bytes())
    return outcome
