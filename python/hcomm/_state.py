"""What the process has: the settings that the program made, the communicators that live, and the one that calls go to by default."""

from __future__ import annotations

import atexit
import contextlib
import os
import threading
import weakref
from typing import TYPE_CHECKING

from . import _native
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

live: weakref.WeakSet[_native.Communicator] = weakref.WeakSet()
"""Every communicator of this process that has not been closed."""

lock = threading.RLock()
"""Held while the above changes."""


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


def _close_all() -> None:
    global default
    default = None
    for native in list(live):
        # There is nobody left to tell.
        with contextlib.suppress(Exception):
            native.close()
    _native.finish_callbacks()


def _forget_all() -> None:
    global default, lock
    _native.after_fork_in_child()
    lock = threading.RLock()
    live.clear()


atexit.register(_close_all)
os.register_at_fork(after_in_child=_forget_all)
