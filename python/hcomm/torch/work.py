"""`Work`: an operation of torch's, in flight or ended.

`wait` drives the communicator on the calling thread. A torch `Future` is made only for who asks for it (`get_future`, as DDP does); it is completed
by a thread of hcomm's. What is known of torch here: an exception that is *set* on a future is a value to C++, so the future is the continuation
of another one, and raises in it; and the future is completed before a group's sockets close.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import Work as TorchWork
from torch.futures import Future

from .. import _native, _state
from ..errors import DeadlineError, HcommError
from . import exposed, order
from .events import Event
from .order import Orders, Run

Tensors = list[torch.Tensor]
Events = Sequence[Event]


class Work(TorchWork):
    """An operation in flight, or several of one group."""

    def __init__(
        self, native: _native.Work, result: Tensors, sequence: int, seconds: float, orders: Orders | None, events: Events = ()
    ) -> None:
        """`orders`: in which the callbacks of its future run, if it is a collective; `events`: the profiler's of its operations."""
        super().__init__()
        self._native = native
        self._orders = orders
        self._events = events
        self._result = result
        self._sequence = sequence
        self._seconds = seconds
        self._future: Future[Tensors] | None = None

    def wait(self, timeout: timedelta = timedelta(0)) -> bool:
        """Waits for the end; a timeout of 0 is the operation's own. Raises `DistBackendError`."""
        seconds = timeout.total_seconds()
        with translated:
            has_ended = self._native.wait(seconds if seconds > 0 else None)
            for event in self._events if has_ended else ():
                event.wait()
            if not has_ended:
                raise dist.DistBackendError(f"Timed out waiting {seconds} s for an operation of hcomm's; it goes on")
        return True

    def begin_events(self) -> None:
        """Has the profiler see its operations from now on."""
        for event in self._events:
            event.begin()

    def synchronize(self) -> None:
        """`wait`."""
        self.wait()

    def block_current_stream(self) -> None:
        """`wait`: there is no stream on a CPU."""
        self.wait()

    def is_completed(self) -> bool:
        """Whether it has ended, well or not."""
        return self._native.done()

    def is_success(self) -> bool:
        """Whether it has ended well."""
        return self._native.done() and self._native.exception() is None

    def exception(self) -> BaseException | None:
        """What failed; None while it runs, and where it went well."""
        return self._native.exception()

    def result(self) -> Tensors:
        """The tensors that hold the result."""
        return self._result

    def source_rank(self) -> int:
        """Of a receive that has ended: who sent."""
        received = self._native.received()
        if received is None:
            raise RuntimeError("this operation has no source; only a receive that has ended well has")
        return received[0]

    def _source_rank(self) -> int:
        return self.source_rank()

    def get_future(self) -> Future[Tensors]:
        """A future of the result."""
        if self._future is None:
            ended: Future[Any] = Future()
            self._future = ended.then(lambda _: self._outcome())
            if not order.at_end_of_backward(self._native, lambda: ended.set_result(None)):
                self._native.add_done_callback(self._completing(ended))
        return self._future

    def _completing(self, ended: Future[Any]) -> Run:
        """What completes the future, when the operation has ended."""
        run: Run = lambda: ended.set_result(None)  # noqa: E731
        if _state.is_profiling:
            run = self._counted(run)
        return run if self._orders is None else self._orders.place(run)

    def _counted(self, run: Run) -> Run:
        order.watch_waits()
        pending = exposed.Pending(self._native)

        def end() -> None:
            try:
                run()
            finally:
                pending.end()

        return end

    def _outcome(self) -> Tensors:
        self.wait()
        return self._result

    def _get_sequence_number(self) -> int:
        return self._sequence

    @property
    def timeout(self) -> timedelta:
        """How long it may take."""
        return timedelta(seconds=self._seconds)


class Done(TorchWork):
    """An operation that has ended well before anybody could wait for it."""

    def __init__(self, result: Tensors, sequence: int, seconds: float) -> None:
        super().__init__()
        self._result = result
        self._sequence = sequence
        self._seconds = seconds

    def wait(self, timeout: timedelta = timedelta(0)) -> bool:
        """It has ended."""
        return True

    def synchronize(self) -> None:
        """It has ended."""

    def block_current_stream(self) -> None:
        """It has ended."""

    def is_completed(self) -> bool:
        """It has."""
        return True

    def is_success(self) -> bool:
        """It is."""
        return True

    def exception(self) -> None:
        """None."""
        return None

    def result(self) -> Tensors:
        """The tensors that hold the result."""
        return self._result

    def get_future(self) -> Future[Tensors]:
        """A future that is complete."""
        future: Future[Tensors] = Future()
        future.set_result(self._result)
        return future

    def _get_sequence_number(self) -> int:
        return self._sequence

    @property
    def timeout(self) -> timedelta:
        """How long it might have taken."""
        return timedelta(seconds=self._seconds)


class _Translated:
    """Raises what hcomm raises as torch's users expect it: `DistBackendError`, with hcomm's own as its cause."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if isinstance(error, DeadlineError):
            raise dist.DistBackendError(f"Timed out waiting (its timeout has passed): {error}") from error
        if isinstance(error, HcommError):
            raise dist.DistBackendError(str(error)) from error


translated = _Translated()
"""`with translated:` does so."""
