"""`Operations`: every operation that torch asks of a backend, as a call of the engine. Tensors are lent to it where they lie; a list of tensors
counts as one buffer of blocks.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import partial
from typing import Any

import torch
from torch._C._distributed_c10d import Work as TorchWork

from .. import _native, _state
from . import monitored, sparse
from .events import Blocking, Event, is_watched
from .order import Orders
from .reductions import name_of
from .work import Done, Tensors, Work, translated

_KNOWN = {
    getattr(torch, name)
    for name in (
        "int8 uint8 int16 uint16 int32 uint32 int64 uint64 float16 bfloat16 float32 float64 "
        "float8_e4m3fn float8_e5m2 bool complex64 complex128"
    ).split()
    if hasattr(torch, name)
}
"""Types that the engine has; elements of others move as those of one that has as many bytes."""

_OF_SIZE = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64, 16: torch.complex128}

UNSET = timedelta(milliseconds=-1)


class Operations:
    """The operations of one group. `connect` gives it its communicator."""

    _communicator: _native.Communicator

    def __init__(self, rank: int, world: int, timeout: timedelta) -> None:
        self._own_rank = rank
        self._own_world = world
        self._made_with = timeout
        self._timeout = timeout
        self._extra = timedelta(0)
        self._sequence = 0
        self._coalesced: list[Work] | None = None
        self._monitor = monitored.Monitor()
        self._orders = Orders()
        self._is_dispatched = False

    # Reductions.

    def allreduce(self, tensors: Tensors, opts: Any) -> TorchWork:
        tensor = _one(tensors)
        if tensor.is_sparse:
            return self.allreduce_sparse(tensors, opts)
        return self._call("all_reduce", tensor, tensor, tensors, opts, op=name_of(opts.reduceOp))

    def allreduce_sparse(self, tensors: Tensors, opts: Any) -> TorchWork:
        with translated:
            sparse.all_reduce(self._communicator, _one(tensors), name_of(opts.reduceOp))
        return self._ended(tensors)

    def allreduce_coalesced(self, tensors: Tensors, opts: Any) -> TorchWork:
        op = name_of(opts.reduceOp)
        like: dict[torch.dtype, Tensors] = {}
        for tensor in tensors:
            like.setdefault(tensor.dtype, []).append(tensor)
        return self._calls([("all_reduce", same, same, op) for same in like.values()], tensors, opts)

    def reduce(self, tensors: Tensors, opts: Any) -> TorchWork:
        tensor = _one(tensors)
        op, root = name_of(opts.reduceOp), opts.rootRank
        if self._own_rank == root:
            return self._call("reduce", tensor, tensor, tensors, opts, op=op, root=root)
        return self._call("reduce", tensor, None, tensors, opts, op=op, root=root)

    def reduce_scatter(self, output_tensors: Tensors, input_tensors: list[Tensors], opts: Any) -> TorchWork:
        output, inputs = _one(output_tensors), _one(input_tensors)
        sizes: dict[str, Any] = {} if _are_even(inputs) else {"counts": [tensor.numel() for tensor in inputs]}
        op = name_of(opts.reduceOp)
        return self._call("reduce_scatter", inputs, output, output_tensors, opts, op=op, **sizes)

    def reduce_scatter_single(self, output: torch.Tensor, input: torch.Tensor, opts: Any) -> TorchWork:
        return self._call("reduce_scatter", input, output, [output], opts, op=name_of(opts.reduceOp))

    def reduce_scatter_single_coalesced(self, outputs: Tensors, inputs: Tensors, opts: Any) -> TorchWork:
        op = name_of(opts.reduceOp)
        calls = [("reduce_scatter", input, output, op) for output, input in zip(outputs, inputs, strict=True)]
        return self._calls(calls, outputs, opts)

    # Data that moves.

    def broadcast(self, tensors: Tensors, opts: Any) -> TorchWork:
        tensor = _one(tensors)
        moved = _movable(tensor)
        return self._call("broadcast", moved, moved, tensors, opts, root=opts.rootRank)

    def allgather(self, output_tensors: list[Tensors], input_tensors: Tensors, opts: Any) -> TorchWork:
        outputs, input = _one(output_tensors), _one(input_tensors)
        sizes: dict[str, Any] = {} if _are_even(outputs) else {"counts": _counts(outputs)}
        return self._call("all_gather", _movable(input), _all_movable(outputs), outputs, opts, **sizes)

    def all_gather_single(self, output: torch.Tensor, input: torch.Tensor, opts: Any) -> TorchWork:
        return self._call("all_gather", _movable(input), _movable(output), [output], opts)

    def allgather_coalesced(self, output_lists: list[Tensors], input_list: Tensors, opts: Any) -> TorchWork:
        by_input = [[outputs[at] for outputs in output_lists] for at in range(len(input_list))]
        calls = [
            ("all_gather", _movable(input), _all_movable(outputs), "sum")
            for input, outputs in zip(input_list, by_input, strict=True)
        ]
        return self._calls(calls, [tensor for outputs in output_lists for tensor in outputs], opts)

    def all_gather_single_coalesced(self, outputs: Tensors, inputs: Tensors, opts: Any) -> TorchWork:
        calls = [
            ("all_gather", _movable(input), _movable(output), "sum")
            for output, input in zip(outputs, inputs, strict=True)
        ]
        return self._calls(calls, outputs, opts)

    def gather(self, output_tensors: list[Tensors], input_tensors: Tensors, opts: Any) -> TorchWork:
        input, root = _movable(_one(input_tensors)), opts.rootRank
        if self._own_rank != root:
            return self._call("gather", input, None, [], opts, root=root)
        outputs = _one(output_tensors)
        return self._call("gather", input, _all_movable(outputs), outputs, opts, root=root)

    def scatter(self, output_tensors: Tensors, input_tensors: list[Tensors], opts: Any) -> TorchWork:
        output, root = _movable(_one(output_tensors)), opts.rootRank
        if self._own_rank != root:
            return self._call("scatter", None, output, output_tensors, opts, root=root)
        return self._call("scatter", _all_movable(_one(input_tensors)), output, output_tensors, opts, root=root)

    def alltoall(self, output_tensors: Tensors, input_tensors: Tensors, opts: Any) -> TorchWork:
        inputs, outputs = _all_movable(input_tensors), _all_movable(output_tensors)
        sizes: dict[str, Any] = {"input_counts": _counts(inputs), "output_counts": _counts(outputs)}
        return self._call("all_to_all", inputs, outputs, output_tensors, opts, **sizes)

    def all_to_all_single(
        self,
        output: torch.Tensor,
        input: torch.Tensor,
        output_split_sizes: list[int],
        input_split_sizes: list[int],
        opts: Any,
    ) -> TorchWork:
        moved_in, moved_out = _movable(input), _movable(output)
        if not output_split_sizes and not input_split_sizes:
            return self._call("all_to_all", moved_in, moved_out, [output], opts)
        sizes: dict[str, Any] = {
            "input_counts": self._rows(input, moved_in, input_split_sizes),
            "output_counts": self._rows(output, moved_out, output_split_sizes),
        }
        return self._call("all_to_all", moved_in, moved_out, [output], opts, **sizes)

    def barrier(self, opts: Any) -> TorchWork:
        return self._call("barrier", None, None, [], opts)

    def monitored_barrier(self, opts: Any, wait_all_ranks: bool = False) -> None:
        timeout = opts.timeout if opts.timeout != UNSET else self._timeout
        with translated:
            self._monitor.barrier(self._communicator, timeout, wait_all_ranks)

    # Messages between two ranks.

    def send(self, tensors: Tensors, dst: int, tag: int) -> TorchWork:
        moved = _movable(_one(tensors))
        return self._message("send", moved, tensors, lambda: self._communicator.send(moved, dst, tag, self._options(UNSET)))

    def recv(self, tensors: Tensors, src: int, tag: int) -> TorchWork:
        moved = _movable(_one(tensors))
        return self._message("recv", moved, tensors, lambda: self._communicator.recv(moved, src, tag, self._options(UNSET)))

    def recv_anysource(self, tensors: Tensors, tag: int) -> TorchWork:
        moved = _movable(_one(tensors))
        return self._message("recvAnySource", moved, tensors, lambda: self._communicator.recv(moved, None, tag, self._options(UNSET)))

    # Names that earlier versions of torch ask for.

    _allgather_base = all_gather_single
    allgather_into_tensor_coalesced = all_gather_single_coalesced
    _reduce_scatter_base = reduce_scatter_single
    reduce_scatter_tensor_coalesced = reduce_scatter_single_coalesced
    alltoall_base = all_to_all_single

    # Several as one.

    def start_coalescing(self) -> None:
        self._coalesced = []

    def end_coalescing(self) -> TorchWork:
        works, self._coalesced = self._coalesced or [], None
        if not works:
            return self._ended([])
        result = [tensor for work in works for tensor in work.result()]
        is_ordered = all(work._orders is not None for work in works)
        events = [event for work in works for event in work._events]
        return self._joined([work._native for work in works], result, events, is_ordered)

    # How an operation starts.

    def _call(
        self,
        collective: str,
        input: Any,
        output: Any,
        result: Tensors,
        opts: Any,
        op: str = "sum",
        root: int = 0,
        **sizes: Any,
    ) -> TorchWork:
        options = self._options(opts.timeout, sizes)
        with translated:
            if opts.asyncOp or self._coalesced is not None:
                native, events = _watched(
                    collective, input, output, lambda: self._communicator.start(collective, input, output, op, root, options)
                )
                return self._started(native, result, events)
            # Whoever does not want to do anything else meanwhile waits here: torch would at once.
            with Blocking(collective, input, output) if is_watched() else _NOTHING:
                self._communicator.run(collective, input, output, op, root, options)
        return self._ended(result)

    def _message(self, name: str, moved: torch.Tensor, tensors: Tensors, start: Callable[[], _native.Work]) -> TorchWork:
        with translated:
            native, events = _watched(name, moved, None, start)
            return self._started(native, tensors, events, is_ordered=False)

    def _calls(self, calls: Sequence[tuple[str, Any, Any, str]], result: Tensors, opts: Any) -> TorchWork:
        options = self._options(opts.timeout)
        began = time.perf_counter()
        with translated:
            natives: list[_native.Work] = []
            events: list[Event] = []
            for collective, input, output, op in calls:
                start = partial(self._communicator.start, collective, input, output, op, 0, options)
                native, own = _watched(collective, input, output, start)
                natives.append(native)
                events.extend(own)
            if not natives:
                return self._ended(result)
            work = self._joined(natives, result, events)
            if not opts.asyncOp and self._coalesced is None:
                work._native.expose(time.perf_counter() - began)
                work.wait()
        return work

    def _joined(
        self, natives: list[_native.Work], result: Tensors, events: Sequence[Event] = (), is_ordered: bool = True
    ) -> Work:
        first, *others = natives
        return self._started(_native.Work.joined(first, others) if others else first, result, events, is_ordered)

    def _started(
        self, native: _native.Work, result: Tensors, events: Sequence[Event] = (), is_ordered: bool = True
    ) -> Work:
        self._sequence += 1
        orders = self._orders if is_ordered else None
        work = Work(native, result, self._sequence, self._timeout.total_seconds(), orders, events)
        if self._coalesced is not None:
            self._coalesced.append(work)
        if not self._is_dispatched:
            work.begin_events()
        self._note(work)
        return work

    def _ended(self, result: Tensors) -> Done:
        self._sequence += 1
        work = Done(result, self._sequence, self._timeout.total_seconds())
        self._note(work)
        return work

    def _note(self, work: TorchWork) -> None:
        """Takes note of the work that the last call gave."""

    def _options(self, timeout: timedelta, sizes: dict[str, list[int]] | None = None) -> dict[str, Any] | None:
        options: dict[str, Any] = dict(sizes) if sizes else {}
        if _state.wire is not None:
            options["wire"] = _state.wire
        extra, self._extra = self._extra, timedelta(0)
        if timeout == UNSET:
            timeout = self._timeout
        if extra or timeout != self._made_with:
            options["timeout"] = (timeout + extra).total_seconds()
        return options or None

    def _rows(self, tensor: torch.Tensor, moved: torch.Tensor, splits: list[int]) -> list[int]:
        """The elements of blocks that are given in rows; in equal ones where they are not given."""
        if not splits:
            return [moved.numel() // self._own_world] * self._own_world
        row = moved.numel() // tensor.size(0) if tensor.size(0) else 0
        return [split * row for split in splits]


class _Nothing:
    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        pass


_NOTHING = _Nothing()


def _watched(
    name: str, input: Any, output: Any, start: Callable[[], _native.Work]
) -> tuple[_native.Work, Sequence[Event]]:
    """An operation as it is started, and its event for the profiler, where that listens."""
    native = start()
    return native, (Event(name, input, output, native),) if is_watched() else ()


def _one(items: Any) -> Any:
    """The one item of a list; tensors of several devices are not for a CPU."""
    if len(items) != 1:
        raise ValueError(f"{len(items)} tensors in one operation; expected 1")
    return items[0]


def _movable(tensor: torch.Tensor) -> torch.Tensor:
    """A tensor whose elements the engine can move: of types that it does not know, as another type of as many bytes, however they lie."""
    if tensor.dtype in _KNOWN:
        return tensor
    return tensor.view(_OF_SIZE[tensor.dtype.itemsize])


def _all_movable(tensors: Tensors) -> Tensors:
    return [_movable(tensor) for tensor in tensors]


def _counts(tensors: Tensors) -> list[int]:
    return [tensor.numel() for tensor in _all_movable(tensors)]


def _are_even(tensors: Tensors) -> bool:
    count = tensors[0].numel() if tensors else 0
    return all(tensor.numel() == count for tensor in tensors)
