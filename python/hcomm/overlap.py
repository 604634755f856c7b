"""`overlap_scope`: what is submitted inside runs in the background; leaving it waits for all of it."""

from __future__ import annotations

import contextvars
from types import TracebackType
from typing import Any

from .work import Work

_current: contextvars.ContextVar[overlap_scope | None] = contextvars.ContextVar("hcomm_overlap_scope", default=None)


class overlap_scope:
    """Operations that are started inside run in the background while the program computes, the most urgent first (`priority=` of the calls;
    among equals the one that was started first). Leaving the scope waits for all of them, also where the body raises, and raises what failed and has not been
    raised inside by a wait.

    >>> import numpy, hcomm
    >>> with hcomm.init() as comm:
    ...     gradients = [numpy.ones(4, "f4"), numpy.ones(2, "f4")]
    ...     with hcomm.overlap_scope() as scope:
    ...         for place, gradient in enumerate(gradients):
    ...             _ = comm.all_reduce_async(gradient, op="avg", priority=place)
    ...     len(scope.works), all(work.done() for work in scope.works)
    (2, True)
    """

    works: list[Work[Any]]
    """What was started inside."""

    def __init__(self) -> None:
        self.works = []
        self._tokens: list[contextvars.Token[overlap_scope | None]] = []

    def __enter__(self) -> overlap_scope:
        self.works = []
        self._tokens.append(_current.set(self))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _current.reset(self._tokens.pop())
        failures = self._wait()
        if error is None and failures:
            raise _as_one(failures)

    def _wait(self) -> list[BaseException]:
        failures: list[BaseException] = []
        for work in self.works:
            if work._is_told:
                continue
            try:
                work.wait()
            except KeyboardInterrupt:
                raise
            except BaseException as failure:  # noqa: BLE001
                failures.append(failure)
        return failures


def note(work: Work[Any]) -> None:
    """Takes note of an operation that has been started."""
    scope = _current.get()
    if scope is not None:
        scope.works.append(work)


def _as_one(failures: list[BaseException]) -> BaseException:
    first, *others = failures
    for other in others:
        first.add_note(f"another operation of the scope failed too: {other}")
    return first
