"""`Work`: an operation in flight."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator, Sequence
from typing import Any, Generic, TypeVar

from . import _native
from .errors import HcommError

T = TypeVar("T")


class Work(Generic[T]):
    """An operation in flight, or several that count as one. It goes on whether or not anybody waits, and when this is dropped; it keeps its
    arrays until it ends.

    Waiting drives the communicator on the calling thread, without Python's lock. Ctrl-C ends a wait with `KeyboardInterrupt` and leaves the
    operation going on; a second one in a row aborts the communicator.

    `T` is what the call gives: the array that holds the result, or for `recv` the sender and the elements that came.
    """

    __slots__ = ("_is_told", "_native", "_result")

    def __init__(self, native: _native.Work, result: Callable[[], T]) -> None:
        self._native = native
        self._result = result
        self._is_told = False

    def wait(self, timeout: float | None = None) -> T:
        """Waits for the end and gives the result.

        Raises what failed, and `TimeoutError` after `timeout` seconds; then the operation still goes on.
        """
        try:
            has_ended = self._native.wait(timeout)
        except HcommError:
            self._is_told = True
            raise
        if not has_ended:
            raise TimeoutError(f"the operation still runs after {timeout} s; it goes on")
        return self._result()

    def done(self) -> bool:
        """Whether it has ended, well or not."""
        return self._native.done()

    def exception(self) -> BaseException | None:
        """What failed; None while it runs, and where it went well."""
        return self._native.exception()

    def result(self) -> T:
        """The same as `wait()`."""
        return self.wait()

    def priority(self, priority: int) -> Work[T]:
        """Changes its urgency among the operations in flight on this rank; higher goes first, 0 is usual. Returns itself."""
        self._native.set_priority(priority)
        return self

    def add_done_callback(self, callback: Callable[[Work[T]], object]) -> None:
        """Has `callback(work)` called when it has ended: on a thread of hcomm's, also where it has ended already."""
        self._native.add_done_callback(lambda: callback(self))

    def __await__(self) -> Generator[Any, None, T]:
        """Waits in asyncio, while other tasks run."""
        return self._awaited().__await__()

    async def _awaited(self) -> T:
        if not self._native.done():
            loop = asyncio.get_running_loop()
            ended: asyncio.Future[None] = loop.create_future()
            self._native.add_done_callback(lambda: _tell(loop, ended))
            await ended
        return self.wait()

    def __repr__(self) -> str:
        if not self._native.done():
            return "<hcomm.Work running>"
        error = self._native.exception()
        return "<hcomm.Work done>" if error is None else f"<hcomm.Work failed: {error}>"


def joined(works: Sequence[Work[Any]], result: Callable[[], T]) -> Work[T]:
    """Works of one communicator as one; at least one."""
    first, *others = (work._native for work in works)
    return Work(_native.Work.joined(first, others) if others else first, result)


def _tell(loop: asyncio.AbstractEventLoop, ended: asyncio.Future[None]) -> None:
    def end() -> None:
        if not ended.done():
            ended.set_result(None)

    try:
        loop.call_soon_threadsafe(end)
    except RuntimeError:
        # The loop has been closed: nobody waits any more.
        pass
