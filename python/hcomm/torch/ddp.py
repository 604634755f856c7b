"""A communication hook for DistributedDataParallel: each bucket of gradients is averaged with a priority and a precision of its own.

    model = DistributedDataParallel(model)
    model.register_comm_hook(None, hcomm.torch.ddp_hook)

The buckets that backward fills last hold the gradients of the layers that forward needs first, so that they go first. float32 gradients cross the
wires in the precision of `hcomm.config.set_precision`, or of a `DdpHook` given as the hook's state.
"""

# torch looks at the hook's annotations, which must be the classes themselves: no import of annotations from the future here.

from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import GradBucket
from torch.futures import Future

from ..calls import wire_of
from .work import Work, translated


@dataclass(frozen=True)
class DdpHook:
    """What the hook may be told, as its state."""

    precision: str | None = None
    """`"fp16"`, `"bf16"` or `"fp32"`; None is that of `hcomm.config.set_precision`."""
    group: Any = None
    """The process group; None is the default one."""


def ddp_hook(state: DdpHook | None, bucket: GradBucket) -> Future[torch.Tensor]:
    """Averages a bucket over all ranks, in the background.

    Raises `TypeError` where the process group is not hcomm's.
    """
    settings = DdpHook() if state is None else state
    if not isinstance(settings, DdpHook):
        raise TypeError(f"hcomm's hook with state {state!r}; expected None or a DdpHook")
    group = settings.group or dist.group.WORLD
    backend = getattr(group, "_hcomm", None)
    if backend is None:
        raise TypeError(f"hcomm's hook needs a process group of hcomm's, made by init_process_group('hcomm'); this one is {group}")
    tensor = bucket.buffer()
    options = backend._options(backend._timeout) or {}
    options["priority"] = bucket.index()
    if settings.precision is not None:
        options["wire"] = wire_of(settings.precision)
    with translated:
        native = backend._communicator.start("all_reduce", tensor, tensor, "average", 0, options)
    work = Work(native, [tensor], backend._sequence, backend._timeout.total_seconds(), backend._orders)
    return work.get_future().then(lambda done: done.value()[0])
