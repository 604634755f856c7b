"""`plan`: the plan of a call, to look at."""

from __future__ import annotations

from . import _native, _state
from .errors import RefusedError
from .ops import name_of

_SIZES = {
    "i8": 1, "u8": 1, "i16": 2, "u16": 2, "i32": 4, "u32": 4, "i64": 8, "u64": 8, "f16": 2, "bf16": 2, "f32": 4, "f64": 8,
    "f8e4m3": 1, "f8e5m2": 1, "bool": 1, "complex64": 8, "complex128": 16,
}  # fmt: skip
_OF_ONE_BLOCK = ("all_reduce", "broadcast", "reduce")


def plan(
    collective: str,
    *,
    count: int | None = None,
    bytes: str | int | None = None,
    dtype: str = "f32",
    op: str = "sum",
    root: int = 0,
    ranks: int | None = None,
    world: int | None = None,
    hosts: int = 1,
    algorithm: str | None = None,
) -> _native.Plan:
    """The plan of a call: the graph of chunks that are sent, received, reduced and copied, as it runs. Proved up to 262,144 nodes; nothing is sent.

    The call has `count` elements per block, or a full buffer of `bytes` (such as `"1MB"`, which is the default). Without `ranks` it is that of the
    default communicator, else of so many ranks on `hosts` hosts; `world` is another name for `ranks`. `algorithm` names one in place of the choice.

    Raises `PlanError` where no algorithm supports the call, `RefusedError` where it makes no sense.

    >>> import hcomm
    >>> plan = hcomm.plan("all_reduce", bytes="1MB", ranks=4)
    >>> plan.world, plan.dot().startswith("digraph"), plan.svg().startswith("<svg")
    (4, True, True)
    """
    if count is not None and bytes is not None:
        raise RefusedError("a plan of count and bytes; give one of them")
    if ranks is not None and world is not None:
        raise RefusedError("a plan of ranks and world, which are the same; give one of them")
    world = ranks if ranks is not None else world
    for name, value in (("ranks", world), ("hosts", hosts), ("count", count), ("root", root)):
        if value is not None and value < 0:
            raise RefusedError(f"a plan with {name} {value}; expected 0 or more")
    members = world if world is not None else _state.communicator().world
    elements = count if count is not None else _elements(collective, bytes if bytes is not None else "1MB", dtype, members)
    if world is None and algorithm is None:
        return _state.communicator()._native.plan(collective, elements, dtype, name_of(op), root)
    return _native.plan((members, hosts), collective, elements, dtype, name_of(op), root, algorithm)


def _elements(collective: str, size: str | int, dtype: str, ranks: int) -> int:
    """Elements per block of a full buffer of at most so many bytes."""
    if collective == "barrier":
        return 0
    if dtype not in _SIZES:
        raise RefusedError(f"unknown data type '{dtype}'; expected one of {', '.join(_SIZES)}")
    blocks = 1 if collective in _OF_ONE_BLOCK else max(ranks, 1)
    return _native.parse_bytes(str(size)) // (blocks * _SIZES[dtype])
