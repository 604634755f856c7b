"""What torch.profiler sees of operations: their shapes, and how long they took, also where the program goes on meanwhile."""

from __future__ import annotations

import threading
from typing import Any

import torch

from .. import _native


class Event:
    """An operation that goes on by itself. It begins when torch's dispatcher has been left, whose own event would cut it short, and ends on a thread of
    hcomm's, by which the profiler knows that what the program does meanwhile is no part of it.
    """

    __slots__ = ("_has_ended", "_name", "_native", "_record", "_tensors")

    def __init__(self, name: str, input: Any, output: Any, native: _native.Work) -> None:
        self._name = name
        self._tensors = _tensors(input, output)
        self._native = native
        self._record: Any = None
        self._has_ended = threading.Event()

    def begin(self) -> None:
        """Has the profiler see it from now on to its end."""
        if self._record is None:
            self._record = _enter(self._name, self._tensors)
            self._tensors = []
            self._native.add_done_callback(self._end)

    def _end(self) -> None:
        _exit(self._record)
        self._has_ended.set()

    def wait(self) -> None:
        """To be called when the operation has ended: so that the profiler knows it before the program goes on, and perhaps ends the profile."""
        if self._record is not None:
            self._has_ended.wait(PATIENCE)


PATIENCE = 1.0
"""Seconds for which a program waits for the thread that tells the profiler."""


class Blocking:
    """Around an operation that the program waits for."""

    def __init__(self, name: str, input: Any, output: Any) -> None:
        self._name = name
        self._tensors = _tensors(input, output)

    def __enter__(self) -> None:
        self._record = _enter(self._name, self._tensors)

    def __exit__(self, *_: object) -> None:
        _exit(self._record)


def is_watched() -> bool:
    """Whether torch.profiler listens on this thread."""
    return torch._C._autograd._profiler_enabled()


def _tensors(input: Any, output: Any) -> list[torch.Tensor]:
    given = output if input is None else input
    return [] if given is None else list(given) if isinstance(given, (list, tuple)) else [given]


def _enter(name: str, tensors: list[torch.Tensor]) -> Any:
    return torch._C._autograd._record_function_with_args_enter(f"hcomm:{name}", *tensors)


def _exit(record: Any) -> None:
    torch._C._autograd._record_function_with_args_exit(record)
