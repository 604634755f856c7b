"""Collective communication for training large models, on NumPy arrays, torch tensors and anything else with DLPack on the CPU.

    import hcomm, numpy

    comm = hcomm.init()                       # hcomm launch, torchrun, srun or mpirun; alone otherwise
    gradient = numpy.ones(1000, "f4")
    hcomm.all_reduce(gradient, op="avg")      # in place; every rank has the average
    work = hcomm.all_reduce_async(gradient)   # goes on while you compute
    work.wait()                               # or: await work

The calls of this module go to the communicator that `init` made; `Communicator` has the same ones, and `split` and `duplicate` make others.
With torch: `torch.distributed.init_process_group("hcomm")` (see `hcomm.torch`).
"""

from __future__ import annotations

import inspect as _inspect
from collections.abc import Callable as _Callable
from typing import Concatenate as _Concatenate
from typing import ParamSpec as _ParamSpec
from typing import TypeVar as _TypeVar

from . import _state, config, errors
from ._native import Plan, __version__
from .communicator import Communicator
from .errors import HcommError
from .gpu import GpuDirect, enable_gpu_direct
from .ops import ReduceOp, premul_sum
from .overlap import overlap_scope
from .plans import plan
from .profiling import ProfileStats, enable_profiling, get_profile_stats
from .startup import init, is_initialized
from .work import Work

__all__ = [
    "Communicator",
    "GpuDirect",
    "HcommError",
    "Plan",
    "ProfileStats",
    "ReduceOp",
    "Work",
    "__version__",
    "all_gather",
    "all_gather_async",
    "all_gather_in_place",
    "all_gather_v",
    "all_gather_v_async",
    "all_reduce",
    "all_reduce_async",
    "all_reduce_into",
    "all_reduce_into_async",
    "all_to_all",
    "all_to_all_async",
    "all_to_all_in_place",
    "all_to_all_v",
    "all_to_all_v_async",
    "barrier",
    "barrier_async",
    "broadcast",
    "broadcast_async",
    "config",
    "duplicate",
    "enable_gpu_direct",
    "enable_profiling",
    "errors",
    "finalize",
    "gather",
    "gather_async",
    "gather_v",
    "gather_v_async",
    "get_profile_stats",
    "group",
    "init",
    "is_initialized",
    "overlap_scope",
    "plan",
    "premul_sum",
    "rank",
    "recv",
    "recv_async",
    "reduce",
    "reduce_async",
    "reduce_into",
    "reduce_into_async",
    "reduce_scatter",
    "reduce_scatter_async",
    "reduce_scatter_in_place",
    "reduce_scatter_v",
    "reduce_scatter_v_async",
    "scatter",
    "scatter_async",
    "scatter_v",
    "scatter_v_async",
    "send",
    "send_async",
    "split",
    "world",
]

_P = _ParamSpec("_P")
_R = _TypeVar("_R")


def _of_default(method: _Callable[_Concatenate[Communicator, _P], _R]) -> _Callable[_P, _R]:
    """A call of the default communicator's."""

    def call(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        return method(_state.communicator(), *args, **kwargs)

    own = _inspect.signature(method)
    call.__signature__ = own.replace(parameters=list(own.parameters.values())[1:])  # type: ignore[attr-defined]
    call.__name__ = call.__qualname__ = method.__name__
    call.__doc__, call.__module__ = method.__doc__, __name__
    return call


all_reduce = _of_default(Communicator.all_reduce)
all_reduce_async = _of_default(Communicator.all_reduce_async)
all_reduce_into = _of_default(Communicator.all_reduce_into)
all_reduce_into_async = _of_default(Communicator.all_reduce_into_async)
reduce_scatter = _of_default(Communicator.reduce_scatter)
reduce_scatter_async = _of_default(Communicator.reduce_scatter_async)
reduce_scatter_in_place = _of_default(Communicator.reduce_scatter_in_place)
reduce_scatter_v = _of_default(Communicator.reduce_scatter_v)
reduce_scatter_v_async = _of_default(Communicator.reduce_scatter_v_async)
reduce = _of_default(Communicator.reduce)
reduce_async = _of_default(Communicator.reduce_async)
reduce_into = _of_default(Communicator.reduce_into)
reduce_into_async = _of_default(Communicator.reduce_into_async)
all_gather = _of_default(Communicator.all_gather)
all_gather_async = _of_default(Communicator.all_gather_async)
all_gather_in_place = _of_default(Communicator.all_gather_in_place)
all_gather_v = _of_default(Communicator.all_gather_v)
all_gather_v_async = _of_default(Communicator.all_gather_v_async)
broadcast = _of_default(Communicator.broadcast)
broadcast_async = _of_default(Communicator.broadcast_async)
gather = _of_default(Communicator.gather)
gather_async = _of_default(Communicator.gather_async)
gather_v = _of_default(Communicator.gather_v)
gather_v_async = _of_default(Communicator.gather_v_async)
scatter = _of_default(Communicator.scatter)
scatter_async = _of_default(Communicator.scatter_async)
scatter_v = _of_default(Communicator.scatter_v)
scatter_v_async = _of_default(Communicator.scatter_v_async)
all_to_all = _of_default(Communicator.all_to_all)
all_to_all_async = _of_default(Communicator.all_to_all_async)
all_to_all_in_place = _of_default(Communicator.all_to_all_in_place)
all_to_all_v = _of_default(Communicator.all_to_all_v)
all_to_all_v_async = _of_default(Communicator.all_to_all_v_async)
barrier = _of_default(Communicator.barrier)
barrier_async = _of_default(Communicator.barrier_async)
send = _of_default(Communicator.send)
send_async = _of_default(Communicator.send_async)
recv = _of_default(Communicator.recv)
recv_async = _of_default(Communicator.recv_async)
group = _of_default(Communicator.group)
split = _of_default(Communicator.split)
duplicate = _of_default(Communicator.duplicate)


def rank() -> int:
    """This process's place in the default communicator."""
    return _state.communicator().rank


def world() -> int:
    """How many ranks the default communicator has."""
    return _state.communicator().world


def finalize() -> None:
    """Closes the default communicator, if there is one. Ending the program does so too."""
    if _state.default is not None:
        _state.default.close()
