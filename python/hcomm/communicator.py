"""`Communicator`: the ranks that call together, and this rank's place among them."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from types import TracebackType
from typing import Any

from . import _ending, _native, _state
from .calls import Array, Calls, _options
from .ops import name_of
from .work import Work


class Communicator(Calls):
    """A handle on a communicator; made by `hcomm.init()`, `split` and `duplicate`. As a context manager it is closed in the end.

    All ranks make the same collective calls in the same order. Threads that share a communicator order their calls themselves, or `duplicate`
    it. `with_priority`, `with_deadline`, `deterministic` and `algorithm` give handles whose calls have these options.
    """

    def __init__(self, native: _native.Communicator) -> None:
        self._native = native

    @property
    def rank(self) -> int:
        """This process's place, 0 up to the world size."""
        return self._native.rank

    @property
    def world(self) -> int:
        """How many ranks there are."""
        return self._native.world

    @property
    def name(self) -> str:
        """`world`, or what it was given when it was split."""
        return self._native.name

    @property
    def links(self) -> list[str]:
        """By rank: what joins this rank to it, such as `shm` or `tcp (reason)`."""
        return self._native.links

    @property
    def settings(self) -> dict[str, str]:
        """Every setting that it was made with, rank 0's where they must agree, by the name of its variable."""
        return self._native.settings()

    # Handles with options.

    def with_priority(self, priority: int) -> Communicator:
        """A handle whose operations go before those of lower priority in flight on this rank; 0 is usual."""
        return Communicator(self._native.with_options(priority=priority))

    def with_deadline(self, seconds: float) -> Communicator:
        """A handle whose operations fail with `DeadlineError` if they take longer."""
        return Communicator(self._native.with_options(deadline=seconds))

    def deterministic(self) -> Communicator:
        """A handle whose reductions are the left fold over the ranks, rounded once, whatever the size, algorithm and transport."""
        return Communicator(self._native.with_options(deterministic=True))

    def algorithm(self, pins: str) -> Communicator:
        """A handle whose calls go by given algorithms, such as `ring` or `all_reduce@..64KB=one_shot,broadcast=chain`."""
        return Communicator(self._native.with_options(algorithm=pins))

    def named(self, name: str) -> Communicator:
        """A handle that gives the communicators which are split from it a name, by which a tuning file can pin their algorithms."""
        return Communicator(self._native.with_options(name=name))

    # Several calls as one.

    @contextmanager
    def group(self) -> Generator[Group, None, None]:
        """Calls that are made as one: like ones (the same call, type, reduction and root) are fused. Leaving the block waits for all.

        >>> import numpy, hcomm
        >>> a, b = numpy.ones(2), numpy.ones(3)
        >>> with hcomm.init() as comm, comm.group() as group:
        ...     group.all_reduce(a, op="avg")
        ...     group.broadcast(b)
        """
        group = Group()
        yield group
        for work in group._start(self):
            work.wait()

    # Other communicators.

    def split(self, group: int | None, key: int = 0) -> Communicator | None:
        """A communicator among the ranks that give the same `group` (0 or more), numbered by `key`, then by rank; None for who gives None.

        All ranks call it, as they would a collective.
        """
        made = self._native.split(group, key)
        return None if made is None else Communicator(_state.adopt(made))

    def duplicate(self) -> Communicator:
        """A communicator of the same ranks with calls and progress of its own, for another thread. All ranks call it."""
        made = self._native.split(0)
        assert made is not None, "every rank is in the one group of a duplicate"
        return Communicator(_state.adopt(made))

    # Looking at it.

    def plan(self, collective: str, count: int, dtype: str = "f32", op: str = "sum", root: int = 0) -> _native.Plan:
        """The plan that a call of `count` elements per block through this handle gets."""
        return self._native.plan(collective, count, dtype, name_of(op), root)

    # The end.

    def abort(self, reason: str = "aborted by the program") -> None:
        """Ends every operation in flight, here and, as soon as they need this rank, elsewhere. The communicator is of no further use."""
        self._native.abort(reason)

    def close(self) -> None:
        """Waits for all operations, sends what peers still need, and says goodbye, for all handles. Raises the first failure that it has met."""
        self._close(None)

    def _close(self, because: str | None) -> None:
        _state.leave(self._native)
        self._native.close(because)

    def __enter__(self) -> Communicator:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            return self.close()
        # What was raised says more than what becomes of the communicator after it.
        try:
            self._close(_ending.described(error))
        except Exception as failure:  # noqa: BLE001
            error.add_note(f"closing the communicator failed as well: {failure}")
        return None

    def __repr__(self) -> str:
        return f"<hcomm.Communicator '{self.name}', rank {self.rank} of {self.world}>"


class Group:
    """Calls of a group being collected; all are in place."""

    def __init__(self) -> None:
        self._like: dict[tuple[str, str, int], list[Array]] = {}

    def all_reduce(self, buffer: Array, op: str = "sum") -> None:
        """`Communicator.all_reduce`."""
        self._add("all_reduce", name_of(op), 0, buffer)

    def broadcast(self, buffer: Array, root: int = 0) -> None:
        """`Communicator.broadcast`."""
        self._add("broadcast", "sum", root, buffer)

    def reduce(self, buffer: Array, op: str = "sum", root: int = 0) -> None:
        """`Communicator.reduce`."""
        self._add("reduce", name_of(op), root, buffer)

    def _add(self, collective: str, op: str, root: int, buffer: Array) -> None:
        self._like.setdefault((collective, op, root), []).append(buffer)

    def _start(self, communicator: Communicator) -> list[Work[Any]]:
        return [
            communicator._start_list(collective, buffers, op, root, _options())
            for (collective, op, root), buffers in self._like.items()
        ]
