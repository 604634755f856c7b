"""`Calls`: every call of a communicator, blocking and (with `_async`) as a `Work`.

An array is a NumPy array, a torch tensor, or anything else on the CPU that has a buffer or speaks DLPack. Elements that lie side by side are
used where they are; others are copied to where they do, and back before the call ends. Blocking calls return when this rank's part is done.

All ranks make the same collective calls in the same order; where they differ, both sides get `CallMismatchError`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from . import _native, _state, overlap
from .errors import ArrayError, SettingError
from .ops import name_of
from .work import Work, joined

A = TypeVar("A")
T = TypeVar("T")
Array = Any

_NOTHING = lambda: None  # noqa: E731


class Calls:
    """See the module. Options of all `_async` calls: `priority` (higher goes first, 0 is usual) and `timeout` (seconds)."""

    _native: _native.Communicator

    # Reductions over all ranks.

    def all_reduce(self, buffer: A, op: str = "sum", *, precision: str | None = None) -> A:
        """Reduces an array over all ranks, in place; every rank gets the result, bit for bit the same. A list of arrays counts as one.

        `precision`: `"fp16"` or `"bf16"` is what float32 elements cross the wires as (see `hcomm.config.set_precision`).

        >>> import numpy, hcomm
        >>> with hcomm.init() as comm:
        ...     comm.all_reduce(numpy.ones(3, "f4"), op="sum") / comm.world
        array([1., 1., 1.], dtype=float32)
        """
        if _is_list(buffer):
            return self.all_reduce_async(buffer, op, precision=precision).wait()
        self._native.run("all_reduce", buffer, buffer, name_of(op), 0, _options(wire=precision))
        return buffer

    def all_reduce_async(
        self,
        buffer: A,
        op: str = "sum",
        *,
        priority: int = 0,
        timeout: float | None = None,
        precision: str | None = None,
    ) -> Work[A]:
        """`all_reduce`, in the background. A list of arrays is one operation per type of elements."""
        options = _options(priority, timeout, precision)
        if _is_list(buffer):
            return self._start_list("all_reduce", buffer, name_of(op), 0, options)
        return self._start("all_reduce", buffer, buffer, buffer, name_of(op), 0, options)

    def all_reduce_into(self, input: Array, output: A, op: str = "sum", *, precision: str | None = None) -> A:
        """Reduces `input` over all ranks into `output`, which is as long."""
        self._native.run("all_reduce", input, output, name_of(op), 0, _options(wire=precision))
        return output

    def all_reduce_into_async(
        self,
        input: Array,
        output: A,
        op: str = "sum",
        *,
        priority: int = 0,
        timeout: float | None = None,
        precision: str | None = None,
    ) -> Work[A]:
        """`all_reduce_into`, in the background."""
        return self._start("all_reduce", input, output, output, name_of(op), 0, _options(priority, timeout, precision))

    def reduce_scatter(self, input: Array, output: A, op: str = "sum", *, precision: str | None = None) -> A:
        """Reduces `input` over all ranks and leaves block r of the result, of as many equal ones as there are ranks, in rank r's `output`."""
        self._native.run("reduce_scatter", input, output, name_of(op), 0, _options(wire=precision))
        return output

    def reduce_scatter_async(
        self,
        input: Array,
        output: A,
        op: str = "sum",
        *,
        priority: int = 0,
        timeout: float | None = None,
        precision: str | None = None,
    ) -> Work[A]:
        """`reduce_scatter`, in the background."""
        options = _options(priority, timeout, precision)
        return self._start("reduce_scatter", input, output, output, name_of(op), 0, options)

    def reduce_scatter_in_place(self, buffer: A, op: str = "sum", *, precision: str | None = None) -> A:
        """`reduce_scatter` in place: block r of `buffer` is rank r's result; the other blocks are left undefined."""
        self._native.run("reduce_scatter", buffer, buffer, name_of(op), 0, _options(wire=precision))
        return buffer

    def reduce_scatter_v(self, input: Array, output: A, counts: Sequence[int], op: str = "sum") -> A:
        """`reduce_scatter` with blocks of `counts[r]` elements; all ranks give the same counts."""
        return self.reduce_scatter_v_async(input, output, counts, op).wait()

    def reduce_scatter_v_async(
        self,
        input: Array,
        output: A,
        counts: Sequence[int],
        op: str = "sum",
        *,
        priority: int = 0,
        timeout: float | None = None,
        precision: str | None = None,
    ) -> Work[A]:
        """`reduce_scatter_v`, in the background."""
        options = _options(priority, timeout, precision, counts=list(counts))
        return self._start("reduce_scatter", input, output, output, name_of(op), 0, options)

    def reduce(self, buffer: A, op: str = "sum", root: int = 0, *, precision: str | None = None) -> A:
        """Reduces an array over all ranks, in place at the root; elsewhere it is only read, or used as scratch."""
        return self.reduce_async(buffer, op, root, precision=precision).wait()

    def reduce_async(
        self,
        buffer: A,
        op: str = "sum",
        root: int = 0,
        *,
        priority: int = 0,
        timeout: float | None = None,
        precision: str | None = None,
    ) -> Work[A]:
        """`reduce`, in the background."""
        options = _options(priority, timeout, precision)
        if _is_list(buffer):
            return self._start_list("reduce", buffer, name_of(op), root, options)
        return self._start("reduce", buffer, buffer, buffer, name_of(op), root, options)

    def reduce_into(self, input: Array, output: A, op: str = "sum", root: int = 0) -> A:
        """Reduces `input` over all ranks into the root's `output`; other ranks give None."""
        return self.reduce_into_async(input, output, op, root).wait()

    def reduce_into_async(
        self,
        input: Array,
        output: A,
        op: str = "sum",
        root: int = 0,
        *,
        priority: int = 0,
        timeout: float | None = None,
        precision: str | None = None,
    ) -> Work[A]:
        """`reduce_into`, in the background."""
        options = _options(priority, timeout, precision)
        return self._start("reduce", input, output, output, name_of(op), root, options)

    # Data that moves.

    def all_gather(self, input: Array, output: A) -> A:
        """Gathers every rank's `input`, in rank order, into `output`, which has as many elements as all of them together."""
        self._native.run("all_gather", input, output, "sum", 0, None)
        return output

    def all_gather_async(
        self, input: Array, output: A, *, priority: int = 0, timeout: float | None = None
    ) -> Work[A]:
        """`all_gather`, in the background."""
        return self._start("all_gather", input, output, output, "sum", 0, _options(priority, timeout))

    def all_gather_in_place(self, buffer: A) -> A:
        """Gathers every rank's block of `buffer` (block r, of as many equal ones as there are ranks, is rank r's), in place."""
        self._native.run("all_gather", buffer, buffer, "sum", 0, None)
        return buffer

    def all_gather_v(self, input: Array, output: A, counts: Sequence[int]) -> A:
        """Gathers `counts[r]` elements from rank r, in rank order; all ranks give the same counts."""
        return self.all_gather_v_async(input, output, counts).wait()

    def all_gather_v_async(
        self, input: Array, output: A, counts: Sequence[int], *, priority: int = 0, timeout: float | None = None
    ) -> Work[A]:
        """`all_gather_v`, in the background."""
        options = _options(priority, timeout, counts=list(counts))
        return self._start("all_gather", input, output, output, "sum", 0, options)

    def broadcast(self, buffer: A, root: int = 0) -> A:
        """Copies the root's array, which is only read, to all ranks. A list of arrays counts as one."""
        return self.broadcast_async(buffer, root).wait()

    def broadcast_async(
        self, buffer: A, root: int = 0, *, priority: int = 0, timeout: float | None = None
    ) -> Work[A]:
        """`broadcast`, in the background."""
        options = _options(priority, timeout)
        if _is_list(buffer):
            return self._start_list("broadcast", buffer, "sum", root, options)
        return self._start("broadcast", buffer, buffer, buffer, "sum", root, options)

    def gather(self, input: Array, output: A, root: int = 0) -> A:
        """Gathers every rank's `input`, in rank order, into the root's `output`; other ranks give None."""
        return self.gather_async(input, output, root).wait()

    def gather_async(
        self, input: Array, output: A, root: int = 0, *, priority: int = 0, timeout: float | None = None
    ) -> Work[A]:
        """`gather`, in the background."""
        return self._start("gather", input, output, output, "sum", root, _options(priority, timeout))

    def gather_v(self, input: Array, output: A, counts: Sequence[int] | None, root: int = 0) -> A:
        """Gathers `counts[r]` elements from rank r into the root's `output`; other ranks give None for it, and their counts are not looked at."""
        return self.gather_v_async(input, output, counts, root).wait()

    def gather_v_async(
        self,
        input: Array,
        output: A,
        counts: Sequence[int] | None,
        root: int = 0,
        *,
        priority: int = 0,
        timeout: float | None = None,
    ) -> Work[A]:
        """`gather_v`, in the background."""
        known = list(counts or []) if self._native.rank == root else []
        sizes: dict[str, Any] = {"input_counts": [_elements(input)], "output_counts": known}
        return self._start("gather", input, output, output, "sum", root, _options(priority, timeout, **sizes))

    def scatter(self, input: Array, output: A, root: int = 0) -> A:
        """Hands block r of the root's `input`, of as many equal ones as there are ranks, to rank r's `output`; other ranks give None as input."""
        return self.scatter_async(input, output, root).wait()

    def scatter_async(
        self, input: Array, output: A, root: int = 0, *, priority: int = 0, timeout: float | None = None
    ) -> Work[A]:
        """`scatter`, in the background."""
        return self._start("scatter", input, output, output, "sum", root, _options(priority, timeout))

    def scatter_v(self, input: Array, counts: Sequence[int] | None, output: A, root: int = 0) -> A:
        """Hands block r, of `counts[r]` elements, of the root's `input` to rank r's `output`; other ranks give None as input, and their counts are not looked at."""
        return self.scatter_v_async(input, counts, output, root).wait()

    def scatter_v_async(
        self,
        input: Array,
        counts: Sequence[int] | None,
        output: A,
        root: int = 0,
        *,
        priority: int = 0,
        timeout: float | None = None,
    ) -> Work[A]:
        """`scatter_v`, in the background."""
        known = list(counts or []) if self._native.rank == root else []
        sizes: dict[str, Any] = {"input_counts": known, "output_counts": [_elements(output)]}
        return self._start("scatter", input, output, output, "sum", root, _options(priority, timeout, **sizes))

    def all_to_all(self, input: Array, output: A) -> A:
        """Sends block j of `input` to rank j and receives block i of `output` from rank i, of as many equal ones as there are ranks."""
        self._native.run("all_to_all", input, output, "sum", 0, None)
        return output

    def all_to_all_async(
        self, input: Array, output: A, *, priority: int = 0, timeout: float | None = None
    ) -> Work[A]:
        """`all_to_all`, in the background."""
        return self._start("all_to_all", input, output, output, "sum", 0, _options(priority, timeout))

    def all_to_all_in_place(self, buffer: A) -> A:
        """`all_to_all` in place: block j goes to rank j, and what comes from there takes its place."""
        self._native.run("all_to_all", buffer, buffer, "sum", 0, None)
        return buffer

    def all_to_all_v(
        self, input: Array, input_counts: Sequence[int], output: A, output_counts: Sequence[int]
    ) -> A:
        """Sends `input_counts[j]` elements to rank j and receives `output_counts[i]` elements from rank i, blocks in rank order."""
        return self.all_to_all_v_async(input, input_counts, output, output_counts).wait()

    def all_to_all_v_async(
        self,
        input: Array,
        input_counts: Sequence[int],
        output: A,
        output_counts: Sequence[int],
        *,
        priority: int = 0,
        timeout: float | None = None,
    ) -> Work[A]:
        """`all_to_all_v`, in the background."""
        sizes: dict[str, Any] = {"input_counts": list(input_counts), "output_counts": list(output_counts)}
        return self._start("all_to_all", input, output, output, "sum", 0, _options(priority, timeout, **sizes))

    def barrier(self) -> None:
        """Returns when all ranks have come here."""
        self._native.run("barrier", None, None, "sum", 0, None)

    def barrier_async(self, *, priority: int = 0, timeout: float | None = None) -> Work[None]:
        """`barrier`, in the background."""
        return self._start("barrier", None, None, None, "sum", 0, _options(priority, timeout))

    # Messages between two ranks.

    def send(self, buffer: Array, to: int, tag: int = 0) -> None:
        """Sends an array to rank `to`; returns when it may be overwritten. Messages of one pair, direction and tag arrive in order."""
        self.send_async(buffer, to, tag).wait()

    def send_async(
        self, buffer: Array, to: int, tag: int = 0, *, priority: int = 0, timeout: float | None = None
    ) -> Work[None]:
        """`send`, in the background."""
        return _noted(Work(self._native.send(buffer, to, tag, _options(priority, timeout)), _NOTHING))

    def recv(self, buffer: Array, source: int | None = None, tag: int = 0) -> tuple[int, int]:
        """Receives a message of rank `source`, or of whichever sends first, into the start of an array; gives its sender and its elements."""
        return self.recv_async(buffer, source, tag).wait()

    def recv_async(
        self,
        buffer: Array,
        source: int | None = None,
        tag: int = 0,
        *,
        priority: int = 0,
        timeout: float | None = None,
    ) -> Work[tuple[int, int]]:
        """`recv`, in the background."""
        native = self._native.recv(buffer, source, tag, _options(priority, timeout))
        return _noted(Work(native, lambda: _received(native, buffer)))

    # How a call starts.

    def _start(
        self,
        collective: str,
        input: Array,
        output: Array,
        result: T,
        op: str,
        root: int,
        options: dict[str, Any] | None,
    ) -> Work[T]:
        native = self._native.start(collective, input, output, op, root, options)
        return _noted(Work(native, lambda: result))

    def _start_list(
        self, collective: str, arrays: A, op: str, root: int, options: dict[str, Any] | None
    ) -> Work[A]:
        """One operation per type of elements, each over all arrays of its type."""
        like: dict[str, list[Array]] = {}
        for array in arrays:  # type: ignore[attr-defined]
            like.setdefault(_dtype(array), []).append(array)
        starts = [self._native.start(collective, same, same, op, root, options) for same in like.values()]
        works: list[Work[None]] = [Work(native, _NOTHING) for native in starts]
        if not works:
            works = [Work(self._native.start("barrier", None, None), _NOTHING)]
        return _noted(joined(works, lambda: arrays))


def _options(
    priority: int = 0, timeout: float | None = None, wire: str | None = None, **sizes: Any
) -> dict[str, Any] | None:
    """The options of a call that are not the usual ones; None where all are."""
    crossing = _WIRES[wire] if wire is not None else _state.wire
    if not priority and timeout is None and crossing is None and not sizes:
        return None
    return {"priority": priority, "timeout": timeout, "wire": crossing, **sizes}


class _Wires(dict[str, str | None]):
    def __missing__(self, name: str) -> str | None:
        raise SettingError(f"'{name}' is no precision; expected one of {', '.join(self)}")


_WIRES = _Wires({"fp32": None, "fp16": "f16", "bf16": "bf16"})


def wire_of(precision: str) -> str | None:
    """The engine's name of a precision; None for that of the data itself. Raises `SettingError` for a name that is none."""
    return _WIRES[precision]


def _noted(work: Work[T]) -> Work[T]:
    overlap.note(work)
    return work


def _is_list(value: object) -> bool:
    return isinstance(value, (list, tuple))


def _elements(array: Array) -> int:
    if _is_list(array):
        return sum(map(_elements, array))
    count: Callable[[], int] | None = getattr(array, "numel", None)
    if count is not None:
        return count()
    size = getattr(array, "size", None)
    if isinstance(size, int):
        return size
    view = memoryview(array)
    return view.nbytes // view.itemsize


def _bytes(array: Array) -> int:
    if _is_list(array):
        return sum(map(_bytes, array))
    size = getattr(array, "nbytes", None)
    return size if isinstance(size, int) else memoryview(array).nbytes


def _dtype(array: Array) -> str:
    dtype = getattr(array, "dtype", None)
    if dtype is not None:
        return str(dtype)
    try:
        return memoryview(array).format
    except TypeError:
        raise ArrayError(f"a list with a {type(array).__name__}; expected arrays") from None


def _received(native: _native.Work, buffer: Array) -> tuple[int, int]:
    source, size = native.received() or (-1, 0)
    total = _bytes(buffer)
    return source, size * _elements(buffer) // total if total else 0
