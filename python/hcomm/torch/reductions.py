"""torch's reductions by the engine's names."""

from __future__ import annotations

from typing import Any, cast

import torch
from torch.distributed import ReduceOp

_KINDS: dict[Any, str] = {
    ReduceOp.SUM: "sum",
    ReduceOp.AVG: "average",
    ReduceOp.PRODUCT: "product",
    ReduceOp.MIN: "min",
    ReduceOp.MAX: "max",
    ReduceOp.BAND: "band",
    ReduceOp.BOR: "bor",
    ReduceOp.BXOR: "bxor",
}
_NAMES = {int(kind): name for kind, name in _KINDS.items()}
_PREMUL_SUM = int(cast(Any, ReduceOp.PREMUL_SUM))


def name_of(op: Any) -> str:
    """The engine's name of a reduction.

    Raises `ValueError` for one that the engine does not have.
    """
    kind = int(getattr(op, "op", op))
    name = _NAMES.get(kind)
    if name is not None:
        return name
    if kind == _PREMUL_SUM:
        return f"premulsum:{_factor(op)!r}"
    raise ValueError(f"hcomm has no reduction {op}; expected SUM, AVG, PRODUCT, MIN, MAX, BAND, BOR, BXOR or PREMUL_SUM")


def _factor(op: Any) -> float:
    factor = op.factor
    if isinstance(factor, torch.Tensor):
        if factor.numel() != 1:
            raise ValueError(f"a PREMUL_SUM by {factor.numel()} factors; expected one")
        factor = factor.item()
    return float(factor)
