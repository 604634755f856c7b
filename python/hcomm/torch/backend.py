"""`Member`: a rank's place in a group: its communicator, its timeouts, its end; and `Backend`, a member as torch's C++ asks for it."""

from __future__ import annotations

import contextlib
import sys
import threading
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import Backend as TorchBackend
from torch._C._distributed_c10d import Work as TorchWork

from .. import _ending, _native, _state
from ..errors import HcommError
from .operations import UNSET, Operations
from .rendezvous import Handle
from .work import Work, translated


class Member(Operations):
    """The operations of one group on one rank, and what holds them together."""

    def __init__(self, rank: int, world: int, timeout: timedelta) -> None:
        super().__init__(rank, world, timeout)
        self._options_of_torch = TorchBackend.Options("hcomm", timeout)
        self._handle: Handle | None = None

    # What torch reads.

    def getBackendName(self) -> str:  # noqa: N802
        return "hcomm"

    def name(self) -> str:
        return "hcomm"

    def rank(self) -> int:
        return self._own_rank

    def size(self) -> int:
        return self._own_world

    @property
    def options(self) -> TorchBackend.Options:
        return self._options_of_torch

    @property
    def supports_splitting(self) -> bool:
        return True

    @property
    def supports_coalescing(self) -> bool:
        return True

    @property
    def supports_reconfigure(self) -> bool:
        return True

    def _get_sequence_number_for_group(self) -> int:
        return self._sequence

    def _set_sequence_number_for_group(self) -> None:
        pass

    # Timeouts.

    def set_timeout(self, timeout: timedelta) -> None:
        self._timeout = timeout
        self._options_of_torch._timeout = timeout

    def _set_default_timeout(self, timeout: timedelta) -> None:
        self.set_timeout(timeout)

    def _add_ephemeral_timeout(self, timeout: timedelta) -> None:
        self._extra += timeout

    # The communicator.

    def connect(self, native: _native.Communicator) -> None:
        """Gives it its communicator, in the place of the one that it had."""
        self._communicator = native

    def get_reconfigure_handle(self) -> str:
        if self._handle is None:
            self._handle = Handle()
        return self._handle.text

    def reconfigure(self, opts: Any) -> TorchWork:
        timeout = opts.timeout if opts.timeout is not None and opts.timeout != UNSET else self._timeout
        self.get_reconfigure_handle()
        handle = self._handle
        assert handle is not None, "there is one now"
        members = handle.members(opts.handles)
        self._handle = None
        self.abort()
        with translated:
            self._own_rank, self._own_world, native = handle.connect(opts.uuid, members, timeout)
        self.connect(native)
        return self._ended([])

    def abort(self) -> None:
        # One that is still to be configured has none.
        if hasattr(self, "_communicator"):
            with contextlib.suppress(HcommError):
                self._communicator.abort("the process group was aborted")
            self._leave()

    def shutdown(self) -> None:
        if self._handle is not None:
            self._handle.close()
        if hasattr(self, "_communicator"):
            # Whoever waited for its operations has heard of what failed.
            self._leave()

    def _leave(self) -> None:
        _state.leave(self._communicator)
        with contextlib.suppress(HcommError):
            self._communicator.close(_own_error())
        _native.flush_callbacks()


class Backend(Member, TorchBackend):
    """The backend of one group on one rank."""

    def __init__(self, rank: int, world: int, timeout: timedelta) -> None:
        TorchBackend.__init__(self, rank, world)
        Member.__init__(self, rank, world, timeout)
        self._last = threading.local()

    def _note(self, work: TorchWork) -> None:
        self._last.work = work

    def take_last(self) -> Any:
        """The work that this thread's last operation gave."""
        work, self._last.work = getattr(self._last, "work", None), None
        if isinstance(work, Work):
            work.begin_events()
        return work

    def set_dispatched(self) -> None:
        """Its operations come by torch's dispatcher from a group that takes their works."""
        self._is_dispatched = True


def _own_error() -> str | None:
    """The error of the program's own that is on its way while it leaves a group, as in a `finally`. One of hcomm's tells what peers know."""
    error = sys.exc_info()[1]
    if error is None or isinstance(error, (HcommError, dist.DistError)):
        return None
    return _ending.described(error)


def device() -> torch.device:
    """What the backend's tensors lie on."""
    return torch.device("cpu")
