"""How the program ends. An exception that nobody caught, or `sys.exit` with a status that is not 0, is what the peers are told.

Python does not tell its exit handlers the status. What can be known is when the exception that `sys.exit` raises is let go of after the last
frame of the program has been left: then nobody has caught it. A `raise SystemExit(3)` of the program's own, without `sys.exit`, is not seen.
"""

from __future__ import annotations

import functools
import sys
from typing import Any, NoReturn

_MOST_LETTERS = 500
_cause: str | None = None
"""The exception that the program was handling when it last called `sys.exit` with a status that is not 0."""
_status: str | None = None
"""Of a program that has ended by `sys.exit`, with a status that is not 0."""


def error() -> str | None:
    """Why the program ends, in words; None where it ends well, as far as can be known."""
    uncaught = None if hasattr(sys, "ps1") else getattr(sys, "last_value", None)
    return _status if uncaught is None else described(uncaught)


def described(error: BaseException) -> str | None:
    """An exception in words; None of one that ends a program well."""
    if isinstance(error, SystemExit):
        return _described_exit(error)
    return f"{type(error).__name__}: {error}"[:_MOST_LETTERS]


def _described_exit(error: SystemExit) -> str | None:
    if error.code is None or error.code == 0:
        return None
    status = f"exit status {error.code}" if isinstance(error.code, int) else str(error.code)
    cause = _cause if error.__context__ is None else described(error.__context__)
    return (status if cause is None else f"{cause}; {status}")[:_MOST_LETTERS]


class _Exit(SystemExit):
    """What `sys.exit` raises."""

    def __del__(self) -> None:
        global _status
        if sys._getframe().f_back is None:
            _status = _described_exit(self)


_raise = sys.exit


@functools.wraps(_raise)
def _exit(status: Any = None, /) -> NoReturn:
    global _cause
    leaving = _Exit(*status) if isinstance(status, tuple) else _Exit() if status is None else _Exit(status)
    handled = sys.exc_info()[1]
    if handled is not None and _described_exit(leaving) is not None:
        _cause = described(handled)
    try:
        raise leaving
    finally:
        # This frame, which the exception refers to, must not keep it.
        del leaving, handled


sys.exit = _exit
