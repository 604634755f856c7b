"""`LegacyGroup`: a group for versions of torch before 2.14, whose backends cannot be written in Python: a `ProcessGroup` that carries out its operations
itself. torch's dispatcher is not asked, so that there is neither its NaN check nor its profiler events.
"""

# mypy: disable-error-code="override,misc"
# The types known here are those of the latest torch.

from __future__ import annotations

from datetime import timedelta
from typing import Any

import torch
from torch._C._distributed_c10d import AllreduceOptions, BarrierOptions
from torch._C._distributed_c10d import ProcessGroup as TorchGroup
from torch._C._distributed_c10d import Work as TorchWork

from .backend import Member


class LegacyGroup(Member, TorchGroup):
    """A group on one rank."""

    def __init__(self, store: Any, rank: int, world: int, timeout: timedelta) -> None:
        TorchGroup.__init__(self, rank, world)
        Member.__init__(self, rank, world, timeout)
        self._store = store
        self._name = self._desc = ""

    @property
    def _hcomm(self) -> LegacyGroup:
        return self

    # Calls come as torch's users write them, not as its C++ passes them on.

    def allreduce(self, tensors: Any, opts: Any = None) -> TorchWork:
        if opts is None or not hasattr(opts, "reduceOp"):
            plain = AllreduceOptions()
            if opts is not None:
                plain.reduceOp = opts
            opts = plain
        return super().allreduce(_listed(tensors), opts)

    def barrier(self, opts: Any = None) -> TorchWork:
        return super().barrier(opts if hasattr(opts, "asyncOp") else BarrierOptions())

    def monitored_barrier(self, timeout: Any = None, wait_all_ranks: bool = False) -> None:
        opts = BarrierOptions()
        if timeout is not None:
            opts.timeout = timeout
        super().monitored_barrier(opts, wait_all_ranks)

    def _start_coalescing(self, _: torch.device) -> None:
        self.start_coalescing()

    def _end_coalescing(self, _: torch.device) -> Any:
        return self.end_coalescing()

    # What torch asks a group for.

    @property
    def group_name(self) -> str:
        return self._name

    def _set_group_name(self, name: str) -> None:
        self._name = name

    @property
    def group_desc(self) -> str:
        return self._desc

    def _set_group_desc(self, desc: str) -> None:
        self._desc = desc

    def get_group_store(self) -> Any:
        return self._store

    def _get_backend(self, _: torch.device) -> LegacyGroup:
        return self

    @property
    def _device_types(self) -> list[torch.device]:
        return [torch.device("cpu")]


def _listed(tensors: Any) -> list[torch.Tensor]:
    return [tensors] if isinstance(tensors, torch.Tensor) else tensors
