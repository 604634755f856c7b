"""Ranks of torch.distributed: as `processes`, in a process group. Nothing here imports `hcomm.torch`; torch finds it by itself."""

import contextlib
import gc
from datetime import timedelta

import numpy as np
import torch
import torch.distributed as dist
from processes import LIMIT, processes, values
from samples import numbers, total


def grouped(world, body, *args, backend="hcomm", limit=LIMIT):
    """What `body(rank, *args)` returns on every rank of a new default group."""
    return values(processes(world, in_group, body, args, backend, limit=limit))


def in_group(place, body, args, backend="hcomm"):
    join(place, backend)
    try:
        return body(place.rank, *args)
    finally:
        gc.collect()
        with contextlib.suppress(RuntimeError, AssertionError):
            dist.destroy_process_group()


def join(place, backend="hcomm", **options):
    torch.set_num_threads(1)
    options.setdefault("timeout", timedelta(seconds=30))
    dist.init_process_group(backend, init_method=f"tcp://{place.address}", rank=place.rank, world_size=place.world, **options)


def world():
    return dist.get_world_size()


def own(rank, count, name="float32"):
    """What a rank contributes, as a tensor."""
    return tensor(numbers(rank, count, wide(name)), name)


def sums(world, count, name="float32"):
    """The sum of what all ranks contribute."""
    if name.startswith("float8"):
        return tensor(sum(numbers(rank, count, wide(name)).astype("f8") for rank in range(world)), name)
    return tensor(total(world, count, wide(name)), name)


def wide(name):
    """A type of NumPy's in which the numbers are exact."""
    if name.startswith("float8"):
        import ml_dtypes

        return ml_dtypes.float8_e5m2
    return "bool" if name == "bool" else "c16" if name.startswith("complex") else "i8" if "int" in name else "f8"


def tensor(values_, name):
    if name.startswith("float8"):
        values_ = values_.astype("f8")
    return torch.from_numpy(np.ascontiguousarray(values_)).to(getattr(torch, name))


def same(found, expected):
    """Asserts that two tensors have the same type, shape and bits."""
    assert found.dtype == expected.dtype and found.shape == expected.shape, (found.dtype, found.shape, expected.dtype, expected.shape)
    if not expected.numel():
        return
    bits = [each.detach().contiguous().reshape(-1).view(torch.uint8) for each in (found, expected)]
    assert torch.equal(*bits), f"{found} is not {expected}"
