"""Time for which the program waits for torch's futures, where hcomm does not see the wait: noted as that of the operations which were in flight
meanwhile. Only while `hcomm.enable_profiling()` is on.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Generator

from .. import _native


class Pending:
    """An operation whose future somebody may wait for."""

    __slots__ = ("_native", "until")

    def __init__(self, native: _native.Work) -> None:
        self._native = native
        self.until: float | None = None
        _pending.add(self)
        for seen in _waits:
            seen.add(self)

    def end(self) -> None:
        """The future has its value."""
        self.until = time.perf_counter()
        _pending.discard(self)

    def expose(self, since: float, now: float) -> float:
        """Notes what of a wait was its own; where the rest of the wait begins."""
        until = now if self.until is None else min(self.until, now)
        if until > since:
            self._native.expose(until - since)
        return max(since, until)


_pending: set[Pending] = set()
_waits: list[set[Pending]] = []
"""Of each wait that goes on, what was in flight meanwhile."""


@contextlib.contextmanager
def wait() -> Generator[None, None, None]:
    """Around a wait."""
    since, seen = time.perf_counter(), set(_pending)
    _waits.append(seen)
    try:
        yield
    finally:
        # Not by what it holds, which others' may hold, too.
        _waits[:] = [other for other in _waits if other is not seen]
        now = time.perf_counter()
        for pending in sorted(seen, key=lambda pending: now if pending.until is None else pending.until):
            since = pending.expose(since, now)
