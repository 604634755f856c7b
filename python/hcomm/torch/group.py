"""`ProcessGroup`: what torch's users hold. Each operation goes through torch's dispatcher, which checks, traces and records it, to the backend; what
comes back is the backend's own work, which the dispatcher hides behind one that knows less.

torch finds the overriding method by the name of its code, and stops there when that method calls its parent: hence a method of its own for each.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import BarrierOptions, PrefixStore
from torch._C._distributed_c10d import ProcessGroup as TorchGroup

from . import rendezvous
from .backend import Backend, Member, device
from .work import translated


def create(opts: Any, _: Any = None) -> Any:
    """torch's call for a new group; `opts` are its `_DistributedBackendOptions`."""
    timeout = opts.timeout or rendezvous.default_timeout()
    if not HAS_BACKENDS:
        from .legacy import LegacyGroup

        group = LegacyGroup(opts.store, opts.group_rank, opts.group_size, timeout)
        _connect(group, opts, timeout)
        return group
    backend = Backend(opts.group_rank, opts.group_size, timeout)
    backend.options.global_ranks_in_group = list(opts.global_ranks_in_group)
    if not opts.enable_reconfigure:
        _connect(backend, opts, timeout)
    if _is_one_of_several(opts):
        # torch registers it with the backends of other devices on a group of its own.
        return backend
    return ProcessGroup(opts.store, backend)


HAS_BACKENDS = tuple(map(int, torch.__version__.split(".")[:2])) >= (2, 14)
"""Whether torch takes backends that are written in Python."""


def _connect(member: Member, opts: Any, timeout: timedelta) -> None:
    with translated:
        member.connect(rendezvous.connect_by_store(opts.store, opts.group_rank, opts.group_size, timeout))


def _is_one_of_several(opts: Any) -> bool:
    """Whether the group has another backend for its accelerator, such as `cpu:hcomm,cuda:nccl`: torch has told the group that its default is that
    one.
    """
    default = opts.process_group._get_backend_name()
    plugin = dist.Backend._plugins.get(default.upper())
    return bool(default != "custom" and (plugin is None or plugin.creator_fn is not create))


class _NewNames(TorchGroup):
    """Operations by the names that they have from torch 2.15 on."""

    _hcomm: Backend

    def reduce_scatter_single(self, *args: Any, **kwargs: Any) -> Any:
        super().reduce_scatter_single(*args, **kwargs)
        return self._hcomm.take_last()

    def reduce_scatter_single_coalesced(self, *args: Any, **kwargs: Any) -> Any:
        super().reduce_scatter_single_coalesced(*args, **kwargs)
        return self._hcomm.take_last()

    def all_gather_single(self, *args: Any, **kwargs: Any) -> Any:
        super().all_gather_single(*args, **kwargs)
        return self._hcomm.take_last()

    def all_gather_single_coalesced(self, *args: Any, **kwargs: Any) -> Any:
        super().all_gather_single_coalesced(*args, **kwargs)
        return self._hcomm.take_last()

    def all_to_all_single(self, *args: Any, **kwargs: Any) -> Any:
        super().all_to_all_single(*args, **kwargs)
        return self._hcomm.take_last()


class _OldNames(TorchGroup):
    """The same by the names that they had before; later versions take an override of these for one of the new ones."""

    _hcomm: Backend

    def _reduce_scatter_base(self, *args: Any, **kwargs: Any) -> Any:
        super()._reduce_scatter_base(*args, **kwargs)
        return self._hcomm.take_last()

    def reduce_scatter_tensor_coalesced(self, *args: Any, **kwargs: Any) -> Any:
        super().reduce_scatter_tensor_coalesced(*args, **kwargs)
        return self._hcomm.take_last()

    def _allgather_base(self, *args: Any, **kwargs: Any) -> Any:
        super()._allgather_base(*args, **kwargs)
        return self._hcomm.take_last()

    def allgather_into_tensor_coalesced(self, *args: Any, **kwargs: Any) -> Any:
        super().allgather_into_tensor_coalesced(*args, **kwargs)
        return self._hcomm.take_last()

    def alltoall_base(self, *args: Any, **kwargs: Any) -> Any:
        super().alltoall_base(*args, **kwargs)
        return self._hcomm.take_last()


_Names: type[TorchGroup] = _NewNames if hasattr(TorchGroup, "all_gather_single") else _OldNames


class ProcessGroup(_Names):  # type: ignore[misc,valid-type]
    """A group on one rank."""

    def __init__(self, store: Any, backend: Backend) -> None:
        super().__init__(store, backend.rank(), backend.size())
        self._hcomm = backend
        backend.set_dispatched()
        self._register_backend(device(), TorchGroup.BackendType.CUSTOM, backend)
        self._set_default_backend(TorchGroup.BackendType.CUSTOM)

    def getBackendName(self) -> str:  # noqa: N802
        return self._hcomm.getBackendName()

    def getRank(self) -> int:  # noqa: N802
        return self._hcomm.rank()

    def getSize(self) -> int:  # noqa: N802
        return self._hcomm.size()

    def rank(self) -> int:
        return self._hcomm.rank()

    def size(self) -> int:
        return self._hcomm.size()

    def allreduce(self, *args: Any, **kwargs: Any) -> Any:
        super().allreduce(*args, **kwargs)
        return self._hcomm.take_last()

    def allreduce_coalesced(self, *args: Any, **kwargs: Any) -> Any:
        super().allreduce_coalesced(*args, **kwargs)
        return self._hcomm.take_last()

    def reduce(self, *args: Any, **kwargs: Any) -> Any:
        super().reduce(*args, **kwargs)
        return self._hcomm.take_last()

    def reduce_scatter(self, *args: Any, **kwargs: Any) -> Any:
        super().reduce_scatter(*args, **kwargs)
        return self._hcomm.take_last()

    def broadcast(self, *args: Any, **kwargs: Any) -> Any:
        super().broadcast(*args, **kwargs)
        return self._hcomm.take_last()

    def allgather(self, *args: Any, **kwargs: Any) -> Any:
        super().allgather(*args, **kwargs)
        return self._hcomm.take_last()

    def allgather_coalesced(self, *args: Any, **kwargs: Any) -> Any:
        super().allgather_coalesced(*args, **kwargs)
        return self._hcomm.take_last()

    def gather(self, *args: Any, **kwargs: Any) -> Any:
        super().gather(*args, **kwargs)
        return self._hcomm.take_last()

    def scatter(self, *args: Any, **kwargs: Any) -> Any:
        super().scatter(*args, **kwargs)
        return self._hcomm.take_last()

    def alltoall(self, *args: Any, **kwargs: Any) -> Any:
        super().alltoall(*args, **kwargs)
        return self._hcomm.take_last()

    def barrier(self, *args: Any, **kwargs: Any) -> Any:
        super().barrier(*args, **kwargs)
        return self._hcomm.take_last()

    def send(self, *args: Any, **kwargs: Any) -> Any:
        super().send(*args, **kwargs)
        return self._hcomm.take_last()

    def recv(self, *args: Any, **kwargs: Any) -> Any:
        super().recv(*args, **kwargs)
        return self._hcomm.take_last()

    def recv_anysource(self, *args: Any, **kwargs: Any) -> Any:
        super().recv_anysource(*args, **kwargs)
        return self._hcomm.take_last()

    def monitored_barrier(self, timeout: timedelta | None = None, wait_all_ranks: bool = False) -> None:
        opts = BarrierOptions()
        if timeout is not None:
            opts.timeout = timeout
        self._hcomm.monitored_barrier(opts, wait_all_ranks)

    def _start_coalescing(self, _: torch.device) -> None:
        self._hcomm.start_coalescing()

    def _end_coalescing(self, _: torch.device) -> Any:
        self._hcomm.end_coalescing()
        return self._hcomm.take_last()

    def set_timeout(self, timeout: timedelta) -> None:
        self._hcomm.set_timeout(timeout)

    def abort(self) -> None:
        self._hcomm.abort()

    def shutdown(self) -> None:
        self._hcomm.shutdown()

    @property
    def supports_reconfigure(self) -> bool:
        return True

    def get_reconfigure_handle(self) -> str:
        return self._hcomm.get_reconfigure_handle()

    def reconfigure(self, opts: Any) -> Any:
        return self._hcomm.reconfigure(opts)

    def split_group(
        self,
        new_ranks: list[int],
        timeout: timedelta | None = None,
        opts: Any = None,
        group_name: Any = None,
        group_desc: str | None = None,
        device_types: Any = None,
    ) -> Any:
        """A group of some of this one's ranks, in the order given, all of which call this; None for who is not in it."""
        if self.rank() not in new_ranks:
            return None
        timeout = timeout or self._hcomm._timeout
        ranks = list(new_ranks)
        name: Any = group_name or f"{self.group_name}:split:{'-'.join(map(str, ranks))}:{self._hcomm._sequence}"
        store = PrefixStore(f"{name}/", self.get_group_store())
        backend = Backend(ranks.index(self.rank()), len(ranks), timeout)
        backend.options.global_ranks_in_group = list(getattr(opts, "global_ranks_in_group", []) or [])
        with translated:
            backend.connect(rendezvous.connect_by_store(store, backend.rank(), backend.size(), timeout))
        made = ProcessGroup(store, backend)
        made._set_group_name(name)
        made._set_group_desc(group_desc or f"{self.group_desc}:split")
        return made
