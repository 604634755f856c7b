"""In which order, and where, what hangs on the futures of a group runs: programs communicate from there, so that it is the same on all ranks.

- Callbacks of collective operations run one after another, in the order of the calls, whichever ends first. They do so on a thread of hcomm's;
  operations that are started in a callback have an order of their own, so that a callback may wait for their futures.
- DistributedDataParallel waits for the futures of its buckets when backward has computed everything. There, on backward's thread, the buckets'
  operations are waited for and what hangs on their futures runs: calls that the callbacks of a communication hook make can come between those of
  backward nowhere else in the same place on all ranks.
- Messages between two ranks have no order among all: what hangs on them runs when they end.
"""

from __future__ import annotations

import contextlib
import sys
import threading
from collections import deque
from collections.abc import Callable
from typing import Any

import torch
from torch._C import Future as TorchFuture
from torch._C._distributed_c10d import GradBucket
from torch.autograd import Variable

from .. import _native, _state
from . import exposed

Run = Callable[[], None]


class Orders:
    """Those of one group."""

    def __init__(self) -> None:
        self._by_depth: dict[int, _Order] = {}

    def place(self, run: Run) -> Run:
        """Takes note of what is to run when an operation has ended; what this returns is to be called then, on a thread of hcomm's."""
        depth: int = getattr(_thread, "depth", 0)
        return self._by_depth.setdefault(depth, _Order(depth)).place(run)


class _Order:
    """What runs one after another."""

    def __init__(self, depth: int) -> None:
        self._depth = depth
        self._lock = threading.Lock()
        self._waiting: deque[_Place] = deque()
        self._is_running = False

    def place(self, run: Run) -> Run:
        place = _Place(run)
        with self._lock:
            self._waiting.append(place)

        def begin() -> None:
            place.is_due = True
            self._run()

        return begin

    def _run(self) -> None:
        """Runs what is due; one thread does at a time."""
        while (run := self._next()) is not None:
            before = getattr(_thread, "depth", 0)
            _thread.depth = self._depth + 1
            try:
                run()
            finally:
                _thread.depth = before
                with self._lock:
                    self._is_running = False

    def _next(self) -> Run | None:
        with self._lock:
            if self._is_running or not self._waiting or not self._waiting[0].is_due:
                return None
            self._is_running = True
            return self._waiting.popleft().run


class _Place:
    __slots__ = ("is_due", "run")

    def __init__(self, run: Run) -> None:
        self.run = run
        self.is_due = False


_thread = threading.local()
"""`depth`: how many callbacks this thread is in. `buckets`: what waits for the end of backward, and in which of autograd's tasks that was asked for."""


def at_end_of_backward(native: _native.Work, run: Run) -> bool:
    """Has `run` called on this thread when backward has computed everything and the operation has ended, if it is of a bucket of
    DistributedDataParallel's; whether it is.
    """
    if not _is_of_bucket():
        return False
    watch_waits()
    buckets: _Buckets | None = getattr(_thread, "buckets", None)
    if buckets is None:
        buckets = _thread.buckets = _Buckets()
    buckets.add(native, run)
    return True


def watch_waits() -> None:
    """From now on it is known when a program waits for a future of torch's: in a hook that does, what was to wait for the end of backward is needed
    now; and the time is counted while hcomm profiles.
    """
    if TorchFuture.wait is _wait:
        TorchFuture.wait = _watched_wait  # type: ignore[method-assign,assignment]


def _watched_wait(future: TorchFuture[Any]) -> Any:
    """Waits for the future."""
    buckets: _Buckets | None = getattr(_thread, "buckets", None)
    if buckets is not None:
        buckets.finish()
    if _state.is_profiling and not getattr(_thread, "depth", 0):
        with exposed.wait():
            return _wait(future)
    return _wait(future)


_wait = TorchFuture.wait


class _Buckets:
    """What waits for the end of backward on one thread."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[_native.Work, Run]] = deque()
        self._task = -1
        self._is_finishing = False

    def add(self, native: _native.Work, run: Run) -> None:
        task = torch._C._current_graph_task_id()
        if task != self._task:
            self._task = task
            # torch's own, which waits for the futures, is queued after it, when the last bucket is there.
            Variable._execution_engine.queue_callback(self.finish)
        self._waiting.append((native, run))

    def finish(self) -> None:
        """Waits for them, in the order of their calls, and runs what hangs on each; unless this is called from there."""
        if self._is_finishing:
            return
        self._is_finishing = True
        try:
            while self._waiting:
                native, run = self._waiting.popleft()
                # Who waits for the future is told what failed.
                with contextlib.suppress(Exception):
                    native.wait()
                run()
        finally:
            self._is_finishing = False


def _is_of_bucket() -> bool:
    """Whether the future that is being asked for is that of a bucket: torch asks in C++, on its way through backward, or a communication hook does."""
    # Once all has been computed, which a static graph waits for at first, nothing comes between any more.
    if torch._C._current_graph_task_id() == -1 or torch._C._current_autograd_node() is None:
        return False
    frame: Any = sys._getframe(2)
    if frame.f_back is not None and frame.f_back.f_code is _BACKWARD:
        return True
    while frame is not None and (frame.f_back is None or frame.f_back.f_code is not _BACKWARD):
        frame = frame.f_back
    # The function that torch has called in backward, whatever that calls in turn.
    return frame is not None and any(isinstance(value, GradBucket) for value in frame.f_locals.values())


_BACKWARD = torch.autograd.graph._engine_run_backward.__code__
