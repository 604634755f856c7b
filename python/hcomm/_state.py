"""What the process has: the settings that the program made, the communicators that live, and the one that calls go to by default."""

from __future__ import annotations

import atexit
import contextlib
import os
import threading
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING

from . import _ending, _native
from .errors import NotInitializedError

if TYPE_CHECKING:
    from .communicator import Communicator

overrides: dict[str, str] = {}
"""Settings by name, before those of the environment."""

wire: str | None = None
"""What float32 data crosses the wires as, in calls that reduce; None leaves it as it is."""

default: Communicator | None = None
"""Made by `hcomm.init()`."""

is_profiling = False
"""Whether communicators keep times and sizes."""

retire: Callable[[_native.Communicator], None] = lambda native: None
"""Keeps what a communicator has counted, before it closes; `profiling` puts it here. An import by `leave` would fail where a program closes as
the interpreter ends."""

live: weakref.WeakSet[_native.Communicator] = weakref.WeakSet()
"""Every communicator of this process that has not been closed."""

lock = threading.RLock()
"""Held while the above changes, for a moment."""

making = threading.Lock()
"""Held by the thread that makes the default communicator from the environment, or another in its place, while ranks wait for each other."""


def communicator() -> Communicator:
    """The default communicator.

    Raises `NotInitializedError` where there is none.
    """
    if default is None:
        raise NotInitializedError("hcomm is not initialized; call hcomm.init() first")
    return default


def adopt(native: _native.Communicator) -> _native.Communicator:
    """Takes note of a new communicator."""
    with lock:
        live.add(native)
        if is_profiling:
            native.record_statistics(True)
    return native


def leave(native: _native.Communicator) -> None:
    """Takes note that a communicator, of which this is a handle, is about to be closed."""
    global default
    with lock:
        for own in [own for own in live if own.is_same(native)]:
            retire(own)
            live.discard(own)
        if default is not None and default._native.is_same(native):
            default = None


def _close_all() -> None:
    global default
    default = None
    error = _ending.error()
    try:
        for native in list(live):
            # There is nobody left to tell.
            with contextlib.suppress(Exception):
                native.close(error)
        _native.finish_callbacks()
    except KeyboardInterrupt:
        for native in list(live):
            native.abort("interrupted as its program ended")
        raise


def _forget_all() -> None:
    global lock, making
    _native.after_fork_in_child()
    lock, making = threading.RLock(), threading.Lock()
    live.clear()


atexit.register(_close_all)
os.register_at_fork(after_in_child=_forget_all)
