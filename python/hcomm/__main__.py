"""The command line: `python -m hcomm ...`, or the script `hcomm`; the same as that of the Rust command."""

from __future__ import annotations

import signal
import sys

from . import _native


def main() -> int:
    """Runs the command that `sys.argv` gives; returns its exit code."""
    # The command sees to signals itself; Python's handler would only note this one. Where it is ignored (nohup) it stays so.
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    return _native.command(["hcomm", *sys.argv[1:]], [sys.executable, "-m", "hcomm"])


if __name__ == "__main__":
    sys.exit(main())
